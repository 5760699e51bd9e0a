//! Damage: whatever stands in tree blocks with right checksums, reading them ends, without a panic.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use btrpress::device::{Access, Device, FileDevice};
use btrpress::error::Result;
use btrpress::format::{ChecksumKind, Header};
use btrpress::fs::{Filesystem, Location};
use btrpress::usage::{roots, subtree, unwatched, walk, whole};
use zerocopy::FromBytes;

use crate::fixture::{Fixture, fixture};

/// A block to be damaged, in every copy: its logical address, and what to put where in it.
#[derive(Debug, Clone, Copy)]
struct Damage {
    block: u64,
    at: usize,
    value: u8,
}

/// A device that shows one tree block damaged, with a checksum that fits.
#[derive(Debug)]
struct Damaged {
    below: FileDevice,
    node_size: usize,
    damage: Option<Damage>,
    /// Tree blocks read so far.
    read: Mutex<BTreeSet<u64>>,
}

impl Device for Damaged {
    fn name(&self) -> String {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        self.below.read_at(byte, into)?;
        let Ok((header, _)) = Header::ref_from_prefix(into) else { return Ok(()) };
        let sum = ChecksumKind::Crc32c.of(&into[header.csum.len()..]);
        if into.len() != self.node_size || header.csum != sum {
            return Ok(());
        }
        let block = header.bytenr.get();
        self.read.lock().unwrap().insert(block);
        if let Some(damage) = self.damage.filter(|damage| damage.block == block) {
            into[damage.at] = damage.value;
            let sum = ChecksumKind::Crc32c.of(&into[32..]);
            into[..32].copy_from_slice(&sum);
        }
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        unreachable!("nothing is written")
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads everything in every way; tells whether all of it went well, and which blocks were read.
fn read(image: &Fixture, node_size: usize, damage: Option<Damage>) -> (bool, BTreeSet<u64>) {
    let below = FileDevice::open(image.path(), Access::Read).unwrap();
    let device = Arc::new(Damaged { below, node_size, damage, read: Mutex::default() });
    let went_well = read_all(Arc::clone(&device) as Arc<dyn Device>).is_ok();
    let blocks = std::mem::take(&mut *device.read.lock().unwrap());
    (went_well, blocks)
}

/// The first error, after everything was tried.
fn read_all(device: Arc<dyn Device>) -> Result<()> {
    let fs = Filesystem::open(vec![device])?;
    let mut results = vec![fs.writable()];
    let places = [(Vec::new(), Location::top_of(5))];
    let mut files = Vec::new();
    let mut emit = |row: walk::Row| {
        files.push(row.path);
        Ok(())
    };
    results.push(walk::scan(&fs, &places, walk::Rows::Files, &mut emit, &mut unwatched).map(drop));
    results.extend(files.iter().map(|path| fs.write_contents_of(path, &mut io::sink())));
    let subvolumes = fs.subvolumes();
    let ids = whole::subvolumes_below(subvolumes.as_deref().unwrap_or_default(), 5);
    results.push(subvolumes.map(drop));
    results.push(whole::scan(&fs, &ids, &mut unwatched).map(drop));
    results.push(roots::scan(&fs, &ids, &mut unwatched).map(drop));
    for id in fs.forest().subvolumes() {
        results.push(subtree::scan(&fs, id, &mut unwatched).map(drop));
    }
    results.into_iter().collect()
}

#[test]
fn damage_behind_a_right_checksum_is_an_error_or_goes_unnoticed() {
    let mut noticed = 0;
    for (name, node_size) in [("nodes-4k", 4096), ("old-features", 16384)] {
        let image = fixture(name);
        let (went_well, blocks) = read(&image, node_size, None);
        assert!(went_well, "{name} is whole");
        let blocks: Vec<u64> = blocks.into_iter().collect();
        let mut state: u64 = 1;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..1000 {
            let block = blocks[random(blocks.len())];
            // Mostly the head, and the keys and pointers after it.
            let end = if random(3) == 0 { node_size } else { 600 };
            let value = [0, 1, 0x7f, 0xff, random(256) as u8][random(5)];
            let damage = Damage { block, at: 32 + random(end - 32), value };
            noticed += u32::from(!read(&image, node_size, Some(damage)).0);
        }
    }
    assert!(noticed > 200, "{noticed} of 2000 were noticed");
}
