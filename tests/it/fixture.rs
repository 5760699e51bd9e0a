//! The images that the kernel made (`tests/fixtures/make.sh`), unpacked for one test each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A private copy of a fixture's devices; it goes when this is dropped.
pub(crate) struct Fixture {
    dir: TempDir,
    devices: usize,
}

/// Unpacks the fixture `name`.
pub(crate) fn fixture(name: &str) -> Fixture {
    let mut fixture = Fixture { dir: TempDir::new().expect("a temporary directory"), devices: 0 };
    let archives = (1..).map(|number| match number {
        1 => recorded(name, "img.zst"),
        _ => recorded(name, &format!("{number}.img.zst")),
    });
    for archive in archives.take_while(|archive| archive.exists()) {
        unpack(&archive, &fixture.image(fixture.devices));
        fixture.devices += 1;
    }
    assert!(fixture.devices > 0, "there is no fixture {name}");
    fixture
}

impl Fixture {
    /// The image, or the first of several; free to be written.
    pub(crate) fn path(&self) -> PathBuf {
        self.image(0)
    }

    /// An image for each device of the filesystem, in one directory.
    pub(crate) fn devices(&self) -> Vec<PathBuf> {
        (0..self.devices).map(|index| self.image(index)).collect()
    }

    fn image(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("{}.img", index + 1))
    }
}

/// All that the kernel saw when the fixture `name` was mounted, parents first.
pub(crate) fn manifest(name: &str) -> Vec<Entry> {
    let text = fs::read_to_string(recorded(name, "manifest")).expect("a manifest");
    text.lines().map(Entry::parse).collect()
}

/// What `compsize -b` printed for the whole of the fixture `name`.
pub(crate) fn compsize(name: &str) -> String {
    fs::read_to_string(recorded(name, "compsize")).expect("what compsize printed")
}

/// A path as the kernel showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// From the top-level subvolume, across subvolumes; empty for the root itself.
    pub(crate) path: Vec<u8>,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    /// Kind and permissions, as in `st_mode`.
    pub(crate) mode: u32,
    pub(crate) links: u64,
    /// Since the epoch.
    pub(crate) mtime_nanos: u64,
    pub(crate) content: Content,
}

/// What an [`Entry`] holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// A file's SHA-256, in hexadecimal.
    File(String),
    /// A symbolic link's target.
    Link(Vec<u8>),
    /// A directory that is the root of the subvolume `id`.
    Subvolume { id: u64, read_only: bool },
    /// A directory inside of a subvolume.
    Directory,
    /// A device, pipe or socket.
    Other,
}

impl Entry {
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kind, ino, size, mode, links, mtime, content, path] = fields[..] else {
            panic!("eight fields expected: {line}");
        };
        let content = match kind {
            "f" => Content::File(content.to_owned()),
            "l" => Content::Link(unescape(content)),
            "v" => {
                let (id, mode) = content.split_once(':').expect("id:mode");
                Content::Subvolume { id: decimal(id), read_only: mode == "ro" }
            }
            "d" => Content::Directory,
            "o" => Content::Other,
            _ => panic!("unknown kind {kind}"),
        };
        Self {
            path: if path == "." { Vec::new() } else { unescape(path) },
            ino: decimal(ino),
            size: decimal(size),
            mode: u32::from_str_radix(mode, 8).expect("an octal number"),
            links: decimal(links),
            mtime_nanos: decimal(mtime),
            content,
        }
    }
}

fn decimal(digits: &str) -> u64 {
    digits.parse().expect("a decimal number")
}

/// Bytes from text in which some of them are `\xNN`.
fn unescape(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
        bytes.extend(rest.as_bytes());
    }
    bytes
}

fn recorded(name: &str, what: &str) -> PathBuf {
    Path::new("tests/fixtures").join(format!("{name}.{what}"))
}

/// Decompresses `from` to `to`, with holes for what is zero.
fn unpack(from: &Path, to: &Path) {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let archive = File::open(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let mut archive = zstd::Decoder::new(archive).expect("a zstd stream");
    let mut image = File::create(to).expect("a new file");
    let mut block = Vec::new();
    let mut size = 0;
    loop {
        block.clear();
        archive.by_ref().take(ZEROS.len() as u64).read_to_end(&mut block).expect("a whole archive");
        if block.is_empty() {
            break;
        }
        if block[..] != ZEROS[..block.len()] {
            image.seek(SeekFrom::Start(size)).expect("a seekable file");
            image.write_all(&block).expect("space for the image");
        }
        size += block.len() as u64;
    }
    image.set_len(size).expect("space for the image");
}

/// Every fixture by name; those before `xxhash` have the standard features and one device.
pub(crate) const ALL: [&str; 26] = [
    "plain",
    "zlib",
    "lzo",
    "zstd",
    "fragments",
    "names",
    "xxhash",
    "sha256",
    "blake2",
    "nodes-4k",
    "nodes-64k",
    "old-features",
    "space-cache",
    "mixed",
    "quota",
    "raid0",
    "raid1",
    "raid1c3",
    "raid10",
    "raid5",
    "raid6",
    "metadata-uuid",
    "converted",
    "block-group-tree",
    "simple-quota",
    "rootdir",
];

#[test]
fn every_image_unpacks_to_a_sparse_btrfs_filesystem() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    for name in ALL {
        let fixture = fixture(name);
        assert_eq!(fixture.path(), fixture.devices()[0]);
        for device in fixture.devices() {
            let image = File::open(&device).unwrap();
            let mut magic = [0; 8];
            image.read_exact_at(&mut magic, 0x1_0040).unwrap();
            assert_eq!(&magic, b"_BHRfS_M", "{name}");
            let info = image.metadata().unwrap();
            assert!(info.blocks() * 512 < info.len() / 2, "{name} has lost its holes");
        }
    }
}

#[test]
fn every_manifest_is_a_tree_with_whole_families_of_links() {
    for name in ALL {
        let mut seen = BTreeSet::new();
        let mut names_of: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
        let mut roots: Vec<(Vec<u8>, u64)> = Vec::new();
        for entry in manifest(name) {
            let parent = entry.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            assert!(entry.path.is_empty() || seen.contains(&entry.path[..parent]), "{entry:?}");
            assert!(entry.mtime_nanos > 0 && entry.mode & 0o170_000 != 0, "{entry:?}");
            roots.retain(|(root, _)| entry.path.starts_with(root));
            match &entry.content {
                Content::Subvolume { id, read_only } => {
                    assert!(entry.ino == 256 && (!read_only || *id > 256), "{entry:?}");
                    let inside = if entry.path.is_empty() { b"".as_slice() } else { b"/" };
                    roots.push(([&entry.path, inside].concat(), *id));
                }
                Content::File(sum) => {
                    assert_eq!(sum.len(), 64);
                    let (_, subvolume) = roots.last().expect("the top level comes first");
                    names_of.entry((*subvolume, entry.ino)).or_insert((entry.links, 0)).1 += 1;
                }
                Content::Link(target) => assert_eq!(target.len() as u64, entry.size),
                Content::Directory | Content::Other => {}
            }
            seen.insert(entry.path);
        }
        for ((subvolume, ino), (links, found)) in names_of {
            assert_eq!(links, found, "{name}: inode {ino} of subvolume {subvolume}");
        }
        assert!(compsize(name).starts_with("Processed "), "{name}");
    }
}
