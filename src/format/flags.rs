//! Sets of bits. Unknown bits are kept, so that a set is written back as it was read.

use bitflags::bitflags;

macro_rules! flag_sets {
    ($($(#[$doc:meta])* $name:ident { $($flag:ident = $value:expr),* $(,)? })*) => {$(
        bitflags! {
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
            pub struct $name: u64 {
                $(#[expect(missing_docs, reason = "the names are the kernel's")] const $flag = $value;)*
            }
        }
    )*};
}

flag_sets! {
    /// Superblock `flags`.
    SuperFlags {
        WRITTEN = 1 << 0,
        RELOC = 1 << 1,
        ERROR = 1 << 2,
        SEEDING = 1 << 32,
        METADUMP = 1 << 33,
        METADUMP_V2 = 1 << 34,
        CHANGING_FSID = 1 << 35,
        CHANGING_FSID_V2 = 1 << 36,
        CHANGING_BG_TREE = 1 << 38,
        CHANGING_DATA_CSUM = 1 << 39,
        CHANGING_META_CSUM = 1 << 40,
    }
    /// Superblock `incompat_flags`: with an unknown one the filesystem must not even be read.
    Incompat {
        MIXED_BACKREF = 1 << 0,
        DEFAULT_SUBVOL = 1 << 1,
        MIXED_GROUPS = 1 << 2,
        COMPRESS_LZO = 1 << 3,
        COMPRESS_ZSTD = 1 << 4,
        BIG_METADATA = 1 << 5,
        EXTENDED_IREF = 1 << 6,
        RAID56 = 1 << 7,
        SKINNY_METADATA = 1 << 8,
        NO_HOLES = 1 << 9,
        METADATA_UUID = 1 << 10,
        RAID1C34 = 1 << 11,
        ZONED = 1 << 12,
        EXTENT_TREE_V2 = 1 << 13,
        RAID_STRIPE_TREE = 1 << 14,
        SIMPLE_QUOTA = 1 << 16,
        REMAP_TREE = 1 << 17,
    }
    /// Superblock `compat_ro_flags`: with an unknown one the filesystem may be read, not written.
    CompatRo {
        FREE_SPACE_TREE = 1 << 0,
        FREE_SPACE_TREE_VALID = 1 << 1,
        VERITY = 1 << 2,
        BLOCK_GROUP_TREE = 1 << 3,
    }
    /// Type and profile of a chunk and of its block group.
    BlockGroupFlags {
        DATA = 1 << 0,
        SYSTEM = 1 << 1,
        METADATA = 1 << 2,
        RAID0 = 1 << 3,
        RAID1 = 1 << 4,
        DUP = 1 << 5,
        RAID10 = 1 << 6,
        RAID5 = 1 << 7,
        RAID6 = 1 << 8,
        RAID1C3 = 1 << 9,
        RAID1C4 = 1 << 10,
        REMAPPED = 1 << 11,
        METADATA_REMAP = 1 << 12,
    }
    /// Flags of a tree block's header, without the backref revision in its top byte.
    BlockFlags {
        WRITTEN = 1 << 0,
        RELOC = 1 << 1,
    }
    /// Flags of an extent item.
    ExtentFlags {
        DATA = 1 << 0,
        TREE_BLOCK = 1 << 1,
        FULL_BACKREF = 1 << 8,
    }
    /// Flags of a root item.
    RootFlags {
        RDONLY = 1 << 0,
        DEAD = 1 << 48,
    }
    /// Flags of an inode item.
    InodeFlags {
        NODATASUM = 1 << 0,
        NODATACOW = 1 << 1,
        READONLY = 1 << 2,
        NOCOMPRESS = 1 << 3,
        PREALLOC = 1 << 4,
        SYNC = 1 << 5,
        IMMUTABLE = 1 << 6,
        APPEND = 1 << 7,
        NODUMP = 1 << 8,
        NOATIME = 1 << 9,
        DIRSYNC = 1 << 10,
        COMPRESS = 1 << 11,
        ROOT_ITEM_INIT = 1 << 31,
        VERITY = 1 << 32,
    }
}

impl BlockGroupFlags {
    /// All bits that name a profile; none set means `single`.
    pub const PROFILES: Self = Self::RAID0
        .union(Self::RAID1)
        .union(Self::DUP)
        .union(Self::RAID10)
        .union(Self::RAID5)
        .union(Self::RAID6)
        .union(Self::RAID1C3)
        .union(Self::RAID1C4);

    /// The name of the profile, as in `btrfs filesystem df`.
    pub fn profile_name(self) -> &'static str {
        const NAMES: [(BlockGroupFlags, &str); 8] = [
            (BlockGroupFlags::RAID0, "RAID0"),
            (BlockGroupFlags::RAID1, "RAID1"),
            (BlockGroupFlags::DUP, "DUP"),
            (BlockGroupFlags::RAID10, "RAID10"),
            (BlockGroupFlags::RAID5, "RAID5"),
            (BlockGroupFlags::RAID6, "RAID6"),
            (BlockGroupFlags::RAID1C3, "RAID1C3"),
            (BlockGroupFlags::RAID1C4, "RAID1C4"),
        ];
        NAMES.iter().find(|(flag, _)| self.contains(*flag)).map_or("single", |(_, name)| name)
    }
}
