//! Superblocks that a power cut tears: sectors of 512 bytes, of which some have landed.
//!
//! A commit writes primaries, then copies, with a flush between them, and renews bad copies before. So one of them is
//! whole at every moment, and what it points to is, too: it can be read. The kernel mounts only with the primary, so
//! that such a filesystem is not written, but restored with `btrfs rescue super-recover`.

use std::ffi::OsStr;
use std::process::{Command, Output};

use btrpress::device::{Crash, Event, Sampling};
use btrpress::error::{Error, Refusal};
use btrpress::format::SUPERBLOCK_OFFSETS;
use btrpress::fs::Filesystem;

use super::kernel::Bench;
use super::recording::{Recording, devices_of};
use super::{images, recompress};
use crate::fixture::fixture;
use crate::oracle::NONE;
use crate::tool;

/// Ways to tear each superblock.
const SEEDS: u64 = 30;

fn samplings() -> impl Iterator<Item = Sampling> {
    (0..SEEDS).map(|seed| Sampling { sector: 512, seed, ..Sampling::default() })
}

fn record(name: &str) -> Recording {
    Recording::of(images(name), &["zlib:1", "none"].map(recompress))
}

/// Whether no primary superblock of a device is whole.
fn has_torn_primary(crash: &Crash) -> bool {
    let fs = Filesystem::open(devices_of(crash)).expect("a copy is whole");
    matches!(fs.writable(), Err(Error::Refused(Refusal::Superblock { .. })))
}

#[test]
fn a_torn_superblock_loses_nothing() {
    for name in ["zstd", "raid1"] {
        let recording = record(name);
        let torn = |sampling| {
            recording.sample_of(&sampling, Crash::is_torn, 0, usize::MAX).collect::<Vec<Crash>>()
        };
        let torn: Vec<Crash> = samplings().flat_map(torn).collect();
        let primaries = torn.iter().filter(|crash| has_torn_primary(crash)).count();
        let tried = recording.try_states(torn.into_iter());
        assert_eq!(tried.wrong, NONE, "{name}");
        eprintln!(
            "{name}: {} states with torn superblocks, {primaries} of them primaries",
            tried.count
        );
        assert!(primaries > 50, "{name}: {primaries} torn primaries are too few");
    }
}

/// Were the copies written before the primaries are safe, a power cut could tear all of them.
#[test]
fn copies_written_along_with_the_primary_are_seen() {
    let sound = record("zstd");
    let is_at = |event: &Event, place: fn(u64) -> bool| matches!(event, Event::Write { byte, .. } if place(*byte));
    let mut changed: Vec<Event> = Vec::new();
    for event in sound.tape.events() {
        if is_at(&event, |byte| SUPERBLOCK_OFFSETS[1..].contains(&byte))
            && let [.., primary, Event::Flush { .. }] = &changed[..]
            && is_at(primary, |byte| byte == SUPERBLOCK_OFFSETS[0])
        {
            changed.pop();
        }
        changed.push(event);
    }
    let mistaken = sound.with(changed);
    let torn = |sampling| {
        mistaken.sample_of(&sampling, Crash::is_torn, 0, usize::MAX).collect::<Vec<Crash>>()
    };
    let mut torn = samplings().flat_map(torn);
    assert!(torn.any(|crash| Filesystem::open(devices_of(&crash)).is_err()), "all can be opened");
}

fn run(args: &[&OsStr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_btrpress")).args(args).output().expect("the program starts")
}

#[test]
fn a_torn_primary_is_read_around_until_btrfs_progs_restore_it() {
    if !tool::kernel_can_judge("torn superblocks") {
        return;
    }
    for name in ["zstd", "raid1"] {
        let fixture = fixture(name);
        let bench = Bench::new(fixture.devices(), &[recompress("zlib:1")]);
        let torn = |sampling| {
            let torn = bench.recording.sample_of(&sampling, Crash::is_torn, 0, usize::MAX);
            torn.filter(has_torn_primary).last()
        };
        let image = bench.image_of(&samplings().find_map(torn).expect("a torn primary"));
        let path = image.path().as_os_str();
        // Of several devices the kernel looks at the checksum of one.
        assert!(name != "zstd" || image.try_mount("ro").is_err(), "the kernel mounts it");
        let args = |verb: &'static str| [verb.as_ref(), path];
        let report = run(&args("report"));
        assert_eq!(report.status.code(), Some(0), "{name}: {report:?}");
        let check = run(&args("check"));
        assert_eq!(check.status.code(), Some(1), "{name}: {check:?}");
        let to = ["--batch", "--to", "zstd:1"].map(OsStr::new);
        let refused = run(&[&to[..1], &args("recompress"), &to[1..]].concat());
        assert_eq!(refused.status.code(), Some(3), "{name}: {refused:?}");
        for said in [&report.stderr, &check.stdout, &refused.stderr] {
            let said = String::from_utf8_lossy(said);
            assert!(said.contains("btrfs rescue super-recover"), "{name}: {said}");
        }
        let attached = image.attach();
        for path in attached.paths() {
            let args = ["rescue", "super-recover", "-y"].map(OsStr::new);
            tool::output("btrfs", &[&args[..], &[path.as_os_str()]].concat());
        }
        drop(attached);
        assert_eq!(bench.truth.complaints(&image), NONE, "{name}");
    }
}
