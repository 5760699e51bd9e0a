//! The program's commands, as typed.

use std::process::{Command, Output};

use crate::fixture::{compsize, fixture};

fn btrpress<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Output {
    let program = env!("CARGO_BIN_EXE_btrpress");
    Command::new(program).args(args).output().expect("the program starts")
}

fn stdout<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> String {
    let output = btrpress(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("text")
}

fn fails<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> (i32, String) {
    let output = btrpress(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().expect("an exit status"), said)
}

#[test]
fn report_prints_compsizes_table() {
    let fixture = fixture("lzo");
    let image = fixture.path();
    let said = stdout(&["report".as_ref(), "-b".as_ref(), image.as_os_str()]);
    let (first, rest) = said.split_once('\n').unwrap();
    let (first, _) = first.rsplit_once(", ").unwrap();
    assert_eq!(format!("{first}.\n{rest}"), compsize("lzo"));
}

#[test]
fn report_has_rows_and_json() {
    let rows = stdout(&["report", "--demo", "--path", "home", "--depth", "1"]);
    assert!(rows.lines().any(|line| line.ends_with(" home/mia/")), "{rows}");
    let json = stdout(&["report", "--demo", "--per-file", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert!(json["disk"].as_u64() > rows[0]["disk"].as_u64());
    assert_eq!(json["label"], "demo");
    assert!(rows.iter().any(|row| row["path"] == "home/mia/orders.json"), "{json}");
}

#[test]
fn ls_and_cat_read_without_a_mount() {
    let listing = stdout(&["ls", "--demo", "home/mia/projects"]);
    assert!(listing.contains("data -> ../data"), "{listing}");
    let contents = stdout(&["cat", "--demo", "home/mia/orders.json"]);
    assert!(contents.starts_with(['[', '{']));
    assert!(stdout(&["ls", "--demo"]).contains("snapshots/"));
}

#[test]
fn what_a_pattern_excludes_is_left_alone_and_counted() {
    let summary = |pattern| {
        let run = ["--demo", "--batch", "recompress", "--to", "zstd", "--json", "--exclude"];
        let said = stdout(&[&run[..], &[pattern]].concat());
        serde_json::from_str::<serde_json::Value>(said.lines().last().unwrap()).unwrap()
    };
    let (all, some) = (summary("*"), summary("*.json"));
    assert_eq!(all["extents_rewritten"], 0, "{all}");
    assert!(all["skipped"]["excluded"].as_u64() > Some(0), "{all}");
    assert!(some["extents_rewritten"].as_u64() > Some(0), "{some}");
    assert!(some["skipped"]["excluded"].as_u64() > Some(0), "{some}");
}

#[test]
fn what_goes_wrong_has_its_exit_status_and_message() {
    let (status, said) = fails(&["report", "--demo", "--path", "nowhere"]);
    assert_eq!(status, 1);
    assert!(said.contains("nowhere"), "{said}");
    assert_eq!(fails(&["report"]).0, 2);
    assert_eq!(fails(&["--batch", "--demo"]).0, 2);
    let (status, said) = fails(&["recompress", "--demo", "--to", "zstd:23"]);
    assert_eq!(status, 2);
    assert!(said.contains("zstd has levels -15 to 22"), "{said}");
    assert_eq!(fails(&["report", "--demo", "disk.img"]).0, 2);
    assert_eq!(fails(&["report", "--demo", "--depth", "x"]).0, 2);
    let (status, said) = fails(&["report", "Cargo.toml"]);
    assert_eq!(status, 1);
    assert!(said.contains("Cargo.toml") && said.contains("magic"), "{said}");
}

#[test]
fn completions_and_the_manual_page_know_the_commands() {
    for shell in ["bash", "fish", "zsh"] {
        assert!(stdout(&["completions", shell]).contains("report"), "{shell}");
    }
    let page = stdout(&["man"]);
    assert!(page.starts_with(".ie") && page.contains(".SH \"BTRPRESS RECOMPRESS\""), "{page}");
    assert!(stdout(&["--help"]).contains("Exit status"));
    assert!(stdout(&["--version"]).starts_with("btrpress "));
}
