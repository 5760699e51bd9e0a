//! Master boot records, with logical partitions.

use std::io;

use super::super::Device;
use super::{PartitionEntry, number};

const BLOCK: u64 = 512;
/// Kinds of a partition that only holds others.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// Kind of the entry that guards a GUID partition table.
const PROTECTIVE: u8 = 0xee;
/// Number of the first logical partition.
const FIRST_LOGICAL: u32 = 5;
/// Logical partitions that are looked at.
const LOGICAL_MAX: u32 = 256;

/// One of the four entries of a record, in blocks.
struct Entry {
    kind: u8,
    start: u64,
    len: u64,
}

/// Reads the table; no partitions if there is none.
pub(super) fn read(disk: &dyn Device) -> io::Result<Vec<PartitionEntry>> {
    let Some(primary) = read_record(disk, 0)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let mut extended = None;
    for (entry, number) in primary.iter().zip(1..) {
        if EXTENDED.contains(&entry.kind) {
            extended = extended.or(Some(entry.start));
        } else if entry.is_used() {
            found.push(entry.at(0, number));
        }
    }
    if let Some(start) = extended {
        read_logical(disk, start, &mut found)?;
    }
    Ok(found)
}

/// Follows the chain of records in an extended partition.
fn read_logical(disk: &dyn Device, start: u64, found: &mut Vec<PartitionEntry>) -> io::Result<()> {
    let mut record_at = start;
    for number in FIRST_LOGICAL..FIRST_LOGICAL + LOGICAL_MAX {
        let Some([entry, next, ..]) = read_record(disk, record_at)? else { break };
        if entry.is_used() {
            found.push(entry.at(record_at, number));
        }
        if !EXTENDED.contains(&next.kind) {
            break;
        }
        record_at = start + next.start;
    }
    Ok(())
}

/// Reads the record in block `at`, if one is there.
fn read_record(disk: &dyn Device, at: u64) -> io::Result<Option<[Entry; 4]>> {
    let mut block = [0; BLOCK as usize];
    if at * BLOCK + BLOCK > disk.len() {
        return Ok(None);
    }
    disk.read_at(at * BLOCK, &mut block)?;
    if block[510..] != [0x55, 0xaa] {
        return Ok(None);
    }
    Ok(Some(std::array::from_fn(|nth| {
        let entry = &block[446 + 16 * nth..][..16];
        Entry { kind: entry[4], start: number(entry, 8..12), len: number(entry, 12..16) }
    })))
}

impl Entry {
    fn is_used(&self) -> bool {
        self.kind != 0 && self.kind != PROTECTIVE && self.len > 0
    }

    /// The partition, if starts count from block `from`.
    fn at(&self, from: u64, number: u32) -> PartitionEntry {
        let start = (from + self.start) * BLOCK;
        PartitionEntry { number, start, len: self.len * BLOCK, name: String::new() }
    }
}
