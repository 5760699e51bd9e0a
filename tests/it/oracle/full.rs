//! Filesystems that the kernel has filled: from a tenth free to the last block, of data, of metadata, or of both. A run
//! goes as far as it can, says what is missing for the rest, and leaves the kernel room to delete.

use std::fs::{self, File};
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::content::{Dice, Kind, content};
use super::image::{Image, Mount};
use super::judge::{Truth, check};
use super::{NONE, press};
use crate::tool;

const MIB: u64 = 1 << 20;
/// Sizes of files that take what is left of data space, down to a sector.
const SIZES: [u64; 4] = [4 << 20, 256 << 10, 32 << 10, 4 << 10];
/// Size of the first file, so that files of all sizes have room after it.
const FIRST_BYTES: u64 = 2420 << 10;
/// What is taken up before metadata fills the rest.
const RESERVED_BYTES: u64 = 24 << 20;
/// Size of files that go into tree blocks.
const INLINE_BYTES: u64 = 1900;

/// What a filesystem is filled with, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    /// Data until this many percent are free; all of it for 0.
    Data(u64),
    /// All data space, and then a few sectors given back.
    DataButSectors(u64),
    /// Metadata, with small files.
    Metadata,
    /// Metadata, and then data.
    Both,
}

fn write(path: &Path, bytes: &[u8]) -> bool {
    let written = fs::write(path, bytes).and_then(|()| File::open(path)?.sync_all());
    if written.is_err() {
        // Also that may find no room; then the file stays, empty or in part.
        let _ = fs::remove_file(path);
    }
    written.is_ok()
}

fn free_percent(mount: &Mount) -> u64 {
    let space = rustix::fs::statvfs(mount.root()).expect("statvfs");
    space.f_bavail * 100 / space.f_blocks.max(1)
}

fn fill_data(mount: &Mount, free: u64) {
    let mut number = 0;
    for size_bytes in SIZES {
        while free == 0 || free_percent(mount) > free {
            number += 1;
            // Chunks of text that does not repeat from file to file, and some that gains nothing.
            let kind = if number % 8 == 0 { Kind::Noise } else { Kind::Text };
            if !write(
                &mount.root().join(format!("data-{number}")),
                &content(kind, number, size_bytes),
            ) {
                break;
            }
        }
    }
}

fn fill_metadata(mount: &Mount) {
    // So that fewer files do.
    let file = File::create(mount.root().join("reserved")).expect("create");
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, RESERVED_BYTES)
        .expect("fallocate");
    let text = content(Kind::Text, 1, 4 * MIB);
    let mut dice = Dice::new(1);
    for number in 0_u64.. {
        let at = dice.below(text.len() as u64 - INLINE_BYTES) as usize;
        let path = mount.root().join(format!("inline-{number}"));
        if fs::write(&path, &text[at..at + INLINE_BYTES as usize]).is_err() {
            break;
        }
        if number % 500 == 0 && File::open(&path).and_then(|file| file.sync_all()).is_err() {
            break;
        }
    }
}

/// A filesystem filled by the kernel, with a snapshot where that is wanted.
pub(super) fn filled(megabytes: u64, mkfs: &[&str], fill: Fill, has_snapshot: bool) -> Image {
    let image = Image::mkfs(megabytes * MIB, mkfs);
    let mount = image.mount("rw");
    let first = content(Kind::Text, 99, FIRST_BYTES);
    assert!(write(&mount.root().join("first"), &first));
    for number in 0..100 {
        let path = mount.root().join(format!("small-{number}"));
        assert!(write(&path, &content(Kind::Text, number, 700)));
    }
    if has_snapshot {
        let snapshot = mount.at("snapshot");
        tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at(""), &snapshot]);
    }
    match fill {
        Fill::Data(free) => fill_data(&mount, free),
        Fill::DataButSectors(count) => {
            fill_data(&mount, 0);
            let names = fs::read_dir(mount.root()).expect("readable").flatten();
            let is_small = |path: &Path| fs::metadata(path).is_ok_and(|found| found.len() == 4096);
            let paths = names.map(|entry| entry.path()).filter(|path| is_small(path));
            for path in paths.take(count as usize) {
                fs::remove_file(path).expect("remove");
            }
        }
        Fill::Metadata => fill_metadata(&mount),
        Fill::Both => {
            // The other way round, the kernel takes no more small files: it reserves data space for them first.
            fill_metadata(&mount);
            fill_data(&mount, 0);
        }
    }
    mount.sync();
    assert_eq!(mount.unmount(), NONE, "{fill:?}");
    image
}

fn run(image: &Image, to: &str) -> (Output, Value) {
    let args = ["--batch".as_ref(), "recompress".as_ref(), "--json".as_ref(), "--to".as_ref()];
    let args = [&args[..], &[to.as_ref(), image.path().as_os_str()]].concat();
    let output = press::output(&args, None);
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last().map(|line| serde_json::from_str(line).expect("JSON"));
    let last = last.unwrap_or_else(|| panic!("{}", tool::failure("btrpress", &args, &output)));
    (output, last)
}

/// Recompresses `image` again and again until nothing changes; gives what the last run said.
fn press_and_judge(image: &Image, truth: &Truth, to: &str, what: &str) -> Value {
    let mut all_commits = 0;
    for round in 0..4 {
        let before = image.digest();
        let (output, last) = run(image, to);
        eprintln!("{what}, {to}, round {round}: {last}");
        let is_short = output.status.code() == Some(5);
        assert!(is_short || output.status.code() == Some(0), "{what}, {to}: {:?}", output.status);
        let shortage = &last["shortage"];
        assert_eq!(is_short, shortage.is_object(), "{what}, {to}: {last}");
        if is_short {
            let is_said = |kind: &str| {
                let number = |name: &str| shortage[format!("{kind}_{name}")].as_u64();
                number("needed").is_some() && number("free").is_some()
            };
            assert!(is_said("data") || is_said("metadata"), "{what}, {to}: {last}");
            let data = |name: &str| shortage[name].as_u64().unwrap_or(0);
            assert!(data("data_free") < data("data_needed") + MIB, "{what}, {to}: {last}");
        }
        let commits = last["commits"].as_u64().expect("a number");
        if commits == 0 {
            assert_eq!(image.digest(), before, "{what}, {to}: written to without a commit");
            if all_commits > 0 || round == 0 {
                assert_eq!(truth.complaints(image), NONE, "{what}, {to}");
            }
            return last;
        }
        all_commits += commits;
    }
    panic!("{what}, {to}: no end");
}

/// The kernel goes on: it deletes on the full filesystem, and writes to what that has freed.
fn live_on(image: &Image, what: &str) {
    let mount = image.mount("rw");
    let names: Vec<_> =
        fs::read_dir(mount.root()).expect("readable").flatten().map(|entry| entry.path()).collect();
    let files = names.iter().filter(|path| path.is_file());
    for path in files.step_by(2) {
        fs::remove_file(path).unwrap_or_else(|error| panic!("{what}: {}: {error}", path.display()));
    }
    if mount.root().join("snapshot").exists() {
        tool::run("btrfs", &["subvolume", "delete", "--commit-after", &mount.at("snapshot")]);
        tool::run("btrfs", &["subvolume", "sync", &mount.at("")]);
    }
    mount.sync();
    let bytes = content(Kind::Text, 5, MIB);
    let path = mount.root().join("afterwards");
    fs::write(&path, &bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    mount.sync();
    assert_eq!(mount.unmount(), NONE, "{what}");
    assert_eq!(check(image), NONE, "{what}");
    let mount = image.mount("ro");
    assert!(fs::read(mount.root().join("afterwards")).expect("readable") == bytes, "{what}");
    assert_eq!(mount.unmount(), NONE, "{what}");
}

/// Fills, recompresses to each target in turn, and lets the kernel go on.
fn fill_and_press(megabytes: u64, mkfs: &[&str], fill: Fill, has_snapshot: bool) -> Vec<Value> {
    let image = filled(megabytes, mkfs, fill, has_snapshot);
    let truth = Truth::of(&image);
    let what = format!("{fill:?} {mkfs:?}, snapshot: {has_snapshot}");
    let mut said = Vec::new();
    for to in ["zstd:9", "none"] {
        said.push(press_and_judge(&image, &truth, to, &what));
    }
    live_on(&image, &what);
    said
}

#[test]
fn from_a_tenth_free_to_the_last_percent_everything_is_done() {
    if !tool::kernel_can_judge("nearly full filesystems") {
        return;
    }
    for free in [10, 1] {
        // What the kernel counts as free may be for metadata alone.
        let said = fill_and_press(200, &[], Fill::Data(free), free == 1);
        assert!(free < 10 || said[0]["shortage"].is_null(), "{}", said[0]);
    }
}

#[test]
fn data_full_to_the_last_sector_is_left_and_said() {
    if !tool::kernel_can_judge("a filesystem without a free data sector") {
        return;
    }
    for has_snapshot in [false, true] {
        let said = fill_and_press(200, &[], Fill::Data(0), has_snapshot);
        let shortage = &said[0]["shortage"];
        assert_eq!(shortage["data_free"], 0, "{shortage}");
        assert_eq!(shortage["unallocated"], 0, "{shortage}");
    }
}

#[test]
fn a_few_free_sectors_are_enough_to_begin_with() {
    if !tool::kernel_can_judge("a filesystem with a few free sectors") {
        return;
    }
    let image = filled(200, &[], Fill::DataButSectors(3), false);
    let truth = Truth::of(&image);
    let (_, last) = run(&image, "zstd:9");
    eprintln!("{last}");
    assert!(last["extents_rewritten"].as_u64() > Some(3), "{last}");
    assert_eq!(truth.complaints(&image), NONE);
    live_on(&image, "a few free sectors");
}

#[test]
fn metadata_full_of_small_files_gets_smaller() {
    if !tool::kernel_can_judge("a filesystem whose metadata is full") {
        return;
    }
    let said = fill_and_press(128, &[], Fill::Metadata, true);
    assert!(said[0]["shortage"].is_null(), "{}", said[0]);
}

#[test]
fn data_and_metadata_both_full() {
    if !tool::kernel_can_judge("a filesystem full of data and of metadata") {
        return;
    }
    fill_and_press(128, &[], Fill::Both, true);
}

#[test]
fn full_mixed_block_groups() {
    if !tool::kernel_can_judge("full mixed block groups") {
        return;
    }
    for fill in [Fill::Data(4), Fill::Data(0)] {
        fill_and_press(120, &["--mixed"], fill, true);
    }
}
