//! All trees of the committed state, and the blocks they share.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::{
    ChunkItem, Damage, DevItem, Key, KeyKind, Logical, Node, RootItem, Superblock, tree_id,
};
use crate::tree::Tree;
use crate::tree::cache::Cache;
use crate::volume::Volume;

/// Bytes of tree blocks to keep in memory.
const CACHE_BYTES: usize = 256 << 20;

/// Where a tree's root block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeRoot {
    /// The tree.
    pub id: u64,
    /// Logical address of the root block.
    pub bytenr: u64,
    /// Its level.
    pub level: u8,
    /// Its generation.
    pub generation: u64,
}

/// A tree as the tree of trees lists it.
#[derive(Debug, Clone, Copy)]
pub struct RootEntry {
    /// Key of the root item: `(tree ROOT_ITEM offset)`.
    pub key: Key,
    /// The item.
    pub item: RootItem,
    /// Whether the item has only the first 239 bytes on disk.
    pub is_legacy: bool,
}

impl RootEntry {
    /// Where the tree's root block is.
    pub fn root(&self) -> TreeRoot {
        TreeRoot {
            id: self.key.objectid,
            bytenr: self.item.bytenr.get(),
            level: self.item.level,
            generation: self.item.generation.get(),
        }
    }
}

/// What a parent says about a block.
#[derive(Debug, Clone, Copy)]
pub struct Expect {
    /// The block's level.
    pub level: u8,
    /// Its generation, if known.
    pub generation: Option<u64>,
    /// Its first key; a root block has none to compare with.
    pub first_key: Option<Key>,
    /// The tree that it was found in, if known. Blocks of subvolumes may belong to any subvolume.
    pub tree: Option<u64>,
}

impl Expect {
    /// For a leaf of which nothing else is known.
    pub const fn leaf() -> Self {
        Self { level: 0, generation: None, first_key: None, tree: None }
    }

    /// For the root block of a tree.
    pub const fn root(root: &TreeRoot) -> Self {
        Self {
            level: root.level,
            generation: Some(root.generation),
            first_key: None,
            tree: Some(root.id),
        }
    }

    fn compare(&self, node: &Node) -> Result<(), Damage> {
        if node.level() != self.level {
            return Err(Damage::Level { found: node.level(), expected: self.level });
        }
        if let Some(expected) = self.generation
            && node.generation() != expected
        {
            return Err(Damage::Generation { found: node.generation(), expected });
        }
        if let Some(expected) = self.first_key
            && let found = node.first_key().unwrap_or(Key::MIN)
            && found != expected
        {
            return Err(Damage::FirstKey { found, expected });
        }
        match self.tree {
            Some(tree) if !owner_may_be_in(node.owner(), tree) => {
                Err(Damage::Owner { found: node.owner(), expected: tree })
            }
            _ => Ok(()),
        }
    }
}

/// Blocks of one subvolume are found in others too; all other trees keep to themselves.
const fn owner_may_be_in(owner: u64, tree: u64) -> bool {
    owner == tree
        || (tree_id::is_subvolume(tree) && (tree_id::is_subvolume(owner)))
        || owner == tree_id::TREE_RELOC
        || tree == tree_id::TREE_RELOC
}

/// The committed state: a volume, the roots of its trees, and a cache of verified blocks.
#[derive(Debug)]
pub struct Forest {
    volume: Volume,
    cache: Cache,
    roots: BTreeMap<u64, RootEntry>,
    chunk_tree_uuid: [u8; 16],
}

impl Forest {
    /// Reads the chunk tree and the list of trees.
    pub fn open(volume: Volume) -> Result<Self> {
        let blocks_max = CACHE_BYTES / volume.node_size() as usize;
        let mut forest = Self {
            volume,
            cache: Cache::new(blocks_max),
            roots: BTreeMap::new(),
            chunk_tree_uuid: [0; 16],
        };
        forest.chunk_tree_uuid = forest.tree(tree_id::CHUNK)?.root_node()?.header().chunk_tree_uuid;
        forest.load_chunks()?;
        forest.load_roots()?;
        Ok(forest)
    }

    fn load_chunks(&mut self) -> Result<()> {
        let items: Vec<_> = self.tree(tree_id::CHUNK)?.items().collect::<Result<_>>()?;
        for item in &items {
            let key = item.key();
            let broken = |damage| Error::in_item(damage, tree_id::CHUNK, key);
            match key.kind {
                KeyKind::CHUNK_ITEM => {
                    let (chunk, stripes, _) = ChunkItem::view(item.data()).map_err(broken)?;
                    self.volume.add_chunk(Logical(key.offset), chunk, stripes)?;
                }
                KeyKind::DEV_ITEM => {
                    self.volume.add_device(DevItem::view(item.data()).map_err(broken)?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the root items again, after a commit.
    fn load_roots(&mut self) -> Result<()> {
        let mut roots = BTreeMap::new();
        for item in self.tree(tree_id::ROOT)?.items() {
            let item = item?;
            let key = item.key();
            if key.kind == KeyKind::ROOT_ITEM {
                let parsed = RootItem::parse(item.data())
                    .map_err(|damage| Error::in_item(damage, tree_id::ROOT, key))?;
                let is_legacy = item.data().len() == RootItem::LEGACY_SIZE;
                roots.insert(key.objectid, RootEntry { key, item: parsed, is_legacy });
            }
        }
        self.roots = roots;
        Ok(())
    }

    /// The volume below.
    pub const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The superblock of the last commit.
    pub fn superblock(&self) -> &Superblock {
        self.volume.superblock()
    }

    /// UUID of the chunk tree, which every tree block carries.
    pub const fn chunk_tree_uuid(&self) -> [u8; 16] {
        self.chunk_tree_uuid
    }

    /// Every tree of the tree of trees, by number.
    pub const fn roots(&self) -> &BTreeMap<u64, RootEntry> {
        &self.roots
    }

    /// Where the root of `tree` is, if there is such a tree.
    pub fn root(&self, tree: u64) -> Option<TreeRoot> {
        let sb = self.volume.superblock();
        match tree {
            tree_id::ROOT => Some(TreeRoot {
                id: tree,
                bytenr: sb.root.get(),
                level: sb.root_level,
                generation: sb.generation.get(),
            }),
            tree_id::CHUNK => Some(TreeRoot {
                id: tree,
                bytenr: sb.chunk_root.get(),
                level: sb.chunk_root_level,
                generation: sb.chunk_root_generation.get(),
            }),
            _ => self.roots.get(&tree).map(RootEntry::root),
        }
    }

    /// A tree that may be missing.
    pub fn find_tree(&self, tree: u64) -> Option<Tree<'_>> {
        self.root(tree).map(|root| Tree::new(self, root))
    }

    /// A tree that must exist.
    pub fn tree(&self, tree: u64) -> Result<Tree<'_>> {
        self.find_tree(tree)
            .ok_or_else(|| Error::in_filesystem(Damage::NoTree { tree: tree_name(tree) }))
    }

    /// Numbers of the top level and of all subvolumes and snapshots, in ascending order.
    pub fn subvolumes(&self) -> impl Iterator<Item = u64> {
        self.roots.keys().copied().filter(|id| tree_id::is_subvolume(*id))
    }

    /// A block, compared with what is expected of it.
    pub fn load(&self, at: Logical, expect: &Expect) -> Result<Arc<Node>> {
        let node = if let Some(node) = self.cache.find(at.0) {
            node
        } else {
            let node = Arc::new(self.volume.read_node_if(at, |node| expect.compare(node))?);
            self.cache.insert(at.0, Arc::clone(&node));
            node
        };
        expect.compare(&node).map_err(|damage| Error::at(damage, at))?;
        Ok(node)
    }

    /// Child `slot` of `parent`, found in `tree`.
    pub fn child(&self, tree: u64, parent: &Node, slot: usize) -> Result<Arc<Node>> {
        let ptr = parent.ptr(slot);
        let expect = Expect {
            level: parent.level().saturating_sub(1),
            generation: Some(ptr.generation),
            first_key: Some(ptr.key),
            tree: Some(tree),
        };
        self.load(Logical(ptr.bytenr), &expect)
    }

    /// Makes a commit that is on the devices the state of this forest: blocks in `gone` are no longer valid. Chunks are read
    /// anew when devices change.
    pub(crate) fn advance(
        &mut self,
        superblock: &Superblock,
        dev_items: &[DevItem],
        gone: impl Iterator<Item = u64>,
    ) -> Result<()> {
        gone.for_each(|at| self.cache.remove(at));
        for item in dev_items {
            self.volume.set_dev_item(item);
        }
        self.volume.write_superblock(superblock)?;
        if !dev_items.is_empty() {
            self.load_chunks()?;
        }
        self.load_roots()
    }
}

/// The usual name of a tree.
fn tree_name(tree: u64) -> &'static str {
    match tree {
        tree_id::ROOT => "root",
        tree_id::EXTENT => "extent",
        tree_id::CHUNK => "chunk",
        tree_id::DEV => "device",
        tree_id::CSUM => "checksum",
        tree_id::FREE_SPACE => "free space",
        tree_id::BLOCK_GROUP => "block group",
        tree_id::QUOTA => "quota",
        _ => "subvolume",
    }
}
