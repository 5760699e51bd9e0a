//! What the kernel does with a filesystem once we are done with it: if a reference count, a
//! generation or a free range is wrong, this is where data is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::content::{Dice, Kind, content};
use super::image::{Image, Mount};
use super::judge::{Truth, check};
use super::manifest::{Manifest, hash};
use super::workload::{SUBVOLUMES, reflink_part, write};
use crate::tool;

/// Snapshots that go, one read-only and one writable.
const DELETED: [&str; 2] = ["snaps/home.3-ro", "snaps/srv.3"];
/// Trees that the kernel goes on writing to.
const WRITTEN: [&str; 4] = [SUBVOLUMES[0], SUBVOLUMES[1], "snaps/home.2", "snaps/srv.5"];
const NEW: &str = "snaps/home.new-ro";
/// Snapshots that are sent, the first one whole and each other as the difference from the one
/// before.
const SENT: [&str; 3] = ["snaps/home.1-ro", "snaps/home.5-ro", NEW];

/// Lets the kernel live on with `image`, which is as `truth` was in all that a user can see;
/// everything that goes wrong.
pub(crate) fn complaints(truth: &Truth, image: &Image) -> Vec<String> {
    let mount = match image.try_mount("rw") {
        Ok(mount) => mount,
        Err(refusal) => return vec![refusal],
    };
    let mut written = Written::default();
    for (seed, tree) in (1..).zip(WRITTEN) {
        written.change(&mount, tree, &truth.manifest, seed);
    }
    mount.sync();
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("home"), &mount.at(NEW)]);
    for path in DELETED {
        tool::run("btrfs", &["subvolume", "delete", "--commit-after", &mount.at(path)]);
    }
    tool::run("btrfs", &["subvolume", "sync", &mount.at("")]);
    let mut complaints = balance(&mount);
    complaints.extend(send_and_receive(&mount));
    complaints.extend(mount.unmount());
    complaints.extend(check(image));
    complaints.extend(written.complaints(truth, image));
    complaints
}

/// Balances data and metadata, and system chunks with them.
fn balance(mount: &Mount) -> Vec<String> {
    let args = ["balance", "start", "--full-balance", &mount.at("")];
    let output = tool::output("btrfs", &args);
    if output.status.success() {
        return Vec::new();
    }
    vec![tool::failure("btrfs", &args, &output)]
}

/// Sends snapshots one after the other to a fresh filesystem, where they must arrive equal.
fn send_and_receive(mount: &Mount) -> Vec<String> {
    let other = Image::mkfs(2 << 30, &[]);
    let target = other.mount("rw");
    let mut complaints = Vec::new();
    let mut parent: Option<String> = None;
    let stream = tempfile::NamedTempFile::new().expect("tempfile");
    let stream = stream.path().to_str().expect("temporary paths are UTF-8");
    for path in SENT {
        let from = mount.at(path);
        let mut args = vec!["send", "-q", "-f", stream];
        if let Some(parent) = &parent {
            args.extend(["-p", parent]);
        }
        args.push(&from);
        tool::run("btrfs", &args);
        tool::run("btrfs", &["receive", "-q", "-f", stream, &target.at("")]);
        parent = Some(from);
    }
    let (sent, received) = (Manifest::read(mount.root()), Manifest::read(target.root()));
    for path in SENT {
        let name = path.rsplit('/').next().expect("a name");
        let differences = sent.differences_as_sent(path, &received, name);
        complaints.extend(differences.iter().map(|line| format!("{path} as received: {line}")));
    }
    complaints.extend(target.unmount());
    complaints.extend(check(&other));
    complaints
}

/// Files that were changed, with what they must hold.
#[derive(Default)]
struct Written {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Written {
    /// Overwrites, appends to, truncates and clones every fifth file of a tree.
    fn change(&mut self, mount: &Mount, tree: &str, manifest: &Manifest, seed: u64) {
        let mut dice = Dice::new(seed);
        let files: Vec<_> =
            manifest.files(tree, 1).into_iter().filter(|path| !is_linked(path)).collect();
        let large = manifest.files(tree, 1 << 20);
        for (number, path) in files.iter().enumerate().filter(|(number, _)| number % 5 == 0) {
            let at = mount.root().join(path);
            let mut bytes = fs::read(&at).expect("readable");
            let kind = [Kind::Text, Kind::Noise, Kind::Records][number % 3];
            match number / 5 % 4 {
                0 => {
                    let start = dice.below(bytes.len() as u64) as usize;
                    let patch = content(kind, dice.roll(), dice.below(50_000));
                    let end = bytes.len().max(start + patch.len());
                    bytes.resize(end, 0);
                    bytes[start..start + patch.len()].copy_from_slice(&patch);
                    patch_file(&at, start as u64, &patch);
                }
                1 => {
                    let patch = content(kind, dice.roll(), 1 + dice.below(50_000));
                    patch_file(&at, bytes.len() as u64, &patch);
                    bytes.extend_from_slice(&patch);
                }
                2 => {
                    bytes.truncate(dice.below(bytes.len() as u64) as usize);
                    let file = fs::File::options().write(true).open(&at).expect("open");
                    file.set_len(bytes.len() as u64).expect("truncate");
                }
                _ => {
                    let source = &large[dice.below(large.len() as u64) as usize];
                    if !source.starts_with(format!("{tree}/nocow")) && source != path {
                        bytes = clone_into(&mount.root().join(source), &at, &bytes);
                    }
                }
            }
            self.files.insert(path.clone(), bytes);
        }
        let path = Path::new(tree).join("afterwards");
        let bytes = content(Kind::Mixed, dice.roll(), 3 << 20);
        write(&mount.root().join(&path), &bytes);
        self.files.insert(path, bytes);
    }

    /// Mounts once more: what was written must be there, all else must be as it was.
    fn complaints(&self, truth: &Truth, image: &Image) -> Vec<String> {
        let mount = match image.try_mount("ro") {
            Ok(mount) => mount,
            Err(refusal) => return vec![refusal],
        };
        let manifest = Manifest::read(mount.root());
        let mut complaints = mount.unmount();
        for (path, bytes) in &self.files {
            if manifest.hash_of(path) != Some(hash(bytes)) {
                complaints.push(format!("{}: is not what was written", path.display()));
            }
        }
        let untouched = |path: &Path| {
            !self.files.contains_key(path)
                && !WRITTEN.iter().any(|tree| Path::new(tree) == path)
                && !DELETED.iter().any(|tree| path.starts_with(tree))
                && !path.starts_with(NEW)
                && path != Path::new("snaps")
        };
        complaints.extend(truth.manifest.differences_among(&manifest, untouched));
        complaints
    }
}

/// Files with more than one name: writing to one would change the others.
fn is_linked(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "links") || path.ends_with("docs/0/linked")
}

fn patch_file(path: &Path, at_bytes: u64, patch: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let file = fs::File::options().write(true).open(path).expect("open");
    file.write_all_at(patch, at_bytes).expect("write");
}

/// Clones the sectors from 128 KiB on of `source` over the first ones of `path`, whose new bytes
/// it returns.
fn clone_into(source: &Path, path: &Path, bytes: &[u8]) -> Vec<u8> {
    const CLONED: std::ops::Range<usize> = 128 << 10..292 << 10;
    let from = fs::read(source).expect("readable");
    let mut bytes = bytes.to_owned();
    bytes.resize(bytes.len().max(CLONED.len()), 0);
    bytes[..CLONED.len()].copy_from_slice(&from[CLONED]);
    reflink_part(source, CLONED.start as u64, path, 0, CLONED.len() as u64);
    bytes
}
