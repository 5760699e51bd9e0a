//! What the engine has told: the filesystem, its subvolumes, and what rows cost.

use crate::compress::Algorithm;

/// How data is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// As it is.
    Uncompressed,
    /// Deflate.
    Zlib,
    /// LZO1X.
    Lzo,
    /// Zstandard.
    Zstd,
    /// In a way that was never defined.
    Unknown,
    /// Not at all: space is reserved.
    Preallocated,
}

impl Method {
    /// Every method, in the order in which tables show them.
    pub const ALL: [Self; 6] =
        [Self::Uncompressed, Self::Zlib, Self::Lzo, Self::Zstd, Self::Unknown, Self::Preallocated];

    /// Its name, as compsize writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uncompressed => "none",
            Self::Zlib => "zlib",
            Self::Lzo => "lzo",
            Self::Zstd => "zstd",
            Self::Unknown => "unknown",
            Self::Preallocated => "prealloc",
        }
    }
}

impl From<Option<Algorithm>> for Method {
    fn from(algorithm: Option<Algorithm>) -> Self {
        match algorithm {
            None => Self::Uncompressed,
            Some(Algorithm::Zlib) => Self::Zlib,
            Some(Algorithm::Lzo) => Self::Lzo,
            Some(Algorithm::Zstd) => Self::Zstd,
        }
    }
}

/// A directory, file or subvolume: a tree and an inode of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Id of the subvolume.
    pub tree: u64,
    /// Inode number.
    pub inode: u64,
}

impl Place {
    /// The root directory of a subvolume.
    pub const fn root_of(tree: u64) -> Self {
        Self { tree, inode: 256 }
    }
}

/// What something costs. All in bytes but the last two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// On disk, each extent once, by [`Method`].
    pub disk_by_method: [u64; Method::ALL.len()],
    /// What those extents hold.
    pub uncompressed: u64,
    /// What the pieces of all files add up to.
    pub referenced: u64,
    /// What deleting it alone would free.
    pub exclusive: u64,
    /// Parts of extents that nobody refers to.
    pub waste: u64,
    /// Pieces that do not lie next to each other.
    pub fragments: u64,
    /// Files and directories.
    pub items: u64,
}

impl Amounts {
    /// On disk, each extent once.
    pub fn disk(&self) -> u64 {
        self.disk_by_method.iter().sum()
    }

    /// Both together, as far as sums can tell: what is shared between the two counts twice.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (sum, part) in self.disk_by_method.iter_mut().zip(other.disk_by_method) {
            *sum += part;
        }
        self.uncompressed += other.uncompressed;
        self.referenced += other.referenced;
        self.exclusive += other.exclusive;
        self.waste += other.waste;
        self.fragments += other.fragments;
        self.items += other.items;
        self
    }
}

/// One line of compsize's table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Line {
    /// On disk.
    pub disk: u64,
    /// What the extents hold.
    pub uncompressed: u64,
    /// What the pieces add up to.
    pub referenced: u64,
}

/// compsize's table, a line for each [`Method`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Table {
    /// In the order of [`Method::ALL`].
    pub lines: [Line; Method::ALL.len()],
}

impl Table {
    /// Every line together.
    pub fn total(&self) -> Line {
        self.lines.iter().fold(Line::default(), |sum, line| Line {
            disk: sum.disk + line.disk,
            uncompressed: sum.uncompressed + line.uncompressed,
            referenced: sum.referenced + line.referenced,
        })
    }

    /// Disk bytes by method.
    pub fn disk_by_method(&self) -> [u64; Method::ALL.len()] {
        self.lines.map(|line| line.disk)
    }
}

/// One device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Its number in the filesystem.
    pub id: u64,
    /// Its path.
    pub name: String,
    /// Bytes that the filesystem uses of it.
    pub bytes: u64,
}

/// How the space is used. Bytes on devices, every copy counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Used by file contents.
    pub data: u64,
    /// Used by trees.
    pub metadata: u64,
    /// Unused inside of block groups.
    pub free: u64,
    /// In no block group.
    pub unallocated: u64,
}

/// The filesystem as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filesystem {
    /// Its label, made harmless; may be empty.
    pub label: String,
    /// Its id.
    pub uuid: String,
    /// Number of the last commit.
    pub generation: u64,
    /// Its devices.
    pub devices: Vec<Device>,
    /// What stands for its block groups: `data single`, `metadata dup`.
    pub profiles: Vec<String>,
    /// Checksum and node size, in words.
    pub format: String,
    /// How its space is used.
    pub space: Space,
    /// Why it can't be written, with what to do about it.
    pub refusal: Option<String>,
}

/// One subvolume or snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subvolume {
    /// Its tree's id.
    pub id: u64,
    /// Id of the subvolume that holds its name; none for the top level.
    pub parent: Option<u64>,
    /// How deep below the top level.
    pub depth: usize,
    /// Path in its parent, made harmless.
    pub name: String,
    /// Path from the top level, made harmless.
    pub path: String,
    /// Path from the top level as it is on disk; empty for the top level.
    pub raw_path: Vec<u8>,
    /// Whether the kernel refuses to write it.
    pub is_read_only: bool,
    /// Id of what it was made a snapshot of.
    pub snapshot_of: Option<u64>,
    /// When it was made, in seconds since the epoch; none when it isn't recorded.
    pub created: Option<i64>,
    /// What it costs, once that is known.
    pub amounts: Option<Amounts>,
}

/// What a row of the browser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The root of another subvolume.
    Subvolume,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A device, pipe or socket.
    Other,
}

impl Kind {
    /// Whether there are rows inside of it.
    pub const fn is_directory(self) -> bool {
        matches!(self, Self::Subvolume | Self::Directory)
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Subvolume => "subvolume",
            Self::Directory => "directory",
            Self::File => "file",
            Self::Link => "symbolic link",
            Self::Other => "special file",
        }
    }
}

/// One row of the browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name as it is on disk.
    pub name: Box<[u8]>,
    /// What it is.
    pub kind: Kind,
    /// Where its inode is.
    pub place: Place,
    /// What it costs with all that is below it, once that is known.
    pub amounts: Option<Amounts>,
}

/// What an action is about: a row with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Where it is.
    pub place: Place,
    /// What it is.
    pub kind: Kind,
    /// Path from the top level, as it is on disk.
    pub path: Vec<u8>,
    /// What it costs.
    pub amounts: Option<Amounts>,
}
