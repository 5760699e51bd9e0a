//! What must not be written to, and stays readable all the same.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::content::{Kind, content};
use super::image::Image;
use super::{NONE, press, workload};
use crate::tool;

const SUPERBLOCK_AT: u64 = 64 << 10;
const SUPERBLOCK_BYTES: usize = 4096;
const CHECKSUM_BYTES: usize = 32;
/// Where fields of the superblock are: its own flags, unknown features, number of devices.
const FLAGS_AT: usize = 56;
const NUM_DEVICES_AT: usize = 136;
const COMPAT_RO_AT: usize = 180;
const INCOMPAT_AT: usize = 188;

/// A filesystem with one subvolume, a snapshot and some text.
fn text_image() -> Image {
    let image = Image::mkfs(256 << 20, &[]);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("home")]);
    workload::write(&mount.root().join("home/text"), &content(Kind::Text, 1, 1 << 20));
    let snapshot = mount.at("snapshot");
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("home"), &snapshot]);
    assert_eq!(mount.unmount(), NONE);
    image
}

/// Demands that a run on `image` is refused with exit status 3 and a reason, and writes nothing.
fn assert_refused(image: &Image, why: &str) {
    let before = image.digest();
    let args: [&OsStr; 5] = [
        "--batch".as_ref(),
        "recompress".as_ref(),
        image.path().as_ref(),
        "--to".as_ref(),
        "zstd:3".as_ref(),
    ];
    let output = press::output(&args, None);
    let failure = tool::failure("btrpress", &args, &output);
    assert_eq!(output.status.code(), Some(3), "{why}: {failure}");
    assert!(!output.stderr.is_empty(), "{why}: refused without a reason");
    assert_eq!(image.digest(), before, "{why}: written to although refused");
}

#[test]
fn an_image_in_use_is_refused() {
    if !tool::kernel_can_judge("images in use") {
        return;
    }
    let image = text_image();
    let mount = image.mount("ro");
    assert_refused(&image, "mounted");
    assert_eq!(mount.unmount(), NONE);
    let summary = press::recompress(&image, "zstd:3");
    assert!(summary.commits > 0, "free again, so it is written to: {summary:?}");
}

#[test]
fn a_log_that_the_kernel_has_yet_to_replay_is_refused_and_read_around() {
    if !tool::kernel_can_judge("a filesystem with a log") {
        return;
    }
    let image = text_image();
    let mount = image.mount("rw");
    let path = mount.root().join("home/text");
    let file = File::options().write(true).open(path).expect("open");
    // The first one after a mount may be a whole commit instead.
    for at_bytes in [5000, 9000] {
        file.write_all_at(b"logged", at_bytes).and_then(|()| file.sync_all()).expect("write");
    }
    // As if the power had failed now.
    let cut = image.copy();
    drop(file);
    assert_eq!(mount.unmount(), NONE);
    let dump = tool::run(
        "btrfs",
        &["inspect-internal".as_ref(), "dump-super".as_ref(), cut.path().as_os_str()],
    );
    let log_root = dump.lines().find_map(|line| line.strip_prefix("log_root\t")).expect("a field");
    assert_ne!(log_root.trim(), "0", "the kernel has written a log");

    assert_refused(&cut, "log tree");
    press::stdout(&["report".as_ref(), cut.path().as_os_str()]);
    let text = press::stdout(&["cat".as_ref(), cut.path().as_os_str(), "snapshot/text".as_ref()]);
    assert!(text == content(Kind::Text, 1, 1 << 20), "the snapshot's text is readable");
    drop(cut.mount("rw"));
    assert!(press::recompress(&cut, "zstd:3").commits > 0, "the log is gone, so it is written to");
}

#[test]
fn states_that_only_the_kernel_may_resolve_are_refused() {
    if !tool::kernel_can_judge("superblocks with odd flags") {
        return;
    }
    let image = text_image();
    for (at_byte, bits, why) in [
        (FLAGS_AT, 1 << 2, "error flag"),
        (FLAGS_AT, 1 << 32, "seed"),
        (INCOMPAT_AT, 1 << 50, "unknown incompatible feature"),
        (COMPAT_RO_AT, 1 << 50, "unknown feature that forbids writing"),
        (NUM_DEVICES_AT, 2, "a device that is not there"),
    ] {
        let odd = image.copy();
        set_in_superblock(&odd, at_byte, bits);
        assert_refused(&odd, why);
    }
}

/// Sets bits of the eight bytes at `at_byte` of the first superblock, with its checksum.
fn set_in_superblock(image: &Image, at_byte: usize, bits: u64) {
    let file = File::options().read(true).write(true).open(image.path()).expect("image file");
    let mut block = [0; SUPERBLOCK_BYTES];
    file.read_exact_at(&mut block, SUPERBLOCK_AT).expect("superblock");
    let field: &mut [u8] = &mut block[at_byte..at_byte + 8];
    let value = u64::from_le_bytes(field.try_into().expect("eight bytes")) | bits;
    field.copy_from_slice(&value.to_le_bytes());
    let checksum = crc32c::crc32c(&block[CHECKSUM_BYTES..]);
    block[..4].copy_from_slice(&checksum.to_le_bytes());
    file.write_all_at(&block, SUPERBLOCK_AT).expect("superblock");
}
