//! A set of addresses that takes little memory.

use std::collections::HashMap;

/// Bits of a page: what a cache line holds.
const PAGE_BITS: u64 = 512;

/// Smallest sector that there is, as a power of two.
const SECTOR_BITS: u32 = 12;

/// A set of addresses of sectors: a bit each, in pages that exist where a bit is set. Extents of 128 KiB take about 4
/// bytes each, however many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SectorSet {
    pages: HashMap<u64, [u64; PAGE_BITS as usize / 64]>,
}

impl SectorSet {
    /// Number of the page, word in it and bit in that of an address.
    const fn place(address: u64) -> (u64, usize, u64) {
        let sector = address >> SECTOR_BITS;
        let bit = sector % PAGE_BITS;
        (sector / PAGE_BITS, (bit / 64) as usize, 1 << (bit % 64))
    }

    /// Adds the sector at `address`; tells whether it is new.
    pub fn insert(&mut self, address: u64) -> bool {
        let (page, word, mask) = Self::place(address);
        let word = &mut self.pages.entry(page).or_default()[word];
        let is_new = *word & mask == 0;
        *word |= mask;
        is_new
    }

    /// Takes the sector at `address` out.
    pub fn remove(&mut self, address: u64) {
        let (page, word, mask) = Self::place(address);
        if let Some(page) = self.pages.get_mut(&page) {
            page[word] &= !mask;
        }
    }

    /// Whether the sector at `address` is in the set.
    pub fn contains(&self, address: u64) -> bool {
        let (page, word, mask) = Self::place(address);
        self.pages.get(&page).is_some_and(|page| page[word] & mask != 0)
    }

    /// The addresses in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let mut pages: Vec<_> = self.pages.iter().collect();
        pages.sort_unstable_by_key(|(page, _)| **page);
        pages.into_iter().flat_map(|(page, words)| {
            let bits =
                (0..PAGE_BITS).filter(|bit| words[(bit / 64) as usize] >> (bit % 64) & 1 == 1);
            bits.map(move |bit| (page * PAGE_BITS + bit) << SECTOR_BITS)
        })
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.pages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_new_once() {
        let mut set = SectorSet::default();
        let addresses = [0, 4096, 63 << 12, 64 << 12, 511 << 12, 512 << 12, u64::MAX - 4095];
        for address in addresses {
            assert!(set.insert(address));
        }
        for address in addresses {
            assert!(!set.insert(address) && set.contains(address));
        }
        assert!(set.iter().eq(addresses));
        set.remove(4096);
        assert!(!set.contains(4096) && set.contains(0));
    }
}
