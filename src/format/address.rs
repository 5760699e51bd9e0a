//! The two address spaces.

use std::fmt;

/// A byte address in the filesystem's own space, which chunks map onto devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Logical(pub u64);

impl fmt::Display for Logical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A byte address on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Physical {
    /// The device's number within the filesystem.
    pub devid: u64,
    /// Bytes from the start of the device.
    pub byte: u64,
}

/// Where the copies of the superblock are on each device. The first is the one that counts.
pub const SUPERBLOCK_OFFSETS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];

/// Size of a superblock in bytes.
pub const SUPERBLOCK_SIZE: usize = 4096;
