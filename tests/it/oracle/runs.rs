//! What holds of a run as a whole: repeatable, harmless when dry, careful when somebody else uses
//! the image, able to work where there is hardly room, and on every layout that mkfs makes.

use std::fs;
use std::path::Path;

use super::content::{Kind, content};
use super::image::Image;
use super::judge::Truth;
use super::layout::Layout;
use super::{NONE, afterlife, compsize, press, workload};
use crate::tool;

/// Megabytes of large files in a tree for quick tests.
const FEW_MEGABYTES: u64 = 8;

fn tree(image_bytes: u64, mkfs: &[&str], mount_options: &str) -> (Image, Truth) {
    let image = Image::mkfs(image_bytes, mkfs);
    let mount = image.mount(mount_options);
    workload::grow(&mount, FEW_MEGABYTES);
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    (image, truth)
}

#[test]
fn the_same_bytes_come_out_of_any_number_of_threads() {
    if !tool::kernel_can_judge("repeatable output") {
        return;
    }
    let (image, _) = tree(512 << 20, &[], "rw");
    for target in ["zstd:5", "zlib:1", "lzo:3"] {
        let outcomes: Vec<_> = [1, 2, 5]
            .map(|threads| {
                let copy = image.copy();
                let summary = press::recompress_with(&copy, &["--to", target], Some(threads));
                (summary, copy.digest())
            })
            .into();
        assert_eq!(outcomes[0], outcomes[1], "{target}: 1 and 2 threads");
        assert_eq!(outcomes[0], outcomes[2], "{target}: 1 and 5 threads");
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    if !tool::kernel_can_judge("a dry run") {
        return;
    }
    let (image, _) = tree(512 << 20, &[], "rw");
    let before = image.digest();
    let summary = press::recompress_with(&image, &["--to", "zstd", "--dry-run"], None);
    assert!(summary.disk_after < summary.disk_before, "{summary:?}");
    assert_eq!(image.digest(), before, "a dry run wrote");
}

#[test]
fn only_what_a_path_names_is_chosen_and_sharing_with_the_rest_is_kept() {
    if !tool::kernel_can_judge("runs on single paths") {
        return;
    }
    let (image, truth) = tree(512 << 20, &[], "rw");
    for (path, target) in [
        ("home/big/mixed", "zstd:9"),
        ("snaps/srv.2-ro", "zlib"),
        ("home", "lzo"),
        ("srv/ends", "none"),
    ] {
        press::recompress_with(&image, &["--to", target, "--path", path], None);
        assert_eq!(truth.complaints(&image), NONE, "{path} to {target}");
    }
    assert_eq!(compsize::differences(&image, &["home", "srv", "srv/ends"]), NONE);
    assert_eq!(afterlife::complaints(&truth, &image), NONE);
}

#[test]
fn data_that_the_kernel_compressed_is_recompressed() {
    if !tool::kernel_can_judge("recompressing the kernel's own compression") {
        return;
    }
    for (from, to) in [("zstd", "zstd:15"), ("lzo", "zstd:7"), ("zlib", "none")] {
        let (image, truth) = tree(512 << 20, &[], &format!("compress={from}"));
        let summary = press::recompress(&image, to);
        assert!(summary.extents_rewritten > 0, "{from} to {to}: {summary:?}");
        assert_eq!(truth.complaints(&image), NONE, "{from} to {to}");
        assert_eq!(compsize::differences(&image, &["home", "srv/sizes"]), NONE, "{from} to {to}");
        assert_eq!(afterlife::complaints(&truth, &image), NONE, "{from} to {to}");
    }
}

#[test]
fn defragmenting_joins_extents_and_keeps_algorithms_and_sharing() {
    if !tool::kernel_can_judge("defragmenting") {
        return;
    }
    for (options, algorithm) in [("rw", 0), ("compress=zstd", 3)] {
        let (image, truth) = tree(512 << 20, &[], options);
        let inode = truth.manifest.inode_of(Path::new("home/frag/two"));
        let before = truth.layout.extent_count_of(inode);
        press::defragment(&image);
        let layout = Layout::read(image.path());
        let after = layout.extent_count_of(inode);
        assert!(after * 4 < before, "{options}: {before} → {after} extents");
        let before = truth.layout.extents_by_compression();
        let after = layout.extents_by_compression();
        for kind in (0..4).filter(|kind| *kind != algorithm) {
            assert!(after[kind] <= before[kind], "{options}: {before:?} → {after:?}");
        }
        assert_eq!(truth.complaints(&image), NONE, "{options}");
        assert_eq!(afterlife::complaints(&truth, &image), NONE, "{options}");
    }
}

/// Recompresses trees on filesystems made with each of these options of `mkfs.btrfs`.
fn on_each_layout(layouts: &[&[&str]]) {
    for layout in layouts {
        let (image, truth) = tree(1 << 30, layout, "rw");
        for target in ["zstd:9", "none"] {
            press::recompress(&image, target);
            assert_eq!(truth.complaints(&image), NONE, "mkfs {layout:?}, {target}");
        }
        assert_eq!(compsize::differences(&image, &["home"]), NONE, "mkfs {layout:?}");
        assert_eq!(afterlife::complaints(&truth, &image), NONE, "mkfs {layout:?}");
    }
}

#[test]
fn small_nodes_and_old_features_are_kept() {
    if tool::kernel_can_judge("small nodes and old features") {
        on_each_layout(&[
            &["-n", "4096"],
            &["-O", "^no-holes", "-R", "^free-space-tree"],
            &["-O", "^skinny-metadata,^extref", "-m", "single", "-n", "8192"],
        ]);
    }
}

#[test]
fn other_checksums_large_nodes_and_doubled_data_are_kept() {
    if tool::kernel_can_judge("other checksums, large nodes and doubled data") {
        on_each_layout(&[
            &["--csum", "xxhash"],
            &["--csum", "blake2", "-n", "65536", "-d", "dup"],
            &["--csum", "sha256"],
        ]);
    }
}

/// Fills a filesystem with files of `kind` until only this many percent of it are free.
fn fill(image: &Image, kind: Kind, free_percent: u64) -> Truth {
    let mount = image.mount("rw");
    let is_filled = || {
        let space = rustix::fs::statvfs(mount.root()).expect("statvfs");
        space.f_bavail * 100 <= space.f_blocks * free_percent
    };
    let mut seed = 0;
    for size_bytes in [4 << 20, 256 << 10, 32 << 10] {
        let snapshot = mount.at(&format!("snapshot-{size_bytes}"));
        tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at(""), &snapshot]);
        while !is_filled() {
            seed += 1;
            let path = mount.root().join(format!("{seed}"));
            let bytes = content(kind, seed, size_bytes);
            if fs::write(&path, bytes).and_then(|()| fs::File::open(&path)?.sync_all()).is_err() {
                fs::remove_file(&path).expect("remove");
                break;
            }
        }
    }
    assert!(is_filled());
    assert_eq!(mount.unmount(), NONE);
    Truth::of(image)
}

fn free_bytes(image: &Image) -> u64 {
    let mount = image.mount("ro");
    let space = rustix::fs::statvfs(mount.root()).expect("statvfs");
    space.f_bavail * space.f_bsize
}

#[test]
fn a_full_filesystem_ends_with_more_room() {
    if !tool::kernel_can_judge("a full filesystem") {
        return;
    }
    for kind in [Kind::Text, Kind::Mixed] {
        let image = Image::mkfs(400 << 20, &[]);
        let truth = fill(&image, kind, 1);
        let before_bytes = free_bytes(&image);
        let (summary, saved) = press::recompress_by_commit(&image, "zstd:3");
        assert!(summary.disk_after < summary.disk_before, "{kind:?}: {summary:?}");
        assert!(saved.is_sorted() && saved.len() > 1, "{kind:?}: each commit frees: {saved:?}");
        let after_bytes = free_bytes(&image);
        assert!(after_bytes > before_bytes, "{kind:?}: {before_bytes} → {after_bytes}");
        assert_eq!(truth.complaints(&image), NONE, "{kind:?}");
        assert_eq!(press::recompress(&image, "zstd:3").commits, 0, "{kind:?}");
    }
    let image = Image::mkfs(200 << 20, &[]);
    let truth = fill(&image, Kind::Noise, 1);
    let summary = press::recompress(&image, "zstd:3");
    assert_eq!((summary.disk_before, summary.commits), (summary.disk_after, 0), "{summary:?}");
    assert_eq!(truth.complaints(&image), NONE);
}

#[test]
fn a_filesystem_without_any_room_is_no_worse_afterwards() {
    if !tool::kernel_can_judge("a filesystem full to the last sector") {
        return;
    }
    let image = Image::mkfs(400 << 20, &[]);
    let truth = fill(&image, Kind::Text, 0);
    let before_bytes = free_bytes(&image);
    let args = ["--batch".as_ref(), "recompress".as_ref(), image.path().as_os_str()];
    let args = [&args[..], &["--to".as_ref(), "zstd".as_ref(), "--json".as_ref()]].concat();
    let output = press::output(&args, None);
    // Done, or stopped for lack of space.
    let is_expected = matches!(output.status.code(), Some(0 | 5));
    assert!(is_expected, "{}", tool::failure("btrpress", &args, &output));
    assert!(free_bytes(&image) >= before_bytes);
    assert_eq!(truth.complaints(&image), NONE);
}
