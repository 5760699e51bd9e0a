//! Hashes that appear in keys.

/// CRC-32C over `data`, started at `seed` and without the inversions at both ends.
fn raw_crc32c(seed: u32, data: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, data)
}

/// Key offset of a keyed `EXTENT_DATA_REF`, before probing for collisions; inline refs are sorted by it, descending.
pub fn extent_data_ref_hash(root: u64, objectid: u64, offset: u64) -> u64 {
    let high = raw_crc32c(!0, &root.to_le_bytes());
    let low = raw_crc32c(raw_crc32c(!0, &objectid.to_le_bytes()), &offset.to_le_bytes());
    (u64::from(high) << 31) ^ u64::from(low)
}

/// Key offset of a `DIR_ITEM` or `XATTR_ITEM` for `name`.
pub fn name_hash(name: &[u8]) -> u64 {
    u64::from(raw_crc32c(!1, name))
}

/// Key offset of an `INODE_EXTREF` for `name` in the directory `parent`.
pub fn extref_hash(parent: u64, name: &[u8]) -> u64 {
    u64::from(raw_crc32c(parent as u32, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_seen_on_disk() {
        assert_eq!(name_hash(b"default"), 2_378_154_706);
        assert_eq!(extent_data_ref_hash(256, 317, 0), 0x0dea_30de_dd86_6fe7);
        assert_eq!(extent_data_ref_hash(256, 318, 65536_u64.wrapping_neg()), 0x0dea_30de_6835_fbb3);
        assert_eq!(extent_data_ref_hash(5, 258, 0), 0x0dfb_591f_bbf5_f519);
    }
}
