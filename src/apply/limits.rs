//! What stops a run before its end.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a run stopped, at a commit, before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It was asked to.
    Asked,
    /// Its time is up.
    TimeUp,
    /// It has written as much as it may.
    WriteLimit,
}

impl StopReason {
    /// The name in JSON documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asked => "signal",
            Self::TimeUp => "max_time",
            Self::WriteLimit => "max_write",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Asked => "as asked",
            Self::TimeUp => "the time is up",
            Self::WriteLimit => "as much is written as was allowed",
        })
    }
}

/// When a run has to stop before its end, at its next commit.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Set from outside when it shall stop.
    pub stop: &'a AtomicBool,
    /// Tells whether its time is up.
    pub is_time_up: &'a (dyn Fn() -> bool + Sync),
    /// Bytes that it may write to devices, with all copies, parity and superblocks. Data that would exceed it is not
    /// taken up any more; the metadata of the last commit comes on top. At least one run of extents is written in any
    /// case, so that every run gets further.
    pub write_max: u64,
}

impl<'a> Limits<'a> {
    /// No limits but the flag.
    pub const fn flag(stop: &'a AtomicBool) -> Self {
        Self { stop, is_time_up: &|| false, write_max: u64::MAX }
    }

    /// Why to stop now, apart from what was written.
    pub fn reached(&self) -> Option<StopReason> {
        if self.stop.load(Ordering::Relaxed) {
            Some(StopReason::Asked)
        } else {
            (self.is_time_up)().then_some(StopReason::TimeUp)
        }
    }
}

impl fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reached = self.reached();
        let mut shown = f.debug_struct("Limits");
        shown.field("reached", &reached).field("write_max", &self.write_max).finish_non_exhaustive()
    }
}
