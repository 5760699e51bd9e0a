//! A part of another device, and tables of them.

use std::io;

use super::{Device, check_range};
use crate::error::Result;

mod gpt;
mod mbr;

/// A window onto another device, as a partition is.
#[derive(Debug)]
pub struct Partition<D> {
    below: D,
    start: u64,
    len: u64,
}

impl<D: Device> Partition<D> {
    /// The `len` bytes from `start` on, or as many of them as `below` has.
    pub fn of(below: D, start: u64, len: u64) -> Self {
        let len = len.min(below.len().saturating_sub(start));
        Self { below, start, len }
    }
}

impl<D: Device> Device for Partition<D> {
    fn name(&self) -> String {
        format!("{} from byte {} on", self.below.name(), self.start)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        check_range(byte, into.len(), self.len)?;
        self.below.read_at(self.start + byte, into)
    }

    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()> {
        check_range(byte, from.len(), self.len)?;
        self.below.write_at(self.start + byte, from)
    }

    fn flush(&self) -> io::Result<()> {
        self.below.flush()
    }

    fn discard(&self, byte: u64, len: u64) -> io::Result<()> {
        check_range(byte, len as usize, self.len)?;
        self.below.discard(self.start + byte, len)
    }

    fn recheck(&self) -> Result<()> {
        self.below.recheck()
    }
}

/// An entry of a partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionEntry {
    /// Its number, as in the names that Linux gives partitions.
    pub number: u32,
    /// Where it starts, in bytes.
    pub start: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its name; only GPT has names.
    pub name: String,
}

/// The partitions of a disk, by number; none if there is no partition table.
pub fn partitions(disk: &dyn Device) -> io::Result<Vec<PartitionEntry>> {
    if let Some(found) = gpt::read(disk)? {
        return Ok(found);
    }
    mbr::read(disk)
}

/// A little-endian number of up to 8 bytes; what is missing counts as 0.
fn number(bytes: &[u8], range: std::ops::Range<usize>) -> u64 {
    let bytes = bytes.get(range).unwrap_or_default();
    bytes.iter().rev().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
