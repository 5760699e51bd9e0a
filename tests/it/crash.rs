//! Power cuts: a whole run is recorded, and every state that a cut at any moment could leave must be the filesystem as
//! of a commit, sound and with every byte of every file of every snapshot.
//!
//! By default a sample of the states before each superblock is tried, and all around it; `BTRPRESS_CRASH_STATES=N` tries
//! up to N of each recording. A sample of the states, `BTRPRESS_KERNEL_STATES`, is judged by the kernel too.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use btrpress::apply::{self, Limits, Silent};
use btrpress::device::{Device, Memory, Sampling};
use btrpress::fs::Filesystem;
use btrpress::plan::{Action, Request, Selection, compile_globs};

use self::recording::Recording;
use crate::fixture::fixture;

mod growth;
mod kernel;
mod kill;
mod mutants;
mod recording;
pub(crate) mod state;
mod torn;

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

/// Carries out a request on the whole of a filesystem with one device.
pub(crate) fn press(
    device: Arc<dyn Device>,
    request: &Request,
) -> btrpress::error::Result<apply::Outcome> {
    press_all(vec![device], request)
}

/// Carries out a request on the whole of a filesystem.
fn press_all(
    devices: Vec<Arc<dyn Device>>,
    request: &Request,
) -> btrpress::error::Result<apply::Outcome> {
    let mut fs = Filesystem::open(devices)?;
    let globs = compile_globs(&[]).expect("no pattern is malformed");
    let selection = Selection::resolve(&fs, &[], &globs)?;
    let stop = AtomicBool::new(false);
    apply::run(&mut fs, request, &selection, &mut Silent, Limits::flag(&stop))
}

/// A fixture's only device, in memory.
pub(crate) fn image(name: &str) -> Memory {
    in_memory(&fixture(name).path())
}

fn in_memory(path: &PathBuf) -> Memory {
    Memory::of(&std::fs::read(path).expect("an image"))
}

/// A fixture's devices, in memory.
fn images(name: &str) -> Vec<Arc<dyn Device>> {
    let paths = fixture(name);
    let images = paths.devices().iter().map(in_memory).collect::<Vec<_>>();
    images.into_iter().map(|image| Arc::new(image) as Arc<dyn Device>).collect()
}

fn every_state_is_whole(name: &str, requests: &[Request]) {
    let recording = Recording::of(images(name), requests);
    let tried = recording.assert_whole(name, &Sampling::default());
    assert!(tried > 50, "{tried} states are too few");
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

#[test]
fn a_power_cut_leaves_filesystems_on_several_devices_whole() {
    for name in ["raid1", "raid1c3", "raid10", "raid5", "raid6"] {
        every_state_is_whole(name, &[recompress("zlib:1"), recompress("none")]);
    }
}
