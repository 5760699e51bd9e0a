//! Reading: what the engine reads of an image is what the kernel read of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use btrpress::device::{Access, Device, FileDevice, Overlay};
use btrpress::error::{Error, Refusal};
use btrpress::format::{FileKind, SUPERBLOCK_SIZE, Superblock};
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
        if let Some(at) = at.filter(|at| at.kind == FileKind::DIRECTORY) {
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
        assert_same_as_manifest(name, &open(&fixture(name)));
    }
}

/// What the engine reads of a filesystem is what the kernel read of the fixture `name`.
pub(crate) fn assert_same_as_manifest(name: &str, fs: &Filesystem) {
    let mut found = walk(fs);
    for entry in manifest(name) {
        let at = found.remove(&entry.path).unwrap_or_else(|| panic!("{name}: {entry:?}"));
        // The kernel invents an inode for a subvolume that is not there in a snapshot.
        let Some(at) = at else { continue };
        assert_eq!(fs.resolve(&entry.path).unwrap(), at, "{name}");
        compare(fs, &entry, at);
    }
    assert!(found.is_empty(), "{name}: the kernel did not see {:?}", found.keys());
}

#[test]
fn all_images_may_be_written() {
    for name in ALL {
        let writable = open(&fixture(name)).writable();
        assert!(writable.is_ok(), "{name}: {writable:?}");
    }
}

/// The filesystem of a fixture, with its superblock changed in memory.
fn with_superblock(name: &str, change: impl FnOnce(&mut Superblock)) -> Result<Filesystem, Error> {
    const AT: u64 = 64 << 10;
    let fixture = fixture(name);
    let image = FileDevice::open(fixture.path(), Access::Read).unwrap();
    let mut bytes = [0; SUPERBLOCK_SIZE];
    image.read_at(AT, &mut bytes).unwrap();
    let mut superblock = Superblock::parse(&bytes, AT).unwrap();
    change(&mut superblock);
    let image = Overlay::over(image);
    image.write_at(AT, &superblock.to_bytes(AT).unwrap()).unwrap();
    Filesystem::open(vec![Arc::new(image)])
}

fn refusal(name: &str, change: impl FnOnce(&mut Superblock)) -> Refusal {
    match with_superblock(name, change).unwrap().writable() {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn states_that_are_not_safe_to_write_are_refused_and_can_be_read() {
    let flags = |bits: u64| refusal("lzo", |sb| sb.flags = (sb.flags.get() | bits).into());
    assert_eq!(flags(1 << 2), Refusal::ErrorFlag);
    assert_eq!(flags(1 << 32), Refusal::Seed);
    assert_eq!(flags(1 << 36), Refusal::SuperFlags(1 << 36));
    let incompat = |bits: u64| {
        refusal("lzo", |sb| sb.incompat_flags = (sb.incompat_flags.get() | bits).into())
    };
    assert_eq!(incompat(1 << 12), Refusal::Zoned);
    assert!(matches!(incompat(1 << 14), Refusal::Feature(_)));
    let compat_ro = |name, add: u64, remove: u64| {
        let change = |sb: &mut Superblock| {
            sb.compat_ro_flags = (sb.compat_ro_flags.get() & !remove | add).into();
        };
        with_superblock(name, change).unwrap().writable()
    };
    assert!(matches!(
        compat_ro("lzo", 1 << 40, 0),
        Err(Error::Refused(Refusal::UnknownCompatRo(bits))) if bits == 1 << 40
    ));
    assert!(compat_ro("lzo", 0, 2).is_ok(), "the kernel rebuilds a free space tree");
    assert!(matches!(
        compat_ro("block-group-tree", 0, 2),
        Err(Error::Refused(Refusal::FreeSpaceTree))
    ));
    assert_eq!(refusal("lzo", |sb| sb.log_root = 1_048_576.into()), Refusal::LogTree);
    let count = Refusal::DeviceCount { superblock: 2, listed: 1 };
    assert_eq!(refusal("lzo", |sb| sb.num_devices = 2.into()), count);
}

#[test]
fn an_unknown_feature_is_not_even_read() {
    let opened = with_superblock("lzo", |sb| {
        sb.incompat_flags = (sb.incompat_flags.get() | 1 << 50).into();
    });
    assert!(matches!(opened, Err(Error::Unsupported(_))));
}

#[test]
fn a_path_leads_to_what_it_names() {
    let fixture = fixture("plain");
    let fs = open(&fixture);
    let home = fs.resolve(b"home").unwrap();
    assert_eq!(home, fs.resolve(b"/./home//").unwrap());
    assert_eq!((home.ino, home.kind), (256, FileKind::DIRECTORY));
    for path in [b"nowhere".as_slice(), b"home/nowhere", b"home/\xff"] {
        assert!(matches!(fs.resolve(path), Err(Error::NoSuchPath(_))), "{path:?}");
    }
    // A snapshot has an empty directory in place of a subvolume inside of what it was taken of.
    let nested = fs.read_dir(fs.resolve(b"before").unwrap().root, 256).unwrap();
    let nested = nested.iter().find(|entry| entry.name == b"nested").unwrap();
    assert_eq!(nested.target, Target::Placeholder);
    assert!(fs.resolve(b"before/nested").is_err());
}
