//! Bad copies, and reading around them.

use super::*;
use crate::error::Place;
use crate::format::{Header, Node, NodeWriter, Physical};

const DATA: BlockGroupFlags = BlockGroupFlags::DATA;
const METADATA: BlockGroupFlags = BlockGroupFlags::METADATA;

fn checksums(volume: &Volume, data: &[u8]) -> Vec<u8> {
    let kind = volume.checksum_kind();
    data.chunks(SECTOR as usize)
        .flat_map(|sector| kind.of(sector)[..kind.size()].to_vec())
        .collect()
}

fn flip(device: &Memory, byte: u64) {
    let mut found = [0];
    device.read_at(byte, &mut found).unwrap();
    device.write_at(byte, &[!found[0]]).unwrap();
}

/// A leaf for `at`, with its checksum.
fn block(volume: &Volume, at: u64, generation: u64) -> Vec<u8> {
    let mut header = Header::new(volume.superblock().fsid, [9; 16]);
    header.bytenr = at.into();
    header.generation = generation.into();
    let items = [(Key::new(5, KeyKind::INODE_ITEM, 0), &b"item"[..])];
    let mut block = NodeWriter::new(NODE as usize).leaf(&header, items.into_iter());
    let sum = volume.checksum_kind().of(&block[32..]);
    block[..32].copy_from_slice(&sum);
    block
}

#[test]
fn a_bad_sector_is_taken_from_another_copy_and_noted() {
    for (flags, count) in PROFILES {
        if flags.is_empty() || flags == BlockGroupFlags::RAID0 {
            continue;
        }
        let devices = devices(count);
        let volume = volume(&devices, &[], DATA | flags, 2);
        let data = noise(1, 8 * SECTOR as usize);
        let sums = checksums(&volume, &data);
        volume.write(Logical(START), &data).unwrap();
        let chunk = volume.chunk_at(Logical(START)).unwrap();
        let byte = chunk.stripes[0].offset.get() + 2 * 4096;
        flip(&devices[0], byte + 100);
        let mut read = vec![0; data.len()];
        volume.read_data(Logical(START), &sums, &mut read).unwrap();
        assert!(read == data, "{flags:?} of {count}");
        let fault = Fault {
            device: "memory".to_owned(),
            physical: Physical { devid: 1, byte },
            logical: Logical(START + 2 * 4096),
            kind: FaultKind::Damage(Damage::Checksum),
        };
        assert_eq!(volume.faults(), [fault], "{flags:?} of {count}");
        assert_eq!(volume.fault_count(), 1);
    }
}

#[test]
fn data_without_a_good_copy_is_an_error_at_its_sector() {
    let devices = devices(2);
    let volume = volume(&devices, &[], DATA | BlockGroupFlags::RAID1, 2);
    let data = noise(1, 8 * SECTOR as usize);
    let sums = checksums(&volume, &data);
    volume.write(Logical(START), &data).unwrap();
    for (number, device) in devices.iter().enumerate() {
        flip(device, STRIPE_START + (number as u64 + 1) * STRIPE_LEN + 5 * 4096);
    }
    let error = volume.read_data(Logical(START), &sums, &mut vec![0; data.len()]).unwrap_err();
    let at = Place::Block(Logical(START + 5 * 4096));
    assert!(
        matches!(&error, Error::Corrupt { at: found, damage: Damage::Checksum } if *found == at)
    );
    assert_eq!(volume.faults(), []);
}

#[test]
fn raid6_reads_around_two_bad_devices() {
    let devices = devices(5);
    let volume = volume(&devices, &[], DATA | BlockGroupFlags::RAID6, 5);
    let chunk = volume.chunk_at(Logical(START)).unwrap();
    let data = noise(1, chunk.length as usize);
    let sums = checksums(&volume, &data);
    volume.write(Logical(START), &data).unwrap();
    for (number, device) in devices.iter().enumerate().skip(1).take(2) {
        let start = chunk.stripes[number].offset.get();
        device.write_at(start, &noise(number as u64, 5 * STRIPE_LEN as usize)).unwrap();
    }
    let mut read = vec![0; data.len()];
    volume.read_data(Logical(START), &sums, &mut read).unwrap();
    assert!(read == data);
}

#[test]
fn a_tree_block_is_read_from_the_copy_that_fits() {
    let devices = devices(2);
    let volume = volume(&devices, &[], METADATA | BlockGroupFlags::RAID1, 1);
    let at = Logical(START + u64::from(NODE));
    volume.write(at, &block(&volume, at.0, 7)).unwrap();
    let first = STRIPE_START + STRIPE_LEN + u64::from(NODE);

    devices[0].write_at(first, &block(&volume, at.0 + 4096, 7)).unwrap();
    assert_eq!(volume.read_node(at).unwrap().generation(), 7);
    let damage = FaultKind::Damage(Damage::Bytenr { found: at.0 + 4096 });
    assert_eq!(volume.faults()[0].kind, damage);

    // An old copy is sound in itself; only what the parent says unmasks it.
    devices[0].write_at(first, &block(&volume, at.0, 6)).unwrap();
    assert_eq!(volume.read_node(at).unwrap().generation(), 6);
    let expected = |node: &Node| match node.generation() {
        7 => Ok(()),
        found => Err(Damage::Generation { found, expected: 7 }),
    };
    assert_eq!(volume.read_node_if(at, expected).unwrap().generation(), 7);
}

#[test]
fn a_bad_tree_block_names_its_damage() {
    let devices = devices(1);
    let volume = volume(&devices, &[], METADATA | BlockGroupFlags::DUP, 1);
    let at = Logical(START);
    let damage = |bytes: &[u8]| {
        volume.write(at, bytes).unwrap();
        match volume.read_node(at) {
            Err(Error::Corrupt { at: Place::Block(found), damage }) if found == at => damage,
            other => panic!("{other:?}"),
        }
    };
    let good = block(&volume, at.0, 7);
    let with_sum = |mut bytes: Vec<u8>| {
        let sum = volume.checksum_kind().of(&bytes[32..]);
        bytes[..32].copy_from_slice(&sum);
        bytes
    };
    let mut flipped = good.clone();
    flipped[200] ^= 1;
    assert_eq!(damage(&flipped), Damage::Checksum);
    let mut foreign = good.clone();
    foreign[32] ^= 1;
    assert_eq!(damage(&with_sum(foreign)), Damage::Fsid);
    let mut crowded = good;
    crowded[97] = 0xff;
    assert!(matches!(damage(&with_sum(crowded)), Damage::ItemCount { .. }));
}

/// Parity over damaged data would make the damage final.
#[test]
fn writing_beside_damage_in_a_row_keeps_it_repairable() {
    for (flags, count) in [(BlockGroupFlags::RAID5, 3), (BlockGroupFlags::RAID6, 4)] {
        let devices = devices(count);
        let volume = volume(&devices, &[], DATA | flags, 1);
        let data = noise(1, 2 * STRIPE_LEN as usize);
        let sums = checksums(&volume, &data);
        volume.write(Logical(START), &data).unwrap();
        let look_up = |at: Logical| {
            let number = (at.0 - START) as usize / SECTOR as usize;
            Some(sums[number * 4..number * 4 + 4].into())
        };
        flip(&devices[0], STRIPE_START + STRIPE_LEN + 3 * 4096 + 5);
        let beside = Logical(START + STRIPE_LEN);
        volume.write_beside(beside, &noise(2, 8 * 4096), &look_up).unwrap();
        let mut read = vec![0; STRIPE_LEN as usize];
        volume.read_data(Logical(START), &sums[..16 * 4], &mut read).unwrap();
        assert!(read == data[..read.len()], "{flags:?}");
    }
}

/// Free space of a disk that was used before holds anything, parity too.
#[test]
fn parity_that_never_fitted_is_right_after_a_write() {
    let devices = devices(3);
    let volume = volume(&devices, &[], DATA | BlockGroupFlags::RAID5, 1);
    for (number, device) in devices.iter().enumerate() {
        let start = STRIPE_START + (number as u64 + 1) * STRIPE_LEN;
        device.write_at(start, &noise(number as u64 + 1, STRIPE_LEN as usize)).unwrap();
    }
    let data = noise(9, 4096);
    volume.write(Logical(START + 4096), &data).unwrap();
    let mut read = vec![0; 4096];
    volume.read_copy(Logical(START + 4096), 1, &mut read).unwrap();
    assert!(read == data);
}
