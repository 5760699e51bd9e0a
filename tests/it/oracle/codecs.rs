//! Every level of every algorithm, from the kernel to us and from us to the kernel.

use std::path::Path;

use super::content::{Kind, content};
use super::image::Image;
use super::judge::{Truth, check};
use super::{NONE, compsize, press, workload};
use crate::tool;

/// Files that each level of the kernel writes: name, contents' kind, size.
const FILES: [(&str, Kind, u64); 9] = [
    ("inline-1", Kind::Text, 1),
    ("inline-text", Kind::Text, 1500),
    ("inline-noise", Kind::Noise, 1500),
    ("inline-last", Kind::Text, 2048),
    ("sector", Kind::Text, 4096),
    ("text", Kind::Text, 300_001),
    ("records", Kind::Records, 131_072),
    ("mixed", Kind::Mixed, 700_000),
    ("zeros", Kind::Zeros, 262_145),
];
const IMAGE_BYTES: u64 = 512 << 20;

/// What the kernel writes at each of `levels` is read back by `btrpress cat`, and counted as
/// `compsize` counts it.
fn read_back(algorithm: &str, levels: &[String]) {
    let image = Image::mkfs(IMAGE_BYTES, &[]);
    let mut contents = Vec::new();
    for (seed, level) in (1..).zip(levels) {
        // Only a mount of its own takes a level anew on every kernel.
        let mount = image.mount(&format!("compress-force={level}"));
        let dir = level.replace(':', "-");
        std::fs::create_dir(mount.root().join(&dir)).expect("mkdir");
        for (name, kind, len_bytes) in FILES {
            let bytes = content(kind, seed, len_bytes);
            workload::write(&mount.root().join(&dir).join(name), &bytes);
            contents.push((format!("{dir}/{name}"), bytes));
        }
        assert_eq!(mount.unmount(), NONE);
    }
    for (path, bytes) in &contents {
        let args = ["cat".as_ref(), image.path().as_os_str(), path.as_ref()];
        assert!(press::stdout(&args) == *bytes, "{path} does not read back");
    }
    let dirs: Vec<String> = levels.iter().map(|level| level.replace(':', "-")).collect();
    let paths: Vec<&str> =
        dirs.iter().map(String::as_str).chain(contents.iter().map(|(path, _)| &**path)).collect();
    assert_eq!(compsize::differences(&image, &paths), NONE, "{algorithm}");
}

#[test]
fn what_the_kernel_wrote_with_zstd_reads_back() {
    if tool::kernel_can_judge("reading what the kernel wrote with zstd") {
        read_back("zstd", &(1..=15).map(|level| format!("zstd:{level}")).collect::<Vec<_>>());
    }
}

#[test]
fn what_the_kernel_wrote_with_zlib_and_lzo_reads_back() {
    if tool::kernel_can_judge("reading what the kernel wrote with zlib and lzo") {
        read_back("zlib", &(1..=9).map(|level| format!("zlib:{level}")).collect::<Vec<_>>());
        read_back("lzo", &["lzo".to_owned()]);
    }
}

/// What `btrpress` writes at each of `levels`, always from the kernel's uncompressed files, reads
/// back in the kernel.
fn write_at_each(algorithm: &str, number: usize, levels: std::ops::RangeInclusive<i32>) {
    let image = Image::mkfs(IMAGE_BYTES, &[]);
    let mount = image.mount("rw");
    for (seed, (name, kind, len_bytes)) in (1..).zip(FILES) {
        workload::write(&mount.root().join(name), &content(kind, seed, len_bytes));
    }
    workload::write(&mount.root().join("long"), &content(Kind::Text, 99, 3 << 20));
    workload::write(&mount.root().join("long-mixed"), &content(Kind::Mixed, 98, 3 << 20));
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at(""), &mount.at("snapshot")]);
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    for level in levels {
        let copy = image.copy();
        let target = format!("{algorithm}:{level}");
        let summary = press::recompress(&copy, &target);
        assert!(summary.disk_after < summary.disk_before, "{target}: {summary:?}");
        assert_eq!(check(&copy), NONE, "{target}");
        assert_eq!(truth.complaints_about_contents(&copy), NONE, "{target}");
        let layout = super::layout::Layout::read(copy.path());
        assert!(layout.extents_by_compression()[number] > 20, "{target}: {}", layout.summary());
        assert_eq!(truth.layout.lost_sharing(&layout), NONE, "{target}");
        let copied = ["cat".as_ref(), copy.path().as_os_str(), "long-mixed".as_ref()];
        let hash = super::manifest::hash(&press::stdout(&copied));
        assert_eq!(truth.manifest.hash_of(Path::new("long-mixed")), Some(hash), "{target}");
    }
}

#[test]
fn the_kernel_reads_every_level_of_zlib() {
    if tool::kernel_can_judge("reading every level of zlib") {
        write_at_each("zlib", 1, 1..=12);
    }
}

#[test]
fn the_kernel_reads_every_level_of_lzo() {
    if tool::kernel_can_judge("reading every level of lzo") {
        write_at_each("lzo", 2, 1..=13);
    }
}

#[test]
fn the_kernel_reads_every_level_of_zstd() {
    if tool::kernel_can_judge("reading every level of zstd") {
        write_at_each("zstd", 3, -15..=-1);
        write_at_each("zstd", 3, 1..=22);
    }
}
