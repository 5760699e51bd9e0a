//! What the inspector shows: a file's extents, or how a whole tree is stored.

use super::{Cursor, Method, Subject, Table};

/// One thing looked at closely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// What is looked at.
    pub subject: Subject,
    /// What was found, once it is there.
    pub findings: Option<Findings>,
    /// The row of the extents that is looked at.
    pub cursor: Cursor,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// A file's pieces in order; empty for a directory.
    pub extents: Vec<Extent>,
    /// A file's size in bytes.
    pub size: u64,
    /// compsize's table.
    pub table: Table,
    /// Disk bytes by how far their extents are compressed: up to 10 %, 20 % … of their contents;
    /// the last is for those that are not smaller.
    pub ratios: [u64; 10],
    /// What a recompression would leave alone.
    pub skips: Vec<Skip>,
}

/// Data that would be left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// Why, in words.
    pub reason: String,
    /// How many bytes on disk.
    pub bytes: u64,
    /// In how many extents.
    pub extents: u64,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file.
    pub file_offset: u64,
    /// How much of the file it is.
    pub length: u64,
    /// Where its bytes are.
    pub stored: Stored,
}

/// Where the bytes of a piece are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// Nowhere: they are zero.
    Hole,
    /// In the tree itself.
    Inline {
        /// Bytes there.
        bytes: u64,
        /// How.
        method: Method,
    },
    /// In an extent of their own.
    Extent {
        /// Its address in the filesystem's logical space.
        bytenr: u64,
        /// Its bytes on disk.
        bytes: u64,
        /// What it holds as a whole.
        uncompressed: u64,
        /// How.
        method: Method,
        /// How many pieces refer to it.
        references: u64,
        /// From which subvolumes.
        subvolumes: Vec<u64>,
    },
}

impl Extent {
    /// How the piece is stored; none for a hole.
    pub fn method(&self) -> Option<Method> {
        match self.stored {
            Stored::Hole => None,
            Stored::Inline { method, .. } | Stored::Extent { method, .. } => Some(method),
        }
    }

    /// Whether it goes on where `before` ends on disk, or one of both isn't on disk at all.
    pub fn continues(&self, before: &Self) -> bool {
        match (&before.stored, &self.stored) {
            (Stored::Extent { bytenr, bytes, .. }, Stored::Extent { bytenr: next, .. }) => {
                next == bytenr || *next == bytenr + bytes
            }
            _ => true,
        }
    }
}
