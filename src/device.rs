//! Devices: where the bytes are.
//!
//! One small trait, [`Device`], and its forms: a file or block device ([`FileDevice`]), a window onto another device
//! ([`Partition`]), memory ([`Memory`]), and layers that change how one behaves: writes kept in memory ([`Overlay`]),
//! no writes after a failure ([`Latched`]), and for tests a log of all writes ([`Recorder`]) and failures on demand
//! ([`Faulty`]). Nothing here knows what the bytes mean. All forms may be used from several threads at once.

mod aside;
mod busy;
mod faulty;
mod file;
mod latched;
mod memory;
mod overlay;
mod partition;
mod recorder;

pub use aside::Aside;
pub use busy::block_device_paths;
pub use faulty::{Failure, Faulty, Operation};
pub use file::FileDevice;
pub use latched::{AlreadyFailed, Latch, Latched};
pub use memory::Memory;
pub use overlay::Overlay;
pub use partition::{Partition, PartitionEntry, partitions};
pub use recorder::{Crash, Crashes, Event, Landing, Recorder, Sampling, Tape};

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use crate::error::Result;

/// Something that holds bytes.
pub trait Device: Send + Sync + Debug {
    /// What messages call it.
    fn name(&self) -> String;

    /// Its size in bytes.
    fn len(&self) -> u64;

    /// Whether it holds no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` from byte `byte` on, or fails.
    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `from` at byte `byte`, or fails. Durable only after [`flush`](Self::flush).
    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()>;

    /// Returns once every earlier write would survive a power cut.
    fn flush(&self) -> io::Result<()>;

    /// Gives a range back to what is below; its bytes are then unspecified. Does nothing where that is impossible.
    fn discard(&self, byte: u64, len: u64) -> io::Result<()> {
        let _ = (byte, len);
        Ok(())
    }

    /// Looks again whether somebody else uses it, which must be known before each commit.
    fn recheck(&self) -> Result<()> {
        Ok(())
    }
}

impl<D: Device + ?Sized> Device for Arc<D> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        (**self).read_at(byte, into)
    }

    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()> {
        (**self).write_at(byte, from)
    }

    fn flush(&self) -> io::Result<()> {
        (**self).flush()
    }

    fn discard(&self, byte: u64, len: u64) -> io::Result<()> {
        (**self).discard(byte, len)
    }

    fn recheck(&self) -> Result<()> {
        (**self).recheck()
    }
}

/// What a device is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading, which works beside other users.
    Read,
    /// Reading and writing, which is refused beside other users.
    Write,
}

/// The error for a range that isn't inside a device.
fn check_range(byte: u64, len: usize, size: u64) -> io::Result<()> {
    match byte.checked_add(len as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
