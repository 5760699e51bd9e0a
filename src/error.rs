//! What can go wrong in the engine: a device failed, we do not support this, or the bytes are wrong; and the few cases
//! that a caller acts on.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::format::{Damage, Key, Logical};

/// What the engine's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system failed to open, read, write or flush a device.
    #[error("{device}")]
    Io {
        /// The device's name, and the byte where known.
        device: String,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes break a rule of the format.
    #[error("corrupt filesystem: {at}: {damage}")]
    Corrupt {
        /// Where.
        at: Place,
        /// Which rule.
        damage: Damage,
    },
    /// The filesystem is sound, but of a kind that can't be read.
    #[error("unsupported filesystem: {0}")]
    Unsupported(String),
    /// The filesystem can be read, but must not be written; the message says what to do.
    #[error("refusing to write: {0}")]
    Refused(Refusal),
    /// Somebody else uses the device or image.
    #[error("{} is in use: {by}", path.display())]
    InUse {
        /// The device or image.
        path: PathBuf,
        /// By whom, and what to do.
        by: String,
    },
    /// A device is missing, and without it these bytes can't be had.
    #[error("device {devid} is missing, and what it holds can't be rebuilt from the others")]
    MissingDevice {
        /// The device's number.
        devid: u64,
    },
    /// No file or subvolume has this path.
    #[error("no such file or directory in the filesystem: {0}")]
    NoSuchPath(String),
    /// The path names something of another type than asked for.
    #[error("{path}: {what}")]
    WrongType {
        /// The path.
        path: String,
        /// What was expected.
        what: &'static str,
    },
    /// Free space does not suffice for the smallest step.
    #[error("no space left: {0}")]
    NoSpace(&'static str),
    /// The caller asked to stop.
    #[error("stopped")]
    Cancelled,
    /// An earlier write failed, so nothing more is written.
    #[error("an earlier write to {device} failed; nothing more is written")]
    Latched {
        /// The device that failed.
        device: String,
    },
}

/// Why a sound filesystem must not be written, and what the user can do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Refusal {
    #[error(
        "it was not unmounted cleanly and has a log tree; mount and unmount it once, or drop the log with `btrfs rescue zero-log`"
    )]
    LogTree,
    #[error("an earlier error is recorded in its superblock; run `btrfs check` first")]
    ErrorFlag,
    #[error(
        "the superblock flags {0:#x} show an unfinished conversion or a metadata dump; finish it with `btrfstune` first"
    )]
    SuperFlags(u64),
    #[error(
        "it is a seed device, and what sprouted from it would be lost; if nothing did, `btrfstune -S 0` ends that"
    )]
    Seed,
    #[error(
        "it has sprouted from a seed device and still needs it; mount it and `btrfs device remove` the seed first"
    )]
    Sprout,
    #[error("it is zoned; only the kernel can write that")]
    Zoned,
    #[error("it uses the feature {0}, which btrpress can only read")]
    Feature(String),
    #[error("its compat_ro flags have the unknown bits {0:#x}; use a newer btrpress")]
    UnknownCompatRo(u64),
    #[error("a balance is unfinished; mount it, and let it finish or `btrfs balance cancel` it")]
    Balance,
    #[error("a device replacement is unfinished; mount it and let `btrfs replace` finish")]
    DeviceReplace,
    #[error("subvolume {0} is being deleted; mount it and run `btrfs subvolume sync`")]
    SubvolumeDeletion(u64),
    #[error("a relocation was interrupted; mount it once so that the kernel finishes it")]
    Relocation,
    #[error("its superblock counts {superblock} devices, but its chunk tree lists {listed}")]
    DeviceCount { superblock: u64, listed: u64 },
    #[error(
        "{path} has the filesystem's id, but is not one of its devices; give all those that are, and without it"
    )]
    Stranger { path: String },
    #[error("device {devid} is missing")]
    MissingDevice { devid: u64 },
    #[error(
        "its devices are of different generations ({0} and {1}); mount it with all of them and run `btrfs scrub`"
    )]
    Generations(u64, u64),
    #[error(
        "the superblock of {device} is damaged; `btrfs rescue super-recover {device}` restores it from a copy"
    )]
    Superblock { device: String },
    #[error("{path} is smaller than the filesystem says its device is ({have} of {need} bytes)")]
    ShortDevice { path: String, have: u64, need: u64 },
    #[error("device {devid} was given twice: {first} and {second} are clones of one device")]
    Clone { devid: u64, first: String, second: String },
    #[error(
        "its free space tree is not marked valid; mount it once so that the kernel rebuilds it"
    )]
    FreeSpaceTree,
    #[error("it has tree blocks from before 2009 that only the kernel can convert")]
    OldBackrefs,
    #[error("another program has written to {device} meanwhile; let it finish, then start again")]
    Changed { device: String },
    #[error("it is damaged: {first}{}; `btrpress check` lists all", and_more(*.count))]
    Inconsistent { count: u64, first: String },
    #[error("it was opened for reading")]
    ReadOnly,
}

fn and_more(count: u64) -> String {
    if count > 1 { format!(", and {} more", count - 1) } else { String::new() }
}

/// Where damage was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On a device, at a byte.
    Device {
        /// The device's name.
        device: String,
        /// The byte.
        byte: u64,
    },
    /// In a tree block, or at a logical address.
    Block(Logical),
    /// At an item of a tree.
    Item {
        /// The tree.
        tree: u64,
        /// The item's key.
        key: Key,
    },
    /// In the filesystem as a whole.
    Filesystem,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { device, byte } => write!(f, "{device} at byte {byte}"),
            Self::Block(at) => write!(f, "block {at}"),
            Self::Item { tree, key } => write!(f, "tree {tree}, item {key}"),
            Self::Filesystem => f.write_str("filesystem"),
        }
    }
}

impl Error {
    /// Damage in the tree block, or data, at a logical address.
    pub const fn at(damage: Damage, at: Logical) -> Self {
        Self::Corrupt { at: Place::Block(at), damage }
    }

    /// Damage in an item.
    pub const fn in_item(damage: Damage, tree: u64, key: Key) -> Self {
        Self::Corrupt { at: Place::Item { tree, key }, damage }
    }

    /// Damage that belongs to no single place.
    pub const fn in_filesystem(damage: Damage) -> Self {
        Self::Corrupt { at: Place::Filesystem, damage }
    }

    /// Whether the bytes are wrong, rather than the device or the request.
    pub const fn is_corrupt(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
