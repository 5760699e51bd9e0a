//! All that a user can see of a mounted filesystem, to be compared before and after.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::hash::Hasher as _;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use twox_hash::XxHash64;

use crate::tool;

/// Differences shown before the rest is only counted.
const SHOWN_COUNT: usize = 12;
/// Inode of the directory that stands for a subvolume in snapshots of its parent. It is nowhere on
/// disk, and its times are those of the mount.
const PLACEHOLDER_INODE: u64 = 2;
const ATTRIBUTE_BYTES: usize = 64 << 10;

/// One name in the filesystem, with everything that `stat`, `read` and their like tell about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    stat: Stat,
    times: Times,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    contents: Contents,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    inode: u64,
    mode: String,
    links: u64,
    owner: (u32, u32),
    device_number: u64,
    size_bytes: u64,
    allocated_blocks: u64,
}

/// Seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Times {
    accessed: (i64, i64),
    modified: (i64, i64),
    changed: (i64, i64),
    born: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Contents {
    File { hash: u64 },
    Unreadable { why: String },
    Directory { names_in_order: u64, count: usize },
    Link { target: PathBuf },
    Special,
}

/// Every entry by its path from the top-level subvolume, and every subvolume's own record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    entries: BTreeMap<PathBuf, Entry>,
    subvolumes: BTreeMap<String, String>,
}

impl Manifest {
    /// Reads everything below the mounted `root`, which is its top-level subvolume.
    pub(crate) fn read(root: &Path) -> Self {
        let mut paths = Vec::new();
        gather(root, &mut paths);
        let entries = paths
            .into_par_iter()
            .map(|path| {
                let entry = Entry::read(&path);
                (path.strip_prefix(root).expect("below the root").to_owned(), entry)
            })
            .collect();
        Self { entries, subvolumes: subvolumes(root) }
    }

    /// What differs in `other`, one line each; nothing when they are equal.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        self.differences_among(other, |_| true)
    }

    /// What differs in `other` among the entries and subvolumes whose path is `wanted`.
    pub(crate) fn differences_among(
        &self,
        other: &Self,
        wanted: impl Fn(&Path) -> bool,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let select = |manifest: &Self| -> BTreeMap<PathBuf, Entry> {
            let wanted_entries = manifest.entries.iter().filter(|(path, _)| wanted(path));
            wanted_entries.map(|(path, entry)| (path.clone(), entry.clone())).collect()
        };
        compare(&select(self), &select(other), &mut lines);
        let select = |manifest: &Self| -> BTreeMap<PathBuf, String> {
            let records = manifest.subvolumes.iter().filter(|(path, _)| wanted(path.as_ref()));
            records.map(|(path, record)| (path.into(), record.clone())).collect()
        };
        compare(&select(self), &select(other), &mut lines);
        if lines.len() > SHOWN_COUNT {
            let more = lines.len() - SHOWN_COUNT;
            lines.truncate(SHOWN_COUNT);
            lines.push(format!("… and {more} more differences"));
        }
        lines
    }

    /// What differs between the trees `from` here and `to` in `other` in what `send` carries over:
    /// names, kinds, modes, owners, sizes, link counts, modification times, attributes, contents.
    pub(crate) fn differences_as_sent(&self, from: &str, other: &Self, to: &str) -> Vec<String> {
        let mut lines = Vec::new();
        compare(&self.as_sent(from), &other.as_sent(to), &mut lines);
        lines.truncate(SHOWN_COUNT);
        lines
    }

    fn as_sent(&self, subvolume: &str) -> BTreeMap<PathBuf, Entry> {
        let below = |path: &Path| path.strip_prefix(subvolume).ok().map(Path::to_owned);
        self.entries
            .iter()
            .filter_map(|(path, entry)| Some((below(path)?, entry.as_sent())))
            .collect()
    }

    /// Regular files of at least `min_bytes` in `subvolume`, by path from the top-level subvolume.
    pub(crate) fn files(&self, subvolume: &str, min_bytes: u64) -> Vec<PathBuf> {
        self.entries
            .iter()
            .filter(|(path, entry)| {
                path.starts_with(subvolume)
                    && matches!(entry.contents, Contents::File { .. })
                    && entry.stat.size_bytes >= min_bytes
            })
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// The inode number of what `path` names, which must exist.
    pub(crate) fn inode_of(&self, path: &Path) -> u64 {
        self.entries[path].stat.inode
    }

    /// The hash of what the kernel reads from a file.
    pub(crate) fn hash_of(&self, path: &Path) -> Option<u64> {
        match self.entries.get(path)?.contents {
            Contents::File { hash } => Some(hash),
            _ => None,
        }
    }
}

impl Entry {
    fn read(path: &Path) -> Self {
        let metadata = fs::symlink_metadata(path).expect("listed a moment ago");
        let times = Times {
            accessed: (metadata.atime(), metadata.atime_nsec()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            born: format!("{:?}", metadata.created()),
        };
        let is_placeholder = metadata.is_dir() && metadata.ino() == PLACEHOLDER_INODE;
        Self {
            stat: Stat {
                inode: metadata.ino(),
                mode: format!("{:o}", metadata.mode()),
                links: metadata.nlink(),
                owner: (metadata.uid(), metadata.gid()),
                device_number: metadata.rdev(),
                size_bytes: metadata.size(),
                allocated_blocks: metadata.blocks(),
            },
            times: if is_placeholder { Times::default() } else { times },
            attributes: attributes(path),
            contents: contents(path, &metadata)
                .unwrap_or_else(|error| Contents::Unreadable { why: error.to_string() }),
        }
    }

    /// This entry with what `send` does not carry over made neutral.
    fn as_sent(&self) -> Self {
        let mut sent = self.clone();
        sent.stat.inode = 0;
        sent.stat.allocated_blocks = 0;
        sent.times.accessed = (0, 0);
        sent.times.changed = (0, 0);
        sent.times.born = String::new();
        if let Contents::Directory { names_in_order, count } = &mut sent.contents {
            (*names_in_order, sent.stat.size_bytes) = (0, *count as u64);
        }
        sent
    }
}

fn contents(path: &Path, metadata: &Metadata) -> io::Result<Contents> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(Contents::File { hash: hash_file(path)? });
    }
    if kind.is_symlink() {
        return Ok(Contents::Link { target: fs::read_link(path)? });
    }
    if !kind.is_dir() {
        return Ok(Contents::Special);
    }
    let mut hasher = XxHash64::with_seed(0);
    let mut count = 0;
    for name in fs::read_dir(path)? {
        hasher.write(name?.file_name().as_bytes());
        hasher.write_u8(0);
        count += 1;
    }
    Ok(Contents::Directory { names_in_order: hasher.finish(), count })
}

fn hash_file(path: &Path) -> io::Result<u64> {
    let mut file = fs::File::open(path)?;
    let mut hasher = XxHash64::with_seed(0);
    let mut block = vec![0; 256 << 10];
    loop {
        let count = file.read(&mut block)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.write(&block[..count]);
    }
}

/// The hash that [`Manifest::hash_of`] gives for a file with these bytes.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    XxHash64::oneshot(0, bytes)
}

/// Extended attributes, sorted by name.
fn attributes(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = vec![0; ATTRIBUTE_BYTES];
    let Ok(count) = rustix::fs::llistxattr(path, &mut names) else { return Vec::new() };
    let names = names[..count].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut attributes: Vec<_> = names
        .map(|name| {
            let mut value = vec![0; ATTRIBUTE_BYTES];
            let count = rustix::fs::lgetxattr(path, name, &mut value).expect("listed attribute");
            (name.to_owned(), value[..count].to_owned())
        })
        .collect();
    attributes.sort();
    attributes
}

/// `path` and all below it, into subvolumes too.
fn gather(path: &Path, into: &mut Vec<PathBuf>) {
    into.push(path.to_owned());
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        for entry in fs::read_dir(path).expect("a directory lists") {
            gather(&entry.expect("a directory lists").path(), into);
        }
    }
}

/// What `btrfs subvolume show` says about each subvolume, save the generation, which every change
/// of the tree moves, and quota figures.
fn subvolumes(root: &Path) -> BTreeMap<String, String> {
    let list = tool::run("btrfs", &["subvolume".as_ref(), "list".as_ref(), root.as_os_str()]);
    list.lines()
        .filter_map(|line| line.split_once(" path ").map(|(_, path)| path.to_owned()))
        .map(|path| {
            let at = root.join(&path);
            let shown =
                tool::run("btrfs", &["subvolume".as_ref(), "show".as_ref(), at.as_os_str()]);
            let kept = shown
                .lines()
                .take_while(|line| !line.contains("Snapshot(s):"))
                .filter(|line| !line.trim_start().starts_with("Generation:"))
                .fold(String::new(), |mut text, line| {
                    let _ = writeln!(text, "{}", line.trim());
                    text
                });
            (path, kept)
        })
        .collect()
}

fn compare<T: PartialEq + std::fmt::Debug>(
    before: &BTreeMap<PathBuf, T>,
    after: &BTreeMap<PathBuf, T>,
    lines: &mut Vec<String>,
) {
    for (path, old) in before {
        match after.get(path) {
            None => lines.push(format!("{} is gone", path.display())),
            Some(new) if new != old => {
                lines.push(format!("{} differs:{}", path.display(), changed_fields(old, new)));
            }
            Some(_) => {}
        }
    }
    for path in after.keys().filter(|path| !before.contains_key(*path)) {
        lines.push(format!("{} is new", path.display()));
    }
}

/// The lines in which the long form of two values differ.
fn changed_fields(old: &impl std::fmt::Debug, new: &impl std::fmt::Debug) -> String {
    let (old, new) = (format!("{old:#?}"), format!("{new:#?}"));
    let mut text = String::new();
    let (mut old_lines, mut new_lines) = (old.lines(), new.lines());
    loop {
        match (old_lines.next(), new_lines.next()) {
            (None, None) => return text,
            (old, new) if old == new => {}
            (old, new) => {
                let (old, new) = (old.unwrap_or("nothing"), new.unwrap_or("nothing"));
                let _ = write!(text, "\n    {} → {}", old.trim(), new.trim());
            }
        }
    }
}
