//! Chunks.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::{BlockGroupFlags, Damage};
use super::view;

/// `btrfs_chunk`: how a range of logical addresses lies on devices; the stripes follow it.
///
/// * Tree: chunk tree; system chunks also in the superblock.
/// * Key: `(256 CHUNK_ITEM logical)`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ChunkItem {
    /// Bytes of logical space.
    pub length: U64,
    /// Always 2.
    pub owner: U64,
    /// Always 65536.
    pub stripe_len: U64,
    /// [`BlockGroupFlags`].
    pub flags: U64,
    /// Not used.
    pub io_align: U32,
    /// Not used.
    pub io_width: U32,
    /// The sector size.
    pub sector_size: U32,
    /// Stripes that follow.
    pub num_stripes: U16,
    /// Copies in RAID10.
    pub sub_stripes: U16,
}
const _: () = assert!(size_of::<ChunkItem>() == 48);

/// `btrfs_stripe`: one device's part of a chunk.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Stripe {
    /// The device.
    pub devid: U64,
    /// Byte on the device where the part starts.
    pub offset: U64,
    /// The device's UUID.
    pub dev_uuid: [u8; 16],
}
const _: () = assert!(size_of::<Stripe>() == 32);

impl ChunkItem {
    /// Views a chunk and its stripes at the start of `data`; also gives what follows them.
    pub fn view(data: &[u8]) -> Result<(&Self, &[Stripe], &[u8]), Damage> {
        let (chunk, rest) = view::<Self>("chunk item", data)?;
        let count = usize::from(chunk.num_stripes.get());
        let (stripes, rest) =
            <[Stripe]>::ref_from_prefix_with_elems(rest, count).map_err(|_| Damage::TooShort {
                what: "chunk stripes",
                found: rest.len(),
                expected: count.saturating_mul(size_of::<Stripe>()),
            })?;
        Ok((chunk, stripes, rest))
    }

    /// Type and profile.
    pub fn group_flags(&self) -> BlockGroupFlags {
        BlockGroupFlags::from_bits_retain(self.flags.get())
    }
}
