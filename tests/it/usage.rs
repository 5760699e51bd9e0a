//! Usage: what is counted cleverly is what counting one by one gives.

use std::collections::{BTreeMap, BTreeSet};

use btrpress::error::{Error, Result};
use btrpress::format::{FileExtent, FileExtentKind, FileKind, Key, KeyKind};
use btrpress::fs::{Filesystem, Location, TOP_DIR, Target};
use btrpress::usage::{Progress, roots, subtree, unwatched, walk, whole};

use crate::fixture::{ALL, fixture};
use crate::read::open;

/// Something that takes space: a data extent, or an inline extent in a leaf.
#[derive(Debug, Default)]
struct Unit {
    disk: u64,
    data: u64,
    users: BTreeSet<(u64, u64)>,
    parts: Vec<(u64, u64)>,
}

impl Unit {
    fn waste(&self) -> u64 {
        let used = (0..self.data / 4096).filter(|sector| {
            self.parts.iter().any(|part| (part.0..part.1).contains(&(sector * 4096)))
        });
        self.disk * (self.data - used.count() as u64 * 4096) / self.data.max(1)
    }
}

/// Everything that takes space: extents by address, inline data by its leaf and slot.
fn units(fs: &Filesystem) -> BTreeMap<(u64, usize), Unit> {
    let mut units: BTreeMap<_, Unit> = BTreeMap::new();
    for root in fs.forest().subvolumes() {
        for item in fs.forest().tree(root).unwrap().items() {
            let item = item.unwrap();
            let key = item.key();
            if key.kind != KeyKind::EXTENT_DATA
                || fs.inode(root, key.objectid).unwrap().is_symlink()
            {
                continue;
            }
            let (extent, payload) = FileExtent::parse(item.data()).unwrap();
            let place = extent.place;
            let unit = if extent.kind == FileExtentKind::Inline {
                let unit = units.entry((item.leaf.bytenr(), 1 + item.slot)).or_default();
                unit.disk = payload.len() as u64;
                unit
            } else if extent.is_hole() {
                continue;
            } else {
                let unit = units.entry((place.disk_bytenr, 0)).or_default();
                (unit.disk, unit.data) = (place.disk_num_bytes, extent.ram_bytes);
                unit.parts.push((place.offset, place.offset + place.num_bytes));
                unit
            };
            unit.users.insert((root, key.objectid));
        }
    }
    units
}

/// A directory with the inodes of all files below it, by how many of their names are, and whether subvolumes are.
fn below(fs: &Filesystem, root: u64, dir: u64, files: &mut BTreeMap<u64, u32>) -> bool {
    let mut has_subvolumes = false;
    for entry in fs.read_dir(root, dir).unwrap() {
        match (entry.target, entry.kind) {
            (Target::Inode(ino), FileKind::DIRECTORY) => {
                has_subvolumes |= below(fs, root, ino, files);
            }
            (Target::Inode(ino), FileKind::REGULAR) => *files.entry(ino).or_default() += 1,
            (Target::Subvolume(_), _) => has_subvolumes = true,
            _ => {}
        }
    }
    has_subvolumes
}

fn directories(fs: &Filesystem, root: u64) -> Vec<u64> {
    let keys = Key::new(TOP_DIR, KeyKind(0), 0)..=Key::MAX;
    let items = fs.forest().tree(root).unwrap().range(keys);
    let keys = items.map(|item| item.unwrap().key()).filter(|key| key.kind == KeyKind::INODE_ITEM);
    let inos = keys.map(|key| key.objectid);
    inos.filter(|ino| fs.inode(root, *ino).unwrap().is_dir()).collect()
}

fn counted_by_path(fs: &Filesystem, root: u64, ino: u64, kind: FileKind) -> btrpress::usage::Tally {
    let places = [(Vec::new(), Location { root, ino, kind })];
    walk::scan(fs, &places, walk::Rows::Total, &mut |_| Ok(()), &mut unwatched).unwrap()
}

#[test]
fn every_directory_and_file_has_the_figures_of_counting_it_alone() {
    for name in ALL {
        let fixture = fixture(name);
        let fs = open(&fixture);
        let units = units(&fs);
        for root in fs.forest().subvolumes() {
            let usage = subtree::scan(&fs, root, &mut unwatched).unwrap();
            let mut compared = BTreeSet::new();
            for dir in directories(&fs, root) {
                let mut files = BTreeMap::new();
                let has_subvolumes = below(&fs, root, dir, &mut files);
                let found = usage.of(dir).unwrap();
                let whole: BTreeSet<(u64, u64)> = files
                    .iter()
                    .filter(|(ino, names)| fs.inode(root, **ino).unwrap().nlink.get() == **names)
                    .map(|(ino, _)| (root, *ino))
                    .collect();
                let exclusive = units.values().filter(|unit| unit.users.is_subset(&whole));
                let exclusive: u64 = exclusive.map(|unit| unit.disk).sum();
                assert_eq!(found.exclusive, exclusive, "{name}, {root}/{dir}");
                let is_used =
                    |unit: &&Unit| files.keys().any(|ino| unit.users.contains(&(root, *ino)));
                let waste: u64 = units.values().filter(is_used).map(Unit::waste).sum();
                assert_eq!(found.waste, waste, "{name}, {root}/{dir}");
                if !has_subvolumes {
                    let alone = counted_by_path(&fs, root, dir, FileKind::DIRECTORY);
                    assert_eq!(found.tally, alone, "{name}, {root}/{dir}");
                }
                for ino in files.keys().filter(|ino| compared.insert(**ino)) {
                    let found = usage.of(*ino).unwrap();
                    let alone = counted_by_path(&fs, root, *ino, FileKind::REGULAR);
                    assert_eq!(found.tally, alone, "{name}, {root}/{ino}");
                }
            }
        }
    }
}

#[test]
fn dropping_subvolumes_frees_what_only_they_have() {
    for name in ["plain", "zstd", "fragments", "raid1", "old-features", "nodes-4k"] {
        let fixture = fixture(name);
        let fs = open(&fixture);
        let units = units(&fs);
        let ids = whole::subvolumes_below(&fs.subvolumes().unwrap(), 5);
        let usage = roots::scan(&fs, &ids, &mut unwatched).unwrap();
        assert_eq!(usage.tally, whole::scan(&fs, &ids, &mut unwatched).unwrap(), "{name}");
        for chosen in 0..1_usize << ids.len() {
            let bits = ids.iter().enumerate();
            let some: Vec<u64> =
                bits.filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, id)| *id).collect();
            let gone = |unit: &&Unit| unit.users.iter().all(|(root, _)| some.contains(root));
            let freed: u64 = units.values().filter(gone).map(|unit| unit.disk).sum();
            assert_eq!(usage.freed_by(&some).disk, freed, "{name}, without {some:?}");
        }
        for id in ids {
            let alone = whole::scan(&fs, &[id], &mut unwatched).unwrap();
            let root = usage.root(id).unwrap();
            assert_eq!(root.tally, alone, "{name}, {id}");
            assert_eq!(root.exclusive, usage.freed_by(&[id]).disk);
            let subtree = subtree::scan(&fs, id, &mut unwatched).unwrap();
            assert_eq!(subtree.total().exclusive, root.exclusive, "{name}, {id}");
        }
    }
}

#[test]
fn a_scan_stops_when_told_to() {
    let fixture = fixture("nodes-4k");
    let fs = open(&fixture);
    let mut calls = 0;
    let mut stop = |_: Progress| -> Result<()> {
        calls += 1;
        Err(Error::Cancelled)
    };
    let ids: Vec<u64> = fs.forest().subvolumes().collect();
    let mut stopped = 0;
    for id in &ids {
        stopped += usize::from(subtree::scan(&fs, *id, &mut stop).is_err());
    }
    assert_eq!(stopped, calls);
}
