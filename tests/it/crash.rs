//! Power cuts: a whole run is recorded, and every state that a cut at any moment could leave must be the filesystem as
//! of a commit, sound and with every byte of every file of every snapshot.
//!
//! By default a sample of the states before each superblock is tried, and all around it; `BTRPRESS_CRASH_STATES=N` tries
//! up to N of each recording.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use btrpress::apply::{self, Silent};
use btrpress::device::{Crash, Device, Memory, Recorder, Sampling, Tape};
use btrpress::fs::Filesystem;
use btrpress::plan::{Action, Request, Selection, compile_globs};
use rayon::prelude::*;

use self::state::{Cache, Contents, contents, verify};
use crate::fixture::fixture;

mod kill;
pub(crate) mod state;

/// States of each recording to try when nothing else is said.
const STATES: usize = 1500;

pub(crate) fn recompress(target: &str) -> Request {
    Request {
        action: Action::Recompress(target.parse().expect("a codec")),
        only_uncompressed: false,
        min_gain_percent: 0.0,
        force: target != "none",
    }
}

pub(crate) const DEFRAG: Request = Request {
    action: Action::Defrag,
    only_uncompressed: false,
    min_gain_percent: 0.0,
    force: false,
};

/// Carries out a request on the whole filesystem.
pub(crate) fn press(
    device: Arc<dyn Device>,
    request: &Request,
) -> btrpress::error::Result<apply::Outcome> {
    let mut fs = Filesystem::open(vec![device])?;
    let globs = compile_globs(&[]).expect("no pattern is malformed");
    let selection = Selection::resolve(&fs, &[], &globs)?;
    apply::run(&mut fs, request, &selection, &mut Silent, &AtomicBool::new(false))
}

/// A fixture's only device, in memory.
pub(crate) fn image(name: &str) -> Memory {
    let bytes = std::fs::read(fixture(name).path()).expect("an image");
    Memory::of(&bytes)
}

struct Recording {
    before: Arc<dyn Device>,
    tape: Arc<Tape>,
    commits: u64,
}

/// Records some requests after each other. `over` puts something between the engine and the recorder.
fn record(
    name: &str,
    requests: &[Request],
    over: impl FnOnce(Recorder<Memory>) -> Arc<dyn Device>,
) -> Recording {
    let before = image(name);
    let tape = Arc::new(Tape::default());
    let device = over(Recorder::over(before.clone(), 0, Arc::clone(&tape)));
    let mut commits = 0;
    for request in requests {
        commits += press(Arc::clone(&device), request).unwrap().progress.commits;
    }
    assert!(commits >= requests.len() as u64, "each request changes something");
    Recording { before: Arc::new(before), tape, commits }
}

fn states_max() -> usize {
    std::env::var("BTRPRESS_CRASH_STATES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(STATES)
}

impl Recording {
    fn expected(&self, cache: &Cache) -> Contents {
        let fs = Filesystem::open(vec![Arc::clone(&self.before)]).unwrap();
        contents(&fs, cache).unwrap()
    }

    /// Tries states; gives how many, and what was wrong with the first bad ones.
    fn try_states(&self, sampling: &Sampling) -> (usize, Vec<String>) {
        let cache = Cache::default();
        let expected = self.expected(&cache);
        let crashes = || self.tape.crashes(vec![Arc::clone(&self.before)], sampling.clone());
        // Around a superblock few writes are in flight, and all those states are tried.
        let is_final = |crash: &Crash| crash.in_flight <= sampling.exhaustive_max;
        let many = crashes().filter(|crash| !is_final(crash)).count();
        let stride = many.div_ceil(states_max()).max(1);
        let chosen = crashes()
            .enumerate()
            .filter(|(number, crash)| is_final(crash) || number.is_multiple_of(stride));
        let tried = AtomicUsize::new(0);
        let wrong: Vec<String> = chosen
            .par_bridge()
            .filter_map(|(_, crash)| {
                tried.fetch_add(1, Ordering::Relaxed);
                let devices = crash.devices().into_iter();
                let devices = devices.map(|device| Arc::new(device) as Arc<dyn Device>).collect();
                verify(devices, &expected, &cache).err().map(|why| format!("{crash}: {why}"))
            })
            .collect();
        (tried.into_inner(), wrong)
    }
}

fn every_state_is_whole(name: &str, requests: &[Request]) {
    let recording = record(name, requests, |device| Arc::new(device));
    let (tried, wrong) = recording.try_states(&Sampling::default());
    assert!(wrong.is_empty(), "{} of {tried}: {:#?}", wrong.len(), &wrong[..wrong.len().min(3)]);
    assert!(tried > 50, "{tried} states are too few");
    let (events, commits) = (recording.tape.events().len(), recording.commits);
    eprintln!("{name}: {tried} states of {events} events and {commits} commits");
}

#[test]
fn a_power_cut_leaves_uncompressed_files_whole() {
    every_state_is_whole("plain", &[recompress("zstd:1"), recompress("lzo"), recompress("none")]);
}

#[test]
fn a_power_cut_leaves_compressed_files_and_snapshots_whole() {
    every_state_is_whole("zstd", &[recompress("zlib:1"), recompress("none"), recompress("zstd:3")]);
}

#[test]
fn a_power_cut_leaves_fragmented_files_whole() {
    every_state_is_whole("fragments", &[DEFRAG, recompress("zstd:1")]);
}

#[test]
fn a_power_cut_leaves_filesystems_with_old_features_whole() {
    every_state_is_whole("old-features", &[recompress("zlib:3"), recompress("none")]);
}

/// A device that says that all is safe when nothing is.
#[derive(Debug)]
struct Deaf(Recorder<Memory>);

impl Device for Deaf {
    fn name(&self) -> String {
        self.0.name()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(byte, into)
    }

    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()> {
        self.0.write_at(byte, from)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn without_flushes_a_power_cut_is_seen_to_break_the_filesystem() {
    let recording = record("zstd", &[recompress("zlib:1")], |device| Arc::new(Deaf(device)));
    let (tried, wrong) = recording.try_states(&Sampling::default());
    assert!(!wrong.is_empty(), "none of {tried} states is broken");
}
