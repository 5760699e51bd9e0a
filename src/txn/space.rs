//! Free space of the last commit, and what a transaction takes from it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::{
    BlockGroupFlags, BlockGroupItem, CompatRo, Damage, Key, KeyKind, Logical, RangeSet, tree_id,
};
use crate::tree::Forest;
use crate::txn::free_space;

/// Free ranges behind the last data that are looked at before others.
const NEAR_MAX: usize = 64;

/// What space is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceKind {
    /// For contents of files.
    Data,
    /// For tree blocks.
    Metadata,
    /// For blocks of the chunk tree.
    System,
}

impl SpaceKind {
    const fn flag(self) -> BlockGroupFlags {
        match self {
            Self::Data => BlockGroupFlags::DATA,
            Self::Metadata => BlockGroupFlags::METADATA,
            Self::System => BlockGroupFlags::SYSTEM,
        }
    }
}

/// A block group and its free space.
#[derive(Debug, Clone)]
pub struct Group {
    /// Logical addresses.
    pub range: Range<u64>,
    /// Type and profile.
    pub flags: BlockGroupFlags,
    /// Bytes in use, with what the transaction took and gave back.
    pub used: u64,
    /// What may be allocated: free in the last commit, and not taken since.
    allocatable: RangeSet,
    /// Free as well, but where superblocks are.
    masked: Vec<Range<u64>>,
    /// Given back by the transaction; may be allocated only after the commit.
    pinned: RangeSet,
}

impl Group {
    /// All that is free once the transaction is committed, as the free space tree has to record it.
    pub fn free_after_commit(&self) -> RangeSet {
        let mut free = self.allocatable.clone();
        self.masked.iter().cloned().chain(self.pinned.iter()).for_each(|range| free.insert(range));
        free
    }

    /// Length in bytes.
    pub const fn length(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Free space of all block groups.
#[derive(Debug, Clone)]
pub struct Space {
    groups: BTreeMap<u64, Group>,
    /// Length and start of each range that data may take.
    by_length: BTreeSet<(u64, u64)>,
    /// Where the search for data space goes on, so that new data lies in one row.
    data_cursor: u64,
    /// The same for tree blocks.
    block_cursor: u64,
    node_size: u64,
    /// Everything taken since the last commit, to be undone by an abort.
    taken: Vec<Range<u64>>,
    /// Groups that changed since the last commit.
    changed: BTreeSet<u64>,
}

impl Space {
    /// Reads block groups and free space of the committed state: from the free space tree where that is valid, else from
    /// the gaps between extents.
    pub fn load(forest: &Forest) -> Result<Self> {
        let compat_ro = forest.superblock().compat_ro();
        let mut space = Self {
            groups: BTreeMap::new(),
            by_length: BTreeSet::new(),
            data_cursor: 0,
            block_cursor: 0,
            node_size: forest.volume().node_size().into(),
            taken: Vec::new(),
            changed: BTreeSet::new(),
        };
        for (range, item) in block_groups(forest)? {
            let free = if compat_ro.contains(CompatRo::FREE_SPACE_TREE_VALID) {
                free_space::read_group(forest, &range)?
            } else {
                gaps_between_extents(forest, &range)?
            };
            let chunk = forest.volume().chunk_at(Logical(range.start))?;
            let masked: Vec<_> = chunk.superblock_ranges();
            let mut group = Group {
                flags: item.group_flags(),
                used: item.used.get(),
                allocatable: free,
                masked: Vec::new(),
                pinned: RangeSet::default(),
                range,
            };
            if group.used + group.allocatable.total() != group.length() {
                let what = "it does not add up with the bytes in use";
                let damage = Damage::FreeSpace { start: group.range.start, what };
                return Err(Error::in_filesystem(damage));
            }
            for range in masked {
                let range = range.start.max(group.range.start)..range.end.min(group.range.end);
                // What old filesystems have allocated there stays; it can't be allocated again.
                let free: Vec<_> = group
                    .allocatable
                    .iter_from(range.start)
                    .take_while(|free| free.start < range.end)
                    .map(|free| free.start..free.end.min(range.end))
                    .collect();
                group.allocatable.remove(range);
                group.masked.extend(free);
            }
            space.add(group);
        }
        Ok(space)
    }

    /// The block groups by address.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// Bytes of data, and of tree blocks, that can still be allocated. In mixed groups they are the same bytes.
    pub fn available(&self, kind: SpaceKind) -> u64 {
        self.of_kind(kind).map(|group| group.allocatable.total()).sum()
    }

    /// Bytes of a kind that will be free once the transaction is committed.
    pub fn free_after_commit(&self, kind: SpaceKind) -> u64 {
        self.of_kind(kind).map(|group| group.allocatable.total() + group.pinned.total()).sum()
    }

    /// Bytes in use in groups of a kind.
    pub fn used(&self, kind: SpaceKind) -> u64 {
        self.of_kind(kind).map(|group| group.used).sum()
    }

    fn of_kind(&self, kind: SpaceKind) -> impl Iterator<Item = &Group> {
        self.groups.values().filter(move |group| group.flags.contains(kind.flag()))
    }

    /// Takes `length` contiguous bytes for data; `None` when no free range is that long.
    ///
    /// What follows the last data is looked at first, so that new data lies in one row. Where free space is in many pieces,
    /// the shortest that does is taken.
    pub fn take_data(&mut self, length: u64) -> Option<u64> {
        let near = self.free_from(SpaceKind::Data, self.data_cursor).take(NEAR_MAX);
        let near = near.into_iter().find(|free| free.end - free.start >= length);
        let found = match near {
            Some(free) => free.start,
            None => self.by_length.range((length, 0)..).next()?.1,
        };
        self.data_cursor = found + length;
        self.take(found..found + length);
        Some(found)
    }

    /// Takes up to `length_max` contiguous bytes for data, as many as the first free range of at least `length_min` has.
    pub fn take_data_up_to(&mut self, length_min: u64, length_max: u64) -> Option<Range<u64>> {
        if let Some(start) = self.take_data(length_max) {
            return Some(start..start + length_max);
        }
        let (length, start) = self.by_length.last().copied()?;
        if length < length_min {
            return None;
        }
        self.take(start..start + length);
        Some(start..start + length)
    }

    /// Takes one tree block.
    pub fn take_block(&mut self, kind: SpaceKind) -> Result<u64> {
        let size = self.node_size;
        let found = self
            .find(kind, self.block_cursor, |free| {
                let start = free.start.next_multiple_of(size);
                (start + size <= free.end).then_some(start)
            })
            .ok_or(Error::NoSpace("all metadata space is in use"))?;
        if kind == SpaceKind::Metadata {
            self.block_cursor = found + size;
        }
        self.take(found..found + size);
        Ok(found)
    }

    /// Searches the free ranges of a kind from `cursor` on, then from the start.
    fn find(
        &self,
        kind: SpaceKind,
        cursor: u64,
        fits: impl Fn(Range<u64>) -> Option<u64>,
    ) -> Option<u64> {
        let mut here = self.free_from(kind, cursor);
        here.find_map(&fits).or_else(|| self.free_from(kind, 0).find_map(&fits))
    }

    /// The free ranges of a kind from `at` on.
    fn free_from(&self, kind: SpaceKind, at: u64) -> impl Iterator<Item = Range<u64>> {
        let first = self.groups.range(..=at).next_back().map_or(0, |(start, _)| *start);
        let groups = self.groups.range(first..).map(|(_, group)| group);
        groups
            .filter(move |group| group.flags.contains(kind.flag()))
            .flat_map(move |group| group.allocatable.iter_from(at))
    }

    fn add(&mut self, group: Group) {
        if group.flags.contains(SpaceKind::Data.flag()) {
            let free = group.allocatable.iter();
            self.by_length.extend(free.map(|free| (free.end - free.start, free.start)));
        }
        self.groups.insert(group.range.start, group);
    }

    /// Makes a range allocatable, or takes that away.
    fn change(&mut self, range: &Range<u64>, change: impl FnOnce(&mut RangeSet)) {
        let (_, group) =
            self.groups.range_mut(..=range.start).next_back().expect("it is in a group");
        let is_data = group.flags.contains(SpaceKind::Data.flag());
        for free in group.allocatable.touching(range).filter(|_| is_data) {
            self.by_length.remove(&(free.end - free.start, free.start));
        }
        change(&mut group.allocatable);
        for free in group.allocatable.touching(range).filter(|_| is_data) {
            self.by_length.insert((free.end - free.start, free.start));
        }
    }

    fn group_mut(&mut self, at: u64) -> &mut Group {
        let (_, group) =
            self.groups.range_mut(..=at).next_back().expect("allocations are inside block groups");
        assert!(group.range.contains(&at), "allocations are inside block groups");
        group
    }

    fn take(&mut self, range: Range<u64>) {
        self.change(&range, |allocatable| allocatable.remove(range.clone()));
        let group = self.group_mut(range.start);
        group.used += range.end - range.start;
        let start = group.range.start;
        self.changed.insert(start);
        self.taken.push(range);
    }

    /// Type and profile of the last block group of a kind.
    pub(super) fn flags_of(&self, kind: SpaceKind) -> Option<BlockGroupFlags> {
        self.of_kind(kind).last().map(|group| group.flags)
    }

    /// Adds a block group of which nothing may be used before the commit.
    pub(super) fn add_group(&mut self, range: Range<u64>, flags: BlockGroupFlags) {
        self.changed.insert(range.start);
        let pinned = [range.clone()].into_iter().collect();
        let (allocatable, masked) = (RangeSet::default(), Vec::new());
        self.add(Group { range, flags, used: 0, allocatable, masked, pinned });
    }

    /// Takes back that a block group was added.
    pub(super) fn forget(&mut self, start: u64) {
        self.groups.remove(&start);
        self.changed.remove(&start);
    }

    /// Gives a range back that stays untouched until the next commit.
    pub(super) fn give_back(&mut self, range: Range<u64>) -> Result<()> {
        let known = self.groups.range(..=range.start).next_back();
        if known.is_none_or(|(_, group)| group.range.end < range.end) {
            let what = "an extent reaches beyond it";
            return Err(Error::in_filesystem(Damage::FreeSpace { start: range.start, what }));
        }
        let group = self.group_mut(range.start);
        group.used = group.used.checked_sub(range.end - range.start).ok_or_else(|| {
            let what = "more is given back than was in use";
            Error::in_filesystem(Damage::FreeSpace { start: range.start, what })
        })?;
        group.pinned.insert(range);
        let start = group.range.start;
        self.changed.insert(start);
        Ok(())
    }

    /// Start addresses of the groups that changed since the last commit.
    pub(super) fn changed(&self) -> impl Iterator<Item = &Group> {
        self.changed.iter().map(|start| &self.groups[start])
    }

    /// Bytes in use in all groups.
    pub(super) fn used_total(&self) -> u64 {
        self.groups.values().map(|group| group.used).sum()
    }

    /// After a commit: what was given back can be allocated.
    pub(super) fn settle(&mut self) {
        for start in std::mem::take(&mut self.changed) {
            let group = self.group_mut(start);
            let pinned = std::mem::take(&mut group.pinned);
            for range in pinned.iter() {
                self.change(&range, |allocatable| allocatable.insert(range.clone()));
            }
        }
        self.taken.clear();
        (self.data_cursor, self.block_cursor) = (0, 0);
    }

    /// A point to which [`undo_to`](Self::undo_to) can go back.
    pub const fn mark(&self) -> usize {
        self.taken.len()
    }

    /// Undoes all that was taken since `mark`, and all that was given back since the last commit.
    pub fn undo_to(&mut self, mark: usize) {
        for group in self.groups.values_mut() {
            group.used += group.pinned.total();
            group.pinned = RangeSet::default();
        }
        for range in self.taken.split_off(mark) {
            let group = self.group_mut(range.start);
            group.used -= range.end - range.start;
            self.change(&range, |allocatable| allocatable.insert(range.clone()));
        }
        (self.data_cursor, self.block_cursor) = (0, 0);
    }
}

/// The tree that holds block group items.
pub(super) fn block_group_tree(forest: &Forest) -> u64 {
    if forest.superblock().compat_ro().contains(CompatRo::BLOCK_GROUP_TREE) {
        tree_id::BLOCK_GROUP
    } else {
        tree_id::EXTENT
    }
}

/// Every block group: one search a chunk, since in the extent tree their items are far apart.
fn block_groups(forest: &Forest) -> Result<Vec<(Range<u64>, BlockGroupItem)>> {
    let tree = forest.tree(block_group_tree(forest))?;
    forest
        .volume()
        .chunks()
        .map(|chunk| {
            let start = chunk.logical.0;
            let key = Key::new(start, KeyKind::BLOCK_GROUP_ITEM, chunk.length);
            let item = tree.get(key)?;
            let group = BlockGroupItem::view(item.data())
                .map_err(|damage| Error::in_item(damage, tree.id(), key))?;
            Ok((start..start + chunk.length, *group))
        })
        .collect()
}

fn gaps_between_extents(forest: &Forest, group: &Range<u64>) -> Result<RangeSet> {
    let node_size = u64::from(forest.volume().node_size());
    let mut free: RangeSet = [group.clone()].into_iter().collect();
    let keys =
        Key::new(group.start, KeyKind(0), 0)..=Key::new(group.end - 1, KeyKind(u8::MAX), u64::MAX);
    for item in forest.tree(tree_id::EXTENT)?.range(keys) {
        let key = item?.key();
        let length = match key.kind {
            KeyKind::EXTENT_ITEM => key.offset,
            KeyKind::METADATA_ITEM => node_size,
            _ => continue,
        };
        let used = key.objectid..key.objectid.saturating_add(length);
        if !free.contains(&used) {
            let what = "extents overlap";
            return Err(Error::in_filesystem(Damage::FreeSpace { start: group.start, what }));
        }
        free.remove(used);
    }
    Ok(free)
}

#[cfg(test)]
mod tests;
