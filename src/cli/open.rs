//! From the words on the command line to an open filesystem.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use btrpress::device::{Access, Aside, Device, FileDevice, Partition};
use btrpress::error::Error;
use btrpress::format::Damage;
use btrpress::fs::Filesystem;
use btrpress::volume::{Site, find_others};
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
    let mut sites = paths.iter().map(|path| locate(path, place)).collect::<Result<Vec<Site>>>()?;
    // They are found before the given ones are locked.
    sites.extend(others(&sites)?);
    let mut disks = Disks { access, open: BTreeMap::new() };
    let mut open = |site: &Site| {
        let device = disks.open(site)?;
        Ok(match writes {
            Writes::GoThrough => device,
            Writes::KeptAside => {
                Arc::new(Aside::over(device).context("cannot make a temporary file")?)
            }
        })
    };
    sites.iter().map(&mut open).collect()
}

fn others(given: &[Site]) -> Result<Vec<Site>> {
    match find_others(given) {
        Err(error @ Error::Refused(_)) => Err(error.into()),
        // What is wrong with a superblock is said better when it is opened.
        found => Ok(found.unwrap_or_default()),
    }
}

/// Files and block devices, each opened once, since a second time it would be locked.
struct Disks {
    access: Access,
    /// By path without links.
    open: BTreeMap<PathBuf, Arc<FileDevice>>,
}

impl Disks {
    fn open(&mut self, site: &Site) -> Result<Arc<dyn Device>> {
        let path = fs::canonicalize(&site.path).unwrap_or_else(|_| site.path.clone());
        let disk = match self.open.get(&path) {
            Some(disk) => Arc::clone(disk),
            None => Arc::new(FileDevice::open(&site.path, self.access)?),
        };
        self.open.insert(path, Arc::clone(&disk));
        if site.is_whole() {
            return Ok(disk);
        }
        Ok(Arc::new(Partition::of(disk, site.start, site.len)))
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

/// Where a block device or image file, or a part of it, is meant; `PATH:N` is a partition too.
fn locate(path: &Path, place: Place) -> Result<Site> {
    match (place, partition_of(path)) {
        (Place::Partition(number), _) => partition(path, number),
        (_, Some((disk, number))) => partition(&disk, number),
        (Place::Offset(start), _) => Ok(Site::from(path, start)),
        (Place::Whole | Place::Demo, _) => whole(path),
    }
}

fn partition(path: &Path, number: u32) -> Result<Site> {
    let disk = FileDevice::open(path, Access::Read)?;
    let table = Site::partitions(path, &disk)
        .with_context(|| format!("cannot read the partition table of {}", disk.name()))?;
    let found = table.into_iter().find(|site| site.partition == Some(number));
    found.with_context(|| format!("{} has no partition {number}", disk.name()))
}

/// A device whose filesystem is all of it, or in its only partition that has one, or in several partitions together.
fn whole(path: &Path) -> Result<Site> {
    let disk = FileDevice::open(path, Access::Read)?;
    let whole = Site::whole(path);
    if whole.is_btrfs(&disk) {
        return Ok(whole);
    }
    let mut found = btrfs_partitions(path, &disk);
    let members: Vec<_> = found.iter().map(|site| site.member(&disk)).collect();
    let is_one = members.iter().enumerate().all(|(index, member)| {
        let before = &members[..index];
        member.is_some_and(|(fsid, _)| {
            before.iter().flatten().all(|(other, _)| *other == fsid) && !before.contains(member)
        })
    });
    Ok(if is_one && !found.is_empty() { found.swap_remove(0) } else { whole })
}

/// The partitions that have a Btrfs filesystem.
fn btrfs_partitions(path: &Path, disk: &FileDevice) -> Vec<Site> {
    let mut found = Site::partitions(path, disk).unwrap_or_default();
    found.retain(|site| site.is_btrfs(disk));
    found
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
    let mut sites = btrfs_partitions(path, &disk);
    if sites.is_empty() {
        sites = Site::partitions(path, &disk).unwrap_or_default();
    }
    let names: Vec<String> = sites.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        return error;
    }
    error.context(format!("it has partitions; name one of {}", names.join(", ")))
}
