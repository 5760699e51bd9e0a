//! Devices that fail: whatever fails and whenever, the error says so and the image is as of a commit.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use btrpress::device::{Device, Event, Failure, Faulty, Memory, Operation, Recorder, Tape};
use btrpress::error::{Error, Result};
use btrpress::format::SUPERBLOCK_OFFSETS;
use btrpress::fs::Filesystem;
use rayon::prelude::*;

use crate::crash::state::{Cache, Contents, contents, verify_after_cut};
use crate::crash::{image, press, recompress};

/// Faults of each sort to try; `BTRPRESS_FAULTS=N` for more or fewer.
const FAULTS: u64 = 60;

/// A share of a device: what is below stays when the layers above are gone.
#[derive(Debug, Clone)]
struct Shared(Arc<Memory>);

impl Device for Shared {
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
        self.0.flush()
    }
}

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
        let faulty = Faulty::over(Shared(Arc::clone(&below))).failing(operation, nth, failure);
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
    let slow = Failure::Slow(std::time::Duration::from_millis(50));
    for operation in OPERATIONS {
        let commits = bench.run(operation, 0, slow).unwrap();
        assert!(commits > 0, "{operation:?}");
    }
}
