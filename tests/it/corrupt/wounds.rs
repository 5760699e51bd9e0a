//! Ways to break an image at random, with all checksums right.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use btrpress::device::{Device, Memory};
use btrpress::format::{
    ChecksumKind, Compression, FileExtent, FileExtentKind, HEADER_SIZE, ITEM_SIZE, KEY_PTR_SIZE,
    Key, KeyKind, Logical, Node, NodeWriter, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, tree_id,
};
use btrpress::fs::{Filesystem, data_csums};

use super::surgery::{Surgery, seal};
use crate::oracle::content::Dice;

/// Dice that choose among places in memory.
pub(crate) struct Random(Dice);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(Dice::of(seed))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0.roll()
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Where in a block something worth breaking is.
fn target(random: &mut Random, node: &Node) -> Range<usize> {
    let head = if node.level() == 0 { ITEM_SIZE } else { KEY_PTR_SIZE };
    let slot = random.below(node.len());
    let head = HEADER_SIZE + slot * head..HEADER_SIZE + (slot + 1) * head;
    match random.below(10) {
        0 => 48..HEADER_SIZE,
        1 | 2 => head,
        _ if node.level() > 0 => head,
        _ if node.is_empty() => 48..HEADER_SIZE,
        _ => {
            let data = node.data(slot);
            let start = data.as_ptr() as usize - node.bytes().as_ptr() as usize;
            start..start + data.len()
        }
    }
}

/// Puts a number that is likely to hurt somewhere into a range of a block.
fn hurt(random: &mut Random, bytes: &mut [u8], range: Range<usize>) {
    let width = [1, 2, 4, 8][random.below(4)].min(range.len());
    if width == 0 {
        return;
    }
    let at = range.start + random.below(range.len() - width + 1);
    let mut old = [0; 8];
    old[..width].copy_from_slice(&bytes[at..at + width]);
    let old = u64::from_le_bytes(old);
    let new = match random.below(9) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => old.wrapping_add(1),
        4 => old.wrapping_sub(1),
        5 => old.wrapping_add(4096),
        6 => old ^ (1 << random.below(width * 8)),
        7 => u64::MAX - 4095,
        _ => random.next(),
    };
    bytes[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
}

/// One to three fields of tree blocks changed.
pub(crate) fn fields(device: &Memory, random: &mut Random) -> Memory {
    let surgery = Surgery::on(device);
    let nodes = surgery.blocks();
    for _ in 0..=random.below(3) {
        let node = random.pick(&nodes);
        let mut bytes = node.bytes().to_vec();
        let range = target(random, node);
        hurt(random, &mut bytes, range);
        surgery.put(node.bytenr(), bytes);
    }
    surgery.finish()
}

/// A field of the superblock changed: of its head, its device, its system chunks or its log.
pub(crate) fn superblock(device: &Memory, random: &mut Random) -> Memory {
    let device = device.clone();
    let at = SUPERBLOCK_OFFSETS[0];
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    device.read_at(at, &mut bytes).unwrap();
    let fields = [48..299, 299..811, 811..811 + 300];
    for _ in 0..=random.below(2) {
        let field = fields[random.below(3)].clone();
        hurt(random, &mut bytes, field);
    }
    seal(ChecksumKind::Crc32c, &mut bytes);
    device.write_at(at, &bytes).unwrap();
    device
}

/// A tree chosen first, so that small ones are hit as often as large ones, then an item of it taken out, doubled, cut,
/// made longer or given another key.
pub(crate) fn items(device: &Memory, random: &mut Random) -> Memory {
    let surgery = Surgery::on(device);
    let mut trees: BTreeMap<u64, Vec<Arc<Node>>> = BTreeMap::new();
    for node in surgery.blocks().into_iter().filter(|node| node.level() == 0 && !node.is_empty()) {
        trees.entry(node.owner()).or_default().push(node);
    }
    let trees: Vec<_> = trees.into_values().collect();
    for _ in 0..=random.below(2) {
        let tree = random.pick(&trees);
        let leaf = random.pick(tree);
        let mut items: BTreeMap<Key, Vec<u8>> =
            leaf.items().map(|(key, data)| (key, data.to_vec())).collect();
        change_items(random, &mut items);
        let items: Vec<_> = items.iter().map(|(key, data)| (*key, data.as_slice())).collect();
        let size: usize = items.iter().map(|(_, data)| data.len() + ITEM_SIZE).sum();
        let writer = NodeWriter::new(leaf.bytes().len());
        if size <= writer.capacity() {
            surgery.put(leaf.bytenr(), writer.leaf(leaf.header(), items.into_iter()));
        }
    }
    surgery.finish()
}

fn change_items(random: &mut Random, items: &mut BTreeMap<Key, Vec<u8>>) {
    let keys: Vec<Key> = items.keys().copied().collect();
    let key = *random.pick(&keys);
    let data = items[&key].clone();
    match random.below(5) {
        0 => drop(items.remove(&key)),
        1 => drop(items.insert(other_key(random, key), data)),
        2 => {
            items.remove(&key);
            items.insert(other_key(random, key), data);
        }
        3 => {
            let len = random.below(data.len());
            items.insert(key, data[..len].to_vec());
        }
        _ => {
            let more = random.below(64);
            let mut data = data;
            data.extend((0..more).map(|_| random.next() as u8));
            items.insert(key, data);
        }
    }
}

fn other_key(random: &mut Random, key: Key) -> Key {
    let Key { objectid, kind, offset } = key;
    match random.below(6) {
        0 => Key::new(objectid.wrapping_add(1), kind, offset),
        1 => Key::new(random.next(), kind, offset),
        2 => Key::new(objectid, KeyKind(random.next() as u8), offset),
        3 => Key::new(objectid, kind, offset.wrapping_add(4096)),
        4 => Key::new(objectid, kind, random.next()),
        _ => Key::new(objectid, kind, offset.wrapping_sub(1)),
    }
}

/// Blocks that take each other's place, or pointers that lead elsewhere: back up, to themselves, to another tree, with all
/// that a reader compares put right.
pub(crate) fn pointers(device: &Memory, random: &mut Random) -> Memory {
    let surgery = Surgery::on(device);
    let nodes = surgery.blocks();
    let inner: Vec<_> = nodes.iter().filter(|node| node.level() > 0).collect();
    for _ in 0..=random.below(2) {
        if inner.is_empty() || random.below(3) == 0 {
            let (one, two) = (random.pick(&nodes), random.pick(&nodes));
            for (from, to) in [(one, two), (two, one)] {
                let mut bytes = from.bytes().to_vec();
                bytes[48..56].copy_from_slice(&to.bytenr().to_le_bytes());
                surgery.put(to.bytenr(), bytes);
            }
            continue;
        }
        let (node, leads_to) = (random.pick(&inner), random.pick(&nodes));
        let slot = random.below(node.len());
        let at = HEADER_SIZE + slot * KEY_PTR_SIZE;
        let mut bytes = node.bytes().to_vec();
        bytes[at + 17..at + 25].copy_from_slice(&leads_to.bytenr().to_le_bytes());
        bytes[at + 25..at + 33].copy_from_slice(&leads_to.generation().to_le_bytes());
        surgery.put(node.bytenr(), bytes);
        if random.below(2) == 0 && leads_to.bytenr() != node.bytenr() {
            // The block is made what the pointer promises.
            let mut bytes = leads_to.bytes().to_vec();
            bytes[100] = node.level() - 1;
            bytes[88..96].copy_from_slice(&node.owner().to_le_bytes());
            surgery.put(leads_to.bytenr(), bytes);
        }
    }
    surgery.finish()
}

/// Every data extent, with the tree, key and item of one reference.
fn extents(fs: &Filesystem) -> Vec<(u64, Key, FileExtent, Vec<u8>)> {
    let mut found = Vec::new();
    for root in fs.forest().subvolumes() {
        for item in fs.forest().tree(root).unwrap().items().map(Result::unwrap) {
            if item.key().kind == KeyKind::EXTENT_DATA {
                let (extent, payload) = FileExtent::parse(item.data()).unwrap();
                if !extent.is_hole() {
                    found.push((root, item.key(), extent, payload.to_vec()));
                }
            }
        }
    }
    found
}

/// Bits of data flipped, on every copy.
pub(crate) fn data(device: &Memory, random: &mut Random) -> Memory {
    let surgery = Surgery::on(device);
    let extents = extents(&surgery.fs);
    let regular: Vec<_> =
        extents.iter().filter(|(.., extent, _)| extent.kind == FileExtentKind::Regular).collect();
    let volume = surgery.fs.forest().volume();
    for _ in 0..=random.below(4) {
        let (.., extent, _) = random.pick(&regular);
        let sectors = extent.place.disk_num_bytes / 4096;
        let at = Logical(extent.place.disk_bytenr + 4096 * (random.next() % sectors));
        let mut bytes = vec![0; 4096];
        volume.read_any(at, &mut bytes).unwrap();
        bytes[random.below(4096)] ^= 1 << random.below(8);
        volume.write(at, &bytes).unwrap();
    }
    surgery.finish()
}

/// Compressed data that expands to far more than an extent may hold, or is broken, with checksums that fit.
pub(crate) fn bombs(device: &Memory, random: &mut Random) -> Memory {
    let surgery = Surgery::on(device);
    let extents = extents(&surgery.fs);
    for _ in 0..=random.below(3) {
        let (root, key, extent, payload) = random.pick(&extents);
        let mut extent = *extent;
        extent.compression = Compression(1 + random.below(3) as u8);
        let claims = [1, 4095, 4096, 1 << 17, (1 << 17) + 4096, 1 << 40, u64::MAX, random.next()];
        if random.below(2) == 0 {
            extent.ram_bytes = *random.pick(&claims);
        }
        if extent.kind != FileExtentKind::Inline {
            overwrite(&surgery, random, &extent);
        }
        let mut data = extent.to_bytes();
        if extent.kind == FileExtentKind::Inline {
            data.extend(bomb(random, payload.len().max(64)));
        }
        let leaf = surgery.leaf(*root, *key);
        let node = surgery.fs.forest().volume().read_node(Logical(leaf)).unwrap();
        let items: Vec<_> = node
            .items()
            .map(|(other, old)| (other, if other == *key { &data[..] } else { old }))
            .collect();
        let size: usize = items.iter().map(|(_, data)| data.len() + ITEM_SIZE).sum();
        let writer = NodeWriter::new(node.bytes().len());
        if size <= writer.capacity() {
            surgery.put(leaf, writer.leaf(node.header(), items.into_iter()));
        }
    }
    surgery.finish()
}

/// Some `len` bytes that decode to megabytes, or to nothing.
fn bomb(random: &mut Random, len: usize) -> Vec<u8> {
    let zeros = vec![0; 16 << 20];
    let mut bytes = match random.below(3) {
        0 => zstd::bulk::compress(&zeros, 1).unwrap(),
        1 => {
            let mut zlib = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
            let mut out = vec![0; zlib.zlib_compress_bound(zeros.len())];
            let len = zlib.zlib_compress(&zeros, &mut out).unwrap();
            out.truncate(len);
            out
        }
        _ => (0..len).map(|_| random.next() as u8).collect(),
    };
    bytes.resize(len, 0);
    bytes
}

/// Puts a bomb in place of an extent's data, with its checksums.
fn overwrite(surgery: &Surgery, random: &mut Random, extent: &FileExtent) {
    let volume = surgery.fs.forest().volume();
    let (at, len) = (extent.place.disk_bytenr, extent.place.disk_num_bytes.min(1 << 17));
    let Ok(Some(_)) = data_csums(surgery.fs.forest(), at, len) else { return };
    let bytes = bomb(random, len as usize);
    volume.write(Logical(at), &bytes).unwrap();
    let kind = volume.checksum_kind();
    let size = kind.size();
    let sums = |sector: usize| kind.of(&bytes[sector * 4096..][..4096])[..size].to_vec();
    let tree = surgery.fs.forest().tree(tree_id::CSUM).unwrap();
    for item in tree.items().map(Result::unwrap) {
        let (key, old) = (item.key(), item.data());
        let held = (old.len() / size) as u64;
        let mut new = old.to_vec();
        for number in 0..held {
            let sector = key.offset + number * 4096;
            if (at..at + len).contains(&sector) {
                let sum = sums(((sector - at) / 4096) as usize);
                new[number as usize * size..][..size].copy_from_slice(&sum);
            }
        }
        if new != old {
            surgery.item(tree_id::CSUM, key, |data| *data = new);
        }
    }
}
