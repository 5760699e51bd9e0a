//! Whether `btrpress report` says what `compsize` says on a mount of the same filesystem.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::image::Image;
use super::press;
use crate::tool;

/// Everything in which the two differ, over the whole of `image` and over each of `paths` below
/// its top-level subvolume, in bytes and in rounded figures.
pub(crate) fn differences(image: &Image, paths: &[&str]) -> Vec<String> {
    let mount = image.mount("ro");
    let questions: Vec<(&str, bool)> =
        [""].iter().chain(paths).flat_map(|path| [(*path, true), (*path, false)]).collect();
    let expected: Vec<String> = questions
        .iter()
        .map(|(path, in_bytes)| {
            let mut args = once_each(&mount.root().join(path));
            args.extend(in_bytes.then(|| "-b".into()));
            tool::run("compsize", &args)
        })
        .collect();
    mount.unmount();
    let mut differences = Vec::new();
    for ((path, in_bytes), expected) in questions.into_iter().zip(expected) {
        let mut args: Vec<OsString> = vec!["report".into(), image.path().into()];
        if !path.is_empty() {
            args.extend(["--path".into(), path.into()]);
        }
        args.extend(in_bytes.then(|| "-b".into()));
        let said = String::from_utf8_lossy(&press::stdout(&args)).into_owned();
        // Older ones of compsize don't count fragments.
        let said = if expected.contains(" fragments.\n") { said } else { without_fragments(&said) };
        if said != expected {
            differences.push(format!("`{path}`:\ncompsize:\n{expected}btrpress:\n{said}"));
        }
    }
    differences
}

/// `path` as arguments of `compsize`. Older ones count an inode once a name, so where files have
/// several names below `path`, each file is given by one of them.
fn once_each(path: &Path) -> Vec<OsString> {
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    let mut is_linked = false;
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).expect("stat");
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory lists");
            waiting.extend(entries.map(|entry| entry.expect("a directory lists").path()));
        } else if metadata.is_file() {
            if seen.insert((metadata.dev(), metadata.ino())) {
                files.push(path.into());
            } else {
                is_linked = true;
            }
        }
    }
    if is_linked { files } else { vec![path.into()] }
}

/// A table without the number of fragments in its first line.
fn without_fragments(table: &str) -> String {
    let (first, rest) = table.split_once('\n').unwrap_or((table, ""));
    let counts = first.rsplit_once(", ").map_or(first, |(counts, _)| counts);
    format!("{counts}.\n{rest}")
}
