//! Files, directories and subvolumes: what a user knows of a filesystem, over the trees that hold it.
//!
//! A [`Filesystem`] is opened for reading wherever that is possible at all; whether it may also be written is a
//! question of its own, [`Filesystem::writable`]. Paths are bytes, start at the top-level subvolume and cross into
//! subvolumes; symbolic links are never followed. Data is checksum-verified whenever it is read. Nothing here changes
//! anything.

mod directory;
mod extents;
mod path;
mod read;
mod subvolume;
mod writable;

pub use directory::{DirEntryOwned, Target};
pub use extents::{FileExtents, FilePiece};
pub use path::Location;
pub use read::{DataExtent, data_csums, decode_inline, read_extent};
pub use subvolume::Subvolume;

use std::sync::Arc;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::format::{Incompat, InodeItem, Key, KeyKind};
use crate::tree::Forest;
use crate::volume::Volume;

/// Inode of the top directory of every subvolume.
pub const TOP_DIR: u64 = 256;

/// An open filesystem.
#[derive(Debug)]
pub struct Filesystem {
    forest: Forest,
}

impl Filesystem {
    /// Opens the filesystem that has these devices, in any order, for reading.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it has a feature that changes how it must be read.
    pub fn open(devices: Vec<Arc<dyn Device>>) -> Result<Self> {
        let volume = Volume::open(devices)?;
        let unknown = volume.superblock().incompat().difference(readable());
        if !unknown.is_empty() {
            let names: Vec<_> = unknown.iter_names().map(|(name, _)| name.to_lowercase()).collect();
            return Err(Error::Unsupported(if names.is_empty() {
                format!("unknown incompat flags {:#x}; use a newer btrpress", unknown.bits())
            } else {
                format!("it uses {}, which btrpress can't read", names.join(" and "))
            }));
        }
        Ok(Self { forest: Forest::open(volume)? })
    }

    /// Its trees.
    pub const fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Its trees, to be changed by transactions.
    pub const fn forest_mut(&mut self) -> &mut Forest {
        &mut self.forest
    }

    /// The inode item of a file or directory.
    pub fn inode(&self, root: u64, ino: u64) -> Result<InodeItem> {
        let key = Key::new(ino, KeyKind::INODE_ITEM, 0);
        let item = self.forest.tree(root)?.get(key)?;
        let inode = InodeItem::view(item.data());
        inode.copied().map_err(|damage| Error::in_item(damage, root, key))
    }
}

/// Features of a filesystem that don't hinder reading it.
fn readable() -> Incompat {
    Incompat::all().difference(Incompat::EXTENT_TREE_V2 | Incompat::REMAP_TREE)
}

/// A path for messages: as text where it is text, with what isn't shown as escapes.
pub fn display_path(path: &[u8]) -> String {
    path.utf8_chunks().fold(String::new(), |mut text, chunk| {
        for c in chunk.valid().chars() {
            if c.is_control() {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        text.push_str(&chunk.invalid().escape_ascii().to_string());
        text
    })
}
