//! Keys: where an item stands in its tree.

use std::fmt;
use std::ops::RangeInclusive;

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Kind of an item. Open: an unknown number is kept, shown and skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyKind(pub u8);

macro_rules! kinds {
    ($($name:ident = $value:literal),* $(,)?) => {
        #[expect(missing_docs, reason = "the names are the kernel's, each item's structure explains them")]
        impl KeyKind { $(pub const $name: Self = Self($value);)* }

        impl fmt::Display for KeyKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($value => f.write_str(stringify!($name)),)*
                    unknown => write!(f, "UNKNOWN.{unknown}"),
                }
            }
        }
    };
}

kinds! {
    INODE_ITEM = 1,
    INODE_REF = 12,
    INODE_EXTREF = 13,
    XATTR_ITEM = 24,
    VERITY_DESC_ITEM = 36,
    VERITY_MERKLE_ITEM = 37,
    ORPHAN_ITEM = 48,
    DIR_ITEM = 84,
    DIR_INDEX = 96,
    EXTENT_DATA = 108,
    EXTENT_CSUM = 128,
    ROOT_ITEM = 132,
    ROOT_BACKREF = 144,
    ROOT_REF = 156,
    EXTENT_ITEM = 168,
    METADATA_ITEM = 169,
    EXTENT_OWNER_REF = 172,
    TREE_BLOCK_REF = 176,
    EXTENT_DATA_REF = 178,
    SHARED_BLOCK_REF = 182,
    SHARED_DATA_REF = 184,
    BLOCK_GROUP_ITEM = 192,
    FREE_SPACE_INFO = 198,
    FREE_SPACE_EXTENT = 199,
    FREE_SPACE_BITMAP = 200,
    DEV_EXTENT = 204,
    DEV_ITEM = 216,
    CHUNK_ITEM = 228,
    RAID_STRIPE = 230,
    QGROUP_STATUS = 240,
    QGROUP_INFO = 242,
    QGROUP_LIMIT = 244,
    QGROUP_RELATION = 246,
    TEMPORARY_ITEM = 248,
    PERSISTENT_ITEM = 249,
    DEV_REPLACE = 250,
    UUID_SUBVOL = 251,
    UUID_RECEIVED_SUBVOL = 252,
    STRING_ITEM = 253,
}

/// Numbers of the trees and of the objects in the tree of trees (`include/uapi/linux/btrfs_tree.h`).
#[expect(missing_docs, reason = "the names are the kernel's")]
pub mod tree_id {
    pub const ROOT: u64 = 1;
    pub const EXTENT: u64 = 2;
    pub const CHUNK: u64 = 3;
    pub const DEV: u64 = 4;
    /// The top-level subvolume.
    pub const FS: u64 = 5;
    pub const ROOT_DIR: u64 = 6;
    pub const CSUM: u64 = 7;
    pub const QUOTA: u64 = 8;
    pub const UUID: u64 = 9;
    pub const FREE_SPACE: u64 = 10;
    pub const BLOCK_GROUP: u64 = 11;
    pub const RAID_STRIPE: u64 = 12;
    pub const REMAP: u64 = 13;
    pub const BALANCE: u64 = 4_u64.wrapping_neg();
    pub const ORPHAN: u64 = 5_u64.wrapping_neg();
    pub const TREE_LOG: u64 = 6_u64.wrapping_neg();
    pub const TREE_RELOC: u64 = 8_u64.wrapping_neg();
    pub const DATA_RELOC: u64 = 9_u64.wrapping_neg();
    pub const EXTENT_CSUM: u64 = 10_u64.wrapping_neg();
    pub const FREE_SPACE_OBJECT: u64 = 11_u64.wrapping_neg();
    /// First number that a subvolume, and an inode, can have.
    pub const FIRST_FREE: u64 = 256;
    /// Last number that a subvolume, and an inode, can have.
    pub const LAST_FREE: u64 = 256_u64.wrapping_neg();

    /// Whether `tree` holds files and can have snapshots: the top level or a subvolume.
    pub const fn is_subvolume(tree: u64) -> bool {
        tree == FS || (tree >= FIRST_FREE && tree >> 48 == 0)
    }
}

/// Where an item stands in its tree. Fields are in sort order, so `Ord` can be derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What the item is about: an inode, a tree, a byte address, by tree and kind.
    pub objectid: u64,
    /// What sort of item it is.
    pub kind: KeyKind,
    /// A third number, whose meaning depends on the kind.
    pub offset: u64,
}

impl Key {
    /// The smallest of all keys.
    pub const MIN: Self = Self::new(0, KeyKind(0), 0);
    /// The largest of all keys.
    pub const MAX: Self = Self::new(u64::MAX, KeyKind(u8::MAX), u64::MAX);

    /// A key of three numbers.
    pub const fn new(objectid: u64, kind: KeyKind, offset: u64) -> Self {
        Self { objectid, kind, offset }
    }

    /// Keys of all that a tree says about `objectid`.
    pub const fn all_of(objectid: u64) -> RangeInclusive<Self> {
        Self::new(objectid, KeyKind(0), 0)..=Self::new(objectid, KeyKind(u8::MAX), u64::MAX)
    }

    /// Keys of all items of one kind about `objectid`.
    pub const fn all_of_kind(objectid: u64, kind: KeyKind) -> RangeInclusive<Self> {
        Self::new(objectid, kind, 0)..=Self::new(objectid, kind, u64::MAX)
    }

    /// The next key in sort order; `None` after the last one.
    pub const fn next(self) -> Option<Self> {
        let Self { objectid, kind, offset } = self;
        if let Some(offset) = offset.checked_add(1) {
            return Some(Self { objectid, kind, offset });
        }
        if let Some(kind) = kind.0.checked_add(1) {
            return Some(Self::new(objectid, KeyKind(kind), 0));
        }
        match objectid.checked_add(1) {
            Some(objectid) => Some(Self::new(objectid, KeyKind(0), 0)),
            None => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} {} {})", self.objectid, self.kind, self.offset)
    }
}

/// `btrfs_disk_key`: a [`Key`] as it is on disk.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RawKey {
    /// See [`Key::objectid`].
    pub objectid: U64,
    /// See [`Key::kind`].
    pub kind: u8,
    /// See [`Key::offset`].
    pub offset: U64,
}
const _: () = assert!(size_of::<RawKey>() == 17);

impl From<RawKey> for Key {
    fn from(raw: RawKey) -> Self {
        Self::new(raw.objectid.get(), KeyKind(raw.kind), raw.offset.get())
    }
}

impl From<Key> for RawKey {
    fn from(key: Key) -> Self {
        Self { objectid: key.objectid.into(), kind: key.kind.0, offset: key.offset.into() }
    }
}
