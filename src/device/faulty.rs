//! Failures on demand.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Device;
use crate::error::Result;

/// What a device can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// [`Device::read_at`].
    Read,
    /// [`Device::write_at`].
    Write,
    /// [`Device::flush`].
    Flush,
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// With this error, once.
    Once(io::ErrorKind),
    /// With this error, and so does every later operation of its kind: a full host, for one.
    From(io::ErrorKind),
    /// A write reaches only this many of its bytes.
    Short(usize),
    /// The device disappears: every later operation of any kind fails.
    Gone,
    /// It takes this long, and succeeds.
    Slow(Duration),
}

#[derive(Debug)]
struct Rule {
    operation: Operation,
    nth: u64,
    failure: Failure,
}

/// A device with failures built in, each at a given operation.
#[derive(Debug)]
pub struct Faulty<D> {
    below: D,
    rules: Vec<Rule>,
    unreadable: Vec<Range<u64>>,
    counts: [AtomicU64; 3],
    gone: AtomicBool,
}

impl<D: Device> Faulty<D> {
    /// A device like `below`, without failures yet.
    pub fn over(below: D) -> Self {
        let (rules, unreadable, counts) = <_>::default();
        Self { below, rules, unreadable, counts, gone: AtomicBool::new(false) }
    }

    /// Makes the `nth` operation of its kind fail, counted from 0.
    #[must_use]
    pub fn failing(mut self, operation: Operation, nth: u64, failure: Failure) -> Self {
        self.rules.push(Rule { operation, nth, failure });
        self
    }

    /// Makes every read fail that touches a range of bytes.
    #[must_use]
    pub fn unreadable(mut self, range: Range<u64>) -> Self {
        self.unreadable.push(range);
        self
    }

    /// Number of operations of a kind so far.
    pub fn count(&self, operation: Operation) -> u64 {
        self.counts[operation as usize].load(Ordering::Relaxed)
    }

    /// The failure that is due, if any.
    fn next(&self, operation: Operation) -> io::Result<Option<Failure>> {
        let nth = self.counts[operation as usize].fetch_add(1, Ordering::Relaxed);
        if self.gone.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let due = |rule: &&Rule| match rule.failure {
            Failure::From(_) => nth >= rule.nth,
            _ => nth == rule.nth,
        };
        let of_kind = self.rules.iter().filter(|rule| rule.operation == operation);
        match of_kind.filter(due).map(|rule| rule.failure).next() {
            Some(Failure::Once(kind) | Failure::From(kind)) => Err(kind.into()),
            Some(Failure::Gone) => {
                self.gone.store(true, Ordering::Relaxed);
                Err(io::ErrorKind::NotConnected.into())
            }
            Some(Failure::Slow(time)) => {
                std::thread::sleep(time);
                Ok(None)
            }
            other => Ok(other),
        }
    }
}

impl<D: Device> Device for Faulty<D> {
    fn name(&self) -> String {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        self.next(Operation::Read)?;
        let end = byte.saturating_add(into.len() as u64);
        if self.unreadable.iter().any(|bad| bad.start < end && byte < bad.end) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.below.read_at(byte, into)
    }

    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()> {
        match self.next(Operation::Write)? {
            Some(Failure::Short(len)) => {
                self.below.write_at(byte, &from[..len.min(from.len())])?;
                Err(io::ErrorKind::WriteZero.into())
            }
            _ => self.below.write_at(byte, from),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.next(Operation::Flush)?;
        self.below.flush()
    }

    fn discard(&self, byte: u64, len: u64) -> io::Result<()> {
        self.below.discard(byte, len)
    }

    fn recheck(&self) -> Result<()> {
        self.below.recheck()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AlreadyFailed, Latch, Latched, Memory};
    use super::*;

    #[test]
    fn the_nth_write_fails_and_then_the_latch_holds() {
        let faulty = Faulty::over(Memory::new(8192)).failing(
            Operation::Write,
            1,
            Failure::Once(io::ErrorKind::Other),
        );
        let latch = Latch::default();
        let device = Latched::over(faulty, latch.clone());
        let other = Latched::over(Memory::new(8192), latch);
        device.write_at(0, &[1]).unwrap();
        assert_eq!(device.write_at(0, &[2]).unwrap_err().kind(), io::ErrorKind::Other);
        for error in [device.write_at(0, &[3]), device.flush(), other.write_at(0, &[3])] {
            let error = error.unwrap_err();
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<AlreadyFailed>());
            assert_eq!(inner.map(|failed| failed.device.as_str()), Some("memory"));
        }
        let mut byte = [0];
        device.read_at(0, &mut byte).unwrap();
        assert_eq!(byte, [1]);
    }

    #[test]
    fn a_short_write_leaves_its_start() {
        let device =
            Faulty::over(Memory::new(8192)).failing(Operation::Write, 0, Failure::Short(2));
        device.write_at(0, &[1; 4]).unwrap_err();
        let mut bytes = [0; 4];
        device.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 1, 0, 0]);
    }

    #[test]
    fn a_device_that_is_gone_stays_gone() {
        let device = Faulty::over(Memory::new(8192)).failing(Operation::Flush, 0, Failure::Gone);
        device.write_at(0, &[1]).unwrap();
        device.flush().unwrap_err();
        device.read_at(0, &mut [0]).unwrap_err();
        device.write_at(0, &[1]).unwrap_err();
    }

    #[test]
    fn a_bad_sector_is_bad_only_where_it_is() {
        let device = Faulty::over(Memory::new(8192)).unreadable(4096..4097);
        device.read_at(0, &mut [0; 4096]).unwrap();
        device.read_at(1, &mut [0; 4096]).unwrap_err();
    }
}
