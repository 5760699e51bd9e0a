//! Inodes and their names.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::{Damage, InodeFlags};
use super::view;

/// `btrfs_timespec`: seconds since 1970 (signed) and nanoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
#[expect(missing_docs, reason = "the names speak")]
pub struct Timespec {
    pub sec: zerocopy::little_endian::I64,
    pub nsec: U32,
}
const _: () = assert!(size_of::<Timespec>() == 12);

/// `btrfs_inode_item`.
///
/// * Tree: any subvolume tree.
/// * Key: `(inode INODE_ITEM 0)`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct InodeItem {
    /// Transaction that made the inode.
    pub generation: U64,
    /// Transaction that last changed it.
    pub transid: U64,
    /// Size of the file in bytes.
    pub size: U64,
    /// Bytes that its extents cover, holes left out.
    pub nbytes: U64,
    /// Not used.
    pub block_group: U64,
    /// Number of names.
    pub nlink: U32,
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// Type and permissions, as in `stat`.
    pub mode: U32,
    /// Number of a device file.
    pub rdev: U64,
    /// [`InodeFlags`].
    pub flags: U64,
    /// Change counter for NFS.
    pub sequence: U64,
    /// Zeros.
    pub reserved: [U64; 4],
    /// Last access.
    pub atime: Timespec,
    /// Last change of the inode.
    pub ctime: Timespec,
    /// Last change of the contents.
    pub mtime: Timespec,
    /// Creation.
    pub otime: Timespec,
}
const _: () = assert!(size_of::<InodeItem>() == 160);

/// The bits of `mode` that tell the type, and their values.
const S_IFMT: u32 = 0o170_000;
const S_IFREG: u32 = 0o100_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFLNK: u32 = 0o120_000;

impl InodeItem {
    /// Views an item's data.
    pub fn view(data: &[u8]) -> Result<&Self, Damage> {
        view("inode item", data).map(|(item, _)| item)
    }

    /// Its flags.
    pub fn inode_flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.flags.get())
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode.get() & S_IFMT == S_IFREG
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.mode.get() & S_IFMT == S_IFDIR
    }

    /// Whether it is a symbolic link, whose target is an inline extent.
    pub fn is_symlink(&self) -> bool {
        self.mode.get() & S_IFMT == S_IFLNK
    }
}

/// One name of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeName<'a> {
    /// The directory that has the name.
    pub parent: u64,
    /// The name's sequence number in that directory.
    pub index: u64,
    /// The name.
    pub name: &'a [u8],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInodeRef {
    index: U64,
    name_len: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInodeExtref {
    parent: U64,
    index: U64,
    name_len: U16,
}

/// The names in an `INODE_REF` item, whose key is `(inode INODE_REF parent)`.
pub fn inode_refs(
    parent: u64,
    mut data: &[u8],
) -> impl Iterator<Item = Result<InodeName<'_>, Damage>> {
    std::iter::from_fn(move || {
        (!data.is_empty()).then(|| {
            let (raw, rest) = view::<RawInodeRef>("inode reference", data)?;
            let (name, after) = split_name(rest, raw.name_len.get())?;
            data = after;
            Ok(InodeName { parent, index: raw.index.get(), name })
        })
    })
    .scan(false, stop_after_error)
}

/// The names in an `INODE_EXTREF` item, whose key is `(inode INODE_EXTREF hash)`.
pub fn inode_extrefs(mut data: &[u8]) -> impl Iterator<Item = Result<InodeName<'_>, Damage>> {
    std::iter::from_fn(move || {
        (!data.is_empty()).then(|| {
            let (raw, rest) = view::<RawInodeExtref>("extended inode reference", data)?;
            let (name, after) = split_name(rest, raw.name_len.get())?;
            data = after;
            Ok(InodeName { parent: raw.parent.get(), index: raw.index.get(), name })
        })
    })
    .scan(false, stop_after_error)
}

fn split_name(data: &[u8], len: u16) -> Result<(&[u8], &[u8]), Damage> {
    let expected = usize::from(len);
    data.split_at_checked(expected).ok_or(Damage::TooShort {
        what: "name",
        found: data.len(),
        expected,
    })
}

/// Passes items on up to and including the first error, since what follows a broken record means nothing.
fn stop_after_error<T>(failed: &mut bool, item: Result<T, Damage>) -> Option<Result<T, Damage>> {
    if *failed {
        return None;
    }
    *failed = item.is_err();
    Some(item)
}
