//! Power cuts while new chunks are made: the chunk and device trees, the device items and the superblocks of all
//! devices change together.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use btrpress::device::{Crash, Event, Sampling};
use btrpress::format::{BlockGroupFlags, SUPERBLOCK_OFFSETS, Superblock};
use btrpress::fs::Filesystem;
use rustix::fs::{FallocateFlags, XattrFlags};

use super::kernel::Bench;
use super::recompress;
use super::recording::devices_of;
use crate::oracle::NONE;
use crate::oracle::content::{Kind, content};
use crate::oracle::image::{Image, Mount};
use crate::tool;

const MIB: u64 = 1 << 20;
/// Megabytes of each device, at first and when it is full.
const DEVICE_MIB: [u64; 2] = [240, 400];
/// Of data, what is left free.
const LEFT_BYTES: u64 = 3 * MIB;
/// Pieces of preallocated space that take all the rest.
const FILLER_STEPS: [u64; 2] = [2 * MIB, MIB / 16];
/// Of metadata chunks, the percentage that is in use at least: then not all leaves can be changed at once.
const METADATA_PERCENT: u64 = 56;
/// An attribute of this size fills a leaf, so that each file has one of its own.
const ATTRIBUTE_BYTES: usize = 15_000;
/// Files to write before looking again how full it is.
const FILES: u64 = 100;
/// Of so many states of each profile, while many writes are in flight and around superblocks, the engine is the judge.
const STATES: (usize, usize) = (30, 60);
/// The kernel judges so many of each profile.
const KERNEL_STATES: usize = 6;

/// A profile for all, and how many devices.
const PROFILES: [(&str, usize); 5] =
    [("dup", 1), ("raid1", 2), ("raid1c3", 3), ("raid10", 4), ("raid6", 3)];

/// A filesystem with no room for its files uncompressed, and none to change all leaves in one commit.
fn cramped(profile: &str, count: usize) -> Image {
    let sizes = vec![DEVICE_MIB[0] * MIB; count];
    let image = Image::mkfs_on(&sizes, &["-d", profile, "-m", profile]);
    let mount = image.mount("rw,compress-force=zstd:1,max_inline=0");
    tool::run("btrfs", &["subvolume", "create", &mount.at("work")]);
    let attribute = content(Kind::Noise, 1, ATTRIBUTE_BYTES as u64);
    for number in 0.. {
        let path = mount.root().join(format!("work/{number}"));
        fs::write(&path, content(Kind::Text, number, 6000)).expect("write");
        rustix::fs::setxattr(&path, "user.large", &attribute, XattrFlags::empty())
            .expect("setxattr");
        if number % FILES == FILES - 1 {
            mount.sync();
            let (used, total) = space(&mount, "Metadata,");
            if used * 100 > total * METADATA_PERCENT {
                break;
            }
        }
    }
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("work"), &mount.at("before")]);
    let spare = preallocate(&mount, "spare", 0, LEFT_BYTES).expect("room for it");
    let mut start = 0;
    for step in FILLER_STEPS {
        while preallocate(&mount, "filler", start, step).is_ok() {
            start += step;
        }
    }
    fs::remove_file(spare).expect("remove");
    assert_eq!(mount.unmount(), NONE);
    enlarge(&image);
    image
}

/// Takes space that no data is in.
fn preallocate(mount: &Mount, name: &str, start: u64, length: u64) -> std::io::Result<PathBuf> {
    let path = mount.root().join(name);
    let file = fs::File::options().create(true).append(true).open(&path)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), start, length)?;
    Ok(path)
}

/// What there is to make chunks of comes only now: the kernel would have made them itself.
fn enlarge(image: &Image) {
    for path in image.paths() {
        let file = fs::File::options().write(true).open(path).expect("image file");
        file.set_len(DEVICE_MIB[1] * MIB).expect("image file");
    }
    let mount = image.mount("rw");
    for number in 1..=image.paths().len() {
        let size = format!("{number}:max");
        tool::run("btrfs", &["filesystem", "resize", &size, &mount.at("")]);
    }
    assert_eq!(mount.unmount(), NONE);
}

/// Bytes of chunks of a kind, used and in all.
fn space(mount: &Mount, kind: &str) -> (u64, u64) {
    let said = tool::run("btrfs", &["filesystem", "df", "--raw", &mount.at("")]);
    let line = said.lines().find(|line| line.starts_with(kind)).expect("a line for the kind");
    let number = |name: &str| -> u64 {
        let (_, rest) = line.split_once(name).expect("a number");
        rest.split(',').next().expect("a number").parse().expect("a number")
    };
    (number("used="), number("total="))
}

/// Number of chunks by type.
fn chunks(crash: &Crash) -> BTreeMap<u64, usize> {
    let fs = Filesystem::open(devices_of(crash)).expect("a whole state");
    let kinds = BlockGroupFlags::DATA | BlockGroupFlags::METADATA | BlockGroupFlags::SYSTEM;
    let mut count = BTreeMap::new();
    for chunk in fs.forest().volume().chunks() {
        *count.entry((chunk.flags & kinds).bits()).or_default() += 1;
    }
    count
}

/// For each commit that adds a chunk, the events from the superblocks of the one before it to those of the one after it,
/// which is the first to use the chunk.
fn around_chunk_commits(events: &[Event]) -> Vec<Range<usize>> {
    let mut commits: Vec<(usize, Superblock)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let Event::Write { byte, bytes, .. } = event else { continue };
        if *byte == SUPERBLOCK_OFFSETS[0] {
            let bytes = bytes[..].try_into().expect("the size of a superblock");
            let superblock = Superblock::parse(bytes, *byte).expect("a superblock");
            if commits.last().is_none_or(|(_, last)| last.generation != superblock.generation) {
                commits.push((at, superblock));
            }
        }
    }
    let adds_chunk = |(_, (_, superblock)): &(usize, &(usize, Superblock))| {
        superblock.chunk_root_generation == superblock.generation
    };
    let start_of = |number: usize| commits.get(number).map(|(at, _)| *at);
    let numbered = commits.iter().enumerate().filter(adds_chunk);
    numbered
        .map(|(number, _)| {
            let before = number.checked_sub(1).and_then(start_of).unwrap_or(0);
            before..start_of(number + 1).unwrap_or(events.len())
        })
        .collect()
}

/// Records runs that make chunks, the first for data and the second, which has room for larger commits, for metadata, and demands that the states around those commits are whole.
fn every_state_is_whole(profile: &str, count: usize) {
    let image = cramped(profile, count);
    let bench = Bench::new(image.paths().to_vec(), &["none", "zlib:1"].map(recompress));
    let recording = &bench.recording;
    let sampling = Sampling::default();
    let mut crashes = recording.crashes(&sampling);
    let first = chunks(&crashes.next().expect("a state"));
    let last = chunks(&crashes.last().expect("a state"));
    for kind in [BlockGroupFlags::DATA, BlockGroupFlags::METADATA].map(|kind| kind.bits()) {
        assert!(first[&kind] < last[&kind], "{profile}: {first:?} became {last:?}");
    }
    let windows = around_chunk_commits(&recording.tape.events());
    assert!(windows.len() >= 2, "{profile}");
    let is_near = |crash: &Crash| windows.iter().any(|window| window.contains(&crash.after));
    let (many, few) = STATES;
    let tried = recording.try_states(recording.sample_of(&sampling, is_near, many, few));
    assert_eq!(tried.wrong, NONE, "{profile}");
    eprintln!("{profile}: {} states around {} new chunks", tried.count, windows.len());
    let half = KERNEL_STATES / 2;
    let (judged, wrong) = bench.judge(recording.sample_of(&sampling, is_near, half, half));
    assert_eq!(wrong, NONE, "{profile}: {}", wrong.join("\n"));
    eprintln!("{profile}: the kernel judged {judged} of them");
}

#[test]
fn a_power_cut_while_chunks_are_made_leaves_everything_whole() {
    if !tool::kernel_can_judge("power cuts while chunks are made") {
        return;
    }
    for (profile, count) in PROFILES {
        every_state_is_whole(profile, count);
    }
}
