//! New chunks, from space of the devices that no chunk takes yet.
//!
//! A chunk is added by a commit of its own, before anything is put into it.

use std::collections::BTreeMap;

use zerocopy::IntoBytes;

use crate::error::{Error, Result};
use crate::format::{
    BlockGroupFlags, ChunkItem, DevExtent, DevItem, Key, KeyKind, RangeSet, Stripe, tree_id,
};
use crate::tree::Forest;
use crate::txn::commit::Committed;
use crate::txn::edit::Edit;
use crate::txn::settle::Txn;
use crate::txn::space::{Space, SpaceKind};
use crate::volume::{Profile, STRIPE_LEN};

/// Start of every device that chunks never take.
const RESERVED: u64 = 1 << 20;
/// The least and the most that a chunk takes in one piece of a device.
const STRIPE_MIN: u64 = 4 << 20;
const STRIPE_MAX: u64 = 1 << 30;
/// The most that a chunk for tree blocks holds.
const METADATA_MAX: u64 = 256 << 20;
/// Part of the whole filesystem that a chunk may be, as the kernel has it.
const SHARE_MAX: u64 = 10;
/// Object of all device items.
const DEV_ITEMS: u64 = 1;

/// A chunk to be added.
#[derive(Debug, Clone)]
pub(super) struct NewChunk {
    pub(super) logical: u64,
    pub(super) length: u64,
    pub(super) flags: BlockGroupFlags,
    stripe_size: u64,
    stripes: Vec<Stripe>,
}

/// Adds a chunk of the kind and with the profile of those there are, and makes its space known; tells whether there
/// was room for one. Nothing may have been taken from `space` since the last commit.
pub fn add_chunk(
    forest: &mut Forest,
    space: &mut Space,
    kind: SpaceKind,
) -> Result<Option<Committed>> {
    let Some(flags) = space.flags_of(kind) else { return Ok(None) };
    let Some(chunk) = plan(forest, flags)? else { return Ok(None) };
    let start = chunk.logical;
    let mut txn = Txn::begin(forest, space)?;
    txn.add_chunk(chunk);
    let prepared = match txn.prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            space.forget(start);
            space.undo_to(0);
            return if matches!(error, Error::NoSpace(_)) { Ok(None) } else { Err(error) };
        }
    };
    let committed = prepared.commit(forest, space)?;
    *space = Space::load(forest)?;
    Ok(Some(committed))
}

/// Bytes of all devices that chunks may still take.
pub fn unallocated(forest: &Forest) -> u64 {
    let of = |device: &DevItem| device.total_bytes.get().saturating_sub(device.bytes_used.get());
    let devices = forest.volume().dev_items();
    devices.map(|device| of(device).saturating_sub(RESERVED)).fold(0, u64::saturating_add)
}

/// Finds room on the devices.
fn plan(forest: &Forest, flags: BlockGroupFlags) -> Result<Option<NewChunk>> {
    let volume = forest.volume();
    let profile = Profile::of(flags).map_err(Error::in_filesystem)?;
    let per_device = if profile == Profile::Dup { 2 } else { 1 };
    let mut rooms = Vec::new();
    for device in volume.dev_items() {
        let Some((at, len)) = largest_hole(forest, device)? else { continue };
        let len = len / per_device / STRIPE_LEN * STRIPE_LEN;
        if len >= STRIPE_MIN {
            rooms.push((len, at, device));
        }
    }
    rooms.sort_by_key(|(len, _, device)| (std::cmp::Reverse(*len), device.devid.get()));
    let (devices, parities, copies) = match profile {
        Profile::Single | Profile::Dup => (1, 0, 1),
        Profile::Raid1 => (2, 0, 2),
        Profile::Raid1c3 => (3, 0, 3),
        Profile::Raid1c4 => (4, 0, 4),
        Profile::Raid0 => (rooms.len(), 0, 1),
        Profile::Raid10 => (rooms.len() / 2 * 2, 0, 2),
        Profile::Raid5 => (rooms.len(), 1, 1),
        Profile::Raid6 => (rooms.len(), 2, 1),
    };
    if devices == 0 || devices > rooms.len() || devices <= parities {
        return Ok(None);
    }
    rooms.truncate(devices);
    let width = ((devices - parities) / copies) as u64;
    let share = forest.superblock().total_bytes.get() / SHARE_MAX;
    let is_data = flags.contains(BlockGroupFlags::DATA);
    let length_max = if is_data { share } else { share.min(METADATA_MAX) };
    let smallest = rooms.iter().map(|(len, ..)| *len).min().unwrap_or(0);
    let stripe_size = smallest.min(STRIPE_MAX).min((length_max / width).max(STRIPE_MIN));
    let stripe_size = stripe_size / STRIPE_LEN * STRIPE_LEN;
    let stripes = rooms.iter().flat_map(|(_, at, device)| {
        (0..per_device).map(move |number| Stripe {
            devid: device.devid,
            offset: (at + number * stripe_size).into(),
            dev_uuid: device.uuid,
        })
    });
    let stripes = stripes.collect();
    let logical = volume.chunks().next_back().map_or(0, crate::volume::Chunk::end);
    Ok(Some(NewChunk { logical, length: stripe_size * width, flags, stripe_size, stripes }))
}

/// Start and length of the longest part of a device that no chunk takes.
fn largest_hole(forest: &Forest, device: &DevItem) -> Result<Option<(u64, u64)>> {
    let devid = device.devid.get();
    let mut free = RangeSet::default();
    free.insert(RESERVED..device.total_bytes.get());
    let keys = Key::all_of_kind(devid, KeyKind::DEV_EXTENT);
    for item in forest.tree(tree_id::DEV)?.range(keys) {
        let item = item?;
        let key = item.key();
        let extent = DevExtent::view(item.data())
            .map_err(|damage| Error::in_item(damage, tree_id::DEV, key))?;
        free.remove(key.offset..key.offset.saturating_add(extent.length.get()));
    }
    let holes = free.iter().filter_map(|hole| {
        let start = hole.start.next_multiple_of(STRIPE_LEN);
        Some((start, hole.end.checked_sub(start)?))
    });
    Ok(holes.max_by_key(|(start, len)| (*len, std::cmp::Reverse(*start))))
}

impl NewChunk {
    /// The device items as they will be.
    pub(super) fn dev_items(&self, forest: &Forest) -> Vec<DevItem> {
        let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
        for stripe in &self.stripes {
            *taken.entry(stripe.devid.get()).or_default() += self.stripe_size;
        }
        let devices = forest.volume().dev_items();
        devices
            .filter_map(|device| {
                let used = device.bytes_used.get() + taken.get(&device.devid.get())?;
                Some(DevItem { bytes_used: used.into(), ..*device })
            })
            .collect()
    }

    /// What to change in the chunk tree.
    pub(super) fn chunk_edits(&self, forest: &Forest) -> Vec<Edit> {
        let is_raid10 = self.flags.contains(BlockGroupFlags::RAID10);
        let item = ChunkItem {
            length: self.length.into(),
            owner: tree_id::EXTENT.into(),
            stripe_len: STRIPE_LEN.into(),
            flags: self.flags.bits().into(),
            io_align: (STRIPE_LEN as u32).into(),
            io_width: (STRIPE_LEN as u32).into(),
            sector_size: forest.volume().sector_size().into(),
            num_stripes: (self.stripes.len() as u16).into(),
            sub_stripes: if is_raid10 { 2 } else { 1 }.into(),
        };
        let data = [item.as_bytes(), self.stripes.as_bytes()].concat();
        let devices = self.dev_items(forest).into_iter().map(|device| {
            let key = Key::new(DEV_ITEMS, KeyKind::DEV_ITEM, device.devid.get());
            (key, Some(device.as_bytes().to_vec()))
        });
        let key = Key::new(tree_id::FIRST_FREE, KeyKind::CHUNK_ITEM, self.logical);
        devices.chain([(key, Some(data))]).collect()
    }

    /// What to add to the device tree.
    pub(super) fn device_edits(&self, forest: &Forest) -> Vec<Edit> {
        let extent = DevExtent {
            chunk_tree: tree_id::CHUNK.into(),
            chunk_objectid: tree_id::FIRST_FREE.into(),
            chunk_offset: self.logical.into(),
            length: self.stripe_size.into(),
            chunk_tree_uuid: forest.chunk_tree_uuid(),
        };
        let mut edits: Vec<Edit> = self
            .stripes
            .iter()
            .map(|stripe| {
                let key = Key::new(stripe.devid.get(), KeyKind::DEV_EXTENT, stripe.offset.get());
                (key, Some(extent.as_bytes().to_vec()))
            })
            .collect();
        edits.sort_by_key(|(key, _)| *key);
        edits
    }
}
