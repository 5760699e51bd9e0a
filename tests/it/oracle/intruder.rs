//! Somebody else comes along while a run goes on: the run ends before it writes anything more, and says why.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

use super::NONE;
use super::full::{Fill, filled};
use super::image::Image;
use super::judge::{Truth, check};
use crate::tool;

/// Between two looks at the superblock.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Time for the rest of a commit after its primary superblock.
const COMMIT_REST: Duration = Duration::from_millis(100);
const GENERATION_AT: u64 = (64 << 10) + 72;

fn generation(device: &Path) -> u64 {
    let mut bytes = [0; 8];
    let file = File::open(device).expect("a device");
    file.read_exact_at(&mut bytes, GENERATION_AT).expect("a superblock");
    u64::from_le_bytes(bytes)
}

fn start(device: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_btrpress"));
    command.args(["--batch", "recompress", "--to", "zstd:17", "--no-check"]).arg(device);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

fn signal(child: &Child, name: &str) {
    tool::run("sh", &["-c", &format!("kill -{name} {}", child.id())]);
}

/// Lets a run go on until its first commit, and stops it there while `intrude` is at work; how the run ends.
fn intrude(device: &Path, intrude: impl FnOnce()) -> Output {
    let before = generation(device);
    let mut child = start(device);
    while generation(device) == before {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it had committed");
        sleep(LOOK_EVERY);
    }
    sleep(COMMIT_REST);
    signal(&child, "STOP");
    intrude();
    signal(&child, "CONT");
    child.wait_with_output().expect("a child")
}

/// Demands that a run was refused to go on, for this reason.
#[track_caller]
fn assert_ended(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(why) && said.contains("commit"), "{said}");
    eprintln!("{said}");
}

/// Full enough that space has to be won by commits.
fn image() -> (Image, Truth) {
    let image = filled(200, &[], Fill::Data(10), true);
    let truth = Truth::of(&image);
    (image, truth)
}

fn attach(file: &Path) -> String {
    let args = ["--find".as_ref(), "--show".as_ref(), file.as_os_str()];
    tool::run("losetup", &args).trim().to_owned()
}

fn detach(device: &str) {
    tool::output("btrfs", &["device", "scan", "--forget", device]);
    tool::run("losetup", &["--detach", device]);
}

#[test]
fn a_loop_device_that_comes_up_over_the_image_ends_the_run() {
    if !tool::kernel_can_judge("a loop device over an image in work") {
        return;
    }
    let (image, truth) = image();
    let mut device = String::new();
    let output = intrude(image.path(), || device = attach(image.path()));
    let committed = generation(image.path());
    detach(&device);
    assert_ended(&output, &format!("losetup -d {device}"));
    assert_eq!(generation(image.path()), committed);
    assert_eq!(truth.complaints(&image), NONE);
}

#[test]
fn a_mount_of_the_image_ends_the_run() {
    if !tool::kernel_can_judge("a mount of an image in work") {
        return;
    }
    let (image, truth) = image();
    let at = TempDir::new().expect("tempdir");
    let place = at.path().to_str().expect("temporary paths are UTF-8");
    let output = intrude(image.path(), || {
        let args = ["-o".as_ref(), "loop,noatime".as_ref(), image.path().as_os_str()];
        tool::run("mount", &[&args[..], &[at.path().as_os_str()]].concat());
        let new = at.path().join("new");
        std::fs::write(&new, vec![7_u8; 3 << 20]).expect("there is some room");
        File::open(&new).and_then(|file| file.sync_all()).expect("sync");
    });
    let written = std::fs::read(at.path().join("new")).expect("readable");
    tool::run("umount", &[place]);
    assert_ended(&output, &format!("mounted at {place}"));
    assert!(written == vec![7_u8; 3 << 20], "what the kernel wrote meanwhile");
    assert_eq!(check(&image), NONE);
    let mount = image.mount("rw");
    std::fs::remove_file(mount.root().join("new")).expect("remove");
    assert_eq!(mount.unmount(), NONE);
    let complaints = truth.complaints_about_contents(&image);
    // The top directory has had a new name for a while.
    let complaints = complaints.into_iter().filter(|line| !line.starts_with(" differs"));
    assert_eq!(complaints.collect::<Vec<_>>(), NONE);
}

#[test]
fn a_new_filesystem_on_the_image_stays_whole() {
    if !tool::kernel_can_judge("mkfs on an image in work") {
        return;
    }
    let (image, _) = image();
    let output = intrude(image.path(), || {
        let args = ["-q".as_ref(), "-f".as_ref(), image.path().as_os_str()];
        tool::run("mkfs.btrfs", &args);
    });
    assert_ended(&output, "another program has written");
    assert_eq!(check(&image), NONE, "the new filesystem");
    let mount = image.mount("rw");
    assert_eq!(std::fs::read_dir(mount.root()).expect("readable").count(), 0);
    assert_eq!(mount.unmount(), NONE);
}

#[test]
fn a_second_run_is_refused_and_the_first_goes_on() {
    if !tool::kernel_can_judge("two runs on an image") {
        return;
    }
    let (image, truth) = image();
    let mut second = None;
    let output = intrude(image.path(), || {
        second = Some(start(image.path()).wait_with_output().expect("a child"));
    });
    let second = second.expect("it ran");
    assert_eq!(second.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&second.stderr).contains("locked"), "{second:?}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(truth.complaints(&image), NONE);
}

/// A block device is held for exclusive use, and loop devices over it, which do not ask, are noticed.
#[test]
fn a_block_device_in_work_is_kept_from_others() {
    if !tool::kernel_can_judge("a block device in work") {
        return;
    }
    let (image, truth) = image();
    let device = attach(image.path());
    let at = TempDir::new().expect("tempdir");
    let place = at.path().to_str().expect("temporary paths are UTF-8");
    let mut over = String::new();
    let output = intrude(device.as_ref(), || {
        for args in [&["mount", &device, place][..], &["mkfs.btrfs", "-q", "-f", &device]] {
            let output = tool::output(args[0], &args[1..]);
            assert!(!output.status.success(), "{args:?} succeeded");
        }
        let second = start(device.as_ref()).wait_with_output().expect("a child");
        assert_eq!(second.status.code(), Some(3), "{second:?}");
        over = attach(device.as_ref());
    });
    detach(&over);
    detach(&device);
    assert_ended(&output, &format!("losetup -d {over}"));
    assert_eq!(truth.complaints(&image), NONE);
}
