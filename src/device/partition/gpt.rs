//! GUID partition tables (UEFI specification, chapter 5).

use std::io;

use super::super::Device;
use super::{PartitionEntry, number};

const SIGNATURE: &[u8] = b"EFI PART";
const HEADER_SIZE: usize = 92;
/// Entries that are looked at; tools make 128.
const ENTRIES_MAX: u64 = 1024;

/// Reads the table, or its copy at the end of the disk; `None` if neither is there.
pub(super) fn read(disk: &dyn Device) -> io::Result<Option<Vec<PartitionEntry>>> {
    for block in [512, 4096] {
        let last = (disk.len() / block).saturating_sub(1);
        for at in [1, last] {
            if let Some(found) = read_table(disk, block, at)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Reads the table whose header is in block `at`, if a sound one is there.
fn read_table(disk: &dyn Device, block: u64, at: u64) -> io::Result<Option<Vec<PartitionEntry>>> {
    let Some(header) = read_bytes(disk, at.saturating_mul(block), block)? else { return Ok(None) };
    let size = number(&header, 12..16) as usize;
    if !header.starts_with(SIGNATURE) || !(HEADER_SIZE..=header.len()).contains(&size) {
        return Ok(None);
    }
    let mut summed = header[..size].to_vec();
    summed[16..20].fill(0);
    let (count, entry_size) = (number(&header, 80..84), number(&header, 84..88));
    let is_sound = u64::from(crc32(&summed)) == number(&header, 16..20)
        && number(&header, 24..32) == at
        && count <= ENTRIES_MAX
        && (128..=4096).contains(&entry_size);
    if !is_sound {
        return Ok(None);
    }
    let start = number(&header, 72..80).saturating_mul(block);
    let Some(entries) = read_bytes(disk, start, count * entry_size)? else { return Ok(None) };
    if u64::from(crc32(&entries)) != number(&header, 88..92) {
        return Ok(None);
    }
    let entries = entries.chunks_exact(entry_size as usize).zip(1..);
    Ok(Some(entries.filter_map(|(entry, number)| parse_entry(entry, number, block)).collect()))
}

fn parse_entry(entry: &[u8], nth: u32, block: u64) -> Option<PartitionEntry> {
    if entry[..16].iter().all(|byte| *byte == 0) {
        return None;
    }
    let (first, last) = (number(entry, 32..40), number(entry, 40..48));
    let blocks = last.checked_sub(first)?.checked_add(1)?;
    let units = entry[56..128].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let name: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    Some(PartitionEntry {
        number: nth,
        start: first.checked_mul(block)?,
        len: blocks.checked_mul(block)?,
        name: String::from_utf16_lossy(&name),
    })
}

/// Reads a range, if the disk is that long.
fn read_bytes(disk: &dyn Device, start: u64, len: u64) -> io::Result<Option<Vec<u8>>> {
    if start.checked_add(len).is_none_or(|end| end > disk.len()) {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    disk.read_at(start, &mut bytes)?;
    Ok(Some(bytes))
}

/// The CRC-32 of Ethernet and zip.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            let carry = if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
            (sum >> 1) ^ carry
        })
    })
}
