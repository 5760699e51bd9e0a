//! Finding the other devices of a filesystem.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::member::read_best_superblock;
use crate::device::{Access, FileDevice, block_device_paths};
use crate::error::{Error, Refusal, Result};
use crate::format::Superblock;

/// The devices of the filesystem that the one at `path` belongs to, by number, as far as they are found: among the
/// files beside it if it is an image file, and among the system's block devices.
///
/// # Errors
/// [`Refusal::Clone`] if there are two candidates for one device: which of them is meant only the user can tell.
pub fn find_members(path: &Path) -> Result<Vec<PathBuf>> {
    Ok(search(&[path.to_owned()])?.found.into_values().collect())
}

/// The devices that belong to the same filesystem as those `given`, as far as they are found where
/// [`find_members`] looks for them. They may be none.
///
/// # Errors
/// As [`find_members`].
pub fn find_others(given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let found = search(given)?.found.into_values();
    Ok(found.filter(|path| !given.contains(path)).collect())
}

fn search(given: &[PathBuf]) -> Result<Search> {
    let mut found = BTreeMap::new();
    let mut first = None;
    for path in given {
        let device = FileDevice::open(path, Access::Read)?;
        let (superblock, _) = read_best_superblock(&device)?;
        found.entry(superblock.dev_item.devid.get()).or_insert_with(|| path.clone());
        first.get_or_insert((path, superblock));
    }
    let Some((path, own)) = first else {
        return Err(Error::Unsupported("no device was given".to_owned()));
    };
    let mut search = Search { own, found };
    if !search.is_done() && fs::metadata(path).is_ok_and(|given| given.is_file()) {
        search.look_at(files_beside(path))?;
    }
    if !search.is_done() {
        search.look_at(block_device_paths())?;
    }
    Ok(search)
}

/// The regular files in the same directory, sorted.
fn files_beside(path: &Path) -> Vec<PathBuf> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|file| fs::metadata(file).is_ok_and(|file| file.is_file()))
        .collect();
    files.sort();
    files
}

struct Search {
    own: Superblock,
    found: BTreeMap<u64, PathBuf>,
}

impl Search {
    fn is_done(&self) -> bool {
        self.found.len() as u64 >= self.own.num_devices.get()
    }

    /// Adds those candidates that are other devices of the filesystem; what can't be read is none.
    fn look_at(&mut self, candidates: Vec<PathBuf>) -> Result<()> {
        let mut fresh: BTreeMap<u64, PathBuf> = BTreeMap::new();
        for candidate in candidates {
            let Ok(device) = FileDevice::open(&candidate, Access::Read) else { continue };
            let Ok((superblock, _)) = read_best_superblock(&device) else { continue };
            let devid = superblock.dev_item.devid.get();
            if superblock.fsid != self.own.fsid || self.found.contains_key(&devid) {
                continue;
            }
            if let Some(first) = fresh.get(&devid) {
                let [first, second] = [first, &candidate].map(|path| path.display().to_string());
                return Err(Refusal::Clone { devid, first, second }.into());
            }
            fresh.insert(devid, candidate);
        }
        self.found.append(&mut fresh);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::superblock;
    use super::*;
    use crate::format::SUPERBLOCK_OFFSETS;

    /// Makes an image of device `devid` of a filesystem of `count`.
    fn image(folder: &Path, name: &str, devid: u64, count: u64) -> PathBuf {
        let path = folder.join(name);
        let [primary, ..] = SUPERBLOCK_OFFSETS;
        let mut bytes = vec![0; primary as usize];
        bytes.extend(superblock(devid, count).to_bytes(primary).unwrap());
        fs::write(&path, bytes).unwrap();
        path
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
        assert_eq!(find_members(&two).unwrap(), [&*one, &*two, &*three]);
        image(folder, "copy of a", 3, 3);
        assert!(matches!(find_members(&one), Err(Error::Refused(Refusal::Clone { devid: 3, .. }))));
        // The one that was given is the one that is meant.
        assert_eq!(find_members(&three).unwrap().len(), 3);
    }

    #[test]
    fn a_filesystem_of_one_device_looks_for_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let one = image(folder.path(), "one", 1, 1);
        image(folder.path(), "backup", 1, 1);
        assert_eq!(find_members(&one).unwrap(), [one]);
    }
}
