//! Partition tables made by hand.

use std::sync::Arc;

use super::super::Memory;
use super::*;

const MIB: u64 = 1 << 20;

fn entry(number: u32, start: u64, len: u64, name: &str) -> PartitionEntry {
    PartitionEntry { number, start, len, name: name.to_owned() }
}

/// Puts a record into block `at`: entries of kind, start and length.
fn put_record(disk: &Memory, at: u64, entries: &[(u8, u32, u32)]) {
    let mut block = [0; 512];
    block[510..].copy_from_slice(&[0x55, 0xaa]);
    for (place, (kind, start, len)) in block[446..510].chunks_exact_mut(16).zip(entries) {
        place[4] = *kind;
        place[8..12].copy_from_slice(&start.to_le_bytes());
        place[12..16].copy_from_slice(&len.to_le_bytes());
    }
    disk.write_at(at * 512, &block).unwrap();
}

/// Puts a table with one entry in slot 3, whose header is in block `at` of 512 bytes.
fn put_gpt(disk: &Memory, at: u64, entries_at: u64) {
    let mut entries = vec![0; 128 * 128];
    let third = &mut entries[2 * 128..3 * 128];
    third[..16].fill(7);
    third[32..40].copy_from_slice(&2048_u64.to_le_bytes());
    third[40..48].copy_from_slice(&4095_u64.to_le_bytes());
    third[56..60].copy_from_slice(&[b'o', 0, b'k', 0]);
    let mut header = [0; 512];
    header[..8].copy_from_slice(b"EFI PART");
    header[12..16].copy_from_slice(&92_u32.to_le_bytes());
    header[24..32].copy_from_slice(&at.to_le_bytes());
    header[72..80].copy_from_slice(&entries_at.to_le_bytes());
    header[80..84].copy_from_slice(&128_u32.to_le_bytes());
    header[84..88].copy_from_slice(&128_u32.to_le_bytes());
    header[88..92].copy_from_slice(&gpt::crc32(&entries).to_le_bytes());
    let sum = gpt::crc32(&header[..92]);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    disk.write_at(at * 512, &header).unwrap();
    disk.write_at(entries_at * 512, &entries).unwrap();
}

#[test]
fn a_partition_is_a_window() {
    let disk = Arc::new(Memory::new(8192));
    let window = Partition::of(Arc::clone(&disk), 4096, 1 << 40);
    assert_eq!(window.len(), 4096);
    window.write_at(1, &[7]).unwrap();
    window.write_at(4095, &[7, 7]).unwrap_err();
    let mut byte = [0];
    disk.read_at(4097, &mut byte).unwrap();
    assert_eq!(byte, [7]);
}

#[test]
fn an_empty_disk_has_no_partitions() {
    for size in [0, 512, MIB] {
        assert_eq!(partitions(&Memory::new(size)).unwrap(), []);
    }
}

#[test]
fn primary_and_logical_partitions_are_found() {
    let disk = Memory::new(64 * MIB);
    put_record(&disk, 0, &[(0x83, 2048, 2048), (0, 0, 0), (0x05, 8192, 65536)]);
    put_record(&disk, 8192, &[(0x83, 2048, 1024), (0x05, 16384, 8192)]);
    put_record(&disk, 8192 + 16384, &[(0x83, 2048, 4096)]);
    let expected = [
        entry(1, MIB, MIB, ""),
        entry(5, (8192 + 2048) * 512, 1024 * 512, ""),
        entry(6, (8192 + 16384 + 2048) * 512, 4096 * 512, ""),
    ];
    assert_eq!(partitions(&disk).unwrap(), expected);
}

#[test]
fn a_chain_that_bites_its_tail_ends() {
    let disk = Memory::new(MIB);
    put_record(&disk, 0, &[(0x05, 8, 100)]);
    put_record(&disk, 8, &[(0x83, 1, 1), (0x05, 0, 1)]);
    assert_eq!(partitions(&disk).unwrap().len(), 256);
}

#[test]
fn a_guid_table_is_found_and_its_copy_too() {
    let disk = Memory::new(4 * MIB);
    put_record(&disk, 0, &[(0xee, 1, u32::MAX)]);
    assert_eq!(partitions(&disk).unwrap(), []);
    put_gpt(&disk, 1, 2);
    let expected = [entry(3, MIB, MIB, "ok")];
    assert_eq!(partitions(&disk).unwrap(), expected);
    // A byte of the first header breaks; the copy is at the end.
    let last = 4 * MIB / 512 - 1;
    put_gpt(&disk, last, last - 32);
    disk.write_at(512 + 30, &[1]).unwrap();
    assert_eq!(partitions(&disk).unwrap(), expected);
    disk.write_at(last * 512 + 30, &[1]).unwrap();
    assert_eq!(partitions(&disk).unwrap(), []);
}
