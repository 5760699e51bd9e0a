//! The fixtures, rewritten: their contents stay what the kernel read.

use std::fs;
use std::process::Command;

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
fn every_image_is_rewritten_or_refused_and_keeps_its_contents() {
    for name in ALL {
        let fixture = fixture(name);
        let before: Vec<_> = fixture.devices().iter().map(|path| fs::read(path).unwrap()).collect();
        for target in ["zstd:9", "none"] {
            let (status, messages) = recompress(&fixture, target);
            let expected = if name == "simple-quota" { 3 } else { 0 };
            assert_eq!(status, Some(expected), "{name}, {target}: {messages}");
            assert_same_as_manifest(name, &open(&fixture));
        }
        let after: Vec<_> = fixture.devices().iter().map(|path| fs::read(path).unwrap()).collect();
        assert_eq!(before == after, name == "simple-quota", "{name}");
    }
}
