//! A device in memory.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Device, check_range};

/// Bytes of a page, the unit that memory is kept in.
pub(super) const PAGE: usize = 4096;

/// Pages by number. A clone shares the pages that neither side writes.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages(HashMap<u64, Arc<[u8; PAGE]>>);

/// The part of a page that a range touches: the page, where in it, and where in the range.
struct Part {
    page: u64,
    start: usize,
    done: usize,
    len: usize,
}

fn parts(byte: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = byte + done as u64;
        let start = (at % PAGE as u64) as usize;
        let part =
            Part { page: at / PAGE as u64, start, done, len: (PAGE - start).min(len - done) };
        done += part.len;
        (part.len > 0).then_some(part)
    })
}

impl Pages {
    /// Copies what is kept here over `into`, which holds the bytes from below.
    pub(super) fn read(&self, byte: u64, into: &mut [u8]) {
        for part in parts(byte, into.len()) {
            if let Some(page) = self.0.get(&part.page) {
                into[part.done..part.done + part.len]
                    .copy_from_slice(&page[part.start..part.start + part.len]);
            }
        }
    }

    /// Keeps `from`; a page that isn't kept yet and is only partly written starts as `below` gives it.
    pub(super) fn write(
        &mut self,
        byte: u64,
        from: &[u8],
        below: impl Fn(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for part in parts(byte, from.len()) {
            if part.len < PAGE && !self.0.contains_key(&part.page) {
                let mut page = [0; PAGE];
                below(part.page * PAGE as u64, &mut page)?;
                self.0.insert(part.page, Arc::new(page));
            }
            let page = self.0.entry(part.page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[part.start..part.start + part.len]
                .copy_from_slice(&from[part.done..part.done + part.len]);
        }
        Ok(())
    }

    /// The pages kept, in no particular order: where each starts, and its bytes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &[u8; PAGE])> {
        self.0.iter().map(|(number, page)| (number * PAGE as u64, &**page))
    }

    /// Number of pages kept.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A device in memory, that only takes space for pages that were written. A clone is a copy, cheaply made.
#[derive(Debug)]
pub struct Memory {
    len: u64,
    pages: RwLock<Pages>,
}

impl Memory {
    /// A device of `len` zeros.
    pub fn new(len: u64) -> Self {
        Self { len, pages: RwLock::default() }
    }

    /// A device that holds `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let device = Self::new(bytes.len() as u64);
        let mut pages = device.pages_mut();
        for (number, page) in
            bytes.chunks(PAGE).enumerate().filter(|(_, page)| page.iter().any(|byte| *byte != 0))
        {
            pages.0.insert(number as u64, Arc::new(padded(page)));
        }
        drop(pages);
        device
    }

    fn pages(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().expect("no thread panics while it holds this lock")
    }

    fn pages_mut(&self) -> RwLockWriteGuard<'_, Pages> {
        self.pages.write().expect("no thread panics while it holds this lock")
    }
}

/// A page that starts with `bytes`.
fn padded(bytes: &[u8]) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page[..bytes.len()].copy_from_slice(bytes);
    page
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self { len: self.len, pages: RwLock::new(self.pages().clone()) }
    }
}

impl Device for Memory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        check_range(byte, into.len(), self.len)?;
        into.fill(0);
        self.pages().read(byte, into);
        Ok(())
    }

    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()> {
        check_range(byte, from.len(), self.len)?;
        self.pages_mut().write(byte, from, |_, _| Ok(()))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}
