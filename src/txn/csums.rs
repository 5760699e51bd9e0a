//! The checksum tree: which edits take checksums out and put new ones in.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::format::{Damage, Key, KeyKind, RangeSet, tree_id};
use crate::tree::Forest;
use crate::txn::edit::{Edit, TreeEdit};

/// Sizes that checksum items depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct CsumSizes {
    /// Bytes of data that one checksum covers.
    pub(super) sector: u64,
    /// Bytes of one checksum.
    pub(super) csum: u64,
    /// Checksums that one item may hold.
    pub(super) per_item_max: u64,
}

impl CsumSizes {
    pub(super) fn new(sector: u32, csum: usize, leaf_capacity: usize) -> Self {
        // The kernel's own bounds: two items' heads are left free, and a page's worth of entries is the most.
        let per_leaf = (leaf_capacity.saturating_sub(50) / csum).saturating_sub(1);
        Self { sector: sector.into(), csum: csum as u64, per_item_max: per_leaf.min(4096) as u64 }
    }
}

const fn csum_key(at: u64) -> Key {
    Key::new(tree_id::EXTENT_CSUM, KeyKind::EXTENT_CSUM, at)
}

/// Edits that remove the checksums of `removed` and add those of `added` (by address).
pub(super) fn csum_edits(
    forest: &Forest,
    tree: &TreeEdit,
    sizes: CsumSizes,
    removed: &RangeSet,
    added: &BTreeMap<u64, Vec<u8>>,
) -> Result<Vec<Edit>> {
    let mut edits: BTreeMap<Key, Option<Vec<u8>>> = BTreeMap::new();
    let mut pieces: BTreeMap<u64, Vec<u8>> = added.clone();
    let mut items: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for range in removed.iter() {
        let before = tree.item_at_or_before(forest, csum_key(range.start))?;
        let within = tree.items(forest, &(csum_key(range.start)..=csum_key(range.end - 1)))?;
        for (key, data) in before.into_iter().chain(within) {
            if key.kind == KeyKind::EXTENT_CSUM && key.objectid == tree_id::EXTENT_CSUM {
                items.insert(key.offset, data);
            }
        }
    }
    for (start, data) in items {
        let count = data.len() as u64 / sizes.csum;
        let end = start.checked_add(count * sizes.sector).ok_or_else(|| {
            let damage = Damage::Value { what: "checksum item's offset", found: start };
            Error::in_item(damage, tree_id::CSUM, csum_key(start))
        })?;
        let mut kept: RangeSet = std::iter::once(start..end).collect();
        for range in removed.iter_from(start).take_while(|range| range.start < end) {
            kept.remove(range);
        }
        if kept.total() == end - start {
            continue;
        }
        edits.insert(csum_key(start), None);
        for range in kept.iter() {
            let at = |byte: u64| ((byte - start) / sizes.sector * sizes.csum) as usize;
            pieces.insert(range.start, data[at(range.start)..at(range.end)].to_vec());
        }
    }
    edits
        .extend(join(pieces, sizes).into_iter().map(|(start, data)| (csum_key(start), Some(data))));
    Ok(edits.into_iter().collect())
}

/// Joins neighbours and cuts them into items as long as they may be.
fn join(pieces: BTreeMap<u64, Vec<u8>>, sizes: CsumSizes) -> Vec<(u64, Vec<u8>)> {
    let item_bytes = (sizes.per_item_max * sizes.csum) as usize;
    let covered = |bytes: usize| bytes as u64 / sizes.csum * sizes.sector;
    let mut items: Vec<(u64, Vec<u8>)> = Vec::new();
    for (mut start, mut data) in pieces {
        if let Some((last, have)) = items.last_mut()
            && *last + covered(have.len()) == start
        {
            let room = item_bytes.saturating_sub(have.len()).min(data.len());
            have.extend(data.drain(..room));
            start += covered(room);
        }
        while !data.is_empty() {
            let rest = data.split_off(item_bytes.min(data.len()));
            let length = covered(data.len());
            items.push((start, std::mem::replace(&mut data, rest)));
            start += length;
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_join_up_to_the_limit() {
        let sizes = CsumSizes { sector: 4096, csum: 4, per_item_max: 3 };
        let pieces = BTreeMap::from([(0, vec![1; 8]), (8192, vec![2; 12]), (40960, vec![3; 4])]);
        let items = join(pieces, sizes);
        let expected =
            [(0, [[1; 4], [1; 4], [2; 4]].concat()), (12288, vec![2; 8]), (40960, vec![3; 4])];
        assert_eq!(items, expected);
    }
}
