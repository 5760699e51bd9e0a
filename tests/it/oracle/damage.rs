//! Damaged copies: one is read around and reported, and when all are, only the files that had
//! their bytes there are named.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::content::{Kind, content};
use super::image::Image;
use super::judge::Truth;
use super::{NONE, press, workload};
use crate::tool;

const MIB: u64 = 1 << 20;
const FILE_COUNT: u64 = 8;

/// Every place of a filesystem's images where a file's first bytes are.
fn places(image: &Image, seed: u64) -> Vec<(PathBuf, u64)> {
    let needle = &content(Kind::Text, seed, MIB)[..64];
    let mut found = Vec::new();
    for path in image.paths() {
        let bytes = fs::read(path).expect("image file");
        for sector in (0..bytes.len()).step_by(4096) {
            if bytes[sector..].starts_with(needle) {
                found.push((path.clone(), sector as u64));
            }
        }
    }
    found
}

fn flip((path, at_bytes): &(PathBuf, u64)) {
    let file = File::options().read(true).write(true).open(path).expect("image file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at_bytes + 11).expect("image file");
    file.write_all_at(&[byte[0] ^ 1], at_bytes + 11).expect("image file");
}

/// A filesystem with some files of text and a snapshot of them.
fn texts(count: usize, mkfs: &[&str]) -> (Image, Truth) {
    let image = Image::mkfs_on(&vec![400 * MIB; count], mkfs);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("work")]);
    for seed in 0..FILE_COUNT {
        let path = mount.root().join(format!("work/{seed}"));
        workload::write(&path, &content(Kind::Text, seed, MIB));
        mount.sync();
    }
    let snapshot = mount.at("snapshot");
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("work"), &snapshot]);
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    (image, truth)
}

/// Exit status and messages of a run that recompresses everything.
fn recompress(image: &Image) -> (Option<i32>, String) {
    let args: [&OsStr; 5] = [
        "--batch".as_ref(),
        "recompress".as_ref(),
        image.path().as_ref(),
        "--to".as_ref(),
        "zstd:3".as_ref(),
    ];
    let output = press::output(&args, None);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn one_bad_copy_changes_nothing_and_is_reported() {
    if !tool::kernel_can_judge("bad copies") {
        return;
    }
    for (profile, count) in
        [("dup", 1), ("raid1", 2), ("raid1c3", 3), ("raid10", 4), ("raid5", 3), ("raid6", 4)]
    {
        let metadata = if count == 1 { "dup" } else { "raid1" };
        let (image, truth) = texts(count, &["-d", profile, "-m", metadata]);
        let at = places(&image, 3);
        flip(&at[0]);
        let path = image.path().as_os_str();
        let text = press::stdout(&["cat".as_ref(), path, "work/3".as_ref()]);
        assert!(text == content(Kind::Text, 3, MIB), "{profile}");
        let (status, messages) = recompress(&image);
        assert_eq!(status, Some(0), "{profile}: {messages}");
        assert!(messages.contains("bad copy"), "{profile}: {messages}");
        assert_eq!(truth.complaints(&image), NONE, "{profile}");
    }
}

#[test]
fn data_that_no_copy_can_give_is_named_and_left_alone() {
    if !tool::kernel_can_judge("damaged data") {
        return;
    }
    for (profile, count) in [("single", 1), ("dup", 1), ("raid1", 2), ("raid1c3", 3), ("raid10", 4)]
    {
        let metadata = if count == 1 { "dup" } else { "raid1" };
        let (image, _) = texts(count, &["-d", profile, "-m", metadata]);
        places(&image, 3).iter().for_each(flip);
        let (status, messages) = recompress(&image);
        assert_eq!(status, Some(4), "{profile}: {messages}");
        let named: Vec<_> =
            messages.lines().filter(|line| line.contains("left as it was")).collect();
        assert!(!named.is_empty(), "{profile}: {messages}");
        for line in named {
            let is_affected = line.starts_with("work/3:") || line.starts_with("snapshot/3:");
            assert!(is_affected, "{profile}: {line}");
        }
        for seed in (0..FILE_COUNT).filter(|seed| *seed != 3) {
            let file = format!("snapshot/{seed}");
            let args = ["cat".as_ref(), image.path().as_os_str(), file.as_ref()];
            assert!(press::stdout(&args) == content(Kind::Text, seed, MIB), "{profile}: {file}");
        }
        assert_eq!(places(&image, 3), [], "{profile}: was mended");
    }
}
