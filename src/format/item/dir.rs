//! Directory entries and extended attributes.

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::{Damage, Key, RawKey};
use super::view;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDirItem {
    location: RawKey,
    transid: U64,
    data_len: U16,
    name_len: U16,
    kind: u8,
}
const _: () = assert!(size_of::<RawDirItem>() == 30);

/// Type of the file that a directory entry names. Open: the kernel has 0 for unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileKind(pub u8);

#[expect(missing_docs, reason = "the names speak")]
impl FileKind {
    pub const REGULAR: Self = Self(1);
    pub const DIRECTORY: Self = Self(2);
    pub const CHAR_DEVICE: Self = Self(3);
    pub const BLOCK_DEVICE: Self = Self(4);
    pub const FIFO: Self = Self(5);
    pub const SOCKET: Self = Self(6);
    pub const SYMLINK: Self = Self(7);
    pub const XATTR: Self = Self(8);
}

impl FileKind {
    /// The type that an inode's mode tells, if it is one.
    pub const fn of_mode(mode: u32) -> Option<Self> {
        match mode & 0o170_000 {
            0o100_000 => Some(Self::REGULAR),
            0o040_000 => Some(Self::DIRECTORY),
            0o020_000 => Some(Self::CHAR_DEVICE),
            0o060_000 => Some(Self::BLOCK_DEVICE),
            0o010_000 => Some(Self::FIFO),
            0o140_000 => Some(Self::SOCKET),
            0o120_000 => Some(Self::SYMLINK),
            _ => None,
        }
    }
}

/// `btrfs_dir_item`: a name in a directory, or an extended attribute.
///
/// * Tree: any subvolume tree; the tree of trees for the default subvolume.
/// * Key: `(directory DIR_ITEM name_hash)`, `(directory DIR_INDEX sequence)` or `(inode XATTR_ITEM name_hash)`.
/// * Surprise: names of one hash share an item; `location` is an inode's or, for a subvolume, a `ROOT_ITEM` key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// What the name leads to.
    pub location: Key,
    /// Its type.
    pub kind: FileKind,
    /// The name, in no particular encoding.
    pub name: &'a [u8],
    /// Value of an extended attribute.
    pub data: &'a [u8],
}

/// The entries in the data of one item.
pub fn dir_entries(mut data: &[u8]) -> impl Iterator<Item = Result<DirEntry<'_>, Damage>> {
    std::iter::from_fn(move || {
        if data.is_empty() {
            return None;
        }
        let entry = parse_entry(data);
        data = entry.as_ref().map_or(&[], |(_, rest)| rest);
        Some(entry.map(|(entry, _)| entry))
    })
}

fn parse_entry(data: &[u8]) -> Result<(DirEntry<'_>, &[u8]), Damage> {
    let (raw, rest) = view::<RawDirItem>("directory entry", data)?;
    let short =
        |expected| Damage::TooShort { what: "directory entry", found: rest.len(), expected };
    let name_len = usize::from(raw.name_len.get());
    let data_len = usize::from(raw.data_len.get());
    let (name, after) = rest.split_at_checked(name_len).ok_or_else(|| short(name_len))?;
    let (value, after) = after.split_at_checked(data_len).ok_or_else(|| short(data_len))?;
    let entry =
        DirEntry { location: raw.location.into(), kind: FileKind(raw.kind), name, data: value };
    Ok((entry, after))
}
