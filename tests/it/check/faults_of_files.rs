//! Faults of inodes, names, file extents and subvolumes.

use btrpress::format::{
    FileExtent, FileExtentKind, InodeFlags, InodeItem, Key, KeyKind, inode_refs, name_hash, tree_id,
};

use super::faults::Known::{Both, Harmless, Ours};
use super::faults::{Fault, fault};
use crate::corrupt::surgery::Surgery;

/// The subvolume that holds the files in most fixtures.
const FS: u64 = tree_id::FIRST_FREE;
const TOP: u64 = tree_id::FS;
/// Byte of a field in an inode item.
const TRANSID: usize = 8;
const SIZE: usize = 16;
const NBYTES: usize = 24;
const NLINK: usize = 40;
const MODE: usize = 52;
const FLAGS: usize = 64;
/// Byte of the type in a directory entry.
const KIND: usize = 29;
/// Bytes of fields in a file extent item.
const RAM_BYTES: usize = 8;
const COMPRESSION: usize = 16;
const ENCRYPTION: usize = 17;
const DISK_BYTENR: usize = 21;
const OFFSET: usize = 37;
const NUM_BYTES: usize = 45;

pub(super) const FAULTS: &[Fault] = &[
    fault("links of a file", "plain", Both, "nlink", |s| s.poke(FS, file(s), NLINK, &[9])),
    fault("nbytes of a file", "plain", Both, "nbytes", |s| s.add(FS, file(s), NBYTES, 4096)),
    fault("an inode of the future", "plain", Both, "generation of an inode", |s| {
        s.add(FS, file(s), 0, 1 << 40);
    }),
    fault("a change in the future", "plain", Both, "transid of an inode", |s| {
        s.add(FS, file(s), TRANSID, 1 << 40);
    }),
    fault("a mode that is no type", "plain", Both, "mode of an inode", |s| {
        s.poke(FS, file(s), MODE, &0o170_644_u32.to_le_bytes());
    }),
    fault("flags of an inode", "plain", Ours, "flags of an inode", |s| {
        s.poke(FS, file(s), FLAGS, &(1_u64 << 20).to_le_bytes());
    }),
    fault("a symbolic link that can't be changed", "nodes-4k", Both, "flags of an inode", |s| {
        let is_link = |_: Key, data: &[u8]| InodeItem::view(data).unwrap().is_symlink();
        let (key, _) = s.find(FS, KeyKind::INODE_ITEM, is_link);
        s.poke(FS, key, FLAGS, &InodeFlags::IMMUTABLE.bits().to_le_bytes());
    }),
    fault("size of a directory", "plain", Both, "size of the directory", |s| {
        s.add(FS, directory(s), SIZE, 2);
    }),
    fault("a hard link to a directory", "plain", Both, "nlink of a directory", |s| {
        s.poke(FS, directory(s), NLINK, &[2]);
    }),
    fault("a file without an inode", "plain", Both, "INODE_ITEM 0) is missing", |s| {
        s.remove(FS, file(s));
    }),
    fault("a name that the inode does not know", "plain", Both, "nlink", |s| {
        s.remove(FS, of_file(s, KeyKind::INODE_REF));
    }),
    fault("a name only in the index", "plain", Both, "two lists of the directory", |s| {
        s.remove(FS, entry(s, KeyKind::DIR_ITEM));
    }),
    fault("a name missing from the index", "plain", Both, "two lists of the directory", |s| {
        s.remove(FS, entry(s, KeyKind::DIR_INDEX));
    }),
    fault("a wrong type in one list", "plain", Both, "two lists of the directory", |s| {
        s.poke(FS, entry(s, KeyKind::DIR_INDEX), KIND, &[2]);
    }),
    fault("a wrong type in both lists", "plain", Both, "types in directory entries", |s| {
        s.poke(FS, entry(s, KeyKind::DIR_INDEX), KIND, &[7]);
        s.poke(FS, entry(s, KeyKind::DIR_ITEM), KIND, &[7]);
    }),
    fault("a type that does not exist", "plain", Both, "type of a directory entry", |s| {
        s.poke(FS, entry(s, KeyKind::DIR_INDEX), KIND, &[77]);
    }),
    fault("hash of a name", "plain", Both, "hash of a name", |s| {
        let key = entry(s, KeyKind::DIR_ITEM);
        s.rename(FS, key, Key::new(key.objectid, key.kind, key.offset ^ 1));
    }),
    fault("a name twice", "plain", Ours, "number of the same name", |s| {
        s.item(FS, entry(s, KeyKind::DIR_ITEM), |data| data.extend(data.clone()));
    }),
    fault("number of a name", "plain", Both, "names that inodes say they have", |s| {
        let key = entry(s, KeyKind::DIR_INDEX);
        s.rename(FS, key, Key::new(key.objectid, key.kind, key.offset + (1 << 30)));
    }),
    fault("another spelling in the index", "plain", Both, "two lists of the directory", |s| {
        s.item(FS, entry(s, KeyKind::DIR_INDEX), |data| *data.last_mut().unwrap() ^= 1);
    }),
    fault("hash of an attribute", "names", Ours, "hash of an attribute's name", |s| {
        let key = s.first(TOP, KeyKind::XATTR_ITEM);
        s.rename(TOP, key, Key::new(key.objectid, key.kind, key.offset ^ 1));
    }),
    fault("a kind of item that is not of files", "plain", Ours, "kind of item in this tree", |s| {
        s.insert(FS, Key::new(file(s).objectid, KeyKind(66), 0), vec![]);
    }),
    fault("a deleted file that nobody removes", "plain", Both, "ORPHAN_ITEM", |s| {
        s.poke(FS, file(s), NLINK, &[0]);
    }),
    fault("an extent that is not recorded", "plain", Both, "not recorded", |s| {
        s.add(FS, extent(s, is_regular), DISK_BYTENR, 1 << 40);
    }),
    fault("an extent that is too long", "plain", Both, "", |s| {
        s.add(FS, extent(s, is_regular), NUM_BYTES, 4096);
    }),
    fault("an unaligned piece", "plain", Both, "impossible value", |s| {
        s.add(FS, extent(s, is_regular), NUM_BYTES, -1);
    }),
    fault("a piece of another part", "zlib", Both, "impossible value", |s| {
        s.add(FS, extent(s, is_regular), OFFSET, 1 << 30);
    }),
    fault("length of inline data", "plain", Both, "ram_bytes", |s| {
        s.add(FS, extent(s, is_inline), RAM_BYTES, 1);
    }),
    fault("an unknown codec", "plain", Ours, "compression", |s| {
        s.poke(FS, extent(s, is_regular), COMPRESSION, &[9]);
    }),
    fault("an encryption", "plain", Ours, "encryption", |s| {
        s.poke(FS, extent(s, is_regular), ENCRYPTION, &[1]);
    }),
    fault("a missing piece of a file", "plain", Both, "references are recorded", |s| {
        s.remove(FS, extent(s, is_regular));
    }),
    fault("a hole without an item", "old-features", Both, "has no extent", |s| {
        let file = |ino| s.find(FS, KeyKind::INODE_ITEM, |key, _| key.objectid == ino).1;
        let is_hole = |extent: &FileExtent| extent.is_hole();
        let (key, _) = s.find(FS, KeyKind::EXTENT_DATA, |key, data| {
            let inode = file(key.objectid);
            let (extent, _) = FileExtent::parse(data).unwrap();
            is_hole(&extent) && InodeItem::view(&inode).unwrap().size.get() > key.offset
        });
        s.remove(FS, key);
    }),
    fault("data without checksums", "plain", Both, "data has no checksum", |s| {
        s.remove(tree_id::CSUM, s.first(tree_id::CSUM, KeyKind::EXTENT_CSUM));
    }),
    fault("checksums that must not be", "plain", Both, "its file is to have none", |s| {
        let ino = extent(s, is_regular).objectid;
        s.poke(FS, Key::new(ino, KeyKind::INODE_ITEM, 0), FLAGS, &[1]);
    }),
    fault("a subvolume of another name", "zstd", Both, "do not agree on its place", |s| {
        let key = s.first(tree_id::ROOT, KeyKind::ROOT_REF);
        s.item(tree_id::ROOT, key, |data| *data.last_mut().unwrap() ^= 1);
    }),
    fault("a subvolume that hangs nowhere", "zstd", Both, "do not agree on its place", |s| {
        s.remove(tree_id::ROOT, s.first(tree_id::ROOT, KeyKind::ROOT_REF));
    }),
    fault("a subvolume that is in no directory", "zstd", Both, "lacks the name", |s| {
        let is_subvolume = |_: Key, data: &[u8]| data[8] == KeyKind::ROOT_ITEM.0;
        s.remove(TOP, s.find(TOP, KeyKind::DIR_ITEM, is_subvolume).0);
    }),
    fault("a default that does not exist", "plain", Ours, "default subvolume", |s| {
        let key = Key::new(tree_id::ROOT_DIR, KeyKind::DIR_ITEM, name_hash(b"default"));
        s.poke(tree_id::ROOT, key, 0, &777_u64.to_le_bytes());
    }),
    fault("a subvolume without its UUID", "zstd", Ours, "not listed under its UUID", |s| {
        s.remove(tree_id::UUID, s.first(tree_id::UUID, KeyKind::UUID_SUBVOL));
    }),
    fault("bytes of a quota group", "quota", Harmless, "bytes referred to by the group", |s| {
        let is_of_files = |key: Key, _: &[u8]| key.offset == FS;
        s.add(tree_id::QUOTA, s.find(tree_id::QUOTA, KeyKind::QGROUP_INFO, is_of_files).0, 8, 4096);
    }),
    fault("the UUID of no subvolume", "zstd", Ours, "lists a subvolume that does not exist", |s| {
        s.insert(tree_id::UUID, Key::new(1, KeyKind::UUID_SUBVOL, 1), 999_u64.to_le_bytes().into());
    }),
];

/// A regular file with one name, not the first item of its leaf.
fn file(s: &Surgery) -> Key {
    let one_name = |key: Key| {
        let refs =
            s.fs.forest()
                .tree(FS)
                .unwrap()
                .range(Key::all_of_kind(key.objectid, KeyKind::INODE_REF));
        refs.flatten().count() == 1
    };
    let is_first = |key: Key| s.block(s.leaf(FS, key)).first_key() == Some(key);
    let is_it = |key: Key, data: &[u8]| {
        InodeItem::view(data).unwrap().is_file() && one_name(key) && !is_first(key)
    };
    s.find(FS, KeyKind::INODE_ITEM, is_it).0
}

fn directory(s: &Surgery) -> Key {
    let is_it =
        |key: Key, data: &[u8]| key.objectid > 256 && InodeItem::view(data).unwrap().is_dir();
    s.find(FS, KeyKind::INODE_ITEM, is_it).0
}

fn of_file(s: &Surgery, kind: KeyKind) -> Key {
    let ino = file(s).objectid;
    s.find(FS, kind, |key, _| key.objectid == ino).0
}

/// The entry of a file in one of its directory's lists.
fn entry(s: &Surgery, kind: KeyKind) -> Key {
    let (key, data) = s.find(FS, KeyKind::INODE_REF, |key, _| key.objectid == file(s).objectid);
    let name = inode_refs(key.offset, &data).next().unwrap().unwrap();
    let offset = if kind == KeyKind::DIR_ITEM { name_hash(name.name) } else { name.index };
    Key::new(name.parent, kind, offset)
}

fn extent(s: &Surgery, is_it: fn(&FileExtent) -> bool) -> Key {
    let is_it = |_: Key, data: &[u8]| is_it(&FileExtent::parse(data).unwrap().0);
    s.find(FS, KeyKind::EXTENT_DATA, is_it).0
}

fn is_regular(extent: &FileExtent) -> bool {
    extent.kind == FileExtentKind::Regular && !extent.is_hole()
}

fn is_inline(extent: &FileExtent) -> bool {
    extent.kind == FileExtentKind::Inline
}
