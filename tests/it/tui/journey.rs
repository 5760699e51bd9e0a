//! The real program, driven by keys from the first picture to the last.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::terminal::{self, Terminal};
use crate::fixture::{Content, Fixture, fixture, manifest};
use crate::{read, tool};

/// What follows `name` in the row that begins with it.
fn row<'t>(text: &'t str, name: &str) -> &'t str {
    let mut rows = text.lines().filter_map(|line| {
        line.trim_start_matches([' ', '▸', '●']).strip_prefix(name).map(str::trim_start)
    });
    rows.next_back().unwrap_or_default()
}

/// Every file is as it was, by the engine, `btrfs check` and the kernel.
fn assert_sound(name: &str, fixture: &Fixture, test: &str) {
    read::assert_same_as_manifest(name, &read::open(fixture));
    if !tool::kernel_can_judge(test) {
        return;
    }
    let image = fixture.path();
    let image = image.to_str().expect("a path in UTF-8");
    tool::run("btrfs", &["check", "--readonly", image]);
    let at = tempfile::TempDir::new().expect("a temporary directory");
    let at = at.path();
    tool::run("mount", &["-t", "btrfs", "-o", "ro,loop", image, at.to_str().expect("UTF-8")]);
    let wrong = differences(name, at);
    tool::unmount(at);
    assert_eq!(wrong, Vec::<String>::new());
}

fn differences(name: &str, at: &Path) -> Vec<String> {
    use std::os::unix::ffi::OsStrExt;
    let mut wrong = Vec::new();
    for entry in manifest(name) {
        let Content::File(sum) = &entry.content else { continue };
        let bytes = fs::read(at.join(std::ffi::OsStr::from_bytes(&entry.path)));
        let digest = bytes.map(Sha256::digest);
        let found = digest
            .map(|sum| sum.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat());
        if found.as_ref().ok() != Some(sum) {
            wrong.push(String::from_utf8_lossy(&entry.path).into_owned());
        }
    }
    wrong
}

#[test]
fn a_snapshot_is_browsed_planned_for_and_recompressed() {
    let test = "a journey through the UI";
    if !terminal::exists(test) {
        return;
    }
    let fixture = fixture("plain");
    let mut ui = Terminal::start(&fixture.path());
    let start =
        ui.wait_until("counted", |text| text.contains("generation") && text.contains("none"));
    assert!(start.contains("before") && start.contains("ro"), "{start}");

    // Into the snapshot.
    while !ui.text().lines().any(|line| line.contains('▸') && line.contains("before")) {
        ui.press("j");
        thread::sleep(Duration::from_millis(50));
    }
    ui.press("\r");
    let rows = ui.wait_until("rows with numbers", |text| {
        text.contains("/ › before") && text.contains("sizes/") && row(text, "large").contains("iB")
    });
    assert!(rows.contains("by disk usage"), "{rows}");
    let size_before = row(&rows, "large").to_owned();

    // Sort, filter, mark.
    ui.press("n");
    ui.wait_for("by name");
    ui.press("/lar");
    ui.wait_for("1 of ");
    ui.press("\r ");
    ui.wait_for("1 marked");
    ui.press("\x1b");
    ui.wait_until("all rows", |text| text.contains("sizes/") && text.contains("1 marked"));

    // Inspect.
    ui.press("/lar\ri");
    let extents = ui.wait_for("fragment");
    assert!(extents.contains("before/large") && extents.contains("none"), "{extents}");
    assert!(extents.contains("home"), "it is shared with others: {extents}");
    ui.press("q");
    ui.wait_for("1 of ");
    ui.press("q");

    // Plan, confirm, watch.
    ui.wait_until("no filter", |text| text.contains("sizes/") && text.contains("1 marked"));
    ui.press("zG");
    ui.wait_until("a prediction", |text| {
        text.contains("sample") && row(text, "zstd:19").contains('%')
    });
    ui.press("\r");
    let question = ui.wait_for("Nothing has been written yet");
    assert!(question.contains("zstd:19") && question.contains("before/large"), "{question}");
    let untouched = fs::read(fixture.path()).expect("the image");
    ui.press("y");
    thread::sleep(Duration::from_millis(300));
    assert!(fs::read(fixture.path()).expect("the image") == untouched, "a small y writes nothing");
    ui.press("Y");
    ui.wait_for("Done in");
    let done = ui.wait_until("counted again", |text| {
        text.matches("after ").count() == 2 && !text.contains("being counted")
    });
    assert!(done.contains("less"), "{done}");

    // The browser shows the new numbers.
    ui.press("q");
    let rows = ui.wait_until("zstd rows", |text| {
        text.contains("large") && row(text, "large").contains("zstd")
    });
    assert_ne!(row(&rows, "large"), size_before);
    ui.press("qq");
    assert!(ui.wait().success());
    assert_sound("plain", &fixture, test);
}

/// Whether a run has ended, and perhaps was left already: it may be quicker than a key.
fn has_ended(text: &str) -> bool {
    ["Stopped", "Done in", "Subvolumes"].iter().any(|word| text.contains(word))
        || text.trim().is_empty()
}

/// A run that takes a while, has committed nothing or something, and is then asked to end.
fn interrupted(test: &str, end: impl FnOnce(&mut Terminal)) {
    if !terminal::exists(test) {
        return;
    }
    let fixture = fixture("plain");
    let mut ui = Terminal::start(&fixture.path());
    ui.wait_for("generation");
    ui.press("zG");
    ui.wait_for("whole filesystem");
    ui.press("\rY");
    ui.wait_until("a run", |text| text.contains("commits") || text.contains("Done in"));
    end(&mut ui);
    assert!(ui.wait().success());
    assert_sound("plain", &fixture, test);
}

#[test]
fn quitting_during_a_run_leaves_a_sound_filesystem() {
    interrupted("quitting during a run", |ui| {
        ui.press("q");
        ui.wait_until("the end", has_ended);
        ui.press("\x03");
    });
}

#[test]
fn interrupts_during_a_run_leave_a_sound_filesystem() {
    interrupted("Ctrl-C during a run", |ui| {
        ui.press("\x03");
        ui.wait_until("the end", has_ended);
        ui.press("\x03");
    });
}

#[test]
fn signals_during_a_run_leave_a_sound_filesystem() {
    interrupted("SIGTERM during a run", |ui| ui.signal("TERM"));
}

#[test]
fn a_device_in_use_is_not_written_and_it_says_why() {
    let test = "a refusal in the UI";
    if !terminal::exists(test) {
        return;
    }
    let fixture = fixture("names");
    let image = fs::File::open(fixture.path()).expect("the image");
    rustix::fs::flock(&image, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    let before = fs::read(fixture.path()).expect("the image");
    let mut ui = Terminal::start(&fixture.path());
    ui.wait_for("generation");
    ui.press("z");
    ui.wait_for("whole filesystem");
    ui.press("\r");
    ui.wait_for("Nothing has been written yet");
    ui.press("Y");
    ui.wait_for("It can't be written.");
    ui.wait_for("locked");
    drop(image);
    assert!(fs::read(fixture.path()).expect("the image") == before);
    ui.press("qqq");
    assert!(ui.wait().success());
}

#[test]
fn rows_are_exported_and_a_signal_ends_the_program() {
    let test = "an export from the UI";
    if !terminal::exists(test) {
        return;
    }
    let fixture = fixture("names");
    let mut ui = Terminal::start(&fixture.path());
    ui.wait_for("generation");
    ui.press("\r");
    ui.wait_until("rows", |text| text.contains(" rows") && row(text, "names/").contains("iB"));
    ui.press("E");
    ui.wait_for("written to btrpress.json");
    let rows: serde_json::Value = serde_json::from_str(&ui.file("btrpress.json")).expect("JSON");
    let rows = rows.as_array().expect("an array");
    assert!(rows.iter().all(|row| row["path"].is_string() && row["disk_usage"].is_u64()));
    assert!(ui.is_taken());
    ui.signal("HUP");
    assert!(ui.wait().success());
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_btrpress"))
        .arg("--demo")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the program starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(told.contains("btrpress report") && told.contains("--batch"), "{told}");
}
