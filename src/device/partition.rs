//! A part of another device.

use std::io;

use super::{Device, check_range};
use crate::error::Result;

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
