//! Recorded runs, and the states that they could have left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use btrpress::device::{Crash, Crashes, Device, Event, Overlay, Recorder, Sampling, Tape};
use btrpress::fs::Filesystem;
use btrpress::plan::Request;
use rayon::prelude::*;

use super::press_all;
use super::state::{Cache, Contents, contents, verify_after_cut};

/// States of each recording to try when nothing else is said.
const STATES: usize = 1500;

pub(crate) struct Recording {
    /// The devices as they were when it began.
    pub(super) before: Vec<Arc<dyn Device>>,
    pub(super) tape: Tape,
    pub(super) commits: u64,
}

/// What trying states gives: how many were tried, and what was wrong with the bad ones.
pub(super) struct Tried {
    pub(super) count: usize,
    pub(super) wrong: Vec<String>,
}

impl Recording {
    /// Records requests on a filesystem, one after the other. What it is on stays untouched.
    pub(super) fn of(before: Vec<Arc<dyn Device>>, requests: &[Request]) -> Self {
        let tape = Arc::new(Tape::default());
        let devices = before.iter().enumerate().map(|(number, device)| {
            let device = Overlay::over(Arc::clone(device));
            Arc::new(Recorder::over(device, number, Arc::clone(&tape))) as Arc<dyn Device>
        });
        let devices: Vec<_> = devices.collect();
        let mut commits = 0;
        for request in requests {
            commits += press_all(devices.clone(), request).unwrap().progress.commits;
        }
        assert!(commits >= requests.len() as u64, "each request changes something");
        Self { before, tape: Tape::from(tape.events()), commits }
    }

    /// As if other things had been done to the devices.
    pub(super) fn with(&self, events: Vec<Event>) -> Self {
        Self { before: self.before.clone(), tape: Tape::from(events), commits: self.commits }
    }

    /// Every state that `sampling` tries.
    pub(super) fn crashes(&self, sampling: &Sampling) -> Crashes {
        self.tape.crashes(self.before.clone(), sampling.clone())
    }

    /// Of the states while many writes are in flight `many_max`, and of those while few are, which is around the
    /// superblocks, `few_max`; evenly spread, and all if there are no more.
    pub(super) fn sample(
        &self,
        sampling: &Sampling,
        many_max: usize,
        few_max: usize,
    ) -> impl Iterator<Item = Crash> {
        self.sample_of(sampling, |_| true, many_max, few_max)
    }

    /// As [`sample`](Self::sample), of the states that are wanted.
    pub(super) fn sample_of(
        &self,
        sampling: &Sampling,
        is_wanted: impl Fn(&Crash) -> bool,
        many_max: usize,
        few_max: usize,
    ) -> impl Iterator<Item = Crash> {
        let border = sampling.exhaustive_max;
        let is_few = move |crash: &Crash| crash.in_flight <= border;
        let mut groups = [(0, 0, many_max), (0, 0, few_max)];
        for crash in self.crashes(sampling).filter(&is_wanted) {
            groups[usize::from(is_few(&crash))].1 += 1;
        }
        self.crashes(sampling).filter(is_wanted).filter(move |crash| {
            let (seen, count, max) = &mut groups[usize::from(is_few(crash))];
            let chosen = (*max).min(*count);
            *seen += 1;
            *seen * chosen / *count > (*seen - 1) * chosen / *count
        })
    }

    /// What the files hold, before and after.
    pub(super) fn expected(&self, cache: &Cache) -> Contents {
        let fs = Filesystem::open(self.before.clone()).unwrap();
        contents(&fs, cache).unwrap()
    }

    /// Has states judged by the engine's own `check` and reading.
    pub(super) fn try_states(&self, crashes: impl Iterator<Item = Crash> + Send) -> Tried {
        let cache = Cache::default();
        let expected = self.expected(&cache);
        let tried = AtomicUsize::new(0);
        let wrong = crashes
            .par_bridge()
            .filter_map(|crash| {
                tried.fetch_add(1, Ordering::Relaxed);
                let found = verify_after_cut(&devices_of(&crash), &expected, &cache);
                found.err().map(|why| format!("{crash}: {why}"))
            })
            .collect();
        Tried { count: tried.into_inner(), wrong }
    }

    /// A state that is not whole, if there is one, and why.
    pub(super) fn first_broken(&self, sampling: &Sampling) -> Option<String> {
        let cache = Cache::default();
        let expected = self.expected(&cache);
        self.sample(sampling, states_max(), usize::MAX).par_bridge().find_map_any(|crash| {
            let found = verify_after_cut(&devices_of(&crash), &expected, &cache);
            found.err().map(|why| format!("{crash}: {why}"))
        })
    }

    /// Demands that every state is whole; gives how many were tried.
    #[track_caller]
    pub(super) fn assert_whole(&self, name: &str, sampling: &Sampling) -> usize {
        let Tried { count, wrong } =
            self.try_states(self.sample(sampling, states_max(), usize::MAX));
        let shown = &wrong[..wrong.len().min(3)];
        assert!(wrong.is_empty(), "{name}: {} of {count}: {shown:#?}", wrong.len());
        let (events, commits) = (self.tape.events().len(), self.commits);
        eprintln!("{name}: {count} states of {events} events and {commits} commits");
        count
    }
}

/// The devices after a power cut.
pub(super) fn devices_of(crash: &Crash) -> Vec<Arc<dyn Device>> {
    crash.devices().into_iter().map(|device| Arc::new(device) as Arc<dyn Device>).collect()
}

fn states_max() -> usize {
    std::env::var("BTRPRESS_CRASH_STATES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(STATES)
}
