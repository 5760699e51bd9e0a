//! From a path to what it names.

use super::{Filesystem, TOP_DIR, Target, display_path};
use crate::error::{Error, Result};
use crate::format::{FileKind, InodeItem, Key, KeyKind, dir_entries, name_hash, tree_id};

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The subvolume.
    pub root: u64,
    /// The inode.
    pub ino: u64,
    /// Its type.
    pub kind: FileKind,
}

impl Location {
    /// The top directory of a subvolume.
    pub const fn top_of(root: u64) -> Self {
        Self { root, ino: TOP_DIR, kind: FileKind::DIRECTORY }
    }
}

impl Filesystem {
    /// Finds what `path` names, as seen from the top-level subvolume. It crosses into subvolumes and follows no
    /// symbolic link; slashes at its ends and `.` mean nothing.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`].
    pub fn resolve(&self, path: &[u8]) -> Result<Location> {
        let mut here = Location::top_of(tree_id::FS);
        for name in path.split(|byte| *byte == b'/') {
            if name.is_empty() || name == b"." {
                continue;
            }
            let found =
                if here.kind == FileKind::DIRECTORY { self.lookup(here, name)? } else { None };
            here = found.ok_or_else(|| Error::NoSuchPath(display_path(path)))?;
        }
        Ok(here)
    }

    /// Finds one name in a directory.
    fn lookup(&self, dir: Location, name: &[u8]) -> Result<Option<Location>> {
        let key = Key::new(dir.ino, KeyKind::DIR_ITEM, name_hash(name));
        let Some(item) = self.forest.tree(dir.root)?.find(key)? else { return Ok(None) };
        for entry in dir_entries(item.data()) {
            let entry = entry.map_err(|damage| Error::in_item(damage, dir.root, key))?;
            if entry.name != name {
                continue;
            }
            return Ok(match self.target_of(dir.root, dir.ino, name, entry.location)? {
                Target::Inode(ino) => Some(Location { root: dir.root, ino, kind: entry.kind }),
                Target::Subvolume(root) => Some(Location::top_of(root)),
                Target::Placeholder => None,
            });
        }
        Ok(None)
    }

    /// The type of an inode, as a directory entry would name it.
    pub fn kind_of(inode: &InodeItem) -> FileKind {
        match inode.mode.get() >> 12 {
            0o10 => FileKind::REGULAR,
            0o04 => FileKind::DIRECTORY,
            0o12 => FileKind::SYMLINK,
            0o02 => FileKind::CHAR_DEVICE,
            0o06 => FileKind::BLOCK_DEVICE,
            0o01 => FileKind::FIFO,
            0o14 => FileKind::SOCKET,
            _ => FileKind(0),
        }
    }
}
