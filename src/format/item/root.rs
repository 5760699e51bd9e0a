//! Trees, as the tree of trees lists them.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::{Damage, RawKey, RootFlags};
use super::{InodeItem, Timespec, view};

/// `btrfs_root_item`: where a tree is, and what is known about a subvolume.
///
/// * Tree: tree of trees.
/// * Key: `(tree ROOT_ITEM 0)`, for a snapshot `(tree ROOT_ITEM transid)`.
/// * Surprise: old filesystems have only the first 239 bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RootItem {
    /// Mostly unused.
    pub inode: InodeItem,
    /// Generation of the root block.
    pub generation: U64,
    /// Inode of the top directory: 256.
    pub root_dirid: U64,
    /// Logical address of the root block.
    pub bytenr: U64,
    /// Not used.
    pub byte_limit: U64,
    /// Bytes of the tree's blocks, roughly.
    pub bytes_used: U64,
    /// Blocks of later generations belong to this tree alone, or so the kernel believes.
    pub last_snapshot: U64,
    /// [`RootFlags`].
    pub flags: U64,
    /// 0 for a subvolume that is being deleted.
    pub refs: U32,
    /// How far a deletion has come.
    pub drop_progress: RawKey,
    /// How far a deletion has come.
    pub drop_level: u8,
    /// Level of the root block.
    pub level: u8,
    /// Equals `generation`; otherwise all that follows is invalid.
    pub generation_v2: U64,
    /// The subvolume's UUID.
    pub uuid: [u8; 16],
    /// UUID of the subvolume that it is a snapshot of.
    pub parent_uuid: [u8; 16],
    /// UUID of the subvolume that was sent.
    pub received_uuid: [u8; 16],
    /// Transaction of the last change of an inode.
    pub ctransid: U64,
    /// Transaction of the creation.
    pub otransid: U64,
    /// Transaction of the sent subvolume.
    pub stransid: U64,
    /// Transaction of the receive.
    pub rtransid: U64,
    /// Last change.
    pub ctime: Timespec,
    /// Creation.
    pub otime: Timespec,
    /// Time of the sent subvolume.
    pub stime: Timespec,
    /// Time of the receive.
    pub rtime: Timespec,
    /// Zeros.
    pub reserved: [U64; 8],
}
const _: () = assert!(size_of::<RootItem>() == 439);

impl RootItem {
    /// Size that root items had before `generation_v2` was added.
    pub const LEGACY_SIZE: usize = 239;

    /// Reads an item's data; what an old, short item lacks is zero.
    pub fn parse(data: &[u8]) -> Result<Self, Damage> {
        if data.len() == Self::LEGACY_SIZE {
            let mut full = [0; size_of::<Self>()];
            full[..Self::LEGACY_SIZE].copy_from_slice(data);
            return Ok(zerocopy::transmute!(full));
        }
        view::<Self>("root item", data).map(|(item, _)| *item)
    }

    /// Its flags.
    pub fn root_flags(&self) -> RootFlags {
        RootFlags::from_bits_retain(self.flags.get())
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRootRef {
    dirid: U64,
    sequence: U64,
    name_len: U16,
}
const _: () = assert!(size_of::<RawRootRef>() == 18);

/// Where a subvolume hangs in its parent.
///
/// * Tree: tree of trees.
/// * Key: `(parent ROOT_REF child)` or `(child ROOT_BACKREF parent)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootRef<'a> {
    /// Directory inode in the parent subvolume.
    pub dirid: u64,
    /// Sequence number of the name in that directory.
    pub sequence: u64,
    /// Name in that directory.
    pub name: &'a [u8],
}

/// Reads the data of a `ROOT_REF` or `ROOT_BACKREF` item.
pub fn root_ref(data: &[u8]) -> Result<RootRef<'_>, Damage> {
    let (raw, rest) = view::<RawRootRef>("root reference", data)?;
    let expected = usize::from(raw.name_len.get());
    let name = rest.get(..expected).ok_or(Damage::TooShort {
        what: "root reference",
        found: rest.len(),
        expected,
    })?;
    Ok(RootRef { dirid: raw.dirid.get(), sequence: raw.sequence.get(), name })
}
