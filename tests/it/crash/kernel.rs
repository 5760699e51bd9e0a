//! States after a power cut as the kernel and its tools see them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use btrpress::device::{Access, Crash, Device, Event, FileDevice, Sampling};
use btrpress::plan::Request;

use super::recompress;
use super::recording::Recording;
use crate::fixture::fixture;
use crate::oracle::NONE;
use crate::oracle::content::{Kind, content};
use crate::oracle::image::Image;
use crate::oracle::judge::check_in_mode;
use crate::oracle::manifest::Manifest;
use crate::oracle::workload;
use crate::tool;

/// States to have judged when `BTRPRESS_KERNEL_STATES=N` says nothing else.
const STATES: usize = 210;
/// Filesystems that are tried at the same time. States of one follow each other: the kernel doesn't mount two with one
/// UUID.
const AT_A_TIME: usize = 3;
/// Of so many states one is mounted for writing too.
const WRITTEN_EVERY: usize = 7;
/// What is written then.
const WRITTEN: &str = "after the cut";

/// The slowest first.
const FIXTURES: [&str; 10] = [
    "fragments",
    "raid6",
    "plain",
    "raid1",
    "zstd",
    "space-cache",
    "quota",
    "mixed",
    "nodes-4k",
    "block-group-tree",
];

/// What the kernel found in a filesystem before anything was done to it.
pub(super) struct Truth(Manifest);

impl Truth {
    /// Mounts copies of the devices' images.
    pub(super) fn of(files: &[PathBuf]) -> Self {
        let mount = Image::copy_of(files).mount("ro");
        let manifest = Manifest::read(mount.root());
        assert_eq!(mount.unmount(), NONE);
        Self(manifest)
    }

    /// What `btrfs check` and the kernel have against an image.
    pub(super) fn complaints(&self, image: &Image) -> Vec<String> {
        let mut complaints = check_in_mode(image.attach().path(), "original");
        match image.try_mount("ro") {
            Ok(mount) => {
                complaints.extend(self.0.differences(&Manifest::read(mount.root())));
                complaints.extend(mount.unmount());
            }
            Err(refusal) => complaints.push(refusal),
        }
        complaints
    }

    /// What goes wrong when the kernel goes on from an image.
    fn complaints_when_written(&self, image: &Image) -> Vec<String> {
        let mount = match image.try_mount("rw") {
            Ok(mount) => mount,
            Err(refusal) => return vec![refusal],
        };
        workload::write(&mount.root().join(WRITTEN), &content(Kind::Mixed, 1, 300_000));
        let mut complaints = mount.unmount();
        complaints.extend(check_in_mode(image.attach().path(), "original"));
        match image.try_mount("ro") {
            Ok(mount) => {
                let found = Manifest::read(mount.root());
                let is_old = |path: &Path| path.iter().next().is_some_and(|name| name != WRITTEN);
                complaints.extend(self.0.differences_among(&found, is_old));
                complaints.extend(mount.unmount());
            }
            Err(refusal) => complaints.push(refusal),
        }
        complaints.iter().map(|line| format!("when written: {line}")).collect()
    }
}

/// A recorded filesystem.
pub(super) struct Bench {
    pub(super) recording: Recording,
    files: Vec<PathBuf>,
    pub(super) truth: Truth,
}

impl Bench {
    /// Records requests on the filesystem in these files, which stay untouched.
    pub(super) fn new(files: Vec<PathBuf>, requests: &[Request]) -> Self {
        let truth = Truth::of(&files);
        let recording = Recording::of(devices(&files, Access::Read), requests);
        Self { recording, files, truth }
    }

    /// How many states there are, and what the kernel has against them.
    pub(super) fn judge(&self, crashes: impl Iterator<Item = Crash>) -> (usize, Vec<String>) {
        let (mut count, mut wrong) = (0, Vec::new());
        for crash in crashes {
            let mut complaints = self.complaints(&crash);
            if complaints.is_empty() && count % WRITTEN_EVERY == WRITTEN_EVERY / 2 {
                complaints = self.truth.complaints_when_written(&self.image_of(&crash));
            }
            wrong.extend(complaints.iter().map(|line| format!("{crash}: {line}")));
            count += 1;
        }
        (count, wrong)
    }

    /// So many states, half of them while a superblock is in flight if there are as many of those.
    fn sample(&self, sampling: &Sampling, states_max: usize) -> impl Iterator<Item = Crash> {
        let is_few = |crash: &Crash| crash.in_flight <= sampling.exhaustive_max;
        let few = self.recording.crashes(sampling).filter(is_few).count().min(states_max / 2);
        self.recording.sample(sampling, states_max - few, few)
    }

    /// The state in image files.
    pub(super) fn image_of(&self, crash: &Crash) -> Image {
        let image = Image::copy_of(&self.files);
        for (overlay, device) in crash.devices().iter().zip(devices(image.paths(), Access::Write)) {
            overlay.copy_to(&device).expect("an image file can be written");
        }
        image
    }

    fn complaints(&self, crash: &Crash) -> Vec<String> {
        self.truth.complaints(&self.image_of(crash))
    }
}

fn devices(files: &[PathBuf], access: Access) -> Vec<Arc<dyn Device>> {
    let device = |path| FileDevice::open(path, access).expect("an image file of this test's own");
    files.iter().map(|path| Arc::new(device(path)) as Arc<dyn Device>).collect()
}

pub(super) fn states_max() -> usize {
    std::env::var("BTRPRESS_KERNEL_STATES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(STATES)
}

#[test]
fn the_kernel_finds_every_state_after_a_power_cut_whole() {
    if !tool::kernel_can_judge("states after a power cut") {
        return;
    }
    let start = Instant::now();
    let requests = ["zlib:1", "none", "zstd:1"].map(recompress);
    let waiting = Mutex::new(FIXTURES.iter());
    let (tried, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some(name) = waiting.lock().expect("no panic").next() else { break };
            let fixture = fixture(name);
            let bench =
                Bench::new(fixture.devices(), &requests[usize::from(*name != "fragments")..]);
            let each = states_max().div_ceil(FIXTURES.len());
            let begun = Instant::now();
            let (count, found) = bench.judge(bench.sample(&Sampling::default(), each));
            eprintln!("{name}: {count} states, {:?}", begun.elapsed());
            tried.fetch_add(count, Ordering::Relaxed);
            let found = found.iter().map(|line| format!("{name} {line}"));
            wrong.lock().expect("no panic").extend(found);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    let (tried, wrong) = (tried.into_inner(), wrong.into_inner().expect("no panic"));
    assert_eq!(wrong, NONE, "{}", wrong.join("\n"));
    assert!(tried >= states_max(), "{tried} states are too few");
    eprintln!("the kernel judged {tried} states in {:?}", start.elapsed());
}

/// As the engine's own judgement, the kernel's can fail.
#[test]
fn the_kernel_sees_a_missing_flush() {
    if !tool::kernel_can_judge("a missing flush") {
        return;
    }
    let fixture = fixture("mixed");
    let mut bench = Bench::new(fixture.devices(), &[recompress("zlib:1")]);
    let mut events = bench.recording.tape.events();
    events.retain(|event| matches!(event, Event::Write { .. }));
    bench.recording = bench.recording.with(events);
    let sampling = Sampling::default();
    let crashes = bench.recording.sample(&sampling, 100, 100);
    let mut broken = crashes.filter(|crash| !bench.complaints(crash).is_empty());
    assert!(broken.next().is_some(), "no state is broken");
}
