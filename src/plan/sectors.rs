//! Sets of addresses that are multiples of a sector: bitmaps, where any bits are set.

use std::collections::BTreeMap;

/// Smallest sector size that Btrfs has, as a power of two.
const SECTOR_BITS: u32 = 12;
/// Words of a bitmap, which covers 128 MiB of addresses.
const WORDS: usize = 512;

/// A set of addresses. It takes at most a 32768th of the space that the addresses span.
#[derive(Debug, Default)]
pub struct SectorSet {
    maps: BTreeMap<u64, Box<[u64; WORDS]>>,
}

const fn split(at: u64) -> (u64, usize, u64) {
    let sector = at >> SECTOR_BITS;
    (sector / (WORDS as u64 * 64), (sector / 64) as usize % WORDS, 1 << (sector % 64))
}

impl SectorSet {
    /// Adds an address; tells whether it was missing.
    pub fn insert(&mut self, at: u64) -> bool {
        let (map, word, bit) = split(at);
        let word = &mut self.maps.entry(map).or_insert_with(|| Box::new([0; WORDS]))[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Takes an address out; tells whether it was there.
    pub fn remove(&mut self, at: u64) -> bool {
        let (map, word, bit) = split(at);
        let Some(map) = self.maps.get_mut(&map) else { return false };
        let was_there = map[word] & bit != 0;
        map[word] &= !bit;
        was_there
    }

    /// Whether an address is in the set.
    pub fn contains(&self, at: u64) -> bool {
        let (map, word, bit) = split(at);
        self.maps.get(&map).is_some_and(|map| map[word] & bit != 0)
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.maps.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_far_and_near_are_told_apart() {
        let mut set = SectorSet::default();
        for at in [0, 4096, 1 << 27, (1 << 27) + 4096, 1 << 50] {
            assert!(!set.contains(at));
            assert!(set.insert(at));
            assert!(!set.insert(at));
        }
        assert!(set.remove(4096));
        assert!(!set.contains(4096));
        assert!(set.contains(0) && set.contains(1 << 50));
    }
}
