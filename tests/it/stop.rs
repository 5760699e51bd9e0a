//! Runs that are stopped before their end, by a signal or a limit: each stop leaves a sound filesystem with the same
//! contents, and running again goes on until all is as after a run in peace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use btrpress::device::{Access, Device, FileDevice};
use btrpress::fs::Filesystem;
use serde_json::Value;
use tempfile::TempDir;

use crate::crash::state::{Cache, Contents, contents, verify};

/// Stops after which a run must have come to its end.
const STOPS_MAX: u32 = 60;

/// The built-in image, as its own file.
struct Bench {
    dir: TempDir,
    expected: Contents,
    cache: Cache,
}

impl Bench {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let archive = fs::File::open("assets/demo.img.zst").unwrap();
        let image = zstd::decode_all(archive).unwrap();
        fs::write(dir.path().join("image"), image).unwrap();
        let cache = Cache::default();
        let expected = contents(&open(&dir.path().join("image")), &cache).unwrap();
        Self { dir, expected, cache }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn generation(&self) -> u64 {
        open(&self.path()).forest().superblock().generation.get()
    }

    /// Demands a sound filesystem with the contents from before.
    fn verify(&self, after: &str) {
        let device = FileDevice::open(self.path(), Access::Read).unwrap();
        verify(vec![Arc::new(device)], &self.expected, &self.cache)
            .unwrap_or_else(|why| panic!("{after}: {why}"));
    }

    fn program(&self, image: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_btrpress"));
        command.args(["--batch", "recompress", "--json"]).args(options).arg(image);
        command.env("XDG_STATE_HOME", self.dir.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Notes between runs.
    fn notes(&self) -> usize {
        fs::read_dir(self.dir.path().join("btrpress")).map_or(0, Iterator::count)
    }

    /// The summary of a run in peace on a copy.
    fn goal(&self, options: &[&str]) -> Value {
        let copy = self.dir.path().join("copy");
        fs::copy(self.path(), &copy).unwrap();
        let output = self.program(&copy, options).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        fs::remove_file(&copy).unwrap();
        summary(&output)
    }

    /// Runs until nothing stops it any more; gives the number of stops.
    fn run_on(&self, options: &[&str], reason: &str, run: impl Fn(Command, u32) -> Output) -> u32 {
        let goal = self.goal(options);
        let mut no_gain = 0;
        for stops in 0..STOPS_MAX {
            let before = self.generation();
            let output = run(self.program(&self.path(), options), stops);
            let last = summary(&output);
            self.verify(&format!("{reason}, run {stops}"));
            let commits = last["commits"].as_u64().unwrap();
            assert_eq!(self.generation(), before + commits, "{last}");
            no_gain += last["skipped"]["no_gain"].as_u64().unwrap_or(0);
            if output.status.code() == Some(0) {
                assert_eq!(
                    (&last["stopped"], &last["disk_after"]),
                    (&false.into(), &goal["disk_after"])
                );
                // Nothing was encoded once more only to be left as it is.
                assert!(goal["skipped"]["no_gain"].as_u64() >= Some(no_gain), "{no_gain}: {goal}");
                assert_eq!(self.notes(), 0);
                return stops;
            }
            assert_eq!(output.status.code(), Some(1), "{last}");
            assert_eq!((&last["stopped"], &last["stop_reason"]), (&true.into(), &reason.into()));
        }
        panic!("{reason}: no end after {STOPS_MAX} runs");
    }
}

fn open(path: &Path) -> Filesystem {
    let device = FileDevice::open(path, Access::Read).unwrap();
    Filesystem::open(vec![Arc::new(device) as Arc<dyn Device>]).unwrap()
}

/// The last line of a run.
fn summary(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last();
    let last = last.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let last: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(last["type"], "summary");
    last
}

fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    // It may be over already.
    Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status().unwrap();
}

/// Signals come later from run to run.
fn stop_by(name: &'static str) {
    let bench = Bench::new();
    let stops = bench.run_on(&["--to", "zstd:12"], "signal", |mut command, stops| {
        let child = command.spawn().unwrap();
        thread::sleep(Duration::from_millis(200) * (stops + 1));
        signal(&child, name);
        child.wait_with_output().unwrap()
    });
    assert!(stops > 0, "{name} never came in time");
    eprintln!("{name}: {stops} stops");
}

#[test]
fn an_interrupt_stops_at_a_commit_and_the_next_run_goes_on() {
    stop_by("INT");
}

#[test]
fn a_request_to_terminate_stops_at_a_commit_and_the_next_run_goes_on() {
    stop_by("TERM");
}

#[test]
fn the_time_limit_stops_at_a_commit_and_the_next_run_goes_on() {
    let bench = Bench::new();
    let stops = bench.run_on(&["--to", "zstd:15"], "max_time", |mut command, stops| {
        let limit = format!("{}s", 1 + stops / 4);
        command.args(["--max-time", &limit]).output().unwrap()
    });
    assert!(stops > 0, "all was done within a second");
    eprintln!("max-time: {stops} stops");
}

#[test]
fn the_write_limit_stops_at_a_commit_and_the_next_run_goes_on() {
    const LIMIT: u64 = 1 << 20;
    let bench = Bench::new();
    let stops = bench.run_on(&["--to", "zstd:3"], "max_write", |mut command, _| {
        let output = command.args(["--max-write", "1M"]).output().unwrap();
        let last = summary(&output);
        // Two copies of the tree blocks, and two superblocks.
        let data = last["bytes_written"].as_u64().unwrap();
        let device = last["device_bytes_written"].as_u64().unwrap();
        assert!(device > data && device < LIMIT + data, "{last}");
        output
    });
    assert!(stops > 2, "{stops}");
    eprintln!("max-write: {stops} stops");
}

/// However little may be written, every run gets further.
#[test]
fn a_write_limit_of_one_byte_lets_through_one_run_of_extents() {
    let bench = Bench::new();
    for number in 0..3 {
        let mut command = bench.program(&bench.path(), &["--to", "zstd:1", "--max-write", "1"]);
        let output = command.output().unwrap();
        let last = summary(&output);
        assert_eq!(output.status.code(), Some(1), "{last}");
        assert_eq!((&last["commits"], &last["stop_reason"]), (&1.into(), &"max_write".into()));
        assert!(last["disk_after"].as_u64() < last["disk_before"].as_u64(), "{last}");
        bench.verify(&format!("run {number}"));
    }
}

#[test]
fn a_limit_that_is_reached_before_the_first_write_leaves_every_byte() {
    let bench = Bench::new();
    let before = fs::read(bench.path()).unwrap();
    let mut child = bench.program(&bench.path(), &["--to", "zstd:19"]);
    let child = child.spawn().unwrap();
    thread::sleep(Duration::from_millis(40));
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    match output.status.code() {
        // Before it listens, the signal ends it as any other program.
        None => {}
        Some(1) => {
            if summary(&output)["commits"] != 0 {
                eprintln!("it had begun to write");
                return;
            }
        }
        other => panic!("{other:?}"),
    }
    assert!(fs::read(bench.path()).unwrap() == before);
}

#[test]
fn limits_that_make_no_sense_are_wrong_usage() {
    let bench = Bench::new();
    for wrong in [["--max-time", "soon"], ["--max-write", "0"], ["--max-write", "1Q"]] {
        let image = Path::new("nowhere");
        let output = bench.program(image, &["--to", "zstd"]).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
