//! Targets that need no image: structures and codecs.

use btrpress::backref::ExtentRecord;
use btrpress::compress::{Algorithm, COMPRESSED_MAX, Codec, Encoder, decode, decode_inline};
use btrpress::format::{
    BlockGroupItem, ChecksumKind, ChunkItem, DevExtent, DevItem, ExtentItem, FileExtent,
    FreeSpaceInfo, InodeItem, Key, KeyKind, Node, QgroupInfo, QgroupStatus, RawKey, Ref, RootItem,
    SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock, dir_entries, inline_refs, inode_extrefs,
    inode_refs, root_ref,
};
use zerocopy::FromBytes;

const SECTOR: usize = 4096;

/// The superblock. Its magic number and checksum are put right, since nothing gets past wrong ones.
pub fn superblock(data: &[u8]) {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    let len = data.len().min(SUPERBLOCK_SIZE);
    bytes[..len].copy_from_slice(&data[..len]);
    bytes[64..72].copy_from_slice(b"_BHRfS_M");
    let kind = ChecksumKind::parse(u16::from_le_bytes([bytes[196], bytes[197]]));
    if let Ok(kind) = kind {
        let csum = kind.of(&bytes[32..]);
        bytes[..32].copy_from_slice(&csum);
    }
    let Ok(found) = Superblock::parse(&bytes, SUPERBLOCK_OFFSETS[0]) else { return };
    assert_eq!(found.to_bytes(SUPERBLOCK_OFFSETS[0]), Ok(bytes), "it is written as it was read");
    let mut chunks = found.sys_chunks();
    while let Ok((_, rest)) = RawKey::ref_from_prefix(chunks) {
        let Ok((_, _, rest)) = ChunkItem::view(rest) else { break };
        chunks = rest;
    }
    let _ = (found.label_bytes(), found.metadata_fsid(), found.incompat(), found.compat_ro());
}

/// A tree block with all that is in it.
pub fn block(data: &[u8]) {
    let size = if data.len() > SECTOR { 4 * SECTOR } else { SECTOR };
    let mut bytes = data.to_vec();
    bytes.resize(size, 0);
    let Ok(node) = Node::parse(bytes.into()) else { return };
    let keys = (0..node.len()).filter_map(|slot| node.find_key(slot)).collect::<Vec<_>>();
    assert!(keys.is_sorted_by(|one, two| one < two), "keys ascend");
    for key in &keys {
        assert!(node.search(*key).is_ok());
    }
    assert!(node.ptrs().len() + node.items().len() == keys.len());
    for (key, data) in node.items() {
        parse(key, data);
    }
    let items = node.items().filter(|(key, _)| (168..=184).contains(&key.kind.0));
    let mut items: Vec<_> = items.collect();
    items.retain(|(key, _)| Some(key.objectid) == keys.first().map(|first| first.objectid));
    record(&items);
}

/// One item: a kind, the rest of its key, and its data, taken for an item of every kind too.
pub fn item(data: &[u8]) {
    let Some((head, data)) = data.split_first_chunk::<17>() else { return };
    let raw = RawKey::ref_from_bytes(head).expect("the size is right");
    let key = Key::from(*raw);
    parse(key, data);
    record(&[(key, data)]);
    for kind in [1, 12, 13, 24, 84, 96, 108, 132, 144, 156, 168, 169, 176, 178, 182, 184, 192] {
        parse(Key::new(key.objectid, KeyKind(kind), key.offset), data);
    }
    for kind in [198, 199, 200, 204, 216, 228, 240, 242] {
        parse(Key::new(key.objectid, KeyKind(kind), key.offset), data);
    }
}

fn parse(key: Key, data: &[u8]) {
    match key.kind {
        KeyKind::INODE_ITEM => drop(InodeItem::view(data).map(InodeItem::is_dir)),
        KeyKind::INODE_REF => inode_refs(key.offset, data).for_each(drop),
        KeyKind::INODE_EXTREF => inode_extrefs(data).for_each(drop),
        KeyKind::XATTR_ITEM | KeyKind::DIR_ITEM | KeyKind::DIR_INDEX => {
            dir_entries(data).for_each(drop);
        }
        KeyKind::EXTENT_DATA => file_extent(data),
        KeyKind::ROOT_ITEM => drop(RootItem::parse(data).map(|item| item.root_flags())),
        KeyKind::ROOT_REF | KeyKind::ROOT_BACKREF => drop(root_ref(data)),
        KeyKind::EXTENT_ITEM | KeyKind::METADATA_ITEM => {
            if let Ok((_, rest)) = ExtentItem::view(data) {
                inline_refs(rest).for_each(drop);
            }
        }
        KeyKind::TREE_BLOCK_REF
        | KeyKind::EXTENT_DATA_REF
        | KeyKind::SHARED_BLOCK_REF
        | KeyKind::SHARED_DATA_REF => {
            if let Ok((reference, count)) = Ref::parse_keyed(key, data) {
                let _ = (reference.sequence(), reference.keyed_data(count));
            }
        }
        KeyKind::BLOCK_GROUP_ITEM => {
            drop(BlockGroupItem::view(data).map(BlockGroupItem::group_flags));
        }
        KeyKind::FREE_SPACE_INFO => {
            drop(FreeSpaceInfo::view(data).map(FreeSpaceInfo::uses_bitmaps));
        }
        KeyKind::DEV_EXTENT => drop(DevExtent::view(data)),
        KeyKind::DEV_ITEM => drop(DevItem::view(data)),
        KeyKind::CHUNK_ITEM => drop(ChunkItem::view(data).map(|(chunk, ..)| chunk.group_flags())),
        KeyKind::QGROUP_STATUS => drop(QgroupStatus::view(data)),
        KeyKind::QGROUP_INFO => drop(QgroupInfo::view(data)),
        _ => {}
    }
}

fn file_extent(data: &[u8]) {
    let Ok((extent, payload)) = FileExtent::parse(data) else { return };
    let _ = (extent.is_hole(), extent.data_bytes(), extent.summed_range(), payload.len());
    let bytes = extent.to_bytes();
    assert_eq!(data[..bytes.len()], bytes, "it is written as it was read");
}

fn record(items: &[(Key, &[u8])]) {
    let Ok(Some(record)) = ExtentRecord::parse(items.iter().copied()) else { return };
    let written = record.items(4096 - 101);
    let again = ExtentRecord::parse(written.iter().map(|(key, data)| (*key, data.as_slice())));
    assert_eq!(again, Ok(Some(record)), "it is read as it was written");
}

fn decodes(algorithm: Algorithm, data: &[u8]) {
    let Some((head, payload)) = data.split_first_chunk::<4>() else { return };
    let claimed = u32::from_le_bytes(*head) as usize;
    for ram_bytes in [claimed, claimed % (COMPRESSED_MAX + 1), SECTOR] {
        if let Ok(data) = decode(algorithm, payload, ram_bytes, SECTOR) {
            assert_eq!(data.len(), ram_bytes);
        }
        if let Ok(data) = decode_inline(algorithm, payload, ram_bytes, SECTOR) {
            assert_eq!(data.len(), ram_bytes);
        }
    }
}

/// Any bytes as a zlib stream.
pub fn zlib(data: &[u8]) {
    decodes(Algorithm::Zlib, data);
}

/// Any bytes as LZO segments.
pub fn lzo(data: &[u8]) {
    decodes(Algorithm::Lzo, data);
}

/// Any bytes as a zstd frame.
pub fn zstd(data: &[u8]) {
    decodes(Algorithm::Zstd, data);
}

/// What every codec makes of any bytes must decode to them. The first two bytes choose codec and level.
pub fn round_trip(data: &[u8]) {
    let Some(([which, level], data)) = data.split_first_chunk::<2>() else { return };
    if data.is_empty() {
        return;
    }
    let algorithm = Algorithm::ALL[usize::from(*which) % 3];
    let levels: Vec<i32> = algorithm.levels().collect();
    let codec = Codec { algorithm, level: levels[usize::from(*level) % levels.len()] };
    let mut encoder = Encoder::new(codec, SECTOR);
    let inline = &data[..data.len().min(SECTOR)];
    if let Some(payload) = encoder.encode_inline(inline) {
        assert_eq!(decode_inline(algorithm, &payload, inline.len(), SECTOR).as_deref(), Ok(inline));
    }
    // A short input is repeated, so that it is worth compressing.
    let long: Vec<u8> =
        data.iter().copied().cycle().take((data.len() * 37).min(COMPRESSED_MAX)).collect();
    for data in [&data[..data.len().min(COMPRESSED_MAX)], &long] {
        if let Some(payload) = encoder.encode(data) {
            assert_eq!(decode(algorithm, &payload, data.len(), SECTOR).as_deref(), Ok(data));
        }
    }
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let text: Vec<u8> =
        (0..2000_u32).flat_map(|n| (n * n % 251).to_string().into_bytes()).collect();
    let mut seeds = Vec::new();
    for (which, algorithm) in Algorithm::ALL.into_iter().enumerate() {
        let mut encoder = Encoder::new(Codec::from(algorithm), SECTOR);
        let target = algorithm.name();
        if let Some(payload) = encoder.encode(&text) {
            seeds.push((target, [&(text.len() as u32).to_le_bytes()[..], &payload].concat()));
        }
        if let Some(payload) = encoder.encode_inline(&text[..3000]) {
            seeds.push((target, [&3000_u32.to_le_bytes()[..], &payload].concat()));
        }
        seeds.push(("round_trip", [&[which as u8, 3][..], &text[..500]].concat()));
    }
    seeds
}
