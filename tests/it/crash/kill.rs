//! The real program, killed at random moments.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use btrpress::device::{Access, Device, FileDevice};

use super::kernel::Truth;
use super::state::{Cache, Contents, contents, verify};
use crate::fixture::{Fixture, fixture};
use crate::oracle::NONE;
use crate::oracle::image::Image;
use crate::read::open;
use crate::tool;

/// Times to kill it; `BTRPRESS_KILLS=N` for more or fewer.
const KILLS: u64 = 100;
/// Images that are worked on at the same time.
const AT_A_TIME: u64 = 2;
/// The kernel looks at what one of so many kills leaves.
const JUDGED_EVERY: u64 = 10;
/// Little is free on it: a run is a dozen commits.
const FIXTURE: &str = "full";
/// All of them make much the same of its files, so that they always fit.
const TARGETS: [&str; 4] = ["zlib:1", "zstd:1", "zlib:2", "zstd:3"];

/// Of so many kills one is timed from the start of its run, the others from its first commit.
const EARLY_EVERY: u64 = 4;

/// A run, in which it says of each commit.
fn start(image: &Path, target: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_btrpress"));
    command.args(["--batch", "recompress", "--no-check", "--force", "--verbose", "--to", target]);
    command.arg(image).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Waits until a run has committed something, or is over.
fn wait_for_commit(child: &mut Child) {
    let said = BufReader::new(child.stderr.as_mut().expect("a pipe"));
    let mut lines = said.lines().map_while(Result::ok);
    lines.find(|line| line.contains("commits"));
}

/// How long a run lives: until its first commit, and after that.
struct Life {
    start: Duration,
    rest: Duration,
}

impl Life {
    /// Of a run that nobody kills.
    fn measure(image: &Path, target: &str) -> Self {
        let began = Instant::now();
        let mut child = start(image, target);
        wait_for_commit(&mut child);
        let start = began.elapsed();
        assert!(child.wait_with_output().unwrap().status.success());
        Self { start, rest: began.elapsed().saturating_sub(start) }
    }

    /// Adapts to what was seen: what was measured under load is too much without.
    fn adapt(&mut self, is_killed: bool) {
        let factor = if is_killed { 1.02 } else { 0.8 };
        (self.start, self.rest) = (self.start.mul_f64(factor), self.rest.mul_f64(factor));
    }
}

/// What is known of the image before the first run.
struct Known {
    contents: Contents,
    cache: Cache,
    /// Missing where the kernel can't be asked. The kernel doesn't mount two filesystems with one UUID.
    truth: Option<Mutex<Truth>>,
}

#[derive(Debug, Default)]
struct Tally {
    attempts: u64,
    killed: u64,
    /// Kills of runs that had committed something.
    after_commit: u64,
    judged: u64,
}

fn generation(fixture: &Fixture) -> u64 {
    open(fixture).forest().superblock().generation.get()
}

impl Known {
    fn of(fixture: &Fixture) -> Self {
        let cache = Cache::default();
        let contents = contents(&open(fixture), &cache).unwrap();
        let truth = tool::kernel_can_judge("what a killed run leaves")
            .then(|| Mutex::new(Truth::of(&fixture.devices())));
        Self { contents, cache, truth }
    }

    /// Demands that the image is whole; one image in some is shown to the kernel as well.
    fn assert_whole(&self, fixture: &Fixture, tally: &mut Tally) {
        let run = tally.attempts;
        let device = FileDevice::open(fixture.path(), Access::Read).unwrap();
        verify(vec![Arc::new(device) as Arc<dyn Device>], &self.contents, &self.cache)
            .unwrap_or_else(|why| panic!("run {run}: {why}"));
        if let Some(truth) = &self.truth
            && tally.killed == (tally.judged + 1) * JUDGED_EVERY
        {
            let truth = truth.lock().expect("no panic");
            assert_eq!(truth.complaints(&Image::copy_of(&fixture.devices())), NONE, "run {run}");
            tally.judged += 1;
        }
    }

    /// Kills runs on an image of its own until so many were killed.
    fn kill(&self, kills: u64, seed: u64) -> Tally {
        let fixture = fixture(FIXTURE);
        let mut tally = Tally::default();
        let mut life = Life::measure(&fixture.path(), TARGETS[3]);
        let mut random = seed;
        let mut before = generation(&fixture);
        while tally.killed < kills && tally.attempts < 10 * kills {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let share = (random >> 33) as f64 / f64::from(1_u32 << 31);
            let mut child =
                start(&fixture.path(), TARGETS[tally.attempts as usize % TARGETS.len()]);
            if tally.attempts % EARLY_EVERY == 0 {
                thread::sleep(life.start.mul_f64(share));
            } else {
                wait_for_commit(&mut child);
                thread::sleep(life.rest.mul_f64(share));
            }
            child.kill().unwrap();
            let is_killed = child.wait().unwrap().code().is_none();
            life.adapt(is_killed);
            let now = generation(&fixture);
            tally.attempts += 1;
            tally.killed += u64::from(is_killed);
            tally.after_commit += u64::from(is_killed && now != before);
            before = now;
            self.assert_whole(&fixture, &mut tally);
        }
        tally
    }
}

#[test]
fn a_killed_run_leaves_every_file_whole() {
    let kills = std::env::var("BTRPRESS_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let begun = Instant::now();
    let known = Known::of(&fixture(FIXTURE));
    let each = kills.div_ceil(AT_A_TIME);
    let tallies: Vec<Tally> = thread::scope(|scope| {
        let known = &known;
        let workers: Vec<_> =
            (1..=AT_A_TIME).map(|seed| scope.spawn(move || known.kill(each, seed))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let sum = |part: fn(&Tally) -> u64| tallies.iter().map(part).sum::<u64>();
    let (killed, after_commit) = (sum(|tally| tally.killed), sum(|tally| tally.after_commit));
    let (attempts, judged) = (sum(|tally| tally.attempts), sum(|tally| tally.judged));
    eprintln!(
        "killed {killed} of {attempts} runs, {after_commit} of them after a commit, {judged} \
         judged by the kernel, in {:?}",
        begun.elapsed()
    );
    assert!(killed >= kills, "too many runs were over before they could be killed");
    assert!(after_commit * 2 > killed, "{after_commit} of {killed} runs had committed something");
}
