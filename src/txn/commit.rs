//! The commit: the order of writes that makes all changes visible at once.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::format::{
    BackupRoot, DevItem, Header, Logical, NodeWriter, SuperFlags, Superblock, tree_id,
};
use crate::tree::{Forest, TreeRoot};
use crate::txn::edit::Dirty;
use crate::txn::settle::{Trees, Txn};
use crate::txn::space::Space;

/// A transaction whose blocks are laid out, ready to be written.
#[derive(Debug)]
pub struct Prepared {
    blocks: BTreeMap<u64, Vec<u8>>,
    superblock: Superblock,
    /// Device items that change.
    dev_items: Vec<DevItem>,
    gone: Vec<u64>,
    replaced: Vec<(u64, Vec<u64>)>,
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The new generation of the filesystem.
    pub generation: u64,
    /// Bytes of tree blocks written, each counted once.
    pub metadata_bytes: u64,
    /// Which blocks of subvolumes were replaced by which.
    pub replaced: Vec<(u64, Vec<u64>)>,
}

impl Prepared {
    pub(super) fn new(mut txn: Txn<'_>, trees: &Trees, header: Header) -> Self {
        let mut blocks = std::mem::take(&mut txn.written);
        let writer = NodeWriter::new(txn.node_size);
        for (tree, edit) in &trees.edits {
            for (at, block) in edit.dirty() {
                let header = Header {
                    bytenr: at.into(),
                    generation: txn.generation.into(),
                    owner: (*tree).into(),
                    ..header
                };
                let bytes = match block {
                    Dirty::Leaf(items) => {
                        writer.leaf(&header, items.iter().map(|(key, data)| (*key, &data[..])))
                    }
                    Dirty::Node(level, ptrs) => {
                        writer.node(&Header { level: *level, ..header }, ptrs)
                    }
                };
                blocks.insert(at, bytes);
            }
        }
        let kind = txn.forest.volume().checksum_kind();
        for block in blocks.values_mut() {
            let csum = kind.of(&block[32..]);
            block[..32].copy_from_slice(&csum);
        }
        let superblock = new_superblock(&txn, trees);
        let dev_items = txn.new_chunk.as_ref().map(|chunk| chunk.dev_items(txn.forest));
        let dev_items = dev_items.unwrap_or_default();
        Self { blocks, superblock, dev_items, gone: txn.gone, replaced: txn.replaced }
    }

    /// Makes every change of the transaction visible at once, or none of them.
    ///
    /// # Errors
    /// If a device fails; what is on it is then still the state from before, or the new one if its superblock arrived.
    pub fn commit(self, forest: &mut Forest, space: &mut Space) -> Result<Committed> {
        let volume = forest.volume();
        volume.recheck()?; // nobody has mounted or changed it meanwhile
        let mut metadata_bytes = 0;
        for (at, block) in &self.blocks {
            volume.write(Logical(*at), block)?; // to free space: the old trees stay whole
            metadata_bytes += block.len() as u64;
        }
        volume.flush()?; // data and new trees, before anything points to them
        let stale = self.gone.iter().chain(self.blocks.keys()).copied();
        forest.advance(&self.superblock, &self.dev_items, stale)?;
        space.settle(); // only now may what was given back be used again
        let generation = self.superblock.generation.get();
        Ok(Committed { generation, metadata_bytes, replaced: self.replaced })
    }
}

fn new_superblock(txn: &Txn<'_>, trees: &Trees) -> Superblock {
    let old = txn.forest.superblock();
    let root = trees.edits[&tree_id::ROOT].root();
    let mut sb = *old;
    sb.generation = txn.generation.into();
    sb.root = root.bytenr.into();
    sb.root_level = root.level;
    if let Some(edit) = trees.edits.get(&tree_id::CHUNK).filter(|edit| edit.is_changed()) {
        let root = edit.root();
        sb.chunk_root = root.bytenr.into();
        sb.chunk_root_level = root.level;
        sb.chunk_root_generation = txn.generation.into();
    }
    sb.bytes_used = txn.space.used_total().into();
    sb.incompat_flags = (old.incompat() | txn.features).bits().into();
    sb.flags = (old.super_flags() | SuperFlags::WRITTEN).bits().into();
    if old.uuid_tree_generation == old.generation {
        // The UUID tree is not changed, so it is as complete as it was.
        sb.uuid_tree_generation = sb.generation;
    }
    let newest = old
        .super_roots
        .iter()
        .position(|backup| backup.tree_root_gen == old.generation)
        .map_or(0, |slot| (slot + 1) % old.super_roots.len());
    sb.super_roots[newest] = backup_root(txn, trees, &sb);
    sb
}

/// Where the trees are after this commit.
fn backup_root(txn: &Txn<'_>, trees: &Trees, sb: &Superblock) -> BackupRoot {
    let root = |tree: u64| -> TreeRoot {
        if let Some(edit) = trees.edits.get(&tree).filter(|edit| edit.is_changed()) {
            return edit.root();
        }
        let none = TreeRoot { id: tree, bytenr: 0, level: 0, generation: 0 };
        let committed = txn.forest.root(tree).unwrap_or(none);
        match txn.new_roots.get(&tree) {
            Some(new) => TreeRoot {
                bytenr: new.bytenr,
                level: new.level,
                generation: txn.generation,
                ..committed
            },
            None => committed,
        }
    };
    let [tree, chunk, extent, fs, dev, csum] =
        [tree_id::ROOT, tree_id::CHUNK, tree_id::EXTENT, tree_id::FS, tree_id::DEV, tree_id::CSUM]
            .map(root);
    BackupRoot {
        tree_root: tree.bytenr.into(),
        tree_root_gen: tree.generation.into(),
        chunk_root: chunk.bytenr.into(),
        chunk_root_gen: chunk.generation.into(),
        extent_root: extent.bytenr.into(),
        extent_root_gen: extent.generation.into(),
        fs_root: fs.bytenr.into(),
        fs_root_gen: fs.generation.into(),
        dev_root: dev.bytenr.into(),
        dev_root_gen: dev.generation.into(),
        csum_root: csum.bytenr.into(),
        csum_root_gen: csum.generation.into(),
        total_bytes: sb.total_bytes,
        bytes_used: sb.bytes_used,
        num_devices: sb.num_devices,
        unused: [0.into(); 4],
        tree_root_level: tree.level,
        chunk_root_level: chunk.level,
        extent_root_level: extent.level,
        fs_root_level: fs.level,
        dev_root_level: dev.level,
        csum_root_level: csum.level,
        unused_8: [0; 10],
    }
}
