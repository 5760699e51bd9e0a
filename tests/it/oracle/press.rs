//! Runs the program under test.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Output};

use serde::Deserialize;

use super::image::Image;
use crate::tool;

const PROGRAM: &str = env!("CARGO_BIN_EXE_btrpress");

/// The last line of a run with `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Summary {
    pub(crate) disk_before: u64,
    pub(crate) disk_after: u64,
    pub(crate) uncompressed: u64,
    pub(crate) referenced: u64,
    pub(crate) extents_rewritten: u64,
    pub(crate) bytes_written: u64,
    pub(crate) commits: u64,
    pub(crate) skipped: BTreeMap<String, u64>,
}

/// Runs `btrpress` with these arguments, on this many threads when a number is given.
pub(crate) fn output(args: &[&OsStr], threads: Option<usize>) -> Output {
    let mut command = Command::new(PROGRAM);
    if let Some(threads) = threads {
        command.env("RAYON_NUM_THREADS", threads.to_string());
    }
    command.args(args).output().expect("the program starts")
}

/// Standard output of a run that must succeed.
///
/// # Panics
/// When it does not.
pub(crate) fn stdout<S: AsRef<OsStr>>(args: &[S]) -> Vec<u8> {
    let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
    let output = output(&args, None);
    assert!(output.status.success(), "{}", tool::failure(PROGRAM, &args, &output));
    output.stdout
}

/// What `btrpress check` has against a device, its data included.
pub(crate) fn check(device: &Path) -> Vec<String> {
    let output = output(&["check".as_ref(), "--data".as_ref(), device.as_os_str()], None);
    if output.status.success() {
        return Vec::new();
    }
    vec![String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()]
}

/// Recompresses the whole of `image` without asking.
pub(crate) fn recompress(image: &Image, to: &str) -> Summary {
    recompress_with(image, &["--to", to], None)
}

/// Recompresses the whole of `image`; gives also how many bytes were saved as of each commit.
pub(crate) fn recompress_by_commit(image: &Image, to: &str) -> (Summary, Vec<i64>) {
    let (summary, progress) = run("recompress", image, &["--to", to], None);
    let mut saved: Vec<i64> =
        progress.iter().map(|line| line["saved"].as_i64().expect("a number of bytes")).collect();
    saved.dedup();
    (summary, saved)
}

/// Defragments the whole of `image` without asking.
pub(crate) fn defragment(image: &Image) -> Summary {
    run("defrag", image, &[], None).0
}

/// `--batch recompress` with `options`, which must end well.
///
/// # Panics
/// When it does not, or when its last line is no summary.
pub(crate) fn recompress_with(image: &Image, options: &[&str], threads: Option<usize>) -> Summary {
    run("recompress", image, options, threads).0
}

fn run(
    verb: &str,
    image: &Image,
    options: &[&str],
    threads: Option<usize>,
) -> (Summary, Vec<serde_json::Value>) {
    let mut args: Vec<OsString> = vec!["--batch".into(), verb.into()];
    args.push(image.path().into());
    args.extend(options.iter().map(OsString::from));
    args.push("--json".into());
    let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
    let output = output(&args, threads);
    assert!(output.status.success(), "{}", tool::failure(PROGRAM, &args, &output));
    let lines = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let parse = |line| serde_json::from_str(line).expect("each line is JSON");
    let mut progress: Vec<serde_json::Value> = lines.lines().map(parse).collect();
    let last = progress.pop().expect("there is a last line");
    assert_eq!(last["type"], "summary", "{last}");
    let summary =
        serde_json::from_value(last.clone()).unwrap_or_else(|error| panic!("{error}: {last}"));
    eprintln!("{verb} {options:?}: {summary:?}");
    (summary, progress)
}
