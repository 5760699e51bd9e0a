//! No second try after a failure.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::Device;
use crate::error::Result;

/// What devices share that must all stop once one has failed.
#[derive(Debug, Clone, Default)]
pub struct Latch(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The name of the device that failed.
    failed: OnceLock<String>,
    bytes_written: AtomicU64,
}

impl Latch {
    /// Bytes written so far to all of its devices.
    pub fn bytes_written(&self) -> u64 {
        self.0.bytes_written.load(Ordering::Relaxed)
    }
}

/// The error of a write that isn't tried, since an earlier one failed. It is inside of the [`io::Error`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("an earlier write to {device} failed")]
pub struct AlreadyFailed {
    /// The device that failed first.
    pub device: String,
}

/// After a failed write or flush, fails all that follow: what a device then holds is not known, and nothing must be
/// built on it. Reading goes on.
#[derive(Debug)]
pub struct Latched<D> {
    below: D,
    latch: Latch,
}

impl<D: Device> Latched<D> {
    /// Watches over `below`, together with all other devices that have the same latch.
    pub fn over(below: D, latch: Latch) -> Self {
        Self { below, latch }
    }

    fn unless_failed(&self, write: impl FnOnce(&D) -> io::Result<()>) -> io::Result<()> {
        let failed = &self.latch.0.failed;
        if let Some(device) = failed.get() {
            let failed = AlreadyFailed { device: device.clone() };
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, failed));
        }
        write(&self.below).inspect_err(|_| {
            failed.get_or_init(|| self.below.name());
        })
    }
}

impl<D: Device> Device for Latched<D> {
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
        self.unless_failed(|below| below.write_at(byte, from))?;
        self.latch.0.bytes_written.fetch_add(from.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.unless_failed(Device::flush)
    }

    fn discard(&self, byte: u64, len: u64) -> io::Result<()> {
        self.unless_failed(|below| below.discard(byte, len))
    }

    fn recheck(&self) -> Result<()> {
        self.below.recheck()
    }
}
