//! Faults of extents, checksums, block groups, chunks, devices, tree blocks and the superblock.

use btrpress::format::{BlockFlags, Key, KeyKind, tree_id};

use super::faults::Known::{Both, Ours};
use super::faults::{Fault, fault};
use crate::corrupt::surgery::Surgery;

const EXTENT: u64 = tree_id::EXTENT;
const CHUNK: u64 = tree_id::CHUNK;
const DEV: u64 = tree_id::DEV;
const SPACE: u64 = tree_id::FREE_SPACE;

pub(super) const FAULTS: &[Fault] = &[
    fault("count of references", "plain", Both, "do not add up", |s| {
        s.add(EXTENT, data(s), 0, 1);
    }),
    fault("an extent of the future", "plain", Both, "newer than the last commit", |s| {
        s.add(EXTENT, data(s), 8, 1 << 30);
    }),
    fault("flags of an extent", "plain", Both, "flags of an extent", |s| {
        s.poke(EXTENT, data(s), 16, &[3]);
    }),
    fault("an extent without a record", "plain", Both, "not recorded", |s| {
        s.remove(EXTENT, data(s));
    }),
    fault("a record of nothing", "plain", Both, "references are recorded, 0 were found", |s| {
        let key = data(s);
        let (_, bytes) = s.find(EXTENT, KeyKind::EXTENT_ITEM, |found, _| found == key);
        s.remove(EXTENT, key);
        s.insert(EXTENT, Key::new(key.objectid, key.kind, 4096), bytes.clone());
        s.insert(EXTENT, Key::new(key.objectid + 4096, key.kind, 4096), bytes);
    }),
    fault("another inode refers to an extent", "plain", Both, "are not those found", |s| {
        s.add(EXTENT, data(s), 24 + 1 + 8, 1);
    }),
    fault("a kind of reference", "plain", Both, "reference kind", |s| {
        s.poke(EXTENT, data(s), 24, &[99]);
    }),
    fault("a tree that can't hold data", "plain", Both, "tree of a reference to data", |s| {
        s.poke(EXTENT, data(s), 25, &7_u64.to_le_bytes());
    }),
    fault("level of a tree block", "plain", Both, "level of a tree block", |s| {
        let key = s.first(EXTENT, KeyKind::METADATA_ITEM);
        s.rename(EXTENT, key, Key::new(key.objectid, key.kind, 256));
    }),
    fault("a wrong level of a tree block", "plain", Ours, "level in the record", |s| {
        let key = s.first(EXTENT, KeyKind::METADATA_ITEM);
        s.rename(EXTENT, key, Key::new(key.objectid, key.kind, key.offset + 1));
    }),
    fault("generation of a tree block", "plain", Ours, "generation in the record", |s| {
        s.add(EXTENT, s.first(EXTENT, KeyKind::METADATA_ITEM), 8, -1);
    }),
    fault("bytes used in a block group", "plain", Both, "bytes used in the block group", |s| {
        s.add(EXTENT, s.first(EXTENT, KeyKind::BLOCK_GROUP_ITEM), 0, -4096);
    }),
    fault("type of a block group", "plain", Both, "not what its chunk is", |s| {
        s.poke(EXTENT, s.first(EXTENT, KeyKind::BLOCK_GROUP_ITEM), 16, &[4]);
    }),
    fault("a chunk without a block group", "plain", Both, "number of block groups", |s| {
        s.remove(EXTENT, s.first(EXTENT, KeyKind::BLOCK_GROUP_ITEM));
    }),
    fault("checksums of nothing", "plain", Both, "checksums for what is no data", |s| {
        let groups = s.fs.forest().tree(EXTENT).unwrap().items().flatten();
        let groups = groups.filter(|item| item.key().kind == KeyKind::BLOCK_GROUP_ITEM);
        let data = groups.map(|item| (item.key(), item.data()[16])).find(|(_, flags)| *flags == 1);
        let end = data.map(|(key, _)| key.objectid + key.offset - 4096).unwrap();
        s.insert(tree_id::CSUM, csum(end), vec![0; 4]);
    }),
    fault("checksums that overlap", "plain", Both, "overlaps the checksums", |s| {
        let key = s.first(tree_id::CSUM, KeyKind::EXTENT_CSUM);
        s.insert(tree_id::CSUM, csum(key.offset + 4096), vec![0; 4]);
    }),
    fault("half a checksum", "plain", Ours, "checksums of whole sectors", |s| {
        let key = s.first(tree_id::CSUM, KeyKind::EXTENT_CSUM);
        s.item(tree_id::CSUM, key, |data| data.truncate(data.len() - 1));
    }),
    fault("free space that is not recorded", "plain", Both, "free space of block group", |s| {
        s.remove(SPACE, free(s));
    }),
    fault("free space that is taken", "plain", Both, "free space of block group", |s| {
        let key = free(s);
        let at = Key::new(key.objectid - 4096, key.kind, key.offset + 4096);
        s.rename(SPACE, key, at);
    }),
    fault("count of free ranges", "plain", Both, "number of free ranges", |s| {
        let key = free(s);
        let info = s.find(SPACE, KeyKind::FREE_SPACE_INFO, |info, _| {
            (info.objectid..info.objectid + info.offset).contains(&key.objectid)
        });
        s.poke(SPACE, info.0, 0, &[77]);
    }),
    fault("free space of no block group", "plain", Ours, "no such block group", |s| {
        s.insert(SPACE, Key::new(1 << 50, KeyKind::FREE_SPACE_INFO, 1 << 20), vec![0; 8]);
    }),
    fault("a device extent too few", "plain", Both, "DEV_EXTENT", |s| {
        s.remove(DEV, s.first(DEV, KeyKind::DEV_EXTENT));
    }),
    fault("length of a device extent", "plain", Both, "not what a chunk says", |s| {
        s.add(DEV, s.first(DEV, KeyKind::DEV_EXTENT), 24, 65536);
    }),
    fault("a device extent too many", "plain", Ours, "not what a chunk says", |s| {
        let key = s.first(DEV, KeyKind::DEV_EXTENT);
        let (_, bytes) = s.find(DEV, key.kind, |found, _| found == key);
        s.insert(DEV, Key::new(1, key.kind, 1 << 40), bytes);
    }),
    fault("bytes used of a device", "plain", Both, "bytes_used", |s| {
        s.add(CHUNK, s.first(CHUNK, KeyKind::DEV_ITEM), 16, 1 << 20);
    }),
    fault("a device that is too small", "plain", Both, "", |s| {
        s.poke(CHUNK, s.first(CHUNK, KeyKind::DEV_ITEM), 8, &(1_u64 << 20).to_le_bytes());
    }),
    fault("UUID of a stripe", "plain", Ours, "by another UUID", |s| {
        s.poke(CHUNK, s.first(CHUNK, KeyKind::CHUNK_ITEM), 48 + 16, &[0; 16]);
    }),
    fault("owner of a chunk", "plain", Ours, "owner of a chunk", |s| {
        s.poke(CHUNK, s.first(CHUNK, KeyKind::CHUNK_ITEM), 8, &[9]);
    }),
    fault("keys beyond a leaf's end", "nodes-4k", Both, "belong into the next one", |s| {
        let leaf = s.block(s.leaf(tree_id::FIRST_FREE, Key::MIN));
        let key = leaf.find_key(leaf.len() - 1).unwrap();
        s.items(tree_id::FIRST_FREE, Key::MIN, |items| {
            let data = items.remove(&key).expect("the last item");
            items.insert(Key::new(u64::MAX >> 2, key.kind, key.offset), data);
        });
    }),
    fault("a block that is not marked as written", "plain", Ours, "not marked as written", |s| {
        let root = s.fs.forest().root(tree_id::FS).unwrap();
        s.header(root.bytenr, |header| {
            header.flags.set(header.flags.get() & !BlockFlags::WRITTEN.bits());
        });
    }),
    fault("references of another age", "plain", Ours, "before 2009", |s| {
        let root = s.fs.forest().root(tree_id::CSUM).unwrap();
        s.header(root.bytenr, |header| header.flags.set(1));
    }),
    fault("owner of a tree block", "plain", Both, "belongs to tree", |s| {
        let root = s.fs.forest().root(tree_id::CSUM).unwrap();
        s.header(root.bytenr, |header| header.owner.set(9));
    }),
    fault("generation of a root", "plain", Both, "generation is", |s| {
        s.add(tree_id::ROOT, Key::new(tree_id::CSUM, KeyKind::ROOT_ITEM, 0), 160, -1);
    }),
    fault("bytes used", "plain", Both, "bytes_used of the superblock", |s| {
        s.superblock(|sb| sb.bytes_used += 4096);
    }),
    fault("bytes in all", "plain", Ours, "total_bytes", |s| {
        s.superblock(|sb| sb.total_bytes += 1 << 24);
    }),
    fault("number of devices", "plain", Both, "number of devices", |s| {
        s.superblock(|sb| sb.num_devices += 1);
    }),
    fault("stripesize", "plain", Both, "stripesize", |s| s.superblock(|sb| sb.stripesize += 512)),
    fault(
        "bytes used of the superblock's device",
        "plain",
        Ours,
        "bytes_used of the device",
        |s| {
            s.superblock(|sb| sb.dev_item.bytes_used += 4096);
        },
    ),
    fault("system chunks", "plain", Both, "chunk length", |s| {
        s.superblock(|sb| sb.sys_chunk_array[17] ^= 1);
    }),
    fault("a log that is none", "plain", Both, "", |s| {
        let root = s.fs.forest().root(tree_id::FS).unwrap();
        s.superblock(|sb| sb.log_root.set(root.bytenr));
    }),
    fault("a chunk tree of the future", "plain", Both, "", |s| {
        s.superblock(|sb| sb.chunk_root_generation += 1000);
    }),
];

/// An extent of data with one reference.
fn data(s: &Surgery) -> Key {
    s.find(EXTENT, KeyKind::EXTENT_ITEM, |key, bytes| bytes.len() == 53 && key.offset > 4096).0
}

fn csum(at: u64) -> Key {
    Key::new(tree_id::EXTENT_CSUM, KeyKind::EXTENT_CSUM, at)
}

/// Free space after something that is taken, in a block group that exists.
fn free(s: &Surgery) -> Key {
    let group = s.first(EXTENT, KeyKind::BLOCK_GROUP_ITEM);
    s.find(SPACE, KeyKind::FREE_SPACE_EXTENT, |key, _| key.objectid > group.objectid).0
}
