//! From the words on the command line to an open filesystem.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use btrpress::device::{
    Access, Aside, Device, FileDevice, Latch, Latched, Partition, PartitionEntry, partitions,
};
use btrpress::error::Error;
use btrpress::format::{Damage, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use btrpress::fs::Filesystem;
use btrpress::volume::find_others;
use clap::error::ErrorKind;

use super::demo::Demo;
use super::wrong_usage;

/// Bad copies that are named; those after them are only counted.
const FAULTS_SHOWN: usize = 20;

/// Where on a device its part of the filesystem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is all of it, or the one partition that has a Btrfs filesystem.
    Whole,
    /// In the partition of this number.
    Partition(u32),
    /// From this byte on.
    Offset(u64),
    /// On the built-in image, in place of a device.
    Demo,
}

/// Where the filesystem is.
pub(crate) enum Source {
    /// On these devices.
    Devices(Vec<PathBuf>, Place),
    /// On a private copy of the built-in image.
    Demo,
}

/// An open filesystem, with what must live as long.
pub(crate) struct Opened {
    pub(crate) fs: Filesystem,
    _demo: Option<Demo>,
}

impl Source {
    /// The devices given, or the demo; ends the program if there is neither, or both.
    pub(crate) fn new(devices: Vec<PathBuf>, place: Place) -> Self {
        match (devices.is_empty(), place) {
            (true, Place::Demo) => Self::Demo,
            (false, Place::Demo) => wrong_usage(
                ErrorKind::ArgumentConflict,
                "--demo stands in place of a device; give one or the other",
            ),
            (false, place) => Self::Devices(devices, place),
            (true, _) => wrong_usage(
                ErrorKind::MissingRequiredArgument,
                "give a block device or an image file, or --demo",
            ),
        }
    }

    /// Opens the filesystem.
    pub(crate) fn open(&self, access: Access) -> Result<Opened> {
        self.open_with(access, Writes::GoThrough)
    }

    /// Opens the filesystem; says what becomes of writes.
    pub(crate) fn open_with(&self, access: Access, writes: Writes) -> Result<Opened> {
        match self {
            Self::Devices(paths, place) => {
                let fs = Filesystem::open(open_devices(paths, *place, access, writes)?)
                    .map_err(|error| explain(error, paths))
                    .with_context(|| format!("cannot open {}", list(paths)))?;
                Ok(Opened { fs, _demo: None })
            }
            Self::Demo => {
                let demo = Demo::unpack()?;
                let path = [demo.path().to_owned()];
                let fs = Filesystem::open(open_devices(&path, Place::Whole, access, writes)?)?;
                Ok(Opened { fs, _demo: Some(demo) })
            }
        }
    }
}

/// Opens the devices given, and those that belong to the same filesystem.
pub(super) fn open_devices(
    paths: &[PathBuf],
    place: Place,
    access: Access,
    writes: Writes,
) -> Result<Vec<Arc<dyn Device>>> {
    let latch = Latch::default();
    let is_searched = place == Place::Whole && paths.iter().all(|path| is_btrfs(path));
    // They are found before the given ones are locked.
    let others = if is_searched { others(paths)? } else { Vec::new() };
    let given = paths.iter().map(|path| open_device(path, place, access, writes, &latch));
    let found = others.iter().map(|path| open_device(path, place, access, writes, &latch));
    given.chain(found).collect()
}

fn others(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    match find_others(paths) {
        Err(error @ Error::Refused(_)) => Err(error.into()),
        // What is wrong with a superblock is said better when it is opened.
        found => Ok(found.unwrap_or_default()),
    }
}

impl Opened {
    /// Says which bad copies were read around.
    pub(crate) fn warn_of_faults(&self) {
        let volume = self.fs.forest().volume();
        for member in volume.members() {
            if let Some(damage) = member.superblock_damage() {
                eprintln!("warning: {}: {damage}; until then that copy is used", member.name());
            }
        }
        let faults = volume.faults();
        for fault in faults.iter().take(FAULTS_SHOWN) {
            eprintln!(
                "warning: {} at byte {}: bad copy of block {}, another one was used: {}",
                fault.device, fault.physical.byte, fault.logical, fault.kind
            );
        }
        if faults.len() > FAULTS_SHOWN {
            eprintln!("warning: {} more bad copies", faults.len() - FAULTS_SHOWN);
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}

/// What becomes of writes to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// They reach it, until one fails.
    GoThrough,
    /// They go to a temporary file, and are read back from there.
    KeptAside,
}

/// Opens a block device or image file, or a part of it; `PATH:N` is a partition too.
fn open_device(
    path: &Path,
    place: Place,
    access: Access,
    writes: Writes,
    latch: &Latch,
) -> Result<Arc<dyn Device>> {
    let device: Box<dyn Device> = match (place, partition_of(path)) {
        (Place::Partition(number), _) => open_partition(path, number, access)?,
        (_, Some((disk, number))) => open_partition(&disk, number, access)?,
        (Place::Offset(start), _) => {
            Box::new(Partition::of(FileDevice::open(path, access)?, start, u64::MAX))
        }
        (Place::Whole | Place::Demo, _) => open_whole(path, access)?,
    };
    let device: Arc<dyn Device> = device.into();
    Ok(match writes {
        Writes::GoThrough => Arc::new(Latched::over(device, latch.clone())),
        Writes::KeptAside => Arc::new(Aside::over(device).context("cannot make a temporary file")?),
    })
}

fn open_partition(path: &Path, number: u32, access: Access) -> Result<Box<dyn Device>> {
    let disk = FileDevice::open(path, access)?;
    let table = partitions(&disk)
        .with_context(|| format!("cannot read the partition table of {}", disk.name()))?;
    let Some(entry) = table.iter().find(|entry| entry.number == number) else {
        anyhow::bail!("{} has no partition {number}", disk.name());
    };
    Ok(Box::new(Partition::of(disk, entry.start, entry.len)))
}

/// Opens a device whose filesystem is all of it, or in its only partition that has one.
fn open_whole(path: &Path, access: Access) -> Result<Box<dyn Device>> {
    let disk = FileDevice::open(path, access)?;
    if has_magic(&disk, 0) {
        return Ok(Box::new(disk));
    }
    match &btrfs_partitions(&disk)[..] {
        [entry] => Ok(Box::new(Partition::of(disk, entry.start, entry.len))),
        _ => Ok(Box::new(disk)),
    }
}

/// The partitions that have a Btrfs filesystem.
fn btrfs_partitions(disk: &FileDevice) -> Vec<PartitionEntry> {
    let mut found = partitions(disk).unwrap_or_default();
    found.retain(|entry| has_magic(disk, entry.start));
    found
}

/// Whether a Btrfs filesystem seems to start at byte `start`.
fn has_magic(disk: &FileDevice, start: u64) -> bool {
    let [primary, ..] = SUPERBLOCK_OFFSETS;
    let mut superblock = [0; SUPERBLOCK_SIZE];
    let Some(at) = start.checked_add(primary) else { return false };
    disk.read_at(at, &mut superblock).is_ok()
        && !matches!(Superblock::parse(&superblock, primary), Err(Damage::Magic))
}

/// Whether all of a device or image file is Btrfs.
fn is_btrfs(path: &Path) -> bool {
    FileDevice::open(path, Access::Read).is_ok_and(|disk| has_magic(&disk, 0))
}

/// Reads `PATH:N`, unless there is a file of that name.
fn partition_of(path: &Path) -> Option<(PathBuf, u32)> {
    if path.exists() {
        return None;
    }
    let (disk, number) = path.to_str()?.rsplit_once(':')?;
    Some((PathBuf::from(disk), number.parse().ok()?))
}

/// Adds to the news that there is no Btrfs which partitions there are.
fn explain(error: Error, paths: &[PathBuf]) -> anyhow::Error {
    let is_other = matches!(error, Error::Corrupt { damage: Damage::Magic, .. });
    let error = anyhow::Error::from(error);
    let ([path], true) = (paths, is_other) else { return error };
    let Ok(disk) = FileDevice::open(path, Access::Read) else { return error };
    let mut entries = btrfs_partitions(&disk);
    if entries.is_empty() {
        entries = partitions(&disk).unwrap_or_default();
    }
    let names: Vec<String> =
        entries.iter().map(|entry| format!("{}:{}", path.display(), entry.number)).collect();
    if names.is_empty() {
        return error;
    }
    error.context(format!("it has partitions; name one of {}", names.join(", ")))
}
