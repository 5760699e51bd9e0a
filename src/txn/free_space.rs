//! The free space tree: reading a block group's free space, and the items that record it.

use std::collections::BTreeMap;
use std::ops::Range;

use zerocopy::IntoBytes;

use crate::error::{Error, Result};
use crate::format::{Damage, FreeSpaceInfo, Key, KeyKind, RangeSet, tree_id};
use crate::tree::Forest;

/// Bytes of one bitmap item.
const BITMAP_BYTES: u64 = 256;
/// Bytes that an item's head takes in a leaf; what the kernel compares bitmaps with.
const ITEM_HEAD: u64 = 25;
/// The flag for groups that use bitmaps.
const USING_BITMAPS: u32 = 1;

/// All keys that the free space tree has for a block group.
pub(super) const fn group_keys(group: &Range<u64>) -> std::ops::RangeInclusive<Key> {
    Key::new(group.start, KeyKind(0), 0)
        ..=Key::new(group.end.saturating_sub(1), KeyKind(u8::MAX), u64::MAX)
}

/// Reads the free space of `group`, superblock ranges included.
pub(super) fn read_group(forest: &Forest, group: &Range<u64>) -> Result<RangeSet> {
    let sector = u64::from(forest.volume().sector_size());
    let mut free = RangeSet::default();
    let mut expected_count = None;
    for item in forest.tree(tree_id::FREE_SPACE)?.range(group_keys(group)) {
        let item = item?;
        let key = item.key();
        let broken = |damage| Error::in_item(damage, tree_id::FREE_SPACE, key);
        let end = key.objectid.checked_add(key.offset).filter(|end| *end <= group.end);
        let end = end.ok_or_else(|| broken(damage(group, "an item reaches beyond it")))?;
        match key.kind {
            KeyKind::FREE_SPACE_INFO => {
                let info = FreeSpaceInfo::view(item.data()).map_err(broken)?;
                expected_count = Some(info.extent_count.get());
            }
            KeyKind::FREE_SPACE_EXTENT => free.insert(key.objectid..end),
            KeyKind::FREE_SPACE_BITMAP => {
                let sectors = key.offset / sector;
                if (item.data().len() as u64) < sectors.div_ceil(8) {
                    return Err(broken(damage(group, "a bitmap is too short")));
                }
                for index in (0..sectors).filter(|index| is_set(item.data(), *index)) {
                    let start = key.objectid + index * sector;
                    free.insert(start..start + sector);
                }
            }
            KeyKind(found) => {
                let damage = Damage::Value { what: "kind of free space item", found: found.into() };
                return Err(broken(damage));
            }
        }
    }
    if expected_count != Some(free.len() as u32) {
        return Err(Error::in_filesystem(damage(group, "the number of free ranges is wrong")));
    }
    Ok(free)
}

fn is_set(bitmap: &[u8], index: u64) -> bool {
    bitmap.get(index as usize / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

const fn damage(group: &Range<u64>, what: &'static str) -> Damage {
    Damage::FreeSpace { start: group.start, what }
}

/// The items that record `free` for `group`; the group keeps using bitmaps, or not, within the kernel's thresholds.
pub(super) fn group_items(
    group: &Range<u64>,
    free: &RangeSet,
    uses_bitmaps: bool,
    sector: u64,
) -> BTreeMap<Key, Vec<u8>> {
    let length = group.end - group.start;
    let bitmap_span = BITMAP_BYTES * 8 * sector;
    let high = length.div_ceil(bitmap_span) * (ITEM_HEAD + BITMAP_BYTES) / ITEM_HEAD;
    let low = high.saturating_sub(100);
    let count = free.len() as u64;
    let uses_bitmaps = if uses_bitmaps { count >= low } else { count > high };

    let info = FreeSpaceInfo {
        extent_count: (count as u32).into(),
        flags: if uses_bitmaps { USING_BITMAPS } else { 0 }.into(),
    };
    let info_key = Key::new(group.start, KeyKind::FREE_SPACE_INFO, length);
    let mut items = BTreeMap::from([(info_key, info.as_bytes().to_vec())]);
    if uses_bitmaps {
        let mut start = group.start;
        while start < group.end {
            let span = bitmap_span.min(group.end - start);
            let key = Key::new(start, KeyKind::FREE_SPACE_BITMAP, span);
            items.insert(key, bitmap(start..start + span, free, sector));
            start += span;
        }
    } else {
        items.extend(free.iter().map(|range| {
            let length = range.end - range.start;
            (Key::new(range.start, KeyKind::FREE_SPACE_EXTENT, length), Vec::new())
        }));
    }
    items
}

/// What the header of a block group's old space cache must become once the group has changed: a cache without entries,
/// which the kernel passes over. That the superblock's `cache_generation` is old is not enough: the kernel rewrites the
/// caches of the groups that it changes itself, and then takes all of them for valid. `None` if it is empty already.
pub(super) fn empty_cache_header(header: &[u8]) -> Option<Vec<u8>> {
    /// `num_entries` and `num_bitmaps` of `btrfs_free_space_header`.
    const COUNTS: Range<usize> = 25..41;
    let mut empty = header.to_vec();
    empty.get_mut(COUNTS)?.fill(0);
    (empty != header).then_some(empty)
}

fn bitmap(span: Range<u64>, free: &RangeSet, sector: u64) -> Vec<u8> {
    let mut bits = vec![0; ((span.end - span.start) / sector).div_ceil(8) as usize];
    for range in free.iter_from(span.start).take_while(|range| range.start < span.end) {
        let first = (range.start - span.start) / sector;
        let last = (range.end.min(span.end) - span.start) / sector;
        for index in first..last {
            bits[index as usize / 8] |= 1 << (index % 8);
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_fragments_are_recorded_as_bitmaps_and_few_as_extents() {
        let group = 1 << 30..(1 << 30) + (64 << 20);
        let fragments = |count: u64| {
            (0..count).map(|i| group.start + i * 8192..group.start + i * 8192 + 4096).collect()
        };
        let few: RangeSet = fragments(10);
        let items = group_items(&group, &few, false, 4096);
        assert_eq!(items.len(), 11);
        let many: RangeSet = fragments(1000);
        let items = group_items(&group, &many, false, 4096);
        assert_eq!(items.len(), 1 + 8, "one item for each 8 MiB");
        let bitmaps = items.iter().filter(|(key, _)| key.kind == KeyKind::FREE_SPACE_BITMAP);
        let set: u32 = bitmaps.flat_map(|(_, bits)| bits).map(|byte| byte.count_ones()).sum();
        assert_eq!(set, 1000);
    }
}
