//! Files and block devices that somebody else uses.

use std::fs::File;
use std::path::{Path, PathBuf};

use btrpress::device::{Access, Device, FileDevice};
use btrpress::error::Error;
use tempfile::TempDir;

use crate::tool;

/// An image file of 128 MiB, with a loop device over it if asked for.
struct Image {
    dir: TempDir,
}

/// A loop device; it goes when this is dropped.
struct Loop(PathBuf);

impl Image {
    fn new() -> Self {
        let image = Self { dir: TempDir::new().unwrap() };
        File::create(image.path()).unwrap().set_len(128 << 20).unwrap();
        image
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn attach(&self) -> Loop {
        let path = self.path();
        let args = ["--find", "--show", path.to_str().unwrap()];
        Loop(tool::run("losetup", &args).trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        tool::output(
            "btrfs",
            &["device".as_ref(), "scan".as_ref(), "--forget".as_ref(), self.0.as_os_str()],
        );
        tool::output("losetup", &["--detach".as_ref(), self.0.as_os_str()]);
    }
}

/// Who uses it, according to the error.
#[track_caller]
fn user(opened: Result<FileDevice, Error>) -> String {
    match opened {
        Err(Error::InUse { by, .. }) => by,
        other => panic!("{other:?}"),
    }
}

fn open(path: &Path) -> Result<FileDevice, Error> {
    FileDevice::open(path, Access::Write)
}

#[test]
fn an_image_is_written_by_one_at_a_time() {
    let image = Image::new();
    let first = open(&image.path()).unwrap();
    assert!(user(open(&image.path())).contains("locked"));
    FileDevice::open(image.path(), Access::Read).unwrap();
    drop(first);
    open(&image.path()).unwrap();
}

#[test]
fn an_image_never_grows() {
    let image = Image::new();
    let device = open(&image.path()).unwrap();
    assert_eq!(device.len(), 128 << 20);
    device.write_at((128 << 20) - 1, &[1, 2]).unwrap_err();
    device.write_at((128 << 20) - 1, &[1]).unwrap();
    assert_eq!(image.path().metadata().unwrap().len(), 128 << 20);
}

#[test]
fn a_loop_device_over_an_image_is_noticed_at_every_check() {
    if !tool::kernel_can_judge("loop devices over images") {
        return;
    }
    let image = Image::new();
    let device = open(&image.path()).unwrap();
    device.recheck().unwrap();
    let attached = image.attach();
    let name = attached.0.display().to_string();
    assert!(device.recheck().unwrap_err().to_string().contains(&format!("losetup -d {name}")));
    drop(device);
    assert!(user(open(&image.path())).contains(&name));
    let read = FileDevice::open(image.path(), Access::Read).unwrap();
    read.read_at(0, &mut [0; 4096]).unwrap();
}

#[test]
fn a_mounted_block_device_is_read_only() {
    if !tool::kernel_can_judge("mounted block devices") {
        return;
    }
    let image = Image::new();
    let attached = image.attach();
    let device = attached.0.to_str().unwrap();
    tool::run("mkfs.btrfs", &["--quiet", device]);
    let at = TempDir::new().unwrap();
    let place = at.path().to_str().unwrap();
    drop(open(&attached.0).unwrap());
    tool::run("mount", &[device, place]);
    let [by_device, by_image] = [&attached.0, &image.path()].map(|path| user(open(path)));
    let read = FileDevice::open(&attached.0, Access::Read).map(|device| device.len());
    tool::unmount(place);
    for by in [by_device, by_image] {
        assert!(by.contains(&format!("mounted at {place}; unmount it")), "{by}");
    }
    assert_eq!(read.unwrap(), 128 << 20);
    let open = open(&attached.0).unwrap();
    // And the kernel keeps its hands off while we write.
    assert!(!tool::output("mount", &[device, place]).status.success());
    drop(open);
}

#[test]
fn what_is_no_device_is_not_opened() {
    let dir = TempDir::new().unwrap();
    for path in [dir.path(), Path::new("/dev/null")] {
        for access in [Access::Read, Access::Write] {
            let opened = FileDevice::open(path, access);
            assert!(matches!(opened, Err(Error::WrongType { .. })), "{opened:?}");
        }
    }
}
