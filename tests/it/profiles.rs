//! Volumes of several devices that the kernel made: every copy, what parity rebuilds, what is written.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use btrpress::device::{Access, Device, FileDevice};
use btrpress::error::Error;
use btrpress::format::{Key, KeyKind, Logical, tree_id};
use btrpress::tree::Forest;
use btrpress::volume::{Site, Volume, find_others};

use tempfile::TempDir;

use crate::fixture::fixture;
use crate::tool;

/// Fixtures of several devices, and how many of them may be missing.
const PROFILES: [(&str, usize); 6] =
    [("raid0", 0), ("raid1", 1), ("raid1c3", 2), ("raid10", 1), ("raid5", 1), ("raid6", 2)];

fn open(paths: &[PathBuf], access: Access) -> Result<Forest, Error> {
    let devices = paths.iter().map(|path| {
        FileDevice::open(path, access).map(|device| Arc::new(device) as Arc<dyn Device>)
    });
    Forest::open(Volume::open(devices.collect::<Result<_, _>>()?)?)
}

/// Where all extents are, of data and of tree blocks, and their lengths in bytes.
fn extents(forest: &Forest) -> Vec<(Logical, usize)> {
    let node_size = forest.volume().node_size() as usize;
    let tree = forest.tree(tree_id::EXTENT).unwrap();
    let items = tree.items().map(|item| item.unwrap().key());
    items
        .filter_map(|Key { objectid, kind, offset }| match kind {
            KeyKind::EXTENT_ITEM => Some((Logical(objectid), offset as usize)),
            KeyKind::METADATA_ITEM => Some((Logical(objectid), node_size)),
            _ => None,
        })
        .collect()
}

/// Reads all data that has checksums. Gives the number of its bytes.
fn verify_data(forest: &Forest) -> usize {
    let volume = forest.volume();
    let (sector, sum) = (volume.sector_size() as usize, volume.checksum_kind().size());
    let mut total = 0;
    for item in forest.tree(tree_id::CSUM).unwrap().items() {
        let item = item.unwrap();
        let mut at = item.key().offset;
        // An item may reach over the end of a chunk.
        for checksum in item.data().chunks_exact(sum) {
            volume.read_data(Logical(at), checksum, &mut vec![0; sector]).unwrap();
            at += sector as u64;
            total += sector;
        }
    }
    total
}

/// Reads everything, in every way; all must agree.
#[track_caller]
fn assert_copies_agree(name: &str, paths: &[PathBuf]) {
    let forest = open(paths, Access::Read).unwrap();
    let volume = forest.volume();
    assert!(verify_data(&forest) > 1 << 17, "{name}");
    for (at, len) in extents(&forest) {
        let [mut first, mut other] = [vec![0; len], vec![0; len]];
        volume.read_copy(at, 0, &mut first).unwrap();
        for copy in 1..volume.copies(at).unwrap() {
            volume.read_copy(at, copy, &mut other).unwrap();
            assert!(first == other, "{name}: {at}, copy {copy}");
        }
    }
    assert_eq!(volume.fault_count(), 0, "{name}");
    assert!(volume.missing_devices().is_empty(), "{name}");
}

/// The kernel's copies and parity are what ours would be: writing what is there, as a whole and in parts of `part`
/// bytes, changes no byte of any device.
#[track_caller]
fn assert_writes_agree(name: &str, paths: &[PathBuf], part: usize) {
    let before: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let forest = open(paths, Access::Write).unwrap();
    let volume = forest.volume();
    for (at, len) in extents(&forest) {
        let mut bytes = vec![0; len];
        volume.read_any(at, &mut bytes).unwrap();
        volume.write(at, &bytes).unwrap();
        for (bytes, number) in bytes.chunks(part).zip(0..) {
            volume.write(Logical(at.0 + number * part as u64), bytes).unwrap();
        }
    }
    volume.flush().unwrap();
    drop(forest);
    for (path, before) in paths.iter().zip(before) {
        assert!(fs::read(path).unwrap() == before, "{name}: {}", path.display());
    }
}

#[test]
fn every_copy_of_every_extent_is_the_same() {
    for (name, _) in PROFILES {
        assert_copies_agree(name, &fixture(name).devices());
    }
}

#[test]
fn writing_what_is_there_changes_nothing() {
    for (name, _) in PROFILES {
        assert_writes_agree(name, &fixture(name).devices(), 20 << 10);
    }
}

/// Many rows, so that parity has gone round all devices.
#[test]
fn a_larger_volume_that_the_kernel_has_just_made_agrees_too() {
    if !tool::kernel_can_judge("larger volumes of several devices") {
        return;
    }
    for (name, count) in [("raid0", 3), ("raid10", 4), ("raid5", 4), ("raid6", 5)] {
        let dir = TempDir::new().unwrap();
        let paths: Vec<PathBuf> = (1..=count)
            .map(|number| dir.path().join(format!("{number}.img")))
            .inspect(|path| File::create(path).unwrap().set_len(320 << 20).unwrap())
            .collect();
        let names: Vec<_> = paths.iter().map(|path| path.to_str().unwrap()).collect();
        tool::run("mkfs.btrfs", &[&["--quiet", "-m", name, "-d", name][..], &names].concat());
        fill(&paths);
        assert_copies_agree(name, &paths);
        assert_writes_agree(name, &paths, 52 << 10);
        let lost = usize::from(name != "raid0");
        verify_data(&open(&paths[lost..], Access::Read).unwrap());
    }
}

/// Has the kernel write files of many sizes.
fn fill(paths: &[PathBuf]) {
    let attach = |path: &PathBuf| {
        let args = ["--find", "--show", path.to_str().unwrap()];
        tool::run("losetup", &args).trim().to_owned()
    };
    let loops: Vec<String> = paths.iter().map(attach).collect();
    let at = TempDir::new().unwrap();
    let place = at.path().to_str().unwrap();
    tool::run("btrfs", &[&["device".to_owned(), "scan".to_owned()][..], &loops].concat());
    tool::run("mount", &[&loops[0], place]);
    let mut state = 1_u64;
    for number in 0..60_usize {
        let len = 1 << (12 + number % 10) | (number * 37) << 8;
        let bytes = (0..len).map(|_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        });
        fs::write(at.path().join(number.to_string()), bytes.collect::<Vec<_>>()).unwrap();
    }
    tool::unmount(place);
    for device in loops {
        tool::output("btrfs", &["device", "scan", "--forget", &device]);
        tool::run("losetup", &["--detach", &device]);
    }
}

#[test]
fn everything_is_read_without_as_many_devices_as_the_profile_allows() {
    for (name, may_miss) in PROFILES {
        let fixture = fixture(name);
        let all = fixture.devices();
        let total = verify_data(&open(&all, Access::Read).unwrap());
        // Every set of devices, as bits.
        for missing in (1_u32..1 << all.len()).filter(|set| set.count_ones() as usize == may_miss) {
            let there = all.iter().enumerate().filter(|(number, _)| missing >> number & 1 == 0);
            let there: Vec<_> = there.map(|(_, path)| path.clone()).collect();
            let forest = open(&there, Access::Read).unwrap();
            assert_eq!(verify_data(&forest), total, "{name} without {missing:b}");
            let known = forest.volume().missing_devices().len();
            assert_eq!(known, may_miss, "{name} without {missing:b}");
        }
    }
}

#[test]
fn without_redundancy_a_missing_device_is_an_error() {
    let fixture = fixture("raid0");
    let opened = open(&fixture.devices()[1..], Access::Read);
    let verified = opened.map(|forest| {
        let volume = forest.volume();
        let mut read = |(at, len): (Logical, usize)| volume.read_any(at, &mut vec![0; len]);
        extents(&forest).into_iter().try_for_each(&mut read)
    });
    let error = verified.and_then(|read| read).unwrap_err();
    assert!(matches!(error, Error::MissingDevice { devid: 1 }), "{error}");
}

#[test]
fn one_device_finds_the_others() {
    for (name, _) in PROFILES {
        let fixture = fixture(name);
        let found = find_others(&[Site::whole(&fixture.path())]).unwrap();
        let found: Vec<_> = found.into_iter().map(|site| site.path).collect();
        assert_eq!(found, fixture.devices()[1..], "{name}");
    }
}
