//! Superblocks, devices, chunks, and which parts of devices belong to chunks.

use std::collections::BTreeMap;

use zerocopy::FromBytes;

use crate::check::finding::{Findings, Problem};
use crate::error::{Error, Place, Result};
use crate::format::{
    BlockGroupFlags, ChunkItem, CompatRo, Damage, DevExtent, Incompat, Key, KeyKind, RawKey,
    SUPERBLOCK_OFFSETS, Stripe, SuperFlags, Superblock, tree_id,
};
use crate::tree::Forest;

pub(super) fn check(forest: &Forest, findings: &Findings) {
    check_superblocks(forest, findings);
    check_fields(forest, findings);
    check_totals(forest, findings);
    check_system_chunks(forest, findings);
    if let Err(error) = check_dev_extents(forest, findings) {
        findings.error(error);
    }
}

/// An older copy is what a power cut between the primary and the copies leaves; the primary alone counts.
fn check_superblocks(forest: &Forest, findings: &Findings) {
    let volume = forest.volume();
    let generation = volume.superblock().generation.get();
    for member in volume.members() {
        let at = |byte| Place::Device { device: member.name(), byte };
        let own = member.generation();
        if !member.is_seed() {
            findings.compare(at(0), "generation of the superblock", own, generation);
        }
        let [primary, ..] = SUPERBLOCK_OFFSETS;
        if let Some(damage) = member.superblock_damage() {
            findings.add(at(primary), Problem::Damage(damage.clone()));
        }
        for (byte, copy) in volume.superblock_copies(member.devid()) {
            match copy {
                Err(_) if byte == primary && member.superblock_damage().is_some() => {}
                Ok(copy) if copy.fsid != member_fsid(volume.superblock(), &copy) => {
                    findings.rule(at(byte), "copy of another filesystem's superblock");
                }
                Ok(copy) if copy.generation.get() > own => {
                    findings.rule(at(byte), "copy of the superblock is newer than the first one");
                }
                Ok(_) => {}
                Err(error) => findings.error(error),
            }
        }
    }
}

/// The id that a copy should have; seeds have one of their own.
fn member_fsid(superblock: &Superblock, copy: &Superblock) -> [u8; 16] {
    let is_seed = copy.super_flags().contains(SuperFlags::SEEDING);
    if is_seed { copy.fsid } else { superblock.fsid }
}

/// What the kernel, or `btrfs check`, demands of the superblock's fields.
fn check_fields(forest: &Forest, findings: &Findings) {
    let superblock = forest.superblock();
    let (incompat, compat_ro) = (superblock.incompat(), superblock.compat_ro());
    let generation = superblock.generation.get();
    let (sector, node) = (superblock.sectorsize.get(), superblock.nodesize.get());
    let is_old = |of: u64| of <= generation;
    let cache = superblock.cache_generation.get();
    let has_groups = compat_ro.contains(CompatRo::BLOCK_GROUP_TREE);
    let has_space = compat_ro.contains(CompatRo::FREE_SPACE_TREE_VALID);
    let rules = [
        (superblock.stripesize.get() == sector, "stripesize is not the sector size"),
        (superblock.root_dir_objectid.get() == tree_id::ROOT_DIR, "root_dir_objectid is not 6"),
        (is_old(superblock.chunk_root_generation.get()), "chunk tree is newer than the commit"),
        (is_old(superblock.uuid_tree_generation.get()), "UUID tree is newer than the commit"),
        (is_old(cache) || cache == u64::MAX, "space cache is newer than the commit"),
        (
            superblock.log_root.get().is_multiple_of(sector.into()),
            "log_root is not the address of a block",
        ),
        (
            superblock.dev_item.fsid == superblock.metadata_fsid(),
            "device belongs to another filesystem",
        ),
        (
            !incompat.contains(Incompat::MIXED_GROUPS) || sector == node,
            "mixed block groups need nodes of one sector",
        ),
        (
            !has_groups || (has_space && incompat.contains(Incompat::NO_HOLES)),
            "a block group tree needs a valid free space tree and no-holes",
        ),
    ];
    for (_, rule) in rules.iter().filter(|(is_kept, _)| !is_kept) {
        findings.rule(Place::Filesystem, rule);
    }
}

fn check_totals(forest: &Forest, findings: &Findings) {
    let (volume, superblock) = (forest.volume(), forest.superblock());
    if !volume.seed_devices().is_empty() {
        return;
    }
    let total =
        volume.dev_items().fold(0_u64, |sum, item| sum.saturating_add(item.total_bytes.get()));
    let at = Place::Filesystem;
    findings.compare(at.clone(), "total_bytes", superblock.total_bytes.get(), total);
    let count = volume.dev_items().count() as u64;
    findings.compare(at, "number of devices", superblock.num_devices.get(), count);
    for member in volume.members() {
        let Some(item) = volume.dev_items().find(|item| item.devid == member.dev_item().devid)
        else {
            continue;
        };
        let at = Place::Device { device: member.name(), byte: 0 };
        let own = member.dev_item();
        let (total, used) = (own.total_bytes.get(), own.bytes_used.get());
        findings.compare(at.clone(), "total_bytes of the device", total, item.total_bytes.get());
        findings.compare(at, "bytes_used of the device", used, item.bytes_used.get());
    }
}

/// The superblock holds all system chunks: without them the chunk tree can't be found.
fn check_system_chunks(forest: &Forest, findings: &Findings) {
    let mut array = forest.superblock().sys_chunks();
    let mut held = BTreeMap::new();
    while let Ok((key, rest)) = RawKey::ref_from_prefix(array) {
        let Ok((chunk, stripes, rest)) = ChunkItem::view(rest) else { break };
        held.insert(
            Key::from(*key).offset,
            (chunk.length.get(), chunk.flags.get(), places(stripes)),
        );
        array = rest;
    }
    let system = forest
        .volume()
        .chunks()
        .filter(|chunk| chunk.flags.contains(BlockGroupFlags::SYSTEM))
        .map(|chunk| (chunk.logical.0, (chunk.length, chunk.flags.bits(), places(&chunk.stripes))))
        .collect();
    if held != system {
        findings.rule(Place::Filesystem, "the superblock does not list exactly the system chunks");
    }
}

fn places(stripes: &[Stripe]) -> Vec<(u64, u64)> {
    stripes.iter().map(|stripe| (stripe.devid.get(), stripe.offset.get())).collect()
}

fn check_dev_extents(forest: &Forest, findings: &Findings) -> Result<()> {
    let mut wanted: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    for chunk in forest.volume().chunks() {
        for stripe in &chunk.stripes {
            let place = (stripe.devid.get(), stripe.offset.get());
            wanted.insert(place, (chunk.logical.0, chunk.stripe_size()));
        }
    }
    let mut used: BTreeMap<u64, u64> = BTreeMap::new();
    let mut last = (0, 0);
    for item in forest.tree(tree_id::DEV)?.items() {
        let item = item?;
        let key = item.key();
        if key.kind != KeyKind::DEV_EXTENT {
            continue;
        }
        let at = Place::Item { tree: tree_id::DEV, key };
        let extent = DevExtent::view(item.data())
            .map_err(|damage| Error::in_item(damage, tree_id::DEV, key))?;
        let length = extent.length.get();
        let sum = used.entry(key.objectid).or_default();
        *sum = sum.saturating_add(length);
        if last.0 == key.objectid && last.1 > key.offset {
            findings.rule(at.clone(), "overlaps the device extent before it");
        }
        last = (key.objectid, key.offset.saturating_add(length));
        if wanted.remove(&(key.objectid, key.offset)) != Some((extent.chunk_offset.get(), length)) {
            findings.rule(at, "is not what a chunk says");
        }
    }
    for (devid, start) in wanted.into_keys() {
        let key = Key::new(devid, KeyKind::DEV_EXTENT, start);
        let at = Place::Item { tree: tree_id::DEV, key };
        findings.add(
            at,
            Problem::Damage(Damage::NoItem { key: Key::new(devid, KeyKind::DEV_EXTENT, start) }),
        );
    }
    for item in forest.volume().dev_items() {
        let devid = item.devid.get();
        let at = Place::Item { tree: tree_id::CHUNK, key: Key::new(1, KeyKind::DEV_ITEM, devid) };
        let found = used.get(&devid).copied().unwrap_or_default();
        findings.compare(at.clone(), "bytes_used", item.bytes_used.get(), found);
        let mut stripes = forest.volume().chunks().flat_map(|chunk| &chunk.stripes);
        if stripes.any(|stripe| stripe.devid == item.devid && stripe.dev_uuid != item.uuid) {
            findings.rule(at.clone(), "a stripe names the device by another UUID");
        }
        let total = item.total_bytes.get();
        let end = forest.volume().chunks().flat_map(|chunk| {
            let size = chunk.stripe_size();
            chunk
                .stripes
                .iter()
                .filter(|stripe| stripe.devid == item.devid)
                .map(move |stripe| stripe.offset.get().saturating_add(size))
        });
        if end.max().is_some_and(|end| end > total) {
            findings.rule(at, "a chunk reaches beyond the end of the device");
        }
    }
    Ok(())
}
