//! What a power cut can leave.
//!
//! The model: a flush is a barrier for the device it is done on. Of the writes after a device's last flush any subset
//! may have landed, in any order, and of a write of several sectors any subset of its sectors. A sector is written in
//! whole or not at all; how large a sector is can be chosen, since tearing a superblock is a test of its own.
//!
//! Several devices share one [`Tape`], so that a cut hits all of them at the same moment.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Device;
use crate::error::Result;

mod crash;

pub use crash::{Crash, Crashes, Landing, Sampling};

/// One thing that was done to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Bytes were written.
    Write {
        /// The device's number on its tape.
        device: usize,
        /// Where.
        byte: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// The device was flushed.
    Flush {
        /// The device's number on its tape.
        device: usize,
    },
}

impl Event {
    /// The device that it was done to.
    pub const fn device(&self) -> usize {
        match self {
            Self::Write { device, .. } | Self::Flush { device } => *device,
        }
    }
}

/// All that was done to some devices, in order.
#[derive(Debug, Default)]
pub struct Tape {
    events: Mutex<Vec<Event>>,
}

impl From<Vec<Event>> for Tape {
    /// A tape on which these events are as if they had been recorded.
    fn from(events: Vec<Event>) -> Self {
        Self { events: Mutex::new(events) }
    }
}

impl Tape {
    /// What was recorded so far.
    pub fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    /// The states that a power cut at any moment of the recording could have left, as far as `sampling` tries them.
    /// `bases` are the devices as they were when the recording began, by number.
    pub fn crashes(&self, bases: Vec<Arc<dyn Device>>, sampling: Sampling) -> Crashes {
        Crashes::new(self.events(), bases, sampling)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().expect("no thread panics while it holds this lock")
    }
}

/// Records every write and flush that reaches a device.
#[derive(Debug)]
pub struct Recorder<D> {
    below: D,
    number: usize,
    tape: Arc<Tape>,
}

impl<D: Device> Recorder<D> {
    /// Records what is done to `below` as to device `number` of a tape.
    pub fn over(below: D, number: usize, tape: Arc<Tape>) -> Self {
        Self { below, number, tape }
    }
}

impl<D: Device> Device for Recorder<D> {
    fn name(&self) -> String {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        self.below.read_at(byte, into)
    }

    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()> {
        // Under the lock, so that the tape has the order in which the device saw the writes.
        let mut events = self.tape.lock();
        self.below.write_at(byte, from)?;
        events.push(Event::Write { device: self.number, byte, bytes: from.into() });
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut events = self.tape.lock();
        self.below.flush()?;
        events.push(Event::Flush { device: self.number });
        Ok(())
    }

    fn recheck(&self) -> Result<()> {
        self.below.recheck()
    }
}

#[cfg(test)]
mod tests;
