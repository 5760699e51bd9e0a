//! Tens of thousands of extents under a dozen snapshots, on the profiles whose layout is the hardest to get right: every
//! copy, and all parity, is read by the kernel afterwards.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use super::content::{Dice, Kind, content};
use super::image::{Image, Mount};
use super::judge::Truth;
use super::manifest::Manifest;
use super::{NONE, press, workload};
use crate::tool;

const MIB: u64 = 1 << 20;
const EXTENT_COUNT: usize = 20_000;
const SNAPSHOT_COUNT: u64 = 12;
/// Files that are changed sector by sector between snapshots, and their size.
const FILE_COUNT: u64 = 4;
const FILE_BYTES: u64 = 6 * MIB;
/// Single sectors that are changed before each snapshot.
const CHANGE_COUNT: u64 = 2_200;
/// Files that have an extent each.
const SMALL_COUNT: u64 = 3_000;

fn grow(mount: &Mount) {
    tool::run("btrfs", &["subvolume", "create", &mount.at("work")]);
    let mut dice = Dice::new(3);
    for number in 0..SMALL_COUNT {
        let bytes = content(Kind::Text, number, 2100 + dice.below(9000));
        workload::write(&mount.root().join(format!("work/small.{number}")), &bytes);
    }
    let mut files = Vec::new();
    for number in 0..FILE_COUNT {
        let path = mount.root().join(format!("work/{number}"));
        workload::write(&path, &content(Kind::Records, number, FILE_BYTES));
        files.push(OpenOptions::new().write(true).open(path).expect("open"));
    }
    mount.sync();
    let pages = content(Kind::Text, 7, MIB);
    for round in 0..SNAPSHOT_COUNT {
        for change in 0..CHANGE_COUNT {
            let file = &files[dice.below(FILE_COUNT) as usize];
            // Not beside another one of the same round, which it would make one extent with.
            let sector = (dice.below(FILE_BYTES / 4096 / 2) * 2) + round % 2;
            let from = dice.below(MIB - 4096) as usize;
            let bytes = &pages[from..from + 4096 - usize::from(change % 7 == 0)];
            file.write_all_at(bytes, sector * 4096).expect("write");
        }
        mount.sync();
        let to = mount.at(&format!("snapshot.{round}"));
        tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("work"), &to]);
    }
}

/// What differs in the files when the kernel must do without some devices.
fn complaints_without(image: &Image, missing: &[usize], manifest: &Manifest) -> Vec<String> {
    match image.try_mount_without(missing, "ro") {
        // That devices are missing is what the kernel complains about.
        Ok(mount) => manifest.differences(&Manifest::read(mount.root())),
        Err(refusal) => vec![refusal],
    }
}

/// Rewrites many extents on devices of these sizes in MiB: so large that the judge is spared the slowest of its checks.
fn on(profile: &str, megabytes: &[u64], missing: &[&[usize]]) {
    let sizes: Vec<u64> = megabytes.iter().map(|megabytes| megabytes * MIB).collect();
    let image = Image::mkfs_on(&sizes, &["-d", profile, "-m", profile]);
    let mount = image.mount("rw");
    grow(&mount);
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    let count: usize = truth.layout.extents_by_compression().iter().sum();
    assert!(count >= EXTENT_COUNT, "{count} extents");

    // Also what gains nothing.
    let summary = press::recompress_with(&image, &["--to", "zstd:9", "--force"], None);
    assert!(summary.extents_rewritten >= EXTENT_COUNT as u64, "{summary:?}");
    assert!(summary.disk_after < summary.disk_before, "{summary:?}");
    assert_eq!(truth.complaints(&image), NONE, "{profile}");
    for missing in missing {
        let complaints = complaints_without(&image, missing, &truth.manifest);
        assert_eq!(complaints, NONE, "{profile} without {missing:?}");
    }
}

#[test]
fn twenty_thousand_extents_under_twelve_snapshots_in_raid10_are_rewritten() {
    if tool::kernel_can_judge("many extents in raid10") {
        // Each of a pair of mirrors once.
        on("raid10", &[1100, 1100, 1100, 1100], &[&[0], &[1], &[2], &[3]]);
    }
}

#[test]
fn twenty_thousand_extents_under_twelve_snapshots_in_raid6_are_rewritten() {
    if tool::kernel_can_judge("many extents in raid6") {
        // Scrub mends parity without a word. In either half of the devices, each row has another pair of columns.
        on("raid6", &[1100, 1100, 1100, 1100], &[&[0, 1], &[2, 3]]);
    }
}
