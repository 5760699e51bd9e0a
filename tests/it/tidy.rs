//! The source's own rules. Style that is not tested decays.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from the ground up. Each may use itself and those before it.
const LAYERS: [&str; 18] = [
    "format", "error", "device", "compress", "volume", "tree", "backref", "fs", "usage", "check",
    "plan", "txn", "apply", "report", "batch", "tui", "cli", "main",
];

/// What a room must not use although it lies below: front ends do not know each other, and the
/// mechanism of change knows items and trees, no files.
const APART: [(&str, &[&str]); 4] = [
    ("device", &["compress"]),
    ("compress", &["device"]),
    ("txn", &["fs", "usage", "check", "plan"]),
    ("tui", &["batch"]),
];

const LINES_MAX: usize = 500;

/// Each in two parts, so that this file does not contain them.
const FORBIDDEN: [(&str, &str); 9] = [
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("dbg", "!("),
    ("todo", "!("),
    ("unimplemented", "!("),
    ("../sha", "red"),
    ("/wo", "rk/"),
    ("/ro", "ot/"),
];

/// Every text file below `path` whose name ends in one of `endings`.
fn files(path: &Path, endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a readable directory");
            waiting.extend(entries.map(|entry| entry.expect("a readable entry").path()));
        } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
            let text = fs::read_to_string(&path).expect("text in UTF-8");
            found.push((path, text));
        }
    }
    found.sort();
    assert!(!found.is_empty(), "nothing to check");
    found
}

fn layer(room: &str) -> Option<usize> {
    LAYERS.iter().position(|&layer| layer == room)
}

/// The room that a file of `src` belongs to: `fs` for `src/fs.rs` and for `src/fs/path.rs`.
fn room(path: &Path) -> String {
    let inside = path.strip_prefix("src").expect("a file of src");
    let first = inside.components().next().expect("a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// Every room that `text` names, from inside of the crate or, in `main.rs`, from outside.
fn rooms_used(text: &str) -> BTreeSet<&str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = code.flat_map(|line| {
        ["crate::", "btrpress::"].into_iter().flat_map(|root| line.split(root).skip(1))
    });
    paths
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            &rest[..end]
        })
        .filter(|name| layer(name).is_some())
        .collect()
}

#[test]
fn no_room_uses_one_above_it() {
    let mut wrong = Vec::new();
    for (path, text) in files(Path::new("src"), &[".rs"]) {
        let own = room(&path);
        if own == "lib" {
            continue;
        }
        let Some(layer_of_own) = layer(&own) else {
            wrong.push(format!("{}: `{own}` has no place among the layers", path.display()));
            continue;
        };
        let apart = APART.iter().find(|(room, _)| *room == own).map_or(&[][..], |(_, rooms)| rooms);
        for used in rooms_used(&text) {
            if layer(used) > Some(layer_of_own) || apart.contains(&used) {
                wrong.push(format!("{} uses {used}", path.display()));
            }
        }
        if text.contains("crate::{") {
            wrong.push(format!("{}: write one `use crate::room` line a room", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_scanner_of_rooms_sees_what_it_should() {
    let text = "use crate::fs::Path;\n// crate::tui\nlet x = crate::plan::of(&crate::report);\n";
    assert_eq!(rooms_used(text), BTreeSet::from(["fs", "plan", "report"]));
    assert_eq!(rooms_used("use btrpress::batch::run;"), BTreeSet::from(["batch"]));
    assert_eq!(room(Path::new("src/fs/path.rs")), "fs");
    assert_eq!(room(Path::new("src/fs.rs")), "fs");
}

#[test]
fn every_file_is_short_and_says_what_it_is() {
    let mut wrong = Vec::new();
    for (path, text) in files(Path::new("src"), &[".rs"]) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{} has {lines} lines", path.display()));
        }
        if !text.starts_with("//!") {
            wrong.push(format!("{} does not begin with a `//!` line", path.display()));
        }
        if path.ends_with("mod.rs") {
            wrong.push(format!("{}: name it as its directory", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_unfinished_or_private_is_left() {
    let endings = [".rs", ".md", ".sh", ".py", ".toml", "run"];
    let mut wrong = Vec::new();
    for place in ["src", "tests", "assets", ".ci", "README.md", "CHANGELOG.md", "Cargo.toml"] {
        for (path, text) in files(Path::new(place), &endings) {
            for (number, line) in text.lines().enumerate() {
                for (start, end) in FORBIDDEN {
                    if line.contains(&[start, end].concat()) {
                        wrong.push(format!("{}:{}: {start}{end}", path.display(), number + 1));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_exception_to_a_lint_is_expected_for_a_reason() {
    let (allow, expect) = (["#[al", "low("].concat(), ["#[exp", "ect("].concat());
    for place in ["src", "tests"] {
        for (path, text) in files(Path::new(place), &[".rs"]) {
            let path = path.display();
            assert!(!text.contains(&allow), "{path}: use {expect}.., reason = ..)]");
            for rest in text.split(&expect).skip(1) {
                let attribute = rest.split(")]").next().unwrap_or_default();
                assert!(attribute.contains("reason = "), "{path}: {expect}{attribute}");
            }
        }
    }
}

#[test]
fn every_fixture_is_whole_and_used_by_a_test() {
    let tests: String = files(Path::new("tests/it"), &[".rs"])
        .into_iter()
        .filter(|(path, _)| !path.ends_with("tidy.rs"))
        .map(|(_, text)| text)
        .collect();
    let mut count = 0;
    for entry in fs::read_dir("tests/fixtures").expect("the fixtures") {
        let path = entry.expect("a readable entry").path();
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".img.zst") else { continue };
        let name = name.split('.').next().expect("a split gives one part at least");
        count += 1;
        assert!(tests.contains(&format!("\"{name}\"")), "no test uses {name}");
        for what in ["img.zst", "manifest", "compsize"] {
            let beside = path.with_file_name(format!("{name}.{what}"));
            assert!(beside.exists(), "{} is missing", beside.display());
        }
        let size = fs::metadata(&path).expect("a readable file").len();
        assert!(size < 200 << 10, "{file} has {size} bytes");
    }
    assert!(count > 0, "no fixtures");
}
