//! Reads that went wrong.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::{Damage, Logical, Physical};

/// Faults that are remembered; later ones are only counted.
const REMEMBERED: usize = 4096;

/// A bad copy that was read around.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The device's name.
    pub device: String,
    /// Where on the device.
    pub physical: Physical,
    /// The same place as a logical address.
    pub logical: Logical,
    /// What was wrong.
    pub kind: FaultKind,
}

/// What was wrong with a copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The device failed; the text is what the system said.
    #[error("{0}")]
    Io(String),
    /// The bytes are wrong.
    #[error("{0}")]
    Damage(Damage),
}

/// Remembers faults, once for each place.
#[derive(Debug, Default)]
pub(super) struct FaultLog {
    count: AtomicU64,
    seen: Mutex<BTreeMap<Physical, Fault>>,
}

impl FaultLog {
    pub(super) fn add(&self, fault: Fault) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock().expect("no thread panics while it holds this lock");
        if seen.len() < REMEMBERED {
            seen.entry(fault.physical).or_insert(fault);
        }
    }

    pub(super) fn list(&self) -> Vec<Fault> {
        let seen = self.seen.lock().expect("no thread panics while it holds this lock");
        seen.values().cloned().collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
