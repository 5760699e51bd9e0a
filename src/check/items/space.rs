//! Items about space: extents with their references, block groups, chunks, devices and free space.

use std::cmp::Reverse;

use super::{Limits, require, sized};
use crate::error::Result;
use crate::format::{
    BlockGroupFlags, BlockGroupItem, ChunkItem, Damage, DevExtent, DevItem, ExtentFlags,
    ExtentItem, FreeSpaceInfo, Incompat, InlineRef, Key, KeyKind, LEVELS, Ref, Stripe,
    TreeBlockInfo, inline_refs, tree_id,
};

/// What stands as objectid wherever the first chunk tree is meant.
const FIRST_CHUNK_TREE: u64 = 256;
/// Numbers to try for a reference whose hash another one has.
const PROBES_MAX: u64 = 1 << 16;

pub(super) fn extent(limits: &Limits, key: Key, data: &[u8]) -> Result<(), Damage> {
    let (item, mut rest) = ExtentItem::view(data)?;
    let flags = item.extent_flags();
    let is_block = flags.contains(ExtentFlags::TREE_BLOCK);
    let is_data = flags.contains(ExtentFlags::DATA);
    let is_full = flags.contains(ExtentFlags::FULL_BACKREF);
    let is_known =
        ExtentFlags::all().contains(flags) && is_block != is_data && !(is_data && is_full);
    require(is_known, "flags of an extent", flags.bits())?;
    require(limits.is_aligned(key.objectid), "address of an extent", key.objectid)?;
    if key.kind == KeyKind::METADATA_ITEM {
        let is_skinny = limits.incompat.contains(Incompat::SKINNY_METADATA);
        require(is_skinny && is_block, "kind of an extent item", key.kind.0.into())?;
        require(key.offset < LEVELS.into(), "level of a tree block", key.offset)?;
    } else if is_block {
        require(key.offset == limits.node, "length of a tree block", key.offset)?;
        let (info, after) = TreeBlockInfo::view(rest)?;
        require(info.level < LEVELS, "level of a tree block", info.level.into())?;
        rest = after;
    } else {
        require(
            key.offset > 0 && limits.is_aligned(key.offset),
            "length of an extent",
            key.offset,
        )?;
    }
    let mut before: Option<(KeyKind, Reverse<u64>)> = None;
    for found in inline_refs(rest) {
        let place = match found? {
            InlineRef::Owner { root } => (KeyKind::EXTENT_OWNER_REF, Reverse(root)),
            InlineRef::Ref(reference, _) => {
                sound(limits, reference)?;
                (reference.kind(), Reverse(reference.sequence()))
            }
        };
        let sequence = place.1.0;
        require(before.is_none_or(|before| before <= place), "order of a reference", sequence)?;
        before = Some(place);
    }
    Ok(())
}

fn sound(limits: &Limits, reference: Ref) -> Result<(), Damage> {
    match reference {
        Ref::SharedBlock { parent } | Ref::SharedData { parent } => {
            require(limits.is_aligned(parent), "parent of a shared reference", parent)
        }
        Ref::TreeBlock { .. } => Ok(()),
        Ref::Data { root, objectid, offset } => {
            let is_tree =
                tree_id::is_subvolume(root) || [tree_id::ROOT, tree_id::DATA_RELOC].contains(&root);
            require(is_tree, "tree of a reference to data", root)?;
            // What old kernels kept of free inode numbers has a number of its own.
            let is_inode = objectid >= tree_id::FIRST_FREE;
            require(is_inode, "inode of a reference to data", objectid)?;
            require(limits.is_aligned(offset), "offset of a reference to data", offset)
        }
    }
}

pub(super) fn reference(limits: &Limits, key: Key, data: &[u8]) -> Result<(), Damage> {
    let (reference, count) = Ref::parse_keyed(key, data)?;
    sized("reference", data, reference.keyed_data(count).len())?;
    sound(limits, reference)?;
    let ahead = key.offset.wrapping_sub(reference.sequence());
    require(ahead < PROBES_MAX, "hash of a reference", key.offset)
}

pub(super) fn group(limits: &Limits, key: Key, data: &[u8]) -> Result<(), Damage> {
    let item = BlockGroupItem::view(data)?;
    require(key.offset > 0 && limits.is_aligned(key.offset), "length", key.offset)?;
    let chunk = item.chunk_objectid.get();
    require(chunk == FIRST_CHUNK_TREE, "chunk_objectid", chunk)?;
    require(item.used.get() <= key.offset, "bytes used in a block group", item.used.get())?;
    kinds(limits, item.group_flags())
}

fn kinds(limits: &Limits, flags: BlockGroupFlags) -> Result<(), Damage> {
    let (data, metadata) = (BlockGroupFlags::DATA, BlockGroupFlags::METADATA);
    let kinds = flags & (data | metadata | BlockGroupFlags::SYSTEM);
    let is_mixed = kinds == data | metadata;
    let is_one = kinds.bits().is_power_of_two();
    let may_mix = limits.incompat.contains(Incompat::MIXED_GROUPS);
    require(is_one || (is_mixed && may_mix), "type of a block group", flags.bits())
}

pub(super) fn chunk(limits: &Limits, key: Key, data: &[u8]) -> Result<(), Damage> {
    let (chunk, stripes, rest) = ChunkItem::view(data)?;
    require(key.objectid == FIRST_CHUNK_TREE, "objectid of a chunk", key.objectid)?;
    require(rest.is_empty(), "bytes after a chunk's stripes", rest.len() as u64)?;
    require(chunk.owner.get() == tree_id::EXTENT, "owner of a chunk", chunk.owner.get())?;
    let sector = chunk.sector_size.get().into();
    require(sector == limits.sector, "sector size of a chunk", sector)?;
    let unaligned = stripes.iter().map(|stripe: &Stripe| stripe.offset.get());
    for offset in unaligned.filter(|offset| !limits.is_aligned(*offset)) {
        require(false, "offset of a stripe", offset)?;
    }
    kinds(limits, chunk.group_flags())
}

pub(super) fn device(key: Key, data: &[u8]) -> Result<(), Damage> {
    let item = DevItem::view(data)?;
    require(key.objectid == 1, "objectid of a device", key.objectid)?;
    require(item.devid.get() == key.offset, "number of a device", item.devid.get())?;
    let (used, total) = (item.bytes_used.get(), item.total_bytes.get());
    require(used <= total, "bytes_used of a device", used)
}

pub(super) fn device_extent(limits: &Limits, key: Key, data: &[u8]) -> Result<(), Damage> {
    let item = DevExtent::view(data)?;
    let tree = item.chunk_tree.get();
    require(tree == tree_id::CHUNK, "chunk_tree of a device extent", tree)?;
    let object = item.chunk_objectid.get();
    require(object == FIRST_CHUNK_TREE, "chunk_objectid of a device extent", object)?;
    let (start, length) = (key.offset, item.length.get());
    require(limits.is_aligned(start), "start of a device extent", start)?;
    require(length > 0 && limits.is_aligned(length), "length of a device extent", length)
}

pub(super) fn free(limits: &Limits, key: Key, data: &[u8]) -> Result<(), Damage> {
    let is_aligned = limits.is_aligned(key.objectid) && limits.is_aligned(key.offset);
    require(is_aligned && key.offset > 0, "length of a free space item", key.offset)?;
    match key.kind {
        KeyKind::FREE_SPACE_INFO => {
            let flags = FreeSpaceInfo::view(data)?.flags.get();
            require(flags <= 1, "flags of free space", flags.into())
        }
        KeyKind::FREE_SPACE_EXTENT => sized("free space extent", data, 0),
        _ => {
            let bits = key.offset / limits.sector;
            sized("free space bitmap", data, bits.div_ceil(8) as usize)
        }
    }
}
