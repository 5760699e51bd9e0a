//! Writes kept in memory.

use std::io;
use std::sync::{RwLock, RwLockReadGuard};

use super::memory::{PAGE, Pages};
use super::{Device, check_range};
use crate::error::Result;

/// Keeps writes in memory, over a device that stays untouched.
#[derive(Debug)]
pub struct Overlay<D> {
    below: D,
    pages: RwLock<Pages>,
}

impl<D: Device> Overlay<D> {
    /// Lays an empty overlay over `below`.
    pub fn over(below: D) -> Self {
        Self { below, pages: RwLock::default() }
    }

    /// Bytes of memory that the writes take.
    pub fn kept_bytes(&self) -> usize {
        self.pages().len() * PAGE
    }

    /// Writes what is kept here to `device`, which then holds what this one does if it held what is below.
    pub fn copy_to(&self, device: &dyn Device) -> io::Result<()> {
        for (start, page) in self.pages().iter() {
            // The last page of a device may be cut short.
            let have = self.len().saturating_sub(start).min(page.len() as u64) as usize;
            device.write_at(start, &page[..have])?;
        }
        Ok(())
    }

    fn pages(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().expect("no thread panics while it holds this lock")
    }
}

impl<D: Device + Clone> Clone for Overlay<D> {
    fn clone(&self) -> Self {
        Self { below: self.below.clone(), pages: RwLock::new(self.pages().clone()) }
    }
}

impl<D: Device> Device for Overlay<D> {
    fn name(&self) -> String {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        self.below.read_at(byte, into)?;
        self.pages().read(byte, into);
        Ok(())
    }

    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()> {
        check_range(byte, from.len(), self.len())?;
        let mut pages = self.pages.write().expect("no thread panics while it holds this lock");
        pages.write(byte, from, |start, page| {
            // The last page of a device may be cut short.
            let have = (self.below.len() - start).min(page.len() as u64) as usize;
            self.below.read_at(start, &mut page[..have])
        })
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn recheck(&self) -> Result<()> {
        self.below.recheck()
    }
}
