//! What needs no second look.

use std::collections::{BTreeSet, HashSet};

use crate::error::{Error, Result};
use crate::format::{ExtentItem, KeyKind, tree_id};
use crate::tree::Forest;
use crate::usage::SectorSet;

/// What was rewritten as requested, or found to be as good as it gets. A run that is stopped hands it to the one that
/// goes on, which would otherwise encode all of it once more to see that there is nothing to gain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Extents that are settled when they are a run of their own.
    pub(super) extents: SectorSet,
    /// Other runs, by fingerprint.
    pub(super) runs: HashSet<u64>,
}

impl Settled {
    /// Everything as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let extents: Vec<u64> = self.extents.iter().collect();
        let runs: BTreeSet<u64> = self.runs.iter().copied().collect();
        let numbers = std::iter::once(extents.len() as u64).chain(extents).chain(runs);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    /// What [`to_bytes`](Self::to_bytes) made.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, []) = bytes.as_chunks() else { return None };
        let numbers: Vec<u64> = numbers.iter().copied().map(u64::from_le_bytes).collect();
        let (count, numbers) = numbers.split_first()?;
        let (addresses, runs) = numbers.split_at_checked(usize::try_from(*count).ok()?)?;
        let mut extents = SectorSet::default();
        for address in addresses {
            extents.insert(*address);
        }
        Some(Self { extents, runs: runs.iter().copied().collect() })
    }

    /// Takes out what may be something else by now, where others have written since `generation`.
    pub fn forget_newer(&mut self, forest: &Forest, generation: u64) -> Result<()> {
        self.runs.clear();
        for item in forest.tree(tree_id::EXTENT)?.items() {
            let item = item?;
            let key = item.key();
            if key.kind != KeyKind::EXTENT_ITEM || !self.extents.contains(key.objectid) {
                continue;
            }
            let (extent, _) = ExtentItem::view(item.data())
                .map_err(|damage| Error::in_item(damage, tree_id::EXTENT, key))?;
            if extent.generation.get() > generation {
                self.extents.remove(key.objectid);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_hold_all_of_it() {
        let mut settled = Settled::default();
        for address in [0, 4096, 1 << 40] {
            settled.extents.insert(address);
        }
        settled.runs.extend([7, u64::MAX]);
        let bytes = settled.to_bytes();
        assert_eq!(Settled::from_bytes(&bytes), Some(settled));
        assert_eq!(Settled::from_bytes(&bytes[..20]), None);
        assert_eq!(Settled::from_bytes(&[]), None);
        assert_eq!(Settled::from_bytes(&[0xff; 16]), None);
    }
}
