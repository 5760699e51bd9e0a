//! What a run tells while it goes on, and at its end.

use std::collections::BTreeMap;

use crate::apply::StopReason;
use crate::plan::{Settled, SkipReason, Skipped};

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

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Where it ended.
    pub progress: Progress,
    /// Why it stopped before its end, if it did.
    pub stopped: Option<StopReason>,
    /// What the run that goes on need not look at.
    pub settled: Settled,
}

impl Outcome {
    /// How many extents were skipped for a reason.
    pub fn skipped(&self, reason: SkipReason) -> u64 {
        self.progress.skipped.get(&reason).copied().unwrap_or(0)
    }
}
