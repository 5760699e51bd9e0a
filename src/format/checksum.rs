//! The four checksum algorithms.

use blake2::Blake2b;
use blake2::digest::consts::U32;
use sha2::Digest;
use sha2::Sha256;

use super::Damage;

/// Size of the checksum field of superblocks and tree blocks, in bytes.
pub const CHECKSUM_MAX: usize = 32;

/// Which checksum a filesystem uses for its tree blocks, superblocks and data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumKind {
    /// CRC-32C, 4 bytes.
    Crc32c,
    /// XXH64 with seed 0, 8 bytes.
    Xxhash64,
    /// SHA-256, 32 bytes.
    Sha256,
    /// `BLAKE2b` with a digest of 32 bytes.
    Blake2b,
}

impl ChecksumKind {
    /// Reads the superblock's `csum_type`.
    pub const fn parse(csum_type: u16) -> Result<Self, Damage> {
        match csum_type {
            0 => Ok(Self::Crc32c),
            1 => Ok(Self::Xxhash64),
            2 => Ok(Self::Sha256),
            3 => Ok(Self::Blake2b),
            found => Err(Damage::ChecksumKind { found }),
        }
    }

    /// Bytes that one checksum takes in the checksum tree.
    pub const fn size(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Xxhash64 => 8,
            Self::Sha256 | Self::Blake2b => 32,
        }
    }

    /// The checksum of `data` as it is stored: [`size`](Self::size) bytes, then zeros.
    pub fn of(self, data: &[u8]) -> [u8; CHECKSUM_MAX] {
        let mut out = [0; CHECKSUM_MAX];
        match self {
            Self::Crc32c => out[..4].copy_from_slice(&crc32c::crc32c(data).to_le_bytes()),
            Self::Xxhash64 => {
                out[..8].copy_from_slice(&twox_hash::XxHash64::oneshot(0, data).to_le_bytes());
            }
            Self::Sha256 => out.copy_from_slice(&Sha256::digest(data)),
            Self::Blake2b => out.copy_from_slice(&Blake2b::<U32>::digest(data)),
        }
        out
    }

    /// The name that mkfs.btrfs uses for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Xxhash64 => "xxhash64",
            Self::Sha256 => "sha256",
            Self::Blake2b => "blake2b",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that a kernel stored for a sector of zeros.
    #[test]
    fn a_sector_of_zeros_has_the_checksums_that_the_kernel_stores() {
        let hex = |kind: ChecksumKind| {
            let sum = kind.of(&[0; 4096]);
            let digits = sum[..kind.size()].iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<Vec<_>>().concat()
        };
        assert_eq!(hex(ChecksumKind::Crc32c), "8941f998");
        assert_eq!(hex(ChecksumKind::Xxhash64), "dbbbd8326f9b86ac");
        assert_eq!(
            hex(ChecksumKind::Sha256),
            "ad7facb2586fc6e966c004d7d1d16b024f5805ff7cb47c7a85dabd8b48892ca7"
        );
        assert_eq!(
            hex(ChecksumKind::Blake2b),
            "686ede9288c391e7e05026e56f2f91bfd879987a040ea98445dabc76f55b8e5f"
        );
    }
}
