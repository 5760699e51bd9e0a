//! Writes kept in a temporary file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{PoisonError, RwLock};

use super::{Device, check_range};
use crate::error::Result;
use crate::format::RangeSet;

/// Keeps writes in a temporary file without a name, over a device that stays untouched: what a dry run runs on. It takes
/// disk space for what is written, and memory only for where that is.
#[derive(Debug)]
pub struct Aside<D> {
    below: D,
    file: File,
    kept: RwLock<RangeSet>,
}

impl<D: Device> Aside<D> {
    /// Keeps what is written to `below`.
    ///
    /// # Errors
    /// If there is no room for temporary files.
    pub fn over(below: D) -> io::Result<Self> {
        Ok(Self { below, file: tempfile::tempfile()?, kept: RwLock::default() })
    }
}

impl<D: Device> Device for Aside<D> {
    fn name(&self) -> String {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        self.below.read_at(byte, into)?;
        let end = byte.saturating_add(into.len() as u64);
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        for range in kept.iter_from(byte).take_while(|range| range.start < end) {
            let part = (range.start - byte) as usize..(range.end.min(end) - byte) as usize;
            self.file.read_exact_at(&mut into[part], range.start)?;
        }
        Ok(())
    }

    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()> {
        check_range(byte, from.len(), self.len())?;
        self.file.write_all_at(from, byte)?;
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.insert(byte..byte + from.len() as u64);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn recheck(&self) -> Result<()> {
        self.below.recheck()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Memory;

    #[test]
    fn writes_are_read_back_and_do_not_go_through() {
        let below = Memory::of(&[7; 100]);
        let aside = Aside::over(below.clone()).unwrap();
        aside.write_at(10, &[1; 20]).unwrap();
        aside.write_at(50, &[2; 10]).unwrap();
        let mut all = [0; 100];
        aside.read_at(0, &mut all).unwrap();
        let expected = [vec![7; 10], vec![1; 20], vec![7; 20], vec![2; 10], vec![7; 40]].concat();
        assert_eq!(all.as_slice(), expected);
        let mut part = [0; 10];
        aside.read_at(25, &mut part).unwrap();
        assert_eq!(part, [1, 1, 1, 1, 1, 7, 7, 7, 7, 7]);
        below.read_at(0, &mut all).unwrap();
        assert_eq!(all, [7; 100]);
        assert!(aside.write_at(95, &[0; 10]).is_err());
    }
}
