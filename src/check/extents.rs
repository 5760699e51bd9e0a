//! The extent tree: what is allocated, who refers to it, and how block groups account for it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::backref::{Allocation, ExtentRecord};
use crate::check::finding::{Findings, Problem};
use crate::check::quota::Charged;
use crate::error::{Error, Place};
use crate::format::{
    BlockGroupFlags, BlockGroupItem, CompatRo, Key, KeyKind, Logical, Node, Ref, tree_id,
};
use crate::tree::{Forest, Tree};

/// Blocks that are read at once.
const AHEAD: usize = 256;

/// An extent or tree block that the extent tree records.
#[derive(Debug)]
pub(super) struct Extent {
    pub(super) bytenr: u64,
    pub(super) length: u64,
    /// Of a tree block.
    pub(super) level: Option<u8>,
    pub(super) is_full_backref: bool,
    pub(super) generation: u64,
    pub(super) refs: u64,
    /// Hashes of the references recorded, less those of the references found.
    sum: AtomicU64,
    found: AtomicU64,
}

/// A block group as recorded.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) range: Range<u64>,
    flags: BlockGroupFlags,
    used: u64,
}

/// All that the extent tree records, by address.
#[derive(Debug, Default)]
pub(super) struct Index {
    extents: Vec<Extent>,
    pub(super) groups: Vec<Group>,
    /// Whether all of the extent tree could be read.
    pub(super) is_complete: bool,
}

fn hash(reference: Ref, count: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    reference.hash(&mut hasher);
    hasher.finish().wrapping_mul(count.into())
}

impl Index {
    pub(super) fn load(forest: &Forest, charged: &Charged, findings: &Findings) -> Self {
        let mut index = Self::default();
        let Some(tree) = forest.find_tree(tree_id::EXTENT) else { return index };
        let node_size = u64::from(forest.volume().node_size());
        let mut pending: Vec<(Key, Vec<u8>)> = Vec::new();
        index.is_complete = each_leaf(&tree, &mut |leaf| {
            for (key, data) in leaf.items() {
                if key.kind == KeyKind::BLOCK_GROUP_ITEM {
                    index.add_group(tree_id::EXTENT, key, data, findings);
                    continue;
                }
                if pending.first().is_some_and(|(first, _)| first.objectid != key.objectid) {
                    index.add_record(&pending, node_size, charged, findings);
                    pending.clear();
                }
                pending.push((key, data.to_vec()));
            }
        });
        index.add_record(&pending, node_size, charged, findings);
        if forest.superblock().compat_ro().contains(CompatRo::BLOCK_GROUP_TREE)
            && let Some(tree) = forest.find_tree(tree_id::BLOCK_GROUP)
        {
            let is_complete = each_leaf(&tree, &mut |leaf| {
                for (key, data) in leaf.items() {
                    if key.kind == KeyKind::BLOCK_GROUP_ITEM {
                        index.add_group(tree_id::BLOCK_GROUP, key, data, findings);
                    }
                }
            });
            index.is_complete &= is_complete;
        }
        index
    }

    fn add_record(
        &mut self,
        items: &[(Key, Vec<u8>)],
        node_size: u64,
        charged: &Charged,
        findings: &Findings,
    ) {
        let record =
            match ExtentRecord::parse(items.iter().map(|(key, data)| (*key, data.as_slice()))) {
                Ok(Some(record)) => record,
                Ok(None) => return,
                Err((key, damage)) => {
                    return findings.error(Error::in_item(damage, tree_id::EXTENT, key));
                }
            };
        let (length, level) = match record.allocation {
            Allocation::Data { length } => {
                charged.add_data(&record, length);
                (length, None)
            }
            Allocation::Block { level } => (node_size, Some(level)),
            Allocation::OldBlock { level, length, .. } => {
                let at = Place::Block(Logical(record.bytenr));
                findings.compare(at, "length of the tree block", length, node_size);
                (length, Some(level))
            }
        };
        let sum = record
            .refs
            .iter()
            .fold(0_u64, |sum, (reference, count)| sum.wrapping_add(hash(*reference, *count)));
        self.extents.push(Extent {
            bytenr: record.bytenr,
            length,
            level,
            is_full_backref: record.is_full_backref,
            generation: record.generation,
            refs: record.total(),
            sum: sum.into(),
            found: 0.into(),
        });
    }

    fn add_group(&mut self, tree: u64, key: Key, data: &[u8], findings: &Findings) {
        match BlockGroupItem::view(data) {
            Ok(item) => self.groups.push(Group {
                range: key.objectid..key.objectid.saturating_add(key.offset),
                flags: item.group_flags(),
                used: item.used.get(),
            }),
            Err(damage) => findings.error(Error::in_item(damage, tree, key)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.extents.len()
    }

    pub(super) fn find(&self, bytenr: u64) -> Option<&Extent> {
        let slot = self.extents.binary_search_by_key(&bytenr, |extent| extent.bytenr).ok()?;
        self.extents.get(slot)
    }

    /// The extents that start in a range, or reach into it.
    pub(super) fn within(&self, range: &Range<u64>) -> &[Extent] {
        let first = self
            .extents
            .partition_point(|extent| extent.bytenr.saturating_add(extent.length) <= range.start);
        let last = self.extents.partition_point(|extent| extent.bytenr < range.end);
        self.extents.get(first..last).unwrap_or_default()
    }

    /// Counts a reference that a block makes.
    pub(super) fn count(&self, bytenr: u64, reference: Ref, count: u32, findings: &Findings) {
        let Some(extent) = self.find(bytenr) else {
            if self.is_complete {
                findings.add(Place::Block(Logical(bytenr)), Problem::NoRecord);
            }
            return;
        };
        extent.sum.fetch_sub(hash(reference, count), Ordering::Relaxed);
        extent.found.fetch_add(count.into(), Ordering::Relaxed);
    }

    /// Once all references are counted: whether they are those recorded.
    pub(super) fn compare(&self, findings: &Findings) {
        for extent in &self.extents {
            let found = extent.found.load(Ordering::Relaxed);
            let at = || Place::Block(Logical(extent.bytenr));
            if found != extent.refs {
                findings.add(at(), Problem::References { recorded: extent.refs, found });
            } else if extent.sum.load(Ordering::Relaxed) != 0 {
                findings.add(at(), Problem::OtherReferences);
            }
        }
    }

    /// Whether extents, block groups, chunks and the superblock account for space in the same way.
    pub(super) fn check_space(&self, forest: &Forest, findings: &Findings) {
        self.check_extents(forest, findings);
        let mut used_total = 0_u64;
        for group in &self.groups {
            used_total = used_total.saturating_add(group.used);
            let key = Key::new(
                group.range.start,
                KeyKind::BLOCK_GROUP_ITEM,
                group.range.end.saturating_sub(group.range.start),
            );
            let at = Place::Item { tree: tree_id::EXTENT, key };
            let extents = self.within(&group.range).iter();
            let used = extents.fold(0_u64, |sum, extent| sum.saturating_add(extent.length));
            findings.compare(at.clone(), "bytes used in the block group", group.used, used);
            match forest.volume().chunk_at(Logical(group.range.start)) {
                Ok(chunk)
                    if chunk.logical.0 == group.range.start
                        && chunk.end() == group.range.end
                        && chunk.flags == group.flags => {}
                _ => findings.rule(at, "block group is not what its chunk is"),
            }
        }
        let chunks = forest.volume().chunks().len() as u64;
        let at = Place::Filesystem;
        findings.compare(at.clone(), "number of block groups", self.groups.len() as u64, chunks);
        let recorded = forest.superblock().bytes_used.get();
        findings.compare(at, "bytes_used of the superblock", recorded, used_total);
    }

    fn group_before(&self, bytenr: u64) -> Option<&Group> {
        let before = self.groups.partition_point(|group| group.range.start <= bytenr);
        before.checked_sub(1).and_then(|slot| self.groups.get(slot))
    }

    /// Whether an address is in a block group for the chunk tree.
    pub(super) fn is_system(&self, bytenr: u64) -> bool {
        self.group_before(bytenr).is_some_and(|group| group.flags.contains(BlockGroupFlags::SYSTEM))
    }

    fn check_extents(&self, forest: &Forest, findings: &Findings) {
        let newest = forest.superblock().generation.get();
        let sector = u64::from(forest.volume().sector_size());
        let mut end = 0;
        for extent in &self.extents {
            let at = || Place::Block(Logical(extent.bytenr));
            if extent.bytenr < end {
                findings.rule(at(), "extent overlaps the one before it");
            }
            end = extent.bytenr.saturating_add(extent.length);
            if extent.generation > newest {
                findings.rule(at(), "extent is newer than the last commit");
            }
            if extent.length == 0
                || !extent.length.is_multiple_of(sector)
                || !extent.bytenr.is_multiple_of(sector)
            {
                findings.rule(at(), "extent does not consist of whole sectors");
            }
            let kinds = if extent.level.is_none() {
                BlockGroupFlags::DATA
            } else {
                BlockGroupFlags::METADATA | BlockGroupFlags::SYSTEM
            };
            let group = self.group_before(extent.bytenr);
            if group.is_none_or(|group| end > group.range.end || !group.flags.intersects(kinds)) {
                findings.rule(at(), "extent is in no block group for its kind");
            }
        }
    }
}

/// Goes through the leaves of a tree in order, some read ahead on all cores. Tells whether all could be read; why one
/// could not be read is found by the walk through all trees. It ends where keys don't ascend: no leaf is given twice,
/// however its parents are entangled.
pub(super) fn each_leaf(tree: &Tree<'_>, then: &mut dyn FnMut(&Arc<Node>)) -> bool {
    let mut walk = Leaves { tree, then, last: None, is_ordered: true };
    match tree.root_node() {
        Ok(root) => walk.below(&root),
        Err(_) => false,
    }
}

struct Leaves<'a> {
    tree: &'a Tree<'a>,
    then: &'a mut dyn FnMut(&Arc<Node>),
    /// The last key given.
    last: Option<Key>,
    is_ordered: bool,
}

impl Leaves<'_> {
    fn below(&mut self, node: &Arc<Node>) -> bool {
        if node.level() == 0 {
            self.leaf(node);
            return self.is_ordered;
        }
        let slots: Vec<usize> = (0..node.len()).collect();
        let mut is_complete = true;
        for slots in slots.chunks(AHEAD) {
            let children: Vec<_> = if node.level() == 1 {
                slots.par_iter().map(|slot| self.tree.child(node, *slot)).collect()
            } else {
                slots.iter().map(|slot| self.tree.child(node, *slot)).collect()
            };
            for child in children {
                is_complete &= child.is_ok_and(|child| self.below(&child));
                if !self.is_ordered {
                    return false;
                }
            }
        }
        is_complete
    }

    fn leaf(&mut self, leaf: &Arc<Node>) {
        let Some(last) = leaf.len().checked_sub(1).and_then(|slot| leaf.find_key(slot)) else {
            return;
        };
        self.is_ordered = leaf.first_key() > self.last;
        if self.is_ordered {
            self.last = Some(last);
            (self.then)(leaf);
        }
    }
}
