//! Reports: the figures are compsize's, however they are counted.

use std::collections::BTreeMap;

use btrpress::fs::{Filesystem, Location};
use btrpress::report::{Units, table};
use btrpress::usage::{Tally, unwatched, walk, whole};

use crate::fixture::{ALL, Content, compsize, fixture, manifest};
use crate::read::open;

fn counted_by_block(fs: &Filesystem) -> Tally {
    let roots = whole::subvolumes_below(&fs.subvolumes().unwrap(), 5);
    whole::scan(fs, &roots, &mut unwatched).unwrap()
}

fn counted_by_path(fs: &Filesystem, at: Location) -> Tally {
    let places = [(Vec::new(), at)];
    walk::scan(fs, &places, walk::Rows::Total, &mut |_| Ok(()), &mut unwatched).unwrap()
}

/// compsize counts a file once for each of its names, we do once: what it has counted in excess.
fn counted_twice(fs: &Filesystem, name: &str) -> Tally {
    let mut names: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for entry in manifest(name) {
        if let Content::File(_) = entry.content {
            let at = fs.resolve(&entry.path).unwrap();
            *names.entry((at.root, at.ino)).or_default() += 1;
        }
    }
    let mut excess = Tally::default();
    for ((root, ino), names) in names.into_iter().filter(|(_, names)| *names > 1) {
        let kind = btrpress::format::FileKind::REGULAR;
        let mut once = counted_by_path(fs, Location { root, ino, kind });
        if once.extents > 0 {
            assert_eq!(once.inline, 0, "{name} has no file of both");
            once.extents = 0;
            for storage in btrpress::usage::Storage::ALL {
                let amounts = once.by_mut(storage);
                (amounts.disk, amounts.uncompressed) = (0, 0);
            }
        }
        excess.add(&once, names - 1);
    }
    excess
}

/// The table without fragments, which compsize did not count when the fixtures were made.
fn without_fragments(tally: &Tally) -> String {
    let text = table(tally, Units::Bytes);
    text.replacen(&format!(", {} fragments", tally.fragments), "", 1)
}

#[test]
fn the_figures_of_every_image_are_compsizes() {
    for name in ALL {
        let fixture = fixture(name);
        let fs = open(&fixture);
        let mut tally = counted_by_block(&fs);
        tally.add(&counted_twice(&fs, name), 1);
        assert_eq!(without_fragments(&tally), compsize(name), "{name}");
    }
}

#[test]
fn counting_by_block_and_by_path_agree() {
    for name in ALL {
        let fixture = fixture(name);
        let fs = open(&fixture);
        assert_eq!(counted_by_block(&fs), counted_by_path(&fs, Location::top_of(5)), "{name}");
        for subvolume in fs.subvolumes().unwrap() {
            let below = whole::subvolumes_below(&fs.subvolumes().unwrap(), subvolume.id);
            let by_block = whole::scan(&fs, &below, &mut unwatched).unwrap();
            let by_path = counted_by_path(&fs, Location::top_of(subvolume.id));
            assert_eq!(by_block, by_path, "{name}, subvolume {}", subvolume.id);
        }
    }
}

#[test]
fn rows_are_the_figures_of_what_they_name() {
    let fixture = fixture("zstd");
    let fs = open(&fixture);
    let places = [(Vec::new(), Location::top_of(5))];
    for rows in [walk::Rows::Files, walk::Rows::Directories { depth_max: 2 }] {
        let mut seen = 0;
        let mut emit = |row: walk::Row| {
            let at = fs.resolve(&row.path)?;
            assert_eq!(at.kind, row.kind);
            assert_eq!(counted_by_path(&fs, at), row.tally, "{:?}", row.path);
            seen += 1;
            Ok(())
        };
        walk::scan(&fs, &places, rows, &mut emit, &mut unwatched).unwrap();
        assert!(seen > 3, "{rows:?}");
    }
}
