//! The items of the trees, one file a subject.

mod block_group;
mod chunk;
mod dev;
mod dir;
mod extent;
mod file_extent;
mod inode;
mod qgroup;
mod root;

pub use block_group::{BlockGroupItem, FreeSpaceInfo};
pub use chunk::{ChunkItem, Stripe};
pub use dev::{DevExtent, DevItem};
pub use dir::{DirEntry, FileKind, dir_entries};
pub use extent::{ExtentItem, InlineRef, Ref, TreeBlockInfo, inline_refs};
pub use file_extent::{
    Compression, FILE_EXTENT_INLINE_HEAD, FileExtent, FileExtentKind, Placement,
};
pub use inode::{InodeItem, InodeName, Timespec, inode_extrefs, inode_refs};
pub use qgroup::{QgroupInfo, QgroupStatus, qgroup_level};
pub use root::{RootItem, RootRef, root_ref};

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::Damage;

/// Views the start of `data` as a `T`.
pub(crate) fn view<'a, T>(what: &'static str, data: &'a [u8]) -> Result<(&'a T, &'a [u8]), Damage>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    T::ref_from_prefix(data).map_err(|_| Damage::TooShort {
        what,
        found: data.len(),
        expected: size_of::<T>(),
    })
}

/// Views all of `data` as a `T`.
pub(crate) fn view_exact<'a, T>(what: &'static str, data: &'a [u8]) -> Result<&'a T, Damage>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    T::ref_from_bytes(data).map_err(|_| Damage::Size {
        what,
        found: data.len(),
        expected: size_of::<T>(),
    })
}
