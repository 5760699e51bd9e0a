//! The real program, killed at random moments.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use btrpress::device::{Access, Device, FileDevice};

use super::state::{Cache, contents, verify};
use crate::fixture::fixture;
use crate::read::open;

/// Times to kill it; `BTRPRESS_KILLS=N` for more or fewer.
const KILLS: u64 = 30;

const TARGETS: [&str; 4] = ["zstd:6", "none", "zlib:6", "lzo:1"];

fn program(image: &std::path::Path, target: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_btrpress"));
    command.args(["--batch", "recompress", "--to", target, "--force"]).arg(image);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_killed_run_leaves_every_file_whole() {
    let kills = std::env::var("BTRPRESS_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let fixture = fixture("zstd");
    let cache = Cache::default();
    let expected = contents(&open(&fixture), &cache).unwrap();
    // A run in peace tells how long there is to kill one.
    let start = Instant::now();
    assert!(program(&fixture.path(), "zlib:6").status().unwrap().success());
    let mut whole = start.elapsed();
    let (mut random, mut killed, mut attempts, mut changed) = (1_u64, 0, 0, 0);
    let mut generation = open(&fixture).forest().superblock().generation.get();
    while killed < kills && attempts < 10 * kills {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let wait = whole.mul_f64((random >> 33) as f64 / f64::from(1_u32 << 31));
        let target = TARGETS[attempts as usize % TARGETS.len()];
        let mut child = program(&fixture.path(), target).spawn().unwrap();
        thread::sleep(wait);
        child.kill().unwrap();
        attempts += 1;
        let is_killed = child.wait().unwrap().code().is_none();
        // What was measured under load is too much without.
        whole = whole.mul_f64(if is_killed { 1.02 } else { 0.8 });
        killed += u64::from(is_killed);
        let device = FileDevice::open(fixture.path(), Access::Read).unwrap();
        let devices = vec![Arc::new(device) as Arc<dyn Device>];
        verify(devices, &expected, &cache).unwrap_or_else(|why| panic!("run {attempts}: {why}"));
        let now = open(&fixture).forest().superblock().generation.get();
        changed += u64::from(is_killed && now != generation);
        generation = now;
    }
    eprintln!("killed {killed} of {attempts} runs, {changed} of them after a commit");
    assert_eq!(killed, kills, "too many runs were over before they could be killed");
}
