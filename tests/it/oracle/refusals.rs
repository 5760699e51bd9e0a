//! What must not be written to, and stays readable all the same: a case or more for each row of the README's table
//! whose writing is refused.

mod devices;
mod features;
mod unfinished;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

use super::content::{Kind, content};
use super::image::{Image, Mount};
use super::{NONE, press, workload};
use crate::tool;

const MIB: u64 = 1 << 20;
/// Files that an image has to begin with, as `home/SEED` and `snapshot/SEED`.
const SEEDS: [u64; 3] = [1, 2, 3];

/// A row of the README's table.
struct Row {
    /// As in the README.
    name: &'static str,
    /// Makes filesystems of this kind.
    make: fn() -> Vec<Case>,
}

const ROWS: [Row; 12] = [
    Row { name: "a device is missing", make: devices::missing },
    Row { name: "devices of different generations", make: devices::of_different_generations },
    Row { name: "two clones of a device", make: devices::clones },
    Row { name: "seed devices and what sprouts from them", make: devices::seed_and_sprout },
    Row { name: "a log that is still to be replayed", make: unfinished::log },
    Row {
        name: "an unfinished balance, replacement, deletion or conversion",
        make: unfinished::work_of_the_kernel,
    },
    Row { name: "an error in the superblock's flags", make: features::errors },
    Row { name: "a damaged superblock with a good copy", make: features::damaged_superblocks },
    Row { name: "zoned", make: features::zoned },
    Row { name: "unknown features that only forbid writing", make: features::unknown_for_writing },
    Row { name: "raid-stripe-tree", make: features::raid_stripe_tree },
    Row {
        name: "extent-tree-v2, remap-tree, unknown features that change how to read",
        make: features::unknown_for_reading,
    },
];

/// A filesystem that must not be written.
struct Case {
    image: Image,
    /// Another one that devices of are named.
    also: Option<Image>,
    /// What is named on the command line.
    given: Vec<PathBuf>,
    /// A part of the message.
    says: &'static str,
    /// What must be readable: paths of texts and their seeds.
    texts: Vec<(String, u64)>,
    /// A part of the message when it can't even be read.
    unreadable: Option<&'static str>,
}

impl Case {
    /// One whose texts are readable by its first device's name.
    fn new(image: Image, says: &'static str) -> Self {
        let texts = SEEDS.map(|seed| (format!("snapshot/{seed}"), seed)).into();
        let given = vec![image.path().to_owned()];
        Self { image, also: None, given, says, texts, unreadable: None }
    }

    fn complaints(&self) -> Vec<String> {
        let before = (self.image.digest(), self.also.as_ref().map(Image::digest));
        let mut complaints = Vec::new();
        let output = self.btrpress(&["--batch", "recompress", "--to", "zstd:3"], &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(3) || !said.contains(self.says) {
            complaints.push(format!("not “{}” but {}: {said}", self.says, output.status));
        }
        for (path, seed) in &self.texts {
            let output = self.btrpress(&["cat"], &[path]);
            let said = String::from_utf8_lossy(&output.stderr);
            match self.unreadable {
                None if output.stdout == text(*seed) => {}
                Some(why) if !output.status.success() && said.contains(why) => {}
                _ => complaints.push(format!("{path}: {}: {said}", output.status)),
            }
        }
        if self.unreadable.is_none() {
            let output = self.btrpress(&["report"], &[]);
            let said = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                complaints.push(format!("report: {}: {said}", output.status));
            }
        }
        if (self.image.digest(), self.also.as_ref().map(Image::digest)) != before {
            complaints.push("was written to although refused".to_owned());
        }
        complaints
    }

    fn btrpress(&self, before: &[&str], after: &[&str]) -> Output {
        let given = self.given.iter().map(|path| path.as_os_str());
        let before = before.iter().map(OsStr::new);
        let args: Vec<_> = before.chain(given).chain(after.iter().map(OsStr::new)).collect();
        press::output(&args, None)
    }
}

fn text(seed: u64) -> Vec<u8> {
    content(Kind::Text, seed, MIB)
}

/// A filesystem with one subvolume, some texts in it, and a snapshot of it.
fn texts(devices: usize, mkfs: &[&str]) -> Image {
    let image = Image::mkfs_on(&vec![256 * MIB; devices], mkfs);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("home")]);
    for seed in SEEDS {
        workload::write(&mount.root().join(format!("home/{seed}")), &text(seed));
    }
    snapshot(&mount);
    assert_eq!(mount.unmount(), NONE);
    image
}

fn snapshot(mount: &Mount) {
    let snapshot = mount.at("snapshot");
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("home"), &snapshot]);
}

#[test]
fn what_the_readme_calls_refused_is_refused_and_read() {
    if !tool::kernel_can_judge("what is refused") {
        return;
    }
    let only = std::env::var("BTRPRESS_KIND").ok();
    let mut found = Vec::new();
    for row in ROWS.iter().filter(|row| only.as_ref().is_none_or(|only| row.name == only)) {
        for (number, case) in (row.make)().iter().enumerate() {
            let complaints = case.complaints();
            found.extend(complaints.iter().map(|line| format!("{} {number}: {line}", row.name)));
        }
    }
    assert_eq!(found, NONE, "{}", found.join("\n"));
}

/// What the README says is refused is what is tried here.
#[test]
fn the_readmes_table_has_the_names_of_what_is_refused() {
    let readme = fs::read_to_string("README.md").expect("README.md");
    let rows = readme.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("| ")?.strip_suffix(" | refused |")?.split_once(" | ")?;
        Some(name)
    });
    let said: BTreeSet<&str> = rows.collect();
    let tried: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(said, tried);
}

#[test]
fn an_image_in_use_is_refused() {
    if !tool::kernel_can_judge("images in use") {
        return;
    }
    let image = texts(1, &[]);
    let mount = image.mount("ro");
    let case = Case::new(image, "mounted");
    assert_eq!(case.complaints(), NONE);
    assert_eq!(mount.unmount(), NONE);
    let summary = press::recompress(&case.image, "zstd:3");
    assert!(summary.commits > 0, "free again, so it is written to: {summary:?}");
}
