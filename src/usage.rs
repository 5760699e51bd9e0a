//! What is stored, and what it costs: `compsize`'s question, and more.
//!
//! [`whole`] counts subvolumes, each tree block once however many of them share it; [`walk`] counts paths, with a row
//! for each file or directory where wanted. [`subtree`] gives every directory and file of one subvolume its figures in
//! one pass, [`roots`] every subvolume, and what dropping any set of them would free. All count an extent once
//! however often it is referred to, and an inode once however many names it has. Words and conventions are
//! compsize's; see [`Tally`].

pub mod roots;
pub mod subtree;
pub mod walk;
pub mod whole;

mod blocks;
mod sectors;
mod tally;

pub use sectors::SectorSet;
pub use tally::{Amounts, Storage, Tally};

use crate::error::Result;

/// How far a scan has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Tree blocks, or files, that are done.
    pub done: u64,
    /// How many there are; 0 when that isn't known.
    pub total: u64,
}

/// Is told now and then how far a scan has come, and stops it by returning an error, which is passed on:
/// [`Error::Cancelled`](crate::error::Error::Cancelled) is meant for that.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> Result<()>;

/// A [`Watch`] that lets everything go on.
pub fn unwatched(_: Progress) -> Result<()> {
    Ok(())
}
