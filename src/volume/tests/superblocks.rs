//! Opening, and writing superblocks.

use super::*;
use crate::device::{Event, Failure, Faulty, Operation, Recorder, Tape};
use crate::error::{Place, Refusal};
use crate::format::SuperFlags;

fn opened(devices: &[Arc<Memory>]) -> Result<Volume> {
    Volume::open(devices.iter().map(|device| Arc::clone(device) as Arc<dyn Device>).collect())
}

fn put(device: &Memory, superblock: &Superblock, at: u64) {
    device.write_at(at, &superblock.to_bytes(at).unwrap()).unwrap();
}

#[test]
fn the_newest_superblock_counts() {
    let devices = devices(2);
    let mut newer = superblock(2, 2);
    newer.generation = 8.into();
    put(&devices[1], &newer, SUPERBLOCK_OFFSETS[0]);
    let volume = opened(&devices).unwrap();
    assert_eq!(volume.superblock().generation.get(), 8);
    let generations: Vec<_> = volume.members().iter().map(Member::generation).collect();
    assert_eq!(generations, [7, 8]);
}

#[test]
fn devices_of_two_filesystems_do_not_open_together() {
    let devices = devices(2);
    let mut other = superblock(2, 2);
    other.fsid = [1; 16];
    put(&devices[1], &other, SUPERBLOCK_OFFSETS[0]);
    assert!(matches!(opened(&devices), Err(Error::Unsupported(_))));
    // A seed is what the other one sprouted from.
    other.flags = SuperFlags::SEEDING.bits().into();
    other.generation = 99.into();
    put(&devices[1], &other, SUPERBLOCK_OFFSETS[0]);
    assert_eq!(opened(&devices).unwrap().superblock().fsid, superblock(1, 2).fsid);
}

#[test]
fn a_clone_is_noticed() {
    let devices = devices(1);
    let twice = [Arc::clone(&devices[0]), Arc::new(Memory::clone(&devices[0]))];
    let volume = opened(&twice).unwrap();
    assert_eq!(volume.members().len(), 1);
    assert_eq!(volume.clashes()[0].devid, 1);
}

#[test]
fn a_missing_device_is_named() {
    let devices = devices(3);
    let volume = volume(&devices, &[2], DATA | BlockGroupFlags::RAID5, 1);
    assert_eq!(volume.missing_devices(), [2]);
}

const DATA: BlockGroupFlags = BlockGroupFlags::DATA;

#[test]
fn without_a_primary_the_copies_that_are_good_are_named() {
    let [primary, mirror, _] = SUPERBLOCK_OFFSETS;
    let device = Memory::new(mirror + (1 << 20));
    let damage = |device: &Memory| match opened(&[Arc::new(device.clone())]) {
        Err(Error::Corrupt { at: Place::Device { byte, .. }, damage }) if byte == primary => damage,
        other => panic!("{other:?}"),
    };
    assert_eq!(damage(&device), Damage::Magic);
    let superblock = superblock(1, 1);
    put(&device, &superblock, mirror);
    let mirrors = vec![mirror];
    let why = Box::new(Damage::Magic);
    assert_eq!(damage(&device), Damage::PrimarySuperblock { why, mirrors: mirrors.clone() });
    // What the copy is of is not what the primary was.
    let other = Superblock { fsid: [9; 16], ..superblock };
    put(&device, &other, primary);
    device.write_at(primary + 100, &[0xff]).unwrap();
    let why = Box::new(Damage::Checksum);
    assert_eq!(damage(&device), Damage::PrimarySuperblock { why, mirrors });
}

#[test]
fn of_a_damaged_primary_the_newest_copy_is_read() {
    let [primary, mirror, last] = SUPERBLOCK_OFFSETS;
    let device = Arc::new(Memory::new(last + (1 << 20)));
    for (at, generation) in [(primary, 9), (mirror, 7), (last, 8)] {
        let superblock = Superblock { generation: generation.into(), ..superblock(1, 1) };
        put(&device, &superblock, at);
    }
    assert_eq!(opened(&[Arc::clone(&device)]).unwrap().members()[0].superblock_damage(), None);
    device.write_at(primary + 512, &[0xff; 512]).unwrap();
    let volume = opened(&[Arc::clone(&device)]).unwrap();
    assert_eq!(volume.superblock().generation.get(), 8);
    let (why, mirrors) = (Box::new(Damage::Checksum), vec![mirror, last]);
    let damage = Damage::PrimarySuperblock { why, mirrors };
    assert_eq!(volume.members()[0].superblock_damage(), Some(&damage));
    assert!(damage.to_string().contains("btrfs rescue super-recover"));
}

#[test]
fn a_device_too_small_for_a_superblock_has_none() {
    let error = opened(&[Arc::new(Memory::new(4096))]).unwrap_err();
    assert!(matches!(error, Error::Corrupt { damage: Damage::Magic, .. }));
}

#[test]
fn every_device_gets_its_own_superblock() {
    let devices = devices(2);
    let mut volume = opened(&devices).unwrap();
    let mut item = *volume.members()[1].dev_item();
    item.bytes_used = 12345.into();
    volume.set_dev_item(&item);
    let mut next = *volume.superblock();
    next.generation = 8.into();
    volume.write_superblock(&next).unwrap();
    assert_eq!(volume.superblock().generation.get(), 8);
    volume.recheck().unwrap();
    let volume = opened(&devices).unwrap();
    let used = |member: &Member| (member.generation(), member.dev_item().bytes_used.get());
    assert_eq!(volume.members().iter().map(used).collect::<Vec<_>>(), [(8, 0), (8, 12345)]);
}

#[test]
fn copies_are_only_where_they_fit_in_whole() {
    let [_, mirror, _] = SUPERBLOCK_OFFSETS;
    for (size, copies) in [(mirror + 4096, 1), (mirror + 8192, 2)] {
        let device = Memory::new(size);
        let mut superblock = superblock(1, 1);
        superblock.dev_item.total_bytes = size.into();
        put(&device, &superblock, SUPERBLOCK_OFFSETS[0]);
        let mut volume = opened(&[Arc::new(device)]).unwrap();
        volume.write_superblock(&superblock).unwrap();
        let found = volume.superblock_copies(1);
        assert_eq!(found.len(), copies);
        assert!(found.iter().all(|(_, copy)| copy.is_ok()));
    }
}

#[test]
fn a_change_from_outside_is_noticed() {
    let devices = devices(1);
    let volume = opened(&devices).unwrap();
    volume.recheck().unwrap();
    let mut other = superblock(1, 1);
    other.generation = 9.into();
    put(&devices[0], &other, SUPERBLOCK_OFFSETS[0]);
    assert!(matches!(volume.recheck(), Err(Error::Refused(Refusal::Changed { .. }))));
}

#[test]
fn after_a_failure_nothing_is_written_to_any_device() {
    let all = devices(2);
    let failing = Faulty::over(Arc::clone(&all[1])).failing(
        Operation::Flush,
        0,
        Failure::Once(std::io::ErrorKind::Other),
    );
    let given: Vec<Arc<dyn Device>> = vec![Arc::clone(&all[0]) as _, Arc::new(failing)];
    let mut volume = Volume::open(given).unwrap();
    assert!(matches!(volume.flush(), Err(Error::Io { .. })));
    let mut next = *volume.superblock();
    next.generation = 8.into();
    assert!(matches!(volume.write_superblock(&next), Err(Error::Latched { .. })));
    assert_eq!(opened(&all).unwrap().superblock().generation.get(), 7);
}

#[test]
fn the_primaries_are_durable_before_anything_else_is_touched() {
    let all = devices(2);
    let tape = Arc::new(Tape::default());
    let given = all.iter().zip(0..).map(|(device, number)| {
        Arc::new(Recorder::over(Arc::clone(device), number, Arc::clone(&tape))) as Arc<dyn Device>
    });
    let mut volume = Volume::open(given.collect()).unwrap();
    volume.write_superblock(&volume.superblock().clone()).unwrap();
    let [primary, ..] = SUPERBLOCK_OFFSETS;
    let steps: Vec<_> = tape
        .events()
        .iter()
        .map(|event| match event {
            Event::Write { device, byte, .. } => (*device, Some(*byte)),
            Event::Flush { device } => (*device, None),
        })
        .collect();
    let first = [(0, Some(primary)), (1, Some(primary)), (0, None), (1, None)];
    assert_eq!(steps[..4], first);
    assert_eq!(steps[4..], [(0, None), (1, None)]);
}

/// A copy that was torn, and one that is older than the last commit, are no copies to fall back on.
#[test]
fn copies_are_renewed_before_the_primary_is_touched() {
    let [primary, mirror, last] = SUPERBLOCK_OFFSETS;
    let (tape, size) = (Arc::new(Tape::default()), last + (1 << 20));
    let device = Memory::new(size);
    let mut current = superblock(1, 1);
    current.dev_item.total_bytes = size.into();
    put(&device, &current, primary);
    put(&device, &Superblock { generation: 3.into(), ..current }, mirror);
    let recorder = Recorder::over(device, 0, Arc::clone(&tape));
    let mut volume = Volume::open(vec![Arc::new(recorder)]).unwrap();
    for generation in [8, 9] {
        volume.write_superblock(&Superblock { generation: generation.into(), ..current }).unwrap();
    }
    let steps: Vec<_> = tape
        .events()
        .iter()
        .map(|event| match event {
            Event::Write { byte, bytes, .. } => {
                let bytes = bytes[..].try_into().unwrap();
                Some((*byte, Superblock::parse(bytes, *byte).unwrap().generation.get()))
            }
            Event::Flush { .. } => None,
        })
        .collect();
    let renewed = [Some((mirror, 7)), Some((last, 7)), None];
    let commit = |number| {
        [Some((primary, number)), None, Some((mirror, number)), Some((last, number)), None]
    };
    assert_eq!(steps, [&renewed[..], &commit(8), &commit(9)].concat());
}
