//! What a directory holds.

use super::Filesystem;
use crate::error::{Error, Result};
use crate::format::{FileKind, Key, KeyKind, dir_entries, root_ref, tree_id};

/// What a name in a directory leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// An inode of the same subvolume.
    Inode(u64),
    /// The top directory of another subvolume.
    Subvolume(u64),
    /// Nothing: here was a subvolume when a snapshot was taken of the one that holds the directory. The kernel shows an
    /// empty directory.
    Placeholder,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntryOwned {
    /// The name, in no particular encoding.
    pub name: Vec<u8>,
    /// Type of what it leads to.
    pub kind: FileKind,
    /// What it leads to.
    pub target: Target,
    /// Its place in the order in which the kernel lists the directory.
    pub index: u64,
}

impl Filesystem {
    /// The names in a directory, in the order in which the kernel lists them, without `.` and `..`.
    pub fn read_dir(&self, root: u64, ino: u64) -> Result<Vec<DirEntryOwned>> {
        let mut names = Vec::new();
        for item in self.forest.tree(root)?.range(Key::all_of_kind(ino, KeyKind::DIR_INDEX)) {
            let item = item?;
            let key = item.key();
            for entry in dir_entries(item.data()) {
                let entry = entry.map_err(|damage| Error::in_item(damage, root, key))?;
                names.push(DirEntryOwned {
                    name: entry.name.to_vec(),
                    kind: entry.kind,
                    target: self.target_of(root, ino, entry.name, entry.location)?,
                    index: key.offset,
                });
            }
        }
        Ok(names)
    }

    /// Where `location`, as the directory entry `name` in directory `dir` has it, leads.
    pub(super) fn target_of(
        &self,
        root: u64,
        dir: u64,
        name: &[u8],
        location: Key,
    ) -> Result<Target> {
        if location.kind != KeyKind::ROOT_ITEM {
            return Ok(Target::Inode(location.objectid));
        }
        // A snapshot keeps the entries of the subvolumes that are inside of what it was taken of. Only the tree of trees
        // tells that those subvolumes don't hang here.
        let child = location.objectid;
        let key = Key::new(root, KeyKind::ROOT_REF, child);
        let trees = self.forest.tree(tree_id::ROOT)?;
        let Some(item) = trees.find(key)? else { return Ok(Target::Placeholder) };
        let hangs =
            root_ref(item.data()).map_err(|damage| Error::in_item(damage, tree_id::ROOT, key))?;
        let is_here = hangs.dirid == dir && hangs.name == name;
        if is_here && self.forest.root(child).is_some() {
            Ok(Target::Subvolume(child))
        } else {
            Ok(Target::Placeholder)
        }
    }
}
