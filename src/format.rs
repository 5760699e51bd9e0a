//! The on-disk format: bytes to types and back.
//!
//! Everything Btrfs writes is little-endian and packed; the structures here are views of those bytes. This room does
//! no I/O and knows nothing of where its bytes came from: a broken rule is a [`Damage`], to which the caller adds the
//! place. Field names are the kernel's. Start with [`Key`], [`Superblock`] and [`Node`].
#![warn(clippy::arithmetic_side_effects)]

mod address;
mod checksum;
mod damage;
mod flags;
mod hash;
mod item;
mod key;
mod node;
mod ranges;
mod superblock;

pub use address::{Logical, Physical, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE};
pub use checksum::{CHECKSUM_MAX, ChecksumKind};
pub use damage::Damage;
pub use flags::{
    BlockFlags, BlockGroupFlags, CompatRo, ExtentFlags, Incompat, InodeFlags, RootFlags, SuperFlags,
};
pub use hash::{extent_data_ref_hash, extref_hash, name_hash};
pub use item::*;
pub use key::{Key, KeyKind, RawKey, tree_id};
pub use node::{HEADER_SIZE, Header, ITEM_SIZE, KEY_PTR_SIZE, KeyPtr, LEVELS, Node, NodeWriter};
pub use ranges::RangeSet;
pub use superblock::{BACKUP_ROOTS, BackupRoot, MAGIC, Superblock};

/// Longest stretch of file contents that one compressed extent may hold, and the most it may take on disk, in bytes.
pub const COMPRESSED_EXTENT_MAX: u64 = 128 << 10;

/// Longest uncompressed extent, in bytes (a kernel policy, `fs_info->max_extent_size`).
pub const RAW_EXTENT_MAX: u64 = 128 << 20;
