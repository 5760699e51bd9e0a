//! From the words on the command line to an open filesystem.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use btrpress::device::{Access, Aside, Device, FileDevice, Latch, Latched, Partition, partitions};
use btrpress::error::Error;
use btrpress::format::Damage;
use btrpress::fs::Filesystem;
use clap::error::ErrorKind;

use super::demo::Demo;
use super::wrong_usage;

/// Where the filesystem is.
pub(crate) enum Source {
    /// On these devices.
    Devices(Vec<PathBuf>),
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
    pub(crate) fn new(devices: Vec<PathBuf>, is_demo: bool) -> Self {
        match (devices.is_empty(), is_demo) {
            (true, true) => Self::Demo,
            (false, false) => Self::Devices(devices),
            (true, false) => wrong_usage(
                ErrorKind::MissingRequiredArgument,
                "give a block device or an image file, or --demo",
            ),
            (false, true) => wrong_usage(
                ErrorKind::ArgumentConflict,
                "--demo stands in place of a device; give one or the other",
            ),
        }
    }

    /// Opens the filesystem.
    pub(crate) fn open(&self, access: Access) -> Result<Opened> {
        self.open_with(access, Writes::GoThrough)
    }

    /// Opens the filesystem; says what becomes of writes.
    pub(crate) fn open_with(&self, access: Access, writes: Writes) -> Result<Opened> {
        let latch = Latch::default();
        let open_device = |path| open_device(path, access, writes, &latch);
        match self {
            Self::Devices(paths) => {
                let devices = paths.iter().map(|path| open_device(path));
                let devices = devices.collect::<Result<Vec<_>>>()?;
                let fs = Filesystem::open(devices)
                    .map_err(|error| explain(error, paths))
                    .with_context(|| format!("cannot open {}", list(paths)))?;
                Ok(Opened { fs, _demo: None })
            }
            Self::Demo => {
                let demo = Demo::unpack()?;
                let fs = Filesystem::open(vec![open_device(demo.path())?])?;
                Ok(Opened { fs, _demo: Some(demo) })
            }
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

/// Opens a block device or image file, or for `PATH:N` a partition of it.
pub(super) fn open_device(
    path: &Path,
    access: Access,
    writes: Writes,
    latch: &Latch,
) -> Result<Arc<dyn Device>> {
    let device = open_partition(path, access)?;
    Ok(match writes {
        Writes::GoThrough => Arc::new(Latched::over(device, latch.clone())),
        Writes::KeptAside => Arc::new(Aside::over(device).context("cannot make a temporary file")?),
    })
}

fn open_partition(path: &Path, access: Access) -> Result<Arc<dyn Device>> {
    if let Some((disk, number)) = partition_of(path) {
        let disk = FileDevice::open(disk, access)?;
        let table = partitions(&disk)
            .with_context(|| format!("cannot read the partition table of {}", disk.name()))?;
        let Some(entry) = table.iter().find(|entry| entry.number == number) else {
            anyhow::bail!("{} has no partition {number}", disk.name());
        };
        return Ok(Arc::new(Partition::of(disk, entry.start, entry.len)));
    }
    Ok(Arc::new(FileDevice::open(path, access)?))
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
    let names: Vec<String> = partitions(&disk)
        .unwrap_or_default()
        .iter()
        .map(|entry| format!("{}:{}", path.display(), entry.number))
        .collect();
    if names.is_empty() {
        return error;
    }
    error.context(format!("it has partitions; name one of {}", names.join(", ")))
}
