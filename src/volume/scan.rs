//! Finding the other devices of a filesystem.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::member::read_best_superblock;
use crate::device::{
    Access, Device, FileDevice, Partition, PartitionEntry, block_device_paths, partitions,
};
use crate::error::{Error, Refusal, Result};
use crate::format::{Damage, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};

/// Where a device of a filesystem is: in a file or block device, and in which part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The file or block device.
    pub path: PathBuf,
    /// The byte where it starts.
    pub start: u64,
    /// Its length at most, in bytes.
    pub len: u64,
    /// Its number, if it is a partition.
    pub partition: Option<u32>,
}

impl Site {
    /// All of a file or block device.
    pub fn whole(path: &Path) -> Self {
        Self::from(path, 0)
    }

    /// All of a file or block device from a byte on.
    pub fn from(path: &Path, start: u64) -> Self {
        Self { path: path.to_owned(), start, len: u64::MAX, partition: None }
    }

    /// The partitions of a disk, by number; none if there is no table of them.
    pub fn partitions(path: &Path, disk: &dyn Device) -> io::Result<Vec<Self>> {
        let site = |entry: PartitionEntry| Self {
            path: path.to_owned(),
            start: entry.start,
            len: entry.len,
            partition: Some(entry.number),
        };
        Ok(partitions(disk)?.into_iter().map(site).collect())
    }

    /// Whether it is all of the file or block device.
    pub const fn is_whole(&self) -> bool {
        self.start == 0 && self.partition.is_none()
    }

    /// Whether there seems to be a Btrfs filesystem, of which `disk` is the file or block device.
    pub fn is_btrfs(&self, disk: &dyn Device) -> bool {
        self.look(disk).is_some_and(|found| !matches!(found, Err(Damage::Magic)))
    }

    /// To which filesystem the device here belongs, and its number there; `disk` is the file or block device.
    pub fn member(&self, disk: &dyn Device) -> Option<([u8; 16], u64)> {
        let superblock = self.look(disk)?.ok()?;
        Some((superblock.fsid, superblock.dev_item.devid.get()))
    }

    fn look(&self, disk: &dyn Device) -> Option<Result<Superblock, Damage>> {
        let [primary, ..] = SUPERBLOCK_OFFSETS;
        let mut superblock = [0; SUPERBLOCK_SIZE];
        disk.read_at(self.start.checked_add(primary)?, &mut superblock).ok()?;
        Some(Superblock::parse(&superblock, primary))
    }

    fn superblock(&self) -> Result<Superblock> {
        let disk = FileDevice::open(&self.path, Access::Read)?;
        let device = Partition::of(disk, self.start, self.len);
        Ok(read_best_superblock(&device)?.0)
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match (self.partition, self.start) {
            (Some(number), _) => write!(f, "{path}:{number}"),
            (None, 0) => write!(f, "{path}"),
            (None, start) => write!(f, "{path} from byte {start} on"),
        }
    }
}

/// The devices that belong to the same filesystem as those `given`, as far as they are found: among the files beside
/// the first one if it is in an image file, and in their partitions; and among the system's block devices. They may be
/// none.
///
/// # Errors
/// [`Refusal::Clone`] if there are two candidates for one device: which of them is meant only the user can tell.
pub fn find_others(given: &[Site]) -> Result<Vec<Site>> {
    let mut known = BTreeSet::new();
    let mut first = None;
    for site in given {
        let superblock = site.superblock()?;
        known.insert(superblock.dev_item.devid.get());
        first.get_or_insert((site, superblock));
    }
    let Some((site, own)) = first else {
        return Err(Error::Unsupported("no device was given".to_owned()));
    };
    let mut search = Search { own, known, found: Vec::new() };
    if !search.is_done() && fs::metadata(&site.path).is_ok_and(|given| given.is_file()) {
        let beside = files_beside(&site.path);
        search.look_at(beside.iter().flat_map(|path| sites_in(path)).collect())?;
    }
    if !search.is_done() {
        // Their partitions are block devices too.
        search.look_at(block_device_paths().iter().map(|path| Site::whole(path)).collect())?;
    }
    Ok(search.found)
}

/// Where in an image file a device may be: all of it, or its partitions.
fn sites_in(path: &Path) -> Vec<Site> {
    let Ok(disk) = FileDevice::open(path, Access::Read) else { return Vec::new() };
    let whole = Site::whole(path);
    if whole.is_btrfs(&disk) {
        return vec![whole];
    }
    Site::partitions(path, &disk).unwrap_or_default()
}

/// The regular files in the same directory, sorted; each once, whatever names it has.
fn files_beside(path: &Path) -> Vec<PathBuf> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    let mut seen = BTreeSet::new();
    files.retain(|file| {
        fs::metadata(file).is_ok_and(|file| file.is_file() && seen.insert((file.dev(), file.ino())))
    });
    files
}

struct Search {
    own: Superblock,
    /// Numbers of the devices that are known.
    known: BTreeSet<u64>,
    found: Vec<Site>,
}

impl Search {
    fn is_done(&self) -> bool {
        self.known.len() as u64 >= self.own.num_devices.get()
    }

    /// Adds those candidates that are other devices of the filesystem, by number; what can't be read is none.
    fn look_at(&mut self, candidates: Vec<Site>) -> Result<()> {
        let mut fresh: BTreeMap<u64, Site> = BTreeMap::new();
        for candidate in candidates {
            let Ok(superblock) = candidate.superblock() else { continue };
            let devid = superblock.dev_item.devid.get();
            if superblock.fsid != self.own.fsid || self.known.contains(&devid) {
                continue;
            }
            if let Some(first) = fresh.get(&devid) {
                let [first, second] = [first, &candidate].map(ToString::to_string);
                return Err(Refusal::Clone { devid, first, second }.into());
            }
            fresh.insert(devid, candidate);
        }
        self.known.extend(fresh.keys());
        self.found.extend(fresh.into_values());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::superblock;
    use super::*;

    /// Makes an image of device `devid` of a filesystem of `count`.
    fn image(folder: &Path, name: &str, devid: u64, count: u64) -> Site {
        let path = folder.join(name);
        let [primary, ..] = SUPERBLOCK_OFFSETS;
        let mut bytes = vec![0; primary as usize];
        bytes.extend(superblock(devid, count).to_bytes(primary).unwrap());
        fs::write(&path, bytes).unwrap();
        Site::whole(&path)
    }

    fn others(given: &Site) -> Result<Vec<Site>> {
        find_others(std::slice::from_ref(given))
    }

    #[test]
    fn the_images_beside_one_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let names = ["b.img", "c.img", "a.img"];
        let [one, two, three] =
            [1, 2, 3].map(|devid| image(folder, names[devid - 1], devid as u64, 3));
        fs::write(folder.join("other"), b"too short").unwrap();
        fs::create_dir(folder.join("folder")).unwrap();
        assert_eq!(others(&two).unwrap(), [one.clone(), three.clone()]);
        assert_eq!(find_others(&[one.clone(), two.clone(), three.clone()]).unwrap(), []);
        image(folder, "copy of a", 3, 3);
        assert!(matches!(others(&one), Err(Error::Refused(Refusal::Clone { devid: 3, .. }))));
        // The one that was given is the one that is meant.
        assert_eq!(others(&three).unwrap(), [one, two]);
    }

    #[test]
    fn another_name_of_a_file_is_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let [one, two] = [1, 2].map(|devid| image(folder, &format!("{devid}.img"), devid, 2));
        fs::hard_link(&two.path, folder.join("3.img")).unwrap();
        std::os::unix::fs::symlink("2.img", folder.join("4.img")).unwrap();
        assert_eq!(others(&one).unwrap(), [two]);
    }

    #[test]
    fn a_filesystem_of_one_device_looks_for_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let one = image(folder.path(), "one", 1, 1);
        image(folder.path(), "backup", 1, 1);
        assert_eq!(others(&one).unwrap(), []);
    }
}
