//! Every directory and file of a subvolume, exactly, in one pass.
//!
//! First the tree is read in the order of its keys. Then each extent is counted at every directory that has a file with
//! it, and taken away again where two such directories, neighbours in the order of a walk, meet. So in every sum over a
//! directory and all below it the extent is found once. What only this subvolume has is counted as exclusive where all
//! these directories meet.

mod file;
mod gather;
mod spread;
mod tree;

use crate::error::Result;
use crate::fs::{Filesystem, TOP_DIR};
use crate::usage::{Tally, Watch};

use self::file::FileFigures;

/// The figures of a file, or of a directory and all below it in the same subvolume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// What compsize would say of it alone; hard links to one file count once.
    pub tally: Tally,
    /// Bytes on disk that would be freed if it alone were gone.
    pub exclusive: u64,
    /// Bytes on disk of those parts of its extents that no file of any subvolume refers to any more.
    pub waste: u64,
    /// Names below a directory, at any depth.
    pub items: u64,
}

/// The figures of everything in a subvolume.
#[derive(Debug)]
pub struct SubtreeUsage {
    root: u64,
    /// By inode number, ascending.
    directories: Vec<(u64, Figures)>,
    /// By inode number, ascending.
    files: Vec<(u64, FileFigures)>,
}

impl SubtreeUsage {
    /// The subvolume.
    pub const fn root(&self) -> u64 {
        self.root
    }

    /// The figures of a directory or regular file; none for what has none.
    pub fn of(&self, ino: u64) -> Option<Figures> {
        if let Ok(slot) = self.directories.binary_search_by_key(&ino, |(ino, _)| *ino) {
            return Some(self.directories[slot].1);
        }
        let slot = self.files.binary_search_by_key(&ino, |(ino, _)| *ino).ok()?;
        Some(self.files[slot].1.figures())
    }

    /// The figures of the whole subvolume.
    pub fn total(&self) -> Figures {
        self.of(TOP_DIR).unwrap_or_default()
    }
}

/// Counts a subvolume. Its references to extents take some 32 bytes of memory each while this runs, its files some 70
/// bytes in what comes of it.
pub fn scan(fs: &Filesystem, root: u64, watch: Watch<'_>) -> Result<SubtreeUsage> {
    let gathered = gather::gather(fs.forest(), root, watch)?;
    spread::spread(fs.forest(), root, gathered, watch)
}
