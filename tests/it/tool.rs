//! What the kernel oracle needs from the machine, and how its programs are run.
//!
//! The judge of what we write is the kernel with its own tools. Where one of them is missing, a
//! test says aloud what it could not run and passes; with `BTRPRESS_ORACLE=require` it fails.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

/// Where administrators' programs live when an ordinary user's `PATH` leaves them out.
const ALSO_IN: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Programs that every oracle test may call.
const PROGRAMS: [&str; 7] =
    ["mkfs.btrfs", "btrfs", "compsize", "losetup", "mount", "umount", "dmesg"];

/// Whether `test` can ask the kernel. When not, says why on standard error.
///
/// # Panics
/// When something is missing and `BTRPRESS_ORACLE=require` is set.
pub(crate) fn kernel_can_judge(test: &str) -> bool {
    static MISSING: OnceLock<Vec<String>> = OnceLock::new();
    let missing = MISSING.get_or_init(missing);
    if missing.is_empty() {
        return true;
    }
    let why = missing.join(", ");
    let required = std::env::var("BTRPRESS_ORACLE").is_ok_and(|value| value == "require");
    assert!(!required, "{test} must run, but is missing: {why}");
    // Not by `eprintln`, which the test runner keeps to itself when a test passes.
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: missing: {why}");
    false
}

/// Everything that stands between this process and a kernel mount of an image file.
fn missing() -> Vec<String> {
    let mut missing: Vec<String> = PROGRAMS
        .iter()
        .filter(|name| find_program(name).is_none())
        .map(|name| format!("program `{name}`"))
        .collect();
    if !fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        missing.push("root".to_owned());
        return missing;
    }
    if find_program("modprobe").is_some() {
        // Both may be built in or loaded already; the checks below tell.
        let _ = command("modprobe", &["-a", "btrfs", "loop"]).output();
    }
    if !fs::read_to_string("/proc/filesystems").is_ok_and(|known| known.contains("\tbtrfs\n")) {
        missing.push("a kernel that mounts btrfs".to_owned());
    }
    if !Path::new("/dev/loop-control").exists() {
        missing.push("loop devices".to_owned());
    }
    missing
}

/// Whether there is a program that only some tests need; says aloud when there is none.
///
/// # Panics
/// When there is none and `BTRPRESS_ORACLE=require` is set.
pub(crate) fn has(program: &str) -> bool {
    let is_there = find_program(program).is_some();
    let is_required = std::env::var("BTRPRESS_ORACLE").is_ok_and(|value| value == "require");
    assert!(is_there || !is_required, "program `{program}` is missing");
    if !is_there {
        let _ = writeln!(std::io::stderr(), "NOT RUN: a test that needs `{program}`");
    }
    is_there
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(ALSO_IN.iter().map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// A command whose output can be parsed: found wherever it lives, in the C locale.
pub(crate) fn command<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Command {
    let mut command = Command::new(find_program(program).unwrap_or_else(|| program.into()));
    command.args(args).env("LC_ALL", "C").env("TZ", "UTC");
    command
}

/// Runs a program that must succeed; its standard output.
///
/// # Panics
/// When it does not, with what it said.
pub(crate) fn run<S: AsRef<OsStr>>(program: &str, args: &[S]) -> String {
    let output = output(program, args);
    assert!(output.status.success(), "{}", failure(program, args, &output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Unmounts what is at `place`. Another thread's child may have it open until it has become another program.
///
/// # Panics
/// When that fails for some seconds.
pub(crate) fn unmount<S: AsRef<OsStr>>(place: S) {
    for _ in 0..50 {
        if output("umount", &[&place]).status.success() {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    run("umount", &[place]);
}

/// Runs a program whatever comes of it.
pub(crate) fn output<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Output {
    command(program, args).output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// A failed command as one readable text.
pub(crate) fn failure<S: AsRef<OsStr>>(program: &str, args: &[S], output: &Output) -> String {
    let args: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    format!(
        "`{program} {}` ended with {}\n{}{}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    )
}
