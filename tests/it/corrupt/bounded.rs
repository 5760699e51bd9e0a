//! However broken an image is, a reader of it needs little memory and time.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use tempfile::NamedTempFile;

use super::surgery::in_a_file;
use super::wounds::{self, Random};
use super::{Wound, variable};
use crate::crash::image;

/// Address space that the program may take, in KiB, its threads' stacks included.
const MEMORY_KIB: &str = "1500000";
/// Seconds of computing that it may take.
const SECONDS: &str = "60";

/// Runs the program within limits. A signal ends it where it asks for more.
fn run(arguments: &[&str], device: &NamedTempFile) -> Result<(), String> {
    let limited = format!("ulimit -v {MEMORY_KIB}; ulimit -t {SECONDS}; exec \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_btrpress")])
        .args(arguments)
        .arg(device.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let has_panicked = said.contains("panicked") || output.status.signal().is_some();
    if has_panicked { Err(format!("{arguments:?}: {}: {said}", output.status)) } else { Ok(()) }
}

#[test]
fn little_memory_and_time_are_enough() {
    let kinds: [(&str, Wound); 5] = [
        ("zstd", wounds::bombs),
        ("old-features", wounds::fields),
        ("quota", wounds::items),
        ("nodes-4k", wounds::pointers),
        ("old-features", wounds::superblock),
    ];
    let first = variable("BTRPRESS_SEED", 0);
    let count = variable("BTRPRESS_CORRUPTIONS", 12).div_ceil(4);
    let mut wrong = Vec::new();
    for (name, break_it) in kinds {
        let device = image(name);
        for seed in first..first + count {
            let file = in_a_file(&break_it(&device, &mut Random::new(seed)));
            for arguments in [
                &["report"][..],
                &["check", "--data"],
                &["--batch", "recompress", "--no-check", "--to", "zstd:1"],
            ] {
                if let Err(why) = run(arguments, &file) {
                    wrong.push(format!("{name}, seed {seed}: {why}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
