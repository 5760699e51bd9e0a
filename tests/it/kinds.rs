//! The fixtures, rewritten: their contents stay what the kernel read.

use std::process::Command;

use btrpress::check;

use crate::fixture::{ALL, Fixture, fixture};
use crate::read::{assert_same_as_manifest, open};

/// Recompresses everything, named by the last device alone; gives exit status and messages.
fn recompress(fixture: &Fixture, to: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_btrpress"))
        .args(["--batch", "recompress", "--to", to])
        .arg(fixture.devices().last().expect("a device"))
        .output()
        .expect("the program starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_image_is_rewritten_and_keeps_its_contents() {
    for name in ALL {
        let fixture = fixture(name);
        for target in ["zstd:9", "none"] {
            let (status, messages) = recompress(&fixture, target);
            assert_eq!(status, Some(0), "{name}, {target}: {messages}");
            let fs = open(&fixture);
            assert_same_as_manifest(name, &fs);
            let report = check::run(&fs, check::Options { data: true }, &mut |_| Ok(())).unwrap();
            assert!(report.is_consistent(), "{name}, {target}: {:?}", report.findings);
        }
    }
}
