//! The superblock.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::item::DevItem;
use super::{ChecksumKind, CompatRo, Damage, Incompat, SUPERBLOCK_SIZE, SuperFlags};

/// What a Btrfs superblock has at byte 64.
pub const MAGIC: [u8; 8] = *b"_BHRfS_M";
/// Number of slots for older roots.
pub const BACKUP_ROOTS: usize = 4;

/// Bytes that the system chunks may take in a superblock.
const SYS_CHUNK_ARRAY_SIZE: usize = 2048;

/// `btrfs_root_backup`: where the trees were at an earlier commit.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(
    missing_docs,
    reason = "the names are the kernel's: addresses and generations of root blocks"
)]
pub struct BackupRoot {
    pub tree_root: U64,
    pub tree_root_gen: U64,
    pub chunk_root: U64,
    pub chunk_root_gen: U64,
    pub extent_root: U64,
    pub extent_root_gen: U64,
    pub fs_root: U64,
    pub fs_root_gen: U64,
    pub dev_root: U64,
    pub dev_root_gen: U64,
    pub csum_root: U64,
    pub csum_root_gen: U64,
    pub total_bytes: U64,
    pub bytes_used: U64,
    pub num_devices: U64,
    pub unused: [U64; 4],
    pub tree_root_level: u8,
    pub chunk_root_level: u8,
    pub extent_root_level: u8,
    pub fs_root_level: u8,
    pub dev_root_level: u8,
    pub csum_root_level: u8,
    pub unused_8: [u8; 10],
}
const _: () = assert!(size_of::<BackupRoot>() == 168);

/// `btrfs_super_block`: where everything starts. One per device, with copies.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// Checksum of all that follows.
    pub csum: [u8; 32],
    /// UUID that users see.
    pub fsid: [u8; 16],
    /// Byte on the device where this copy is.
    pub bytenr: U64,
    /// [`SuperFlags`].
    pub flags: U64,
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// Transaction of this commit.
    pub generation: U64,
    /// Logical address of the tree of trees.
    pub root: U64,
    /// Logical address of the chunk tree.
    pub chunk_root: U64,
    /// Logical address of the log tree; 0 when the last commit was a full one.
    pub log_root: U64,
    /// Not used.
    pub log_root_transid: U64,
    /// Bytes of all devices.
    pub total_bytes: U64,
    /// Bytes that extents and tree blocks take, each counted once.
    pub bytes_used: U64,
    /// Always 6.
    pub root_dir_objectid: U64,
    /// Devices that belong to the filesystem.
    pub num_devices: U64,
    /// Smallest unit of data, in bytes.
    pub sectorsize: U32,
    /// Size of a tree block, in bytes.
    pub nodesize: U32,
    /// Equals `nodesize`.
    pub leafsize: U32,
    /// Not used.
    pub stripesize: U32,
    /// Bytes of `sys_chunk_array` in use.
    pub sys_chunk_array_size: U32,
    /// Generation of the chunk tree's root block.
    pub chunk_root_generation: U64,
    /// No bit is defined.
    pub compat_flags: U64,
    /// [`CompatRo`].
    pub compat_ro_flags: U64,
    /// [`Incompat`].
    pub incompat_flags: U64,
    /// [`ChecksumKind`].
    pub csum_type: U16,
    /// Level of the tree of trees.
    pub root_level: u8,
    /// Level of the chunk tree.
    pub chunk_root_level: u8,
    /// Level of the log tree.
    pub log_root_level: u8,
    /// The device that holds this superblock.
    pub dev_item: DevItem,
    /// Name that the user gave, ended by a zero.
    pub label: [u8; 256],
    /// The old space cache is valid when this equals `generation`.
    pub cache_generation: U64,
    /// The UUID tree is complete when this equals `generation`.
    pub uuid_tree_generation: U64,
    /// UUID in tree blocks, if [`Incompat::METADATA_UUID`] is set.
    pub metadata_uuid: [u8; 16],
    /// Only for extent tree v2.
    pub nr_global_roots: U64,
    /// Kept as read.
    pub reserved: [u8; 216],
    /// The system chunks: a disk key and a chunk item each.
    pub sys_chunk_array: [u8; SYS_CHUNK_ARRAY_SIZE],
    /// Where the trees were at the last four commits.
    pub super_roots: [BackupRoot; BACKUP_ROOTS],
    /// Zeros.
    pub padding: [u8; 565],
}
const _: () = assert!(size_of::<Superblock>() == SUPERBLOCK_SIZE);

impl Superblock {
    /// Reads the copy that stands at byte `at` of a device and checks what can be checked without the trees.
    pub fn parse(bytes: &[u8; SUPERBLOCK_SIZE], at: u64) -> Result<Self, Damage> {
        let sb: Self = zerocopy::transmute!(*bytes);
        if sb.magic != MAGIC {
            return Err(Damage::Magic);
        }
        if sb.checksum_kind()?.of(&bytes[32..]) != sb.csum {
            return Err(Damage::Checksum);
        }
        let check = |good: bool, field: &'static str, found: u64| {
            if good { Ok(()) } else { Err(Damage::SuperblockField { field, found }) }
        };
        let (sector, node) = (sb.sectorsize.get(), sb.nodesize.get());
        check(sb.bytenr.get() == at, "bytenr", sb.bytenr.get())?;
        let size_range = 4096..=65536;
        check(
            sector.is_power_of_two() && size_range.contains(&sector),
            "sectorsize",
            sector.into(),
        )?;
        check(
            node.is_power_of_two() && size_range.contains(&node) && node >= sector,
            "nodesize",
            node.into(),
        )?;
        check(sb.leafsize.get() == node, "leafsize", sb.leafsize.get().into())?;
        for (field, level) in [
            ("root_level", sb.root_level),
            ("chunk_root_level", sb.chunk_root_level),
            ("log_root_level", sb.log_root_level),
        ] {
            check(level < 8, field, level.into())?;
        }
        let aligned = |at: u64| at & u64::from(sector.saturating_sub(1)) == 0;
        check(aligned(sb.root.get()), "root", sb.root.get())?;
        check(aligned(sb.chunk_root.get()), "chunk_root", sb.chunk_root.get())?;
        check(sb.num_devices.get() != 0, "num_devices", 0)?;
        let array = sb.sys_chunk_array_size.get();
        let array_range = 97..=SYS_CHUNK_ARRAY_SIZE as u32;
        check(array_range.contains(&array), "sys_chunk_array_size", array.into())?;
        Ok(sb)
    }

    /// Its bytes as copy for byte `at`, with the right checksum.
    pub fn to_bytes(&self, at: u64) -> Result<[u8; SUPERBLOCK_SIZE], Damage> {
        let mut copy = *self;
        copy.bytenr = at.into();
        copy.csum = self.checksum_kind()?.of(&copy.as_bytes()[32..]);
        Ok(zerocopy::transmute!(copy))
    }

    /// Checksum that the filesystem uses.
    pub const fn checksum_kind(&self) -> Result<ChecksumKind, Damage> {
        ChecksumKind::parse(self.csum_type.get())
    }

    /// Its flags.
    pub fn super_flags(&self) -> SuperFlags {
        SuperFlags::from_bits_retain(self.flags.get())
    }

    /// Features without which the filesystem must not be read.
    pub fn incompat(&self) -> Incompat {
        Incompat::from_bits_retain(self.incompat_flags.get())
    }

    /// Features without which the filesystem must not be written.
    pub fn compat_ro(&self) -> CompatRo {
        CompatRo::from_bits_retain(self.compat_ro_flags.get())
    }

    /// The UUID that tree blocks and devices carry.
    pub fn metadata_fsid(&self) -> [u8; 16] {
        if self.incompat().contains(Incompat::METADATA_UUID) {
            self.metadata_uuid
        } else {
            self.fsid
        }
    }

    /// The label's bytes, up to the zero that ends it.
    pub fn label_bytes(&self) -> &[u8] {
        self.label.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The system chunks as read.
    pub fn sys_chunks(&self) -> &[u8] {
        let size = self.sys_chunk_array_size.get() as usize;
        self.sys_chunk_array.get(..size).unwrap_or(&self.sys_chunk_array)
    }
}
