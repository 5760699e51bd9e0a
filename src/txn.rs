//! The mechanism of change: allocation, rewriting of shared and of single trees, reference counts, commit. Knows trees
//! and items, no files.
//!
//! A [`Txn`] is built on the committed state and touches nothing of it: new blocks and data go to space that the last
//! commit shows as free. Only [`Prepared::commit`] makes the changes visible, all at once. Dropping it is the abort.

mod chunk;
mod commit;
mod csums;
mod edit;
mod free_space;
mod levels;
mod quota;
mod refs;
mod repack;
mod settle;
mod space;

pub use chunk::{add_chunk, unallocated};
pub use commit::{Committed, Prepared};
pub use levels::LeafItems;
pub use settle::Txn;
pub use space::{Group, Space, SpaceKind};
