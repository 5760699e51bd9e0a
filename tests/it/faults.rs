//! Devices that fail: whatever fails and whenever, the error says so and the image is as of a commit.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use btrpress::apply::{self, Limits, Silent, StopReason};
use btrpress::device::{
    Access, Device, Event, Failure, Faulty, FileDevice, Memory, Operation, Recorder, Tape,
};
use btrpress::error::{Error, Result};
use btrpress::format::SUPERBLOCK_OFFSETS;
use btrpress::fs::Filesystem;
use btrpress::plan::{Request, Selection, compile_globs};
use rayon::prelude::*;
use tempfile::TempDir;

use crate::crash::state::{Cache, Contents, contents, verify_after_cut};
use crate::crash::{image, press, recompress};
use crate::fixture::fixture;
use crate::read::open;
use crate::tool;

/// Faults of each sort to try; `BTRPRESS_FAULTS=N` for more or fewer.
const FAULTS: u64 = 60;

struct Bench {
    before: Memory,
    expected: Contents,
    cache: Cache,
    /// Operations of a run without faults, by kind.
    counts: [u64; 3],
}

const OPERATIONS: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Flush];

impl Bench {
    fn new(name: &str) -> Self {
        let before = image(name);
        let cache = Cache::default();
        let fs = Filesystem::open(vec![Arc::new(before.clone())]).unwrap();
        let expected = contents(&fs, &cache).unwrap();
        let device = Arc::new(Faulty::over(before.clone()));
        press(Arc::clone(&device) as Arc<dyn Device>, &recompress("zlib:1")).unwrap();
        let counts = OPERATIONS.map(|operation| device.count(operation));
        Self { before, expected, cache, counts }
    }

    fn count(&self, operation: Operation) -> u64 {
        self.counts[operation as usize]
    }

    /// Runs with one fault; gives how the run ended, after making sure of what is on the device.
    fn run(&self, operation: Operation, nth: u64, failure: Failure) -> Result<u64> {
        let below = Arc::new(self.before.clone());
        let tape = Arc::new(Tape::default());
        let faulty = Faulty::over(Arc::clone(&below)).failing(operation, nth, failure);
        let recorder = Recorder::over(faulty, 0, Arc::clone(&tape));
        let outcome = press(Arc::new(recorder), &recompress("zlib:1"));
        let what = format!("{operation:?} {nth} fails with {failure:?}");
        let below: Arc<dyn Device> = below;
        verify_after_cut(&[below], &self.expected, &self.cache)
            .unwrap_or_else(|why| panic!("{what}: {why}"));
        no_primary_is_written_before_a_flush(&tape.events(), &what);
        outcome.map(|outcome| outcome.progress.commits)
    }
}

/// The superblock that counts may only be written when all that was written before it has been flushed.
fn no_primary_is_written_before_a_flush(events: &[Event], what: &str) {
    let mut is_flushed = true;
    for event in events {
        match event {
            Event::Flush { .. } => is_flushed = true,
            Event::Write { byte, .. } if *byte == SUPERBLOCK_OFFSETS[0] => {
                assert!(is_flushed, "{what}: a superblock over blocks that may be lost");
            }
            Event::Write { .. } => is_flushed = false,
        }
    }
}

/// Which of `count` operations to let fail: all, or first, last and some between.
fn chosen(count: u64) -> impl ParallelIterator<Item = u64> {
    let faults = std::env::var("BTRPRESS_FAULTS").ok().and_then(|n| n.parse().ok());
    let stride = count.div_ceil(faults.unwrap_or(FAULTS)).max(1);
    let last = count.saturating_sub(16);
    (0..count).into_par_iter().filter(move |nth| nth.is_multiple_of(stride) || *nth >= last)
}

/// Lets one operation of a kind fail at a time, in several ways; each time the run must fail.
fn each_failure_ends_the_run(operation: Operation, failures: &[Failure]) {
    let bench = Bench::new("zstd");
    let tried = AtomicUsize::new(0);
    chosen(bench.count(operation)).for_each(|nth| {
        for failure in failures {
            tried.fetch_add(1, Ordering::Relaxed);
            match bench.run(operation, nth, *failure) {
                Err(Error::Io { .. } | Error::Latched { .. }) => {}
                other => panic!("{operation:?} {nth} fails with {failure:?}: {other:?}"),
            }
        }
    });
    eprintln!("{operation:?}: {} faults", tried.into_inner());
}

#[test]
fn a_failed_write_ends_the_run_at_a_commit() {
    let failures = [
        Failure::Once(ErrorKind::InvalidData),
        Failure::From(ErrorKind::StorageFull),
        Failure::Short(0),
        // Tears a superblock.
        Failure::Short(512),
        Failure::Short(4096),
        Failure::Gone,
    ];
    each_failure_ends_the_run(Operation::Write, &failures);
}

#[test]
fn a_failed_flush_ends_the_run_and_no_superblock_follows() {
    let failures = [Failure::Once(ErrorKind::InvalidData), Failure::Gone];
    each_failure_ends_the_run(Operation::Flush, &failures);
}

/// Metadata has two copies, and data that can't be read is left as it is: the run may succeed.
#[test]
fn a_failed_read_never_leaves_less_than_a_commit() {
    let bench = Bench::new("zstd");
    let (tried, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    chosen(bench.count(Operation::Read)).for_each(|nth| {
        for failure in [
            Failure::Once(ErrorKind::InvalidData),
            Failure::From(ErrorKind::InvalidData),
            Failure::Gone,
        ] {
            tried.fetch_add(1, Ordering::Relaxed);
            match bench.run(Operation::Read, nth, failure) {
                Ok(_) => {}
                Err(Error::Io { .. } | Error::Latched { .. } | Error::Corrupt { .. }) => {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => panic!("read {nth} fails with {failure:?}: {error:?}"),
            }
        }
    });
    let (tried, failed) = (tried.into_inner(), failed.into_inner());
    eprintln!("Read: {tried} faults, {failed} of which ended the run");
    assert!(failed > 0 && failed < tried);
}

#[test]
fn a_slow_device_is_only_slow() {
    let bench = Bench::new("old-features");
    let slow = Failure::Slow(Duration::from_millis(50));
    for operation in OPERATIONS {
        let commits = bench.run(operation, 0, slow).unwrap();
        assert!(commits > 0, "{operation:?}");
    }
}

#[test]
fn a_wish_to_stop_during_a_slow_flush_is_heeded_after_it() {
    let slow = Failure::Slow(Duration::from_secs(1));
    let device = Faulty::over(image("zstd")).failing(Operation::Flush, 0, slow);
    let mut fs = Filesystem::open(vec![Arc::new(device)]).unwrap();
    let selection = Selection::resolve(&fs, &[], &compile_globs(&[]).unwrap()).unwrap();
    // Another pass would follow.
    let request = Request { force: false, ..recompress("zlib:9") };
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(700));
            stop.store(true, Ordering::Relaxed);
        });
        apply::run(&mut fs, &request, &selection, &mut Silent, Limits::flag(&stop)).unwrap()
    });
    assert_eq!(outcome.stopped, Some(StopReason::Asked));
    assert_eq!(outcome.progress.generation, fs.forest().superblock().generation.get());
}

/// A filesystem of the host that has hardly room for an image.
struct Host {
    at: TempDir,
}

impl Host {
    /// With a copy of `image`, and room for some blocks more.
    fn with(image: &Path) -> Self {
        let at = TempDir::new().unwrap();
        let place = at.path().to_str().unwrap().to_owned();
        tool::run("mount", &["-t", "tmpfs", "-o", "size=1G", "tmpfs", &place]);
        let host = Self { at };
        let copy = host.image();
        tool::run("cp", &["--sparse=always".as_ref(), image.as_os_str(), copy.as_os_str()]);
        let used = rustix::fs::statvfs(host.at.path()).unwrap();
        let used = (used.f_blocks - used.f_bfree) * used.f_frsize;
        let size = format!("remount,size={}", used + (256 << 10));
        tool::run("mount", &["-o", &size, &place]);
        host
    }

    fn image(&self) -> std::path::PathBuf {
        self.at.path().join("image")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        tool::output("umount", &[self.at.path()]);
    }
}

/// The real program, which rewrites all of it.
fn rewrite(device: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_btrpress"));
    command.args(["--batch", "recompress", "--to", "zlib:1", "--force"]).arg(device);
    command.output().unwrap()
}

#[test]
fn a_full_host_under_a_sparse_image_is_told_and_does_no_harm() {
    if !tool::kernel_can_judge("a full host") {
        return;
    }
    let fixture = fixture("plain");
    let cache = Cache::default();
    let expected = contents(&open(&fixture), &cache).unwrap();
    let host = Host::with(&fixture.path());
    for is_device in [false, true] {
        let (status, why) = if is_device {
            let image = host.image();
            let args = ["--find".as_ref(), "--show".as_ref(), image.as_os_str()];
            let device = tool::run("losetup", &args);
            let output = rewrite(Path::new(device.trim()));
            tool::output("btrfs", &["device", "scan", "--forget", device.trim()]);
            tool::run("losetup", &["--detach", device.trim()]);
            // A device takes every write, and fails when it shall be durable.
            (output, "at a flush")
        } else {
            (rewrite(&host.image()), "the disk that holds the image is full")
        };
        let said = String::from_utf8_lossy(&status.stderr);
        eprintln!("{said}");
        assert_eq!(status.status.code(), Some(if is_device { 1 } else { 5 }), "{said}");
        assert!(said.contains(why) && said.contains("nothing is changed"), "{said}");
        let device = FileDevice::open(host.image(), Access::Read).unwrap();
        verify_after_cut(&[Arc::new(device) as Arc<dyn Device>], &expected, &cache).unwrap();
    }
}
