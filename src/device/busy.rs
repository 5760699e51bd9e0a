//! Who else uses a file or block device, as far as the system tells.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Who uses the image file or block device with this metadata through a loop device, and what to do about it. The kernel
/// asks nobody before it sets one up, not even over a block device that is open for exclusive use.
pub(super) fn user_through_loop(below: &Metadata) -> Option<String> {
    let loops: Vec<String> =
        block_devices().into_iter().filter(|name| name.starts_with("loop")).collect();
    // A loop device is just another way to what is behind it, and there may be more than one.
    let own = loops.iter().find(|name| is_device(name, below));
    let behind = own.and_then(|name| backing_file(name));
    let name = loops.iter().filter(|name| Some(*name) != own).find(|name| {
        backing_file(name).is_some_and(|file| {
            is_same(&file, below) || behind.as_ref().is_some_and(|behind| is_same(&file, behind))
        })
    })?;
    let device = format!("/dev/{name}");
    let used =
        fs::metadata(&device).ok().and_then(|loop_device| user_of_block(name, loop_device.rdev()));
    Some(match used {
        Some(used) => format!("{device} is set up on it, which {used}"),
        None => format!("{device} is set up on it; detach it with `losetup -d {device}`"),
    })
}

/// What a loop device shows.
fn backing_file(name: &str) -> Option<Metadata> {
    let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    fs::metadata(file.trim_end_matches('\n')).ok()
}

fn is_device(name: &str, known: &Metadata) -> bool {
    known.file_type().is_block_device()
        && fs::metadata(format!("/dev/{name}")).is_ok_and(|device| device.rdev() == known.rdev())
}

fn is_same(one: &Metadata, two: &Metadata) -> bool {
    match (one.file_type().is_block_device(), two.file_type().is_block_device()) {
        (true, true) => one.rdev() == two.rdev(),
        (false, false) => (one.dev(), one.ino()) == (two.dev(), two.ino()),
        _ => false,
    }
}

/// Who uses the block device at `path`, and what to do about it; for when the kernel has said that somebody does.
pub(super) fn user_of_device(path: &Path) -> String {
    let known =
        fs::canonicalize(path).ok().zip(fs::metadata(path).ok()).and_then(|(path, device)| {
            let name = path.strip_prefix("/dev").ok()?.to_string_lossy().replace('/', "!");
            user_of_block(&name, device.rdev())
        });
    format!(
        "it {}",
        known.unwrap_or_else(|| "belongs to a mount or another device; free it first".to_owned())
    )
}

/// What uses a block device, as the rest of a sentence.
fn user_of_block(name: &str, rdev: u64) -> Option<String> {
    if let Some(place) = mount_of(name, rdev) {
        return Some(format!("is mounted at {place}; unmount it first"));
    }
    if fs::read_to_string("/proc/swaps").is_ok_and(|swaps| is_swap(&swaps, rdev)) {
        return Some("is used as swap; turn that off first".to_owned());
    }
    let inside = |folder: &str| {
        let mut entries = fs::read_dir(format!("/sys/class/block/{name}/{folder}")).ok()?;
        Some(entries.next()?.ok()?.file_name().to_string_lossy().into_owned())
    };
    inside("holders").map(|holder| format!("belongs to /dev/{holder}; stop that first"))
}

/// Where a block device is mounted: by itself, as one of several of a Btrfs filesystem, or through a partition.
fn mount_of(name: &str, rdev: u64) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let all: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    let is_source = |source: &str, wanted: u64| {
        fs::metadata(source)
            .is_ok_and(|found| found.file_type().is_block_device() && found.rdev() == wanted)
    };
    if let Some(mount) = all.iter().find(|mount| is_source(mount.source, rdev)) {
        return Some(mount.place());
    }
    // A filesystem of several devices is listed with one of them.
    for filesystem in fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten() {
        let members = names(&filesystem.path().join("devices"));
        if members.iter().any(|member| member == name) {
            let listed = all.iter().find(|mount| {
                members.iter().any(|member| {
                    let member = fs::metadata(format!("/dev/{member}"));
                    member.is_ok_and(|member| is_source(mount.source, member.rdev()))
                })
            });
            return Some(listed.map_or_else(|| "a place unknown here".to_owned(), Mount::place));
        }
    }
    let parts = names(Path::new("/sys/class/block").join(name).as_path());
    parts.iter().filter(|part| part.starts_with(name)).find_map(|part| {
        let part = fs::metadata(format!("/dev/{part}")).ok()?;
        all.iter().find(|mount| is_source(mount.source, part.rdev())).map(Mount::place)
    })
}

/// A line of `/proc/self/mountinfo`, as far as we care.
struct Mount<'a> {
    point: &'a str,
    source: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        Some(Self { point: before.split(' ').nth(4)?, source: after.split(' ').nth(1)? })
    }

    /// The mount point, with spaces as they are.
    fn place(&self) -> String {
        self.point.replace("\\040", " ")
    }
}

fn is_swap(swaps: &str, rdev: u64) -> bool {
    let files = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    files
        .filter_map(|file| fs::metadata(file).ok())
        .any(|file| file.rdev() == rdev && file.file_type().is_block_device())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Names of all block devices and partitions, as sysfs has them, sorted.
pub(super) fn block_devices() -> Vec<String> {
    let mut found = names(Path::new("/sys/class/block"));
    found.sort();
    found
}

/// The block devices of the system that nothing else is built on, which would only show the same bytes again.
pub fn block_device_paths() -> Vec<PathBuf> {
    let top =
        |name: &String| names(&Path::new("/sys/class/block").join(name).join("holders")).is_empty();
    block_devices()
        .into_iter()
        .filter(top)
        .map(|name| Path::new("/dev").join(name.replace('!', "/")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let line = r"36 35 98:0 /root /mnt/with\040space rw,noatime master:1 - btrfs /dev/sda1 rw,space_cache";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.place().as_str(), mount.source), ("/mnt/with space", "/dev/sda1"));
        assert!(Mount::parse("nonsense").is_none());
    }
}
