//! Devices.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::Damage;
use super::view_exact;

/// `btrfs_dev_item`: a device of the filesystem.
///
/// * Tree: chunk tree; each device's own also in its superblock.
/// * Key: `(1 DEV_ITEM devid)`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DevItem {
    /// The device's number.
    pub devid: U64,
    /// Its size in bytes, as far as the filesystem uses it.
    pub total_bytes: U64,
    /// Bytes that chunks take on it.
    pub bytes_used: U64,
    /// Not used.
    pub io_align: U32,
    /// Not used.
    pub io_width: U32,
    /// The sector size.
    pub sector_size: U32,
    /// Not used.
    pub kind: U64,
    /// 0, but for sprouts of a seed.
    pub generation: U64,
    /// Not used.
    pub start_offset: U64,
    /// Not used.
    pub dev_group: U32,
    /// Not used.
    pub seek_speed: u8,
    /// Not used.
    pub bandwidth: u8,
    /// The device's UUID.
    pub uuid: [u8; 16],
    /// The filesystem's metadata UUID; another one marks a seed.
    pub fsid: [u8; 16],
}
const _: () = assert!(size_of::<DevItem>() == 98);

impl DevItem {
    /// Views an item's data.
    pub fn view(data: &[u8]) -> Result<&Self, Damage> {
        view_exact("device item", data)
    }
}

/// `btrfs_dev_extent`: a range of a device that belongs to a chunk.
///
/// * Tree: device tree.
/// * Key: `(devid DEV_EXTENT physical)`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DevExtent {
    /// Always 3.
    pub chunk_tree: U64,
    /// Always 256.
    pub chunk_objectid: U64,
    /// Logical address of the chunk.
    pub chunk_offset: U64,
    /// Bytes on the device.
    pub length: U64,
    /// UUID of the chunk tree.
    pub chunk_tree_uuid: [u8; 16],
}
const _: () = assert!(size_of::<DevExtent>() == 48);

impl DevExtent {
    /// Views an item's data.
    pub fn view(data: &[u8]) -> Result<&Self, Damage> {
        view_exact("device extent", data)
    }
}
