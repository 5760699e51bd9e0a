//! Block groups and their free space.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::{BlockGroupFlags, Damage};
use super::view_exact;

/// `btrfs_block_group_item`: how much of a chunk is in use.
///
/// * Tree: extent tree, or the block group tree if there is one.
/// * Key: `(logical BLOCK_GROUP_ITEM length)`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockGroupItem {
    /// Bytes that extents and tree blocks in it take.
    pub used: U64,
    /// Always 256.
    pub chunk_objectid: U64,
    /// [`BlockGroupFlags`], as the chunk has them.
    pub flags: U64,
}
const _: () = assert!(size_of::<BlockGroupItem>() == 24);

impl BlockGroupItem {
    /// Views an item's data.
    pub fn view(data: &[u8]) -> Result<&Self, Damage> {
        view_exact("block group item", data)
    }

    /// Type and profile.
    pub fn group_flags(&self) -> BlockGroupFlags {
        BlockGroupFlags::from_bits_retain(self.flags.get())
    }
}

/// `btrfs_free_space_info`: how the free space of a block group is recorded.
///
/// * Tree: free space tree.
/// * Key: `(start FREE_SPACE_INFO length)` of the block group.
/// * Surprise: ranges that superblocks occupy count as free.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FreeSpaceInfo {
    /// Number of free runs, as long as they can be, also where bitmaps record them.
    pub extent_count: U32,
    /// Bit 0: bitmaps are used.
    pub flags: U32,
}
const _: () = assert!(size_of::<FreeSpaceInfo>() == 8);

impl FreeSpaceInfo {
    /// Views an item's data.
    pub fn view(data: &[u8]) -> Result<&Self, Damage> {
        view_exact("free space info", data)
    }

    /// Whether bitmaps stand in place of one item a free run.
    pub fn uses_bitmaps(&self) -> bool {
        self.flags.get() & 1 != 0
    }
}
