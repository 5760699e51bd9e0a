//! Volumes made by hand, in memory.

use zerocopy::FromZeros;

use super::*;
use crate::device::Memory;
use crate::format::{BlockGroupFlags, MAGIC, SUPERBLOCK_OFFSETS};

mod damage;
mod mapping;
mod superblocks;

/// Where the chunk under test starts.
pub(super) const START: u64 = 1 << 30;
/// Where each device's stripe of it starts.
pub(super) const STRIPE_START: u64 = 1 << 20;
/// Size of every device.
const DEVICE_SIZE: u64 = 2 << 20;
const SECTOR: u32 = 4096;
const NODE: u32 = 16384;

pub(super) fn uuid(devid: u64) -> [u8; 16] {
    [devid as u8; 16]
}

/// A superblock as device `devid` of `count` has it, with one system chunk that is far away from everything else.
pub(super) fn superblock(devid: u64, count: u64) -> Superblock {
    let mut sb = Superblock::new_zeroed();
    sb.fsid = [0xf5; 16];
    sb.magic = MAGIC;
    sb.generation = 7.into();
    sb.root = (1 << 20).into();
    sb.chunk_root = (2 << 20).into();
    sb.num_devices = count.into();
    sb.sectorsize = SECTOR.into();
    sb.nodesize = NODE.into();
    sb.leafsize = NODE.into();
    sb.dev_item.devid = devid.into();
    sb.dev_item.total_bytes = DEVICE_SIZE.into();
    sb.dev_item.uuid = uuid(devid);
    sb.dev_item.fsid = sb.fsid;
    let (item, stripes) = chunk_item(BlockGroupFlags::SYSTEM, 1 << 16, &[(1, 1 << 19)]);
    let key = RawKey::from(Key::new(256, KeyKind::CHUNK_ITEM, 1 << 16));
    let array = [
        zerocopy::IntoBytes::as_bytes(&key),
        zerocopy::IntoBytes::as_bytes(&item),
        zerocopy::IntoBytes::as_bytes(&*stripes),
    ]
    .concat();
    sb.sys_chunk_array[..array.len()].copy_from_slice(&array);
    sb.sys_chunk_array_size = (array.len() as u32).into();
    sb
}

/// A chunk item with stripes `(devid, offset)`.
pub(super) fn chunk_item(
    flags: BlockGroupFlags,
    length: u64,
    stripes: &[(u64, u64)],
) -> (ChunkItem, Vec<Stripe>) {
    let mut item = ChunkItem::new_zeroed();
    item.length = length.into();
    item.owner = 2.into();
    item.stripe_len = STRIPE_LEN.into();
    item.flags = flags.bits().into();
    item.sector_size = SECTOR.into();
    item.num_stripes = (stripes.len() as u16).into();
    item.sub_stripes = if flags.contains(BlockGroupFlags::RAID10) { 2 } else { 1 }.into();
    let stripe = |&(devid, offset): &(u64, u64)| Stripe {
        devid: devid.into(),
        offset: offset.into(),
        dev_uuid: uuid(devid),
    };
    (item, stripes.iter().map(stripe).collect())
}

pub(super) fn devices(count: u64) -> Vec<Arc<Memory>> {
    (1..=count)
        .map(|devid| {
            let device = Memory::new(DEVICE_SIZE);
            let at = SUPERBLOCK_OFFSETS[0];
            device.write_at(at, &superblock(devid, count).to_bytes(at).unwrap()).unwrap();
            Arc::new(device)
        })
        .collect()
}

/// Opens those of `all` whose numbers aren't in `missing`, with a chunk of `rows` rows over all of them.
pub(super) fn volume(
    all: &[Arc<Memory>],
    missing: &[u64],
    flags: BlockGroupFlags,
    rows: u64,
) -> Volume {
    let there = all.iter().zip(1..).filter(|(_, devid)| !missing.contains(devid));
    let there = there.map(|(device, _)| Arc::clone(device) as Arc<dyn Device>).collect();
    let mut volume = Volume::open(there).unwrap();
    let profile = Profile::of(flags).unwrap();
    let count = all.len() as u64;
    let stripes: Vec<_> = match profile {
        Profile::Dup => vec![(1, STRIPE_START), (1, STRIPE_START + (1 << 19))],
        _ => (1..=count).map(|devid| (devid, STRIPE_START + devid * STRIPE_LEN)).collect(),
    };
    let width = match profile {
        Profile::Raid0 => count,
        Profile::Raid10 => count / 2,
        Profile::Raid5 => count - 1,
        Profile::Raid6 => count - 2,
        _ => 1,
    };
    let (item, stripes) = chunk_item(flags, rows * width * STRIPE_LEN, &stripes);
    volume.add_chunk(Logical(START), &item, &stripes).unwrap();
    volume
}

/// Bytes that look random but are the same each time.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Every profile, with a number of devices it can have.
pub(super) const PROFILES: [(BlockGroupFlags, u64); 14] = [
    (BlockGroupFlags::empty(), 1),
    (BlockGroupFlags::DUP, 1),
    (BlockGroupFlags::RAID0, 1),
    (BlockGroupFlags::RAID0, 3),
    (BlockGroupFlags::RAID1, 2),
    (BlockGroupFlags::RAID1C3, 3),
    (BlockGroupFlags::RAID1C4, 4),
    (BlockGroupFlags::RAID10, 2),
    (BlockGroupFlags::RAID10, 6),
    (BlockGroupFlags::RAID5, 2),
    (BlockGroupFlags::RAID5, 3),
    (BlockGroupFlags::RAID5, 5),
    (BlockGroupFlags::RAID6, 3),
    (BlockGroupFlags::RAID6, 5),
];
