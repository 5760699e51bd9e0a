//! A transaction: what it collects, and how all that depends on it is brought to agree.

use std::collections::BTreeMap;
use std::mem;

use zerocopy::IntoBytes;

use crate::backref::{Allocation, ExtentRecord};
use crate::error::Result;
use crate::format::{
    BlockGroupItem, CompatRo, FreeSpaceInfo, Header, Incompat, Key, KeyKind, NodeWriter, RangeSet,
    Ref, RootItem, tree_id,
};
use crate::tree::{Forest, RootEntry};
use crate::txn::chunk::NewChunk;
use crate::txn::commit::Prepared;
use crate::txn::csums::{CsumSizes, csum_edits};
use crate::txn::edit::{Blocks, Edit, Sizes, TreeEdit};
use crate::txn::free_space;
use crate::txn::levels::NewRoot;
use crate::txn::quota::Charges;
use crate::txn::refs::RefChanges;
use crate::txn::space::{Space, SpaceKind, block_group_tree};

/// A change of the filesystem in the making. See the room's documentation.
#[derive(Debug)]
pub struct Txn<'a> {
    pub(super) forest: &'a Forest,
    pub(super) space: &'a mut Space,
    pub(super) generation: u64,
    pub(super) node_size: usize,
    pub(super) has_skinny_metadata: bool,
    pub(super) refs: RefChanges,
    /// New blocks of subvolumes, by address.
    pub(super) written: BTreeMap<u64, Vec<u8>>,
    /// Which blocks of subvolumes were replaced by which.
    pub(super) replaced: Vec<(u64, Vec<u64>)>,
    /// New roots of subvolumes, not yet in the tree of trees.
    pub(super) roots: BTreeMap<u64, NewRoot>,
    /// New roots of subvolumes that the tree of trees has.
    pub(super) new_roots: BTreeMap<u64, NewRoot>,
    /// Checksums of new data, by address of its first byte.
    csums_added: BTreeMap<u64, Vec<u8>>,
    /// Who is charged for what.
    pub(super) charges: Charges,
    /// Features that new extents need.
    pub(super) features: Incompat,
    /// A chunk that the commit adds.
    pub(super) new_chunk: Option<NewChunk>,
    /// Addresses of blocks that are no longer valid after the commit.
    pub(super) gone: Vec<u64>,
}

/// Hands blocks to the edit of one tree.
pub(super) struct TreeBlocks<'t, 'a>(pub(super) &'t mut Txn<'a>);

impl Blocks for TreeBlocks<'_, '_> {
    fn forest(&self) -> &Forest {
        self.0.forest
    }

    fn generation(&self) -> u64 {
        self.0.generation
    }

    fn allocate(&mut self, tree: u64, level: u8, first_key: Key, kind: SpaceKind) -> Result<u64> {
        let bytenr = self.0.new_block(level, first_key, kind)?;
        self.0.refs.change(bytenr, Ref::TreeBlock { root: tree }, 1);
        Ok(bytenr)
    }

    fn release(&mut self, tree: u64, bytenr: u64) {
        self.0.refs.change(bytenr, Ref::TreeBlock { root: tree }, -1);
    }
}

impl<'a> Txn<'a> {
    /// Starts a transaction on the committed state. `space` may already have been used to write new data.
    pub fn begin(forest: &'a Forest, space: &'a mut Space) -> Result<Self> {
        let sb = forest.superblock();
        Ok(Self {
            forest,
            space,
            generation: sb.generation.get() + 1,
            node_size: sb.nodesize.get() as usize,
            has_skinny_metadata: sb.incompat().contains(Incompat::SKINNY_METADATA),
            refs: RefChanges::default(),
            written: BTreeMap::new(),
            replaced: Vec::new(),
            roots: BTreeMap::new(),
            new_roots: BTreeMap::new(),
            csums_added: BTreeMap::new(),
            charges: Charges::begin(forest)?,
            features: Incompat::empty(),
            new_chunk: None,
            gone: Vec::new(),
        })
    }

    /// Records a data extent that was taken from the space and written. It must get references by
    /// [`rewrite_leaves`](Self::rewrite_leaves). `csums` has one checksum a sector; `payer` is the subvolume that it is
    /// charged to under simple quotas.
    pub fn add_data(&mut self, bytenr: u64, length: u64, csums: Vec<u8>, payer: Option<u64>) {
        let record = self.new_record(bytenr, Allocation::Data { length });
        self.charges.add(payer, length);
        self.refs.create(ExtentRecord { owner: payer, ..record });
        self.csums_added.insert(bytenr, csums);
    }

    /// Notes a feature that the new extents need readers to have.
    pub fn require(&mut self, feature: Incompat) {
        self.features |= feature;
    }

    pub(super) fn new_header(&self) -> Header {
        let sb = self.forest.superblock();
        Header::new(sb.metadata_fsid(), self.forest.chunk_tree_uuid())
    }

    /// Bytes of metadata that would still be free after the commit.
    pub fn metadata_left(&self) -> u64 {
        self.space.available(SpaceKind::Metadata)
    }

    const fn sizes(&self) -> Sizes {
        let writer = NodeWriter::new(self.node_size);
        Sizes { leaf_capacity: writer.capacity(), ptrs_max: writer.ptrs_max() }
    }

    /// Brings extent tree, checksums, block groups, free space and roots to agree with all changes, and lays out the new
    /// blocks. Nothing of the committed state is touched.
    pub fn prepare(mut self) -> Result<Prepared> {
        let mut trees = Trees::new(self.forest, self.sizes())?;
        self.write_chunk(&mut trees)?;
        let freed_data = self.settle_extents(&mut trees)?;
        self.write_quotas(&mut trees)?;
        self.write_csums(&mut trees, &freed_data)?;
        loop {
            self.settle_extents(&mut trees)?;
            self.write_block_groups(&mut trees)?;
            self.write_free_space(&mut trees)?;
            self.write_roots(&mut trees)?;
            if self.refs.is_empty() {
                break;
            }
        }
        let header = self.new_header();
        Ok(Prepared::new(self, &trees, header))
    }

    /// Has the commit add a chunk, whose space can be used after it.
    pub(super) fn add_chunk(&mut self, chunk: NewChunk) {
        let range = chunk.logical..chunk.logical + chunk.length;
        self.space.add_group(range, chunk.flags);
        self.new_chunk = Some(chunk);
    }

    fn write_chunk(&mut self, trees: &mut Trees) -> Result<()> {
        let Some(chunk) = self.new_chunk.clone() else { return Ok(()) };
        let edits = chunk.chunk_edits(self.forest);
        trees.edit(self.forest, tree_id::CHUNK)?.apply(&mut TreeBlocks(self), edits)?;
        let edits = chunk.device_edits(self.forest);
        trees.edit(self.forest, tree_id::DEV)?.apply(&mut TreeBlocks(self), edits)
    }

    /// Writes all collected changes of references; gives the data that is no longer referred to.
    fn settle_extents(&mut self, trees: &mut Trees) -> Result<RangeSet> {
        let mut freed_data = RangeSet::default();
        let leaf_capacity = self.sizes().leaf_capacity;
        while !self.refs.is_empty() {
            let extents = trees.edit(self.forest, tree_id::EXTENT)?;
            let written = self.refs.write(self.forest, extents, leaf_capacity)?;
            for record in written.gone {
                let bytenr = record.bytenr;
                let length = match record.allocation {
                    Allocation::Data { length } => {
                        self.charges.remove(record.payer(self.charges.since), length);
                        freed_data.insert(bytenr..bytenr + length);
                        length
                    }
                    Allocation::Block { .. } | Allocation::OldBlock { .. } => {
                        self.gone.push(bytenr);
                        self.node_size as u64
                    }
                };
                self.space.give_back(bytenr..bytenr + length)?;
            }
            extents.apply(&mut TreeBlocks(self), written.edits)?;
        }
        Ok(freed_data)
    }

    fn write_csums(&mut self, trees: &mut Trees, freed: &RangeSet) -> Result<()> {
        let volume = self.forest.volume();
        let sizes = CsumSizes::new(
            volume.sector_size(),
            volume.checksum_kind().size(),
            self.sizes().leaf_capacity,
        );
        let added = mem::take(&mut self.csums_added);
        if freed.is_empty() && added.is_empty() {
            return Ok(());
        }
        let tree = trees.edit(self.forest, tree_id::CSUM)?;
        let edits = csum_edits(self.forest, tree, sizes, freed, &added)?;
        tree.apply(&mut TreeBlocks(self), edits)
    }

    fn write_block_groups(&mut self, trees: &mut Trees) -> Result<()> {
        let edits: Vec<Edit> = self
            .space
            .changed()
            .filter(|group| trees.used_written.get(&group.range.start) != Some(&group.used))
            .map(|group| {
                let item = BlockGroupItem {
                    used: group.used.into(),
                    chunk_objectid: tree_id::FIRST_FREE.into(),
                    flags: group.flags.bits().into(),
                };
                let key = Key::new(group.range.start, KeyKind::BLOCK_GROUP_ITEM, group.length());
                (key, Some(item.as_bytes().to_vec()))
            })
            .collect();
        for group in self.space.changed() {
            trees.used_written.insert(group.range.start, group.used);
        }
        trees.edit(self.forest, block_group_tree(self.forest))?.apply(&mut TreeBlocks(self), edits)
    }

    fn write_free_space(&mut self, trees: &mut Trees) -> Result<()> {
        let valid = self.forest.superblock().compat_ro().contains(CompatRo::FREE_SPACE_TREE_VALID);
        if !valid {
            return Ok(());
        }
        let sector = u64::from(self.forest.volume().sector_size());
        let tree = trees.edit(self.forest, tree_id::FREE_SPACE)?;
        let mut edits = BTreeMap::new();
        for group in self.space.changed() {
            let old: BTreeMap<Key, Vec<u8>> = tree
                .items(self.forest, &free_space::group_keys(&group.range))?
                .into_iter()
                .collect();
            let info_key = Key::new(group.range.start, KeyKind::FREE_SPACE_INFO, group.length());
            let uses_bitmaps = old
                .get(&info_key)
                .and_then(|data| FreeSpaceInfo::view(data).ok())
                .is_some_and(FreeSpaceInfo::uses_bitmaps);
            let free = group.free_after_commit();
            let new = free_space::group_items(&group.range, &free, uses_bitmaps, sector);
            edits.extend(difference(&old, new));
        }
        tree.apply(&mut TreeBlocks(self), edits.into_iter().collect())
    }

    fn write_roots(&mut self, trees: &mut Trees) -> Result<()> {
        let mut edits: BTreeMap<Key, Option<Vec<u8>>> = BTreeMap::new();
        for (tree, new) in mem::take(&mut self.roots) {
            self.new_roots.insert(tree, new);
            if let Some(entry) = self.forest.roots().get(&tree) {
                let mut item = self.root_item(entry, new.bytenr, new.level);
                if new.is_shared {
                    item.last_snapshot = self.generation.into();
                }
                edits.insert(entry.key, Some(root_bytes(entry, &item)));
            }
        }
        for edit in trees.edits.values().filter(|edit| edit.is_changed()) {
            let root = edit.root();
            if let Some(entry) = self.forest.roots().get(&root.id)
                && trees.roots_written.insert(root.id, root.bytenr) != Some(root.bytenr)
            {
                let item = self.root_item(entry, root.bytenr, root.level);
                edits.insert(entry.key, Some(root_bytes(entry, &item)));
            }
        }
        let tree = trees.edit(self.forest, tree_id::ROOT)?;
        for group in self.space.changed() {
            let key = Key::new(tree_id::FREE_SPACE_OBJECT, KeyKind(0), group.range.start);
            for (key, data) in tree.items(self.forest, &(key..=key))? {
                edits.extend(free_space::empty_cache_header(&data).map(|new| (key, Some(new))));
            }
        }
        tree.apply(&mut TreeBlocks(self), edits.into_iter().collect())
    }

    fn root_item(&self, entry: &RootEntry, bytenr: u64, level: u8) -> RootItem {
        RootItem {
            bytenr: bytenr.into(),
            level,
            generation: self.generation.into(),
            // The kernel takes the UUIDs for garbage when the two generations differ.
            generation_v2: self.generation.into(),
            ..entry.item
        }
    }
}

fn root_bytes(entry: &RootEntry, item: &RootItem) -> Vec<u8> {
    let len = if entry.is_legacy { RootItem::LEGACY_SIZE } else { size_of::<RootItem>() };
    item.as_bytes()[..len].to_vec()
}

/// What to do to get from one set of items to another.
fn difference(
    old: &BTreeMap<Key, Vec<u8>>,
    new: BTreeMap<Key, Vec<u8>>,
) -> BTreeMap<Key, Option<Vec<u8>>> {
    let mut edits: BTreeMap<_, _> =
        old.keys().filter(|key| !new.contains_key(key)).map(|key| (*key, None)).collect();
    let changed = new.into_iter().filter(|(key, data)| old.get(key) != Some(data));
    edits.extend(changed.map(|(key, data)| (key, Some(data))));
    edits
}

/// The trees without snapshots that the transaction has touched so far.
#[derive(Debug)]
pub(super) struct Trees {
    sizes: Sizes,
    pub(super) edits: BTreeMap<u64, TreeEdit>,
    /// Bytes in use as the block group items have them by now.
    used_written: BTreeMap<u64, u64>,
    /// Root blocks as the root items have them by now.
    roots_written: BTreeMap<u64, u64>,
}

impl Trees {
    fn new(forest: &Forest, sizes: Sizes) -> Result<Self> {
        let mut trees = Self {
            sizes,
            edits: BTreeMap::new(),
            used_written: BTreeMap::new(),
            roots_written: BTreeMap::new(),
        };
        // The tree of trees is rewritten by every commit: its generation is the filesystem's.
        trees.edit(forest, tree_id::ROOT)?;
        Ok(trees)
    }

    pub(super) fn edit(&mut self, forest: &Forest, tree: u64) -> Result<&mut TreeEdit> {
        let root = forest.tree(tree)?.root();
        Ok(self.edits.entry(tree).or_insert_with(|| TreeEdit::new(root, self.sizes)))
    }
}
