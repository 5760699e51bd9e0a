//! What to rewrite, as data: nothing here changes a filesystem.
//!
//! A [`Request`] says what is wanted. The [`Walk`] goes through the selected files in order and cuts them into [`Run`]s:
//! neighbouring pieces of contents together with all the extents that give their space back when these pieces have
//! moved. A run is the unit of decision; [`Request::accepts`] decides once its new size is known.

mod open_run;
mod request;
mod run;
mod select;
mod settled;
mod walk;

pub use request::{Action, Request, SkipReason};
pub use run::{Chunk, OldExtent, Piece, Run};
pub use select::{Inodes, Selection, compile_globs};
pub use settled::Settled;
pub use walk::{InlineItem, Skipped, Step, Walk};
