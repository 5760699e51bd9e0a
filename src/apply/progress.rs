//! What a run tells while it goes on, and at its end.

use std::collections::BTreeMap;

use crate::apply::{Lack, StopReason};
use crate::plan::{Settled, SkipReason, Skipped};
use crate::tree::Forest;
use crate::txn::{Space, SpaceKind, unallocated};

/// How far a run has come. All amounts are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Contents that were read and decided upon.
    pub examined: u64,
    /// New data extents and tree blocks, each counted once however many copies there are.
    pub written: u64,
    /// What went to the devices for it: with all copies, parity and superblocks.
    pub device_written: u64,
    /// Disk usage of the extents that were replaced.
    pub replaced_disk: u64,
    /// Disk usage of the extents that replace them.
    pub new_disk: u64,
    /// Number of extents that were replaced.
    pub extents_rewritten: u64,
    /// Number of inline extents that were encoded anew.
    pub inline_rewritten: u64,
    /// Number of commits.
    pub commits: u64,
    /// Generation of the last commit; 0 before the first.
    pub generation: u64,
    /// Subvolume, inode and file offset of the run at hand.
    pub place: Option<(u64, u64, u64)>,
    /// Which pass it is, from 1.
    pub pass: u32,
    /// Extents that were left alone, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
}

impl Progress {
    /// Disk usage that is gone; negative where more is used now.
    pub fn saved(&self) -> i64 {
        self.replaced_disk as i64 - self.new_disk as i64
    }
}

/// Receives what a run tells, on the thread that runs it.
pub trait Observer {
    /// Called a few times a second of work, and after each commit.
    fn progress(&mut self, progress: &Progress);

    /// Called for an extent whose data is damaged or inconsistent.
    fn damaged(&mut self, skipped: Skipped);
}

/// An observer that looks away.
#[derive(Debug)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
    fn damaged(&mut self, _: Skipped) {}
}

/// The space that a run ended for the lack of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shortage {
    /// For the smallest new data that found no room; free space may be in pieces that are too short.
    pub data: Option<Lack>,
    /// For the tree blocks of the smallest step that found no room, with what the kernel needs at hand.
    pub metadata: Option<Lack>,
    /// Space of all devices that no chunk takes.
    pub unallocated: u64,
    /// Whether no further step was tried.
    pub(super) is_final: bool,
}

impl Shortage {
    pub(super) fn add_data(&mut self, lack: Lack) {
        self.data = self.data.filter(|known| known.needed <= lack.needed).or(Some(lack));
    }

    pub(super) fn add_metadata(&mut self, lack: Lack) {
        self.metadata = self.metadata.filter(|known| known.needed <= lack.needed).or(Some(lack));
    }

    /// With what is free at the end.
    pub(super) fn at_end(self, forest: &Forest, space: &Space) -> Self {
        let with = |lack: Lack, kind| Lack { free: space.available(kind), ..lack };
        Self {
            data: self.data.map(|lack| with(lack, SpaceKind::Data)),
            metadata: self.metadata.map(|lack| with(lack, SpaceKind::Metadata)),
            unallocated: unallocated(forest),
            ..self
        }
    }
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Where it ended.
    pub progress: Progress,
    /// Why it stopped before its end, if it did.
    pub stopped: Option<StopReason>,
    /// What the run that goes on need not look at.
    pub settled: Settled,
    /// What was missing, if something was left alone for the lack of space.
    pub shortage: Option<Shortage>,
}

impl Outcome {
    /// How many extents were skipped for a reason.
    pub fn skipped(&self, reason: SkipReason) -> u64 {
        self.progress.skipped.get(&reason).copied().unwrap_or(0)
    }
}
