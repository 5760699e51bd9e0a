//! Reading: what the engine reads of an image is what the kernel read of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use btrpress::device::{Access, Device, FileDevice};
use btrpress::fs::{Filesystem, Location, Target};
use sha2::{Digest, Sha256};

use crate::fixture::{ALL, Content, Entry, Fixture, fixture, manifest};

/// The filesystem on a fixture's devices, opened for reading.
pub(crate) fn open(fixture: &Fixture) -> Filesystem {
    let devices = fixture.devices().into_iter().map(|path| {
        let device = FileDevice::open(path, Access::Read).expect("an image");
        Arc::new(device) as Arc<dyn Device>
    });
    Filesystem::open(devices.collect()).expect("a filesystem")
}

fn contents(fs: &Filesystem, at: Location) -> Vec<u8> {
    let mut contents = Vec::new();
    fs.write_contents(at.root, at.ino, &mut contents)
        .unwrap_or_else(|error| panic!("inode {} of {}: {error}", at.ino, at.root));
    contents
}

/// Every path that a walk from the top level finds.
fn walk(fs: &Filesystem) -> BTreeMap<Vec<u8>, Option<Location>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![(Vec::new(), Some(Location::top_of(5)))];
    while let Some((path, at)) = waiting.pop() {
        if let Some(at) = at.filter(|at| at.kind == btrpress::format::FileKind::DIRECTORY) {
            for entry in fs.read_dir(at.root, at.ino).unwrap() {
                let mut path = path.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend(&entry.name);
                let at = match entry.target {
                    Target::Inode(ino) => Some(Location { root: at.root, ino, kind: entry.kind }),
                    Target::Subvolume(root) => Some(Location::top_of(root)),
                    Target::Placeholder => None,
                };
                waiting.push((path, at));
            }
        }
        assert_eq!(found.insert(path, at), None, "a path is found once");
    }
    found
}

fn compare(fs: &Filesystem, entry: &Entry, at: Location) {
    let inode = fs.inode(at.root, at.ino).unwrap();
    assert_eq!((at.ino, inode.mode.get()), (entry.ino, entry.mode), "{entry:?}");
    let mtime = inode.mtime.sec.get() * 1_000_000_000 + i64::from(inode.mtime.nsec.get());
    assert_eq!(mtime as u64, entry.mtime_nanos, "{entry:?}");
    match &entry.content {
        Content::File(sum) => {
            assert_eq!(inode.size.get(), entry.size, "{entry:?}");
            assert_eq!(u64::from(inode.nlink.get()), entry.links, "{entry:?}");
            let digest = Sha256::digest(contents(fs, at));
            let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            let found: String = digits.filter_map(|d| char::from_digit(d.into(), 16)).collect();
            assert_eq!(found, *sum, "{entry:?}");
        }
        Content::Link(target) => assert_eq!(contents(fs, at), *target, "{entry:?}"),
        Content::Subvolume { id, read_only } => {
            let subvolumes = fs.subvolumes().unwrap();
            let found = subvolumes.iter().find(|found| found.id == *id).expect("it is listed");
            assert_eq!((&found.path, found.is_read_only), (&entry.path, *read_only));
            assert_eq!(at.root, *id);
        }
        Content::Directory | Content::Other => {}
    }
}

#[test]
fn every_file_of_every_image_reads_as_the_kernel_read_it() {
    for name in ALL {
        let fixture = fixture(name);
        let fs = open(&fixture);
        let mut found = walk(&fs);
        for entry in manifest(name) {
            let at = found.remove(&entry.path).unwrap_or_else(|| panic!("{name}: {entry:?}"));
            // The kernel invents an inode for a subvolume that is not there in a snapshot.
            let Some(at) = at else { continue };
            assert_eq!(fs.resolve(&entry.path).unwrap(), at, "{name}");
            compare(&fs, &entry, at);
        }
        assert!(found.is_empty(), "{name}: the kernel did not see {:?}", found.keys());
    }
}

#[test]
fn images_of_one_device_may_be_written() {
    let refused = ["raid0", "raid1", "raid1c3", "raid10", "raid5", "raid6", "simple-quota"];
    for name in ALL {
        let fixture = fixture(name);
        let writable = open(&fixture).writable();
        assert_eq!(writable.is_err(), refused.contains(&name), "{name}: {writable:?}");
    }
}
