//! Whether `btrpress report` says what `compsize` says on a mount of the same filesystem.

use std::ffi::OsString;

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
            let mut args = vec![mount.at(path)];
            args.extend(in_bytes.then(|| "-b".to_owned()));
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

/// A table without the number of fragments in its first line.
fn without_fragments(table: &str) -> String {
    let (first, rest) = table.split_once('\n').unwrap_or((table, ""));
    let counts = first.rsplit_once(", ").map_or(first, |(counts, _)| counts);
    format!("{counts}.\n{rest}")
}
