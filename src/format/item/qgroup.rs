//! Quota groups.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::Damage;
use super::view;

/// `btrfs_qgroup_status_item`, without the generation that only simple quotas append.
///
/// * Tree: quota tree.
/// * Key: `(0 QGROUP_STATUS 0)`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct QgroupStatus {
    /// Always 1.
    pub version: U64,
    /// Transaction up to which the counters hold.
    pub generation: U64,
    /// On 1, rescan 2, inconsistent 4, simple 8.
    pub flags: U64,
    /// Where a rescan stands.
    pub rescan: U64,
}
const _: () = assert!(size_of::<QgroupStatus>() == 32);

impl QgroupStatus {
    /// Quotas are on.
    pub const ON: u64 = 1;
    /// The kernel counts everything anew, or would have to.
    pub const RESCAN_INCONSISTENT: u64 = 2 | 4;
    /// Simple quotas: what is allocated is charged to who allocated it, and who shares it is not.
    const SIMPLE: u64 = 8;

    /// The transaction since which simple quotas count, or `None` if quotas are of the other kind or off. `rest` is what
    /// follows the head.
    pub fn simple_since(&self, rest: &[u8]) -> Result<Option<u64>, Damage> {
        let simple_on = Self::ON | Self::SIMPLE;
        if self.flags.get() & simple_on != simple_on {
            return Ok(None);
        }
        let (since, _) = view::<U64>("start of simple quotas", rest)?;
        Ok(Some(since.get()))
    }

    /// Views the head of an item's data; also gives what follows it.
    pub fn view(data: &[u8]) -> Result<(&Self, &[u8]), Damage> {
        view("quota status", data)
    }
}

/// `btrfs_qgroup_info_item`: what a quota group uses, in bytes.
///
/// * Tree: quota tree.
/// * Key: `(0 QGROUP_INFO qgroupid)`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are the kernel's")]
pub struct QgroupInfo {
    pub generation: U64,
    pub rfer: U64,
    pub rfer_cmpr: U64,
    pub excl: U64,
    pub excl_cmpr: U64,
}
const _: () = assert!(size_of::<QgroupInfo>() == 40);

impl QgroupInfo {
    /// Views an item's data.
    pub fn view(data: &[u8]) -> Result<&Self, Damage> {
        view("quota info", data).map(|(item, _)| item)
    }
}

/// The level of a quota group: 0 for that of a subvolume, which has its number.
pub const fn qgroup_level(qgroup: u64) -> u64 {
    qgroup >> 48
}
