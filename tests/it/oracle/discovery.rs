//! Devices of one filesystem: named in any order, found from any one of them, and not confused with others.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

use super::content::{Kind, content};
use super::image::{Image, Loop};
use super::judge::{Truth, check};
use super::{NONE, press, workload};
use crate::tool;

const MIB: u64 = 1 << 20;

/// A filesystem on devices of unequal size, with texts and a snapshot.
fn texts(megabytes: &[u64], mkfs: &[&str]) -> Image {
    let sizes: Vec<u64> = megabytes.iter().map(|megabytes| megabytes * MIB).collect();
    let image = Image::mkfs_on(&sizes, mkfs);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("work")]);
    for seed in 1..6 {
        let path = mount.root().join(format!("work/{seed}"));
        workload::write(&path, &content(Kind::Text, seed, 2 * MIB));
    }
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("work"), &mount.at("snapshot")]);
    assert_eq!(mount.unmount(), NONE);
    image
}

fn recompress(devices: &[PathBuf], to: &str) -> Output {
    let args = ["--batch", "recompress", "--to", to].map(OsStr::new).into_iter();
    let args: Vec<_> = args.chain(devices.iter().map(|path| path.as_os_str())).collect();
    press::output(&args, None)
}

#[track_caller]
fn assert_written(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
}

#[track_caller]
fn assert_refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains(why), "{}: {said}", output.status);
}

#[test]
fn devices_come_in_any_order_and_are_found_from_any_one_of_them() {
    if !tool::kernel_can_judge("the order of devices") {
        return;
    }
    let image = texts(&[300, 512, 400, 600], &["-d", "raid10", "-m", "raid1c3"]);
    let truth = Truth::of(&image);
    let orders: [&[usize]; 7] = [&[3, 1, 0, 2], &[1, 0, 3, 2], &[2, 0], &[0], &[1], &[2], &[3]];
    let mut digests = Vec::new();
    for order in orders {
        let copy = image.copy();
        let named: Vec<_> = order.iter().map(|number| copy.paths()[*number].clone()).collect();
        assert_written(&recompress(&named, "zstd:5"));
        digests.push(copy.digest());
        if order.len() == 4 {
            assert_eq!(truth.complaints(&copy), NONE, "{order:?}");
        }
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "the order makes no difference");
}

#[test]
fn the_other_block_devices_of_a_filesystem_are_found() {
    if !tool::kernel_can_judge("block devices") {
        return;
    }
    let image = texts(&[300, 512, 400], &["-d", "raid5", "-m", "raid1"]);
    let truth = Truth::of(&image);
    // Last to first, so that the kernel's order is not theirs.
    let attach = |path: &PathBuf| Loop::attach(path).expect("loop device");
    let devices: Vec<Loop> = image.paths().iter().rev().map(attach).collect();
    let named = [PathBuf::from(&devices[1].device)];
    // The images below are in use by the devices that are over them.
    assert_refused(&recompress(&image.paths()[..1], "zstd:5"), "losetup -d");
    assert_written(&recompress(&named, "zstd:5"));
    drop(devices);
    assert_eq!(truth.complaints(&image), NONE);
}

/// A device was replaced and removed from the filesystem, and images of how the old ones were lie about.
#[test]
fn a_device_that_no_longer_belongs_to_the_filesystem_is_not_written_to() {
    if !tool::kernel_can_judge("devices of the past") {
        return;
    }
    let image = texts(&[300, 400, 512], &["-d", "raid1", "-m", "raid1"]);
    let old = image.copy();
    let mount = image.mount("rw");
    tool::run("btrfs", &["device", "remove", "2", &mount.at("")]);
    assert_eq!(mount.unmount(), NONE);
    let stranger = image.path().with_file_name("old");
    fs::copy(&old.paths()[1], &stranger).expect("copy");
    let current = [image.paths()[0].clone(), image.paths()[2].clone()];
    let image = image.without(&[1]);
    let before = image.digest();

    let why = "is not one of its devices";
    assert_refused(&recompress(&current[..1], "zstd:5"), why);
    assert_refused(
        &recompress(&[&current[..], std::slice::from_ref(&stranger)].concat(), "zstd:5"),
        why,
    );
    assert_eq!(image.digest(), before);
    let args = ["cat".as_ref(), current[1].as_os_str(), "snapshot/3".as_ref()];
    assert!(press::stdout(&args) == content(Kind::Text, 3, 2 * MIB), "it is read all the same");
    let stranger_before = fs::read(&stranger).expect("image");
    assert_written(&recompress(&current, "zstd:5"));
    assert!(fs::read(&stranger).expect("image") == stranger_before);
    assert_eq!(check(&image), NONE);
}

#[test]
fn an_image_that_is_cut_off_is_not_written_to() {
    if !tool::kernel_can_judge("images that are cut off") {
        return;
    }
    let image = texts(&[300, 400], &["-d", "raid1", "-m", "raid1"]);
    let file = fs::File::options().write(true).open(&image.paths()[1]).expect("image file");
    file.set_len(399 * MIB).expect("image file");
    let before = image.digest();
    assert_refused(&recompress(&image.paths()[..1], "zstd:5"), "image.1 is smaller than");
    assert_eq!(image.digest(), before);
}

/// An image of how a device was before it was replaced has the number and the UUID of the new one.
#[test]
fn the_device_that_another_one_replaced_is_not_taken_for_it() {
    if !tool::kernel_can_judge("replaced devices") {
        return;
    }
    let image = texts(&[400, 400], &["-d", "raid1", "-m", "raid1"]);
    let old = image.copy();
    let image = image.with_room(400 * MIB);
    let mount = image.try_mount_without(&[2], "rw").expect("mounts");
    let room = Loop::attach(&image.paths()[2]).expect("loop device");
    tool::run("btrfs", &["replace", "start", "-B", "-f", "2", &room.device, &mount.at("")]);
    mount.unmount();
    drop(room);
    let current = [image.paths()[0].clone(), image.paths()[2].clone()];
    let image = image.without(&[1]);
    let truth = Truth::of(&image);

    // In place of the new one it is as one that was away.
    let pair = [current[0].clone(), old.paths()[1].clone()];
    assert_refused(&recompress(&pair, "zstd:5"), "different generations");
    // Beside the new one: which is meant cannot be told by the number.
    fs::copy(&old.paths()[1], image.path().with_file_name("old")).expect("copy");
    assert_refused(&recompress(&current[..1], "zstd:5"), "clones");
    assert_written(&recompress(&current, "zstd:5"));
    assert_eq!(truth.complaints(&image), NONE);
}
