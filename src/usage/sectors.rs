//! A set of addresses that takes little memory.

use std::collections::HashMap;

/// Bits of a page: what a cache line holds.
const PAGE_BITS: u64 = 512;

/// A set of addresses in units of a sector: a bit each, in pages that exist where a bit is set. Extents of 128 KiB take
/// about 4 bytes each, however many there are.
#[derive(Debug)]
pub(super) struct SectorSet {
    sector_shift: u32,
    pages: HashMap<u64, [u64; PAGE_BITS as usize / 64]>,
}

impl SectorSet {
    /// An empty set of multiples of `sector_size`, which is a power of two.
    pub(super) fn new(sector_size: u32) -> Self {
        Self { sector_shift: sector_size.trailing_zeros(), pages: HashMap::new() }
    }

    /// Adds the sector at `address`; tells whether it is new.
    pub(super) fn insert(&mut self, address: u64) -> bool {
        let sector = address >> self.sector_shift;
        let page = self.pages.entry(sector / PAGE_BITS).or_default();
        let bit = sector % PAGE_BITS;
        let (word, mask) = (&mut page[(bit / 64) as usize], 1 << (bit % 64));
        let is_new = *word & mask == 0;
        *word |= mask;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_new_once() {
        let mut set = SectorSet::new(4096);
        let addresses = [0, 4096, 63 << 12, 64 << 12, 511 << 12, 512 << 12, u64::MAX - 4095];
        for address in addresses {
            assert!(set.insert(address));
        }
        for address in addresses {
            assert!(!set.insert(address));
        }
    }
}
