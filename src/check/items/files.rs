//! Items of subvolumes: inodes, names and file extents.

use super::{Limits, require, sized};
use crate::error::Result;
use crate::format::{
    Compression, Damage, DirEntry, FILE_EXTENT_INLINE_HEAD, FileExtent, FileExtentKind, FileKind,
    InodeFlags, InodeItem, Key, KeyKind, dir_entries, extref_hash, inode_extrefs, inode_refs,
    name_hash,
};

/// Longest name in bytes.
const NAME_MAX: usize = 255;
/// Bytes of a file extent item that is not inline.
const REGULAR_SIZE: usize = 53;

pub(super) fn inode(limits: &Limits, key: Key, data: &[u8]) -> Result<(), Damage> {
    sized("inode item", data, size_of::<InodeItem>())?;
    let item = InodeItem::view(data)?;
    require(key.offset == 0, "key offset of an inode item", key.offset)?;
    // The kernel's limit: an inode of the log may have been made after the last commit.
    let newest = limits.newest.saturating_add(1);
    require(item.generation.get() <= newest, "generation of an inode", item.generation.get())?;
    require(item.transid.get() <= newest, "transid of an inode", item.transid.get())?;
    let mode = item.mode.get();
    require(FileKind::of_mode(mode).is_some() && mode >> 16 == 0, "mode of an inode", mode.into())?;
    let nlink = item.nlink.get();
    require(!item.is_dir() || nlink <= 1, "nlink of a directory", nlink.into())?;
    let flags = item.inode_flags();
    let is_known = InodeFlags::all().contains(flags);
    // Nothing can set these for a symbolic link, nor take them away.
    let is_pinned = flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND);
    require(is_known && !(is_pinned && item.is_symlink()), "flags of an inode", flags.bits())
}

fn name(name: &[u8]) -> Result<(), Damage> {
    require((1..=NAME_MAX).contains(&name.len()), "length of a name", name.len() as u64)
}

pub(super) fn names(key: Key, data: &[u8]) -> Result<(), Damage> {
    require(!data.is_empty(), "number of names in an inode reference", 0)?;
    for found in inode_refs(key.offset, data) {
        name(found?.name)?;
    }
    Ok(())
}

pub(super) fn more_names(key: Key, data: &[u8]) -> Result<(), Damage> {
    require(!data.is_empty(), "number of names in an extended inode reference", 0)?;
    for found in inode_extrefs(data) {
        let found = found?;
        name(found.name)?;
        let hash = extref_hash(found.parent, found.name);
        require(key.offset == hash, "hash of a parent and a name", hash)?;
    }
    Ok(())
}

pub(super) fn attributes(key: Key, data: &[u8]) -> Result<(), Damage> {
    require(!data.is_empty(), "number of attributes in an item", 0)?;
    for entry in dir_entries(data) {
        let entry = entry?;
        name(entry.name)?;
        require(entry.kind == FileKind::XATTR, "type of an attribute", entry.kind.0.into())?;
        let hash = name_hash(entry.name);
        require(key.offset == hash, "hash of an attribute's name", hash)?;
    }
    no_name_twice(data)
}

pub(super) fn entries(key: Key, data: &[u8]) -> Result<(), Damage> {
    let mut count = 0;
    for entry in dir_entries(data) {
        directory_entry(key, &entry?)?;
        count += 1;
    }
    if key.kind == KeyKind::DIR_INDEX {
        return require(count == 1, "number of names in a directory index", count);
    }
    require(count > 0, "number of names in a directory item", count)?;
    no_name_twice(data)
}

fn directory_entry(key: Key, entry: &DirEntry<'_>) -> Result<(), Damage> {
    name(entry.name)?;
    let kind = entry.kind;
    let is_kind = (FileKind::REGULAR.0..FileKind::XATTR.0).contains(&kind.0);
    require(is_kind, "type of a directory entry", kind.0.into())?;
    require(entry.data.is_empty(), "data of a directory entry", entry.data.len() as u64)?;
    match entry.location.kind {
        KeyKind::INODE_ITEM => {
            require(entry.location.offset == 0, "target of a name", entry.location.offset)?;
        }
        KeyKind::ROOT_ITEM => require(kind == FileKind::DIRECTORY, "type", kind.0.into())?,
        KeyKind(other) => return require(false, "kind of a name's target", other.into()),
    }
    if key.kind == KeyKind::DIR_ITEM {
        let hash = name_hash(entry.name);
        return require(key.offset == hash, "hash of a name", hash);
    }
    Ok(())
}

/// Names of one hash share an item, but no two are the same.
fn no_name_twice(data: &[u8]) -> Result<(), Damage> {
    let mut names: Vec<&[u8]> = dir_entries(data).flatten().map(|entry| entry.name).collect();
    names.sort_unstable();
    let twice = names.windows(2).any(|pair| pair[0] == pair[1]);
    require(!twice, "number of the same name", 2)
}

pub(super) fn extent(limits: &Limits, key: Key, data: &[u8]) -> Result<(), Damage> {
    let (extent, payload) = FileExtent::parse(data)?;
    require(limits.is_aligned(key.offset), "file offset", key.offset)?;
    let compression = extent.compression;
    require(compression <= Compression::ZSTD, "compression", compression.0.into())?;
    require(extent.encryption == 0, "encryption", extent.encryption.into())?;
    require(extent.other_encoding == 0, "other_encoding", extent.other_encoding.into())?;
    if extent.kind == FileExtentKind::Inline {
        require(key.offset == 0, "file offset of an inline extent", key.offset)?;
        let is_plain = compression == Compression::NONE;
        let size = (FILE_EXTENT_INLINE_HEAD as u64).saturating_add(extent.ram_bytes);
        require(!is_plain || data.len() as u64 == size, "ram_bytes", extent.ram_bytes)?;
        require(!payload.is_empty(), "length of an inline extent", 0)?;
        return require(extent.ram_bytes <= limits.sector, "ram_bytes", extent.ram_bytes);
    }
    sized("file extent item", data, REGULAR_SIZE)?;
    let place = extent.place;
    let numbers = [
        ("ram_bytes", extent.ram_bytes),
        ("disk_bytenr", place.disk_bytenr),
        ("disk_num_bytes", place.disk_num_bytes),
        ("offset in the extent", place.offset),
        ("num_bytes", place.num_bytes),
    ];
    for (what, found) in numbers {
        require(limits.is_aligned(found), what, found)?;
    }
    let is_prealloc = extent.kind == FileExtentKind::Prealloc;
    let is_plain = compression == Compression::NONE;
    require(!is_prealloc || is_plain, "compression of a preallocated extent", compression.0.into())
}
