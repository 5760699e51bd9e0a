//! A run: how far it is, and what it has done.

use std::time::Duration;

use super::{Amounts, Prediction, Request, Skip};

/// Samples of the throughput that are kept.
const RATES_MAX: usize = 240;

/// How far a run is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of contents that were read and decided upon.
    pub done: u64,
    /// Bytes written, tree blocks too.
    pub written: u64,
    /// Bytes on disk freed beyond those written.
    pub saved: i64,
    /// Bytes on disk of the extents that were replaced.
    pub replaced: u64,
    /// Bytes on disk of those that replace them.
    pub renewed: u64,
    /// Extents rewritten.
    pub extents: u64,
    /// The file in work, made harmless.
    pub path: String,
    /// Commits so far.
    pub commits: u64,
    /// Which time it goes through the files.
    pub pass: u32,
    /// What was left alone.
    pub skips: Vec<Skip>,
}

/// Why a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All was done.
    Done,
    /// It was asked to.
    Stopped,
    /// There was no space left to work in.
    NoSpace,
    /// Something failed; in words.
    Failed(String),
}

/// The run screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// What is done.
    pub request: Request,
    /// What the chosen rows cost before.
    pub before: Amounts,
    /// What the chosen rows cost afterwards, once they are counted again.
    pub after: Option<Amounts>,
    /// The whole filesystem's disk usage before and afterwards, as far as it is known.
    pub whole: (Option<u64>, Option<u64>),
    /// What the plan foretold.
    pub prediction: Option<Prediction>,
    /// How far it is.
    pub progress: Progress,
    /// When it began and when it ended, on the clock of the model.
    pub time: (Duration, Option<Duration>),
    /// Time spent pausing, and since when if it pauses now.
    pub pauses: (Duration, Option<Duration>),
    /// Bytes worked off in each second.
    pub rates: Vec<u64>,
    /// When the last of the rates was taken, and at how many bytes.
    sampled: (Duration, u64),
    /// Whether it was asked to stop.
    pub is_stopping: bool,
    /// How it ended.
    pub end: Option<End>,
}

impl Run {
    /// A run that begins now.
    pub fn new(
        request: Request,
        before: Amounts,
        prediction: Option<Prediction>,
        now: Duration,
    ) -> Self {
        Self {
            request,
            before,
            prediction,
            after: None,
            whole: (None, None),
            progress: Progress::default(),
            time: (now, None),
            pauses: (Duration::ZERO, None),
            rates: Vec::new(),
            sampled: (now, 0),
            is_stopping: false,
            end: None,
        }
    }

    /// Bytes of contents that there are to go through.
    pub fn total(&self) -> u64 {
        self.before.uncompressed
    }

    /// Whether it waits for the user to go on.
    pub const fn is_paused(&self) -> bool {
        self.pauses.1.is_some()
    }

    /// Pauses, or goes on.
    pub fn pause(&mut self, now: Duration) {
        self.pauses = match self.pauses {
            (spent, None) => (spent, Some(now)),
            (spent, Some(since)) => (spent + now.saturating_sub(since), None),
        };
    }

    /// Takes a sample of the throughput when a second has gone by.
    pub fn tick(&mut self, now: Duration) {
        let (at, done) = self.sampled;
        let elapsed = now.saturating_sub(at);
        if self.end.is_some() || elapsed < Duration::from_secs(1) {
            return;
        }
        let bytes = self.progress.done.saturating_sub(done) as f64;
        self.rates.push((bytes / elapsed.as_secs_f64()) as u64);
        if self.rates.len() > RATES_MAX {
            self.rates.remove(0);
        }
        self.sampled = (now, self.progress.done);
    }

    /// Time worked so far, pauses left out.
    pub fn worked(&self, now: Duration) -> Duration {
        let until = self.time.1.unwrap_or(now);
        let pausing = self.pauses.1.map_or(Duration::ZERO, |since| until.saturating_sub(since));
        until.saturating_sub(self.time.0).saturating_sub(self.pauses.0 + pausing)
    }

    /// Bytes a second since the beginning.
    pub fn rate(&self, now: Duration) -> u64 {
        let seconds = self.worked(now).as_secs_f64();
        if seconds < 0.1 { 0 } else { (self.progress.done as f64 / seconds) as u64 }
    }

    /// How long it should still take; none before that can be told.
    pub fn remaining(&self, now: Duration) -> Option<Duration> {
        let rate = self.rate(now);
        let left = self.total().saturating_sub(self.progress.done);
        (rate > 0 && left > 0 && self.worked(now) >= Duration::from_secs(2))
            .then(|| Duration::from_secs(left / rate))
    }
}
