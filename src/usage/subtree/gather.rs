//! Reading a subvolume's tree, in the order of its keys.

use std::sync::Arc;

use super::file::FileFigures;
use crate::error::{Error, Result};
use crate::format::{
    Damage, ExtentItem, FileExtent, FileExtentKind, InodeItem, Key, KeyKind, Node, inode_extrefs,
    inode_refs, tree_id,
};
use crate::tree::{Forest, Tree};
use crate::usage::blocks::{AHEAD, load};
use crate::usage::tally::Fragments;
use crate::usage::{Amounts, Progress, Storage, Watch};

/// Blocks between two reports of progress.
const WATCH_EVERY: u64 = 64;

/// A file's reference to a data extent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    pub(super) bytenr: u64,
    /// The file, as an index into [`Gathered::files`].
    pub(super) file: u32,
    /// Lengths in bytes; no extent reaches 4 GiB.
    pub(super) disk: u32,
    pub(super) uncompressed: u32,
    /// The part of the decoded extent that is meant.
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) storage: Storage,
    /// Whether the leaf that holds it belongs to this subvolume alone.
    pub(super) is_own: bool,
}

/// What a subvolume's tree says.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Directories by inode number, with the number of names in each.
    pub(super) directories: Vec<(u64, u64)>,
    /// Regular files by inode number, with all figures that don't depend on what extents they share.
    pub(super) files: Vec<(u64, FileFigures)>,
    /// Every name of a directory or file: inode of the directory that has it, and the inode.
    pub(super) names: Vec<(u64, u64)>,
    pub(super) references: Vec<Reference>,
}

/// Reads all of a subvolume's tree.
pub(super) fn gather(forest: &Forest, root: u64, watch: Watch<'_>) -> Result<Gathered> {
    let tree = forest.tree(root)?;
    let node = tree.root_node()?;
    let blocks = forest.roots().get(&root).map_or(0, |entry| entry.item.bytes_used.get());
    let mut reader = Reader {
        tree,
        extents: forest.tree(tree_id::EXTENT)?,
        gathered: Gathered::default(),
        fragments: Fragments::default(),
        watch,
        progress: Progress { done: 0, total: blocks / u64::from(forest.volume().node_size()) },
    };
    reader.block(&node, true)?;
    Ok(reader.gathered)
}

struct Reader<'a> {
    tree: Tree<'a>,
    extents: Tree<'a>,
    gathered: Gathered,
    fragments: Fragments,
    watch: Watch<'a>,
    progress: Progress,
}

impl Reader<'_> {
    /// Reads a block and all below it. `above_is_own` tells whether only this subvolume reaches the block's parent.
    fn block(&mut self, node: &Arc<Node>, above_is_own: bool) -> Result<()> {
        let is_own = above_is_own && self.has_one_reference(node)?;
        self.progress.done = self.progress.done.saturating_add(1);
        if self.progress.done.is_multiple_of(WATCH_EVERY) {
            self.progress.total = self.progress.total.max(self.progress.done);
            (self.watch)(self.progress)?;
        }
        if node.level() > 0 {
            let slots: Vec<usize> = (0..node.len()).collect();
            for slots in slots.chunks(AHEAD) {
                for child in load(&self.tree, node, slots)? {
                    self.block(&child, is_own)?;
                }
            }
            return Ok(());
        }
        for (key, data) in node.items() {
            self.item(key, data, is_own)
                .map_err(|damage| Error::in_item(damage, self.tree.id(), key))?;
        }
        Ok(())
    }

    fn has_one_reference(&self, node: &Node) -> Result<bool> {
        let last = Key::new(node.bytenr(), KeyKind::METADATA_ITEM, u64::MAX);
        let found = self.extents.find_at_or_before(last)?;
        let Some(item) = found.filter(|item| item.key().objectid == node.bytenr()) else {
            return Ok(false);
        };
        let head = ExtentItem::view(item.data());
        let (head, _) =
            head.map_err(|damage| Error::in_item(damage, tree_id::EXTENT, item.key()))?;
        Ok(head.refs.get() == 1)
    }

    fn item(&mut self, key: Key, data: &[u8], is_own: bool) -> Result<(), Damage> {
        let gathered = &mut self.gathered;
        let ino = key.objectid;
        match key.kind {
            KeyKind::INODE_ITEM => {
                let inode = InodeItem::view(data)?;
                if inode.is_dir() {
                    gathered.directories.push((ino, 0));
                } else if inode.is_file() {
                    gathered.files.push((ino, FileFigures::new()));
                }
            }
            KeyKind::INODE_REF if key.offset != ino => {
                for name in inode_refs(key.offset, data) {
                    gathered.names.push((name?.parent, ino));
                }
            }
            KeyKind::INODE_EXTREF => {
                for name in inode_extrefs(data) {
                    gathered.names.push((name?.parent, ino));
                }
            }
            KeyKind::DIR_INDEX => {
                if let Some((_, names)) =
                    gathered.directories.last_mut().filter(|last| last.0 == ino)
                {
                    *names = names.saturating_add(1);
                }
            }
            KeyKind::EXTENT_DATA => {
                let (extent, payload) = FileExtent::parse(data)?;
                self.extent(ino, &extent, payload.len(), is_own);
            }
            _ => {}
        }
        Ok(())
    }

    fn extent(&mut self, ino: u64, extent: &FileExtent, payload: usize, is_own: bool) {
        let index = self.gathered.files.len().saturating_sub(1) as u32;
        let Some((_, file)) = self.gathered.files.last_mut().filter(|last| last.0 == ino) else {
            // A symbolic link.
            return;
        };
        if extent.is_hole() {
            return;
        }
        let storage = Storage::of(extent);
        file.fragments = file.fragments.saturating_add(self.fragments.next(ino, extent) as u32);
        if extent.kind == FileExtentKind::Inline {
            let disk = payload as u64;
            file.add_inline(storage, disk, extent.ram_bytes);
            if is_own {
                file.exclusive = file.exclusive.saturating_add(disk);
            }
            return;
        }
        let place = &extent.place;
        let referenced = place.num_bytes;
        file.add(storage, &Amounts { disk: 0, uncompressed: 0, referenced });
        file.refs = file.refs.saturating_add(1);
        let short = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
        self.gathered.references.push(Reference {
            bytenr: place.disk_bytenr,
            file: index,
            disk: short(place.disk_num_bytes),
            uncompressed: short(extent.ram_bytes),
            offset: short(place.offset),
            len: short(place.num_bytes),
            storage,
            is_own,
        });
    }
}
