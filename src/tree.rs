//! Reading B-trees: find an item, walk a range, step down to a level. Nothing here changes a block.
//!
//! A [`Forest`] is the committed state of a filesystem: its volume, where the root of each tree is, and a cache of
//! verified blocks. Every block is compared with what its parent says of it (level, generation, first key, owner)
//! each time it is asked for. Start with [`Forest::tree`] and [`Tree::range`].

mod cache;
mod cursor;
mod forest;

pub use cursor::{Item, Range, Tree};
pub use forest::{Expect, Forest, RootEntry, TreeRoot};
