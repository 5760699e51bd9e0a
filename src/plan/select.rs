//! Which inodes of which subvolumes are meant.

use std::collections::{BTreeMap, BTreeSet};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::Result;
use crate::format::FileKind;
use crate::fs::{Filesystem, Location, Target};
use crate::plan::Settled;

/// Inodes of one subvolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inodes {
    /// All of them.
    All,
    /// These.
    Only(BTreeSet<u64>),
}

/// Inodes of every subvolume that has any selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// By subvolume.
    pub subvolumes: BTreeMap<u64, Inodes>,
    /// How many files and directories were left out because a pattern matches.
    pub excluded: u64,
    /// What an earlier run for the same request has settled.
    pub settled: Settled,
}

/// Compiles patterns for [`Selection::resolve`]. A pattern without a slash matches names, one with slashes whole paths.
///
/// # Errors
/// If a pattern is malformed; the message shows it.
pub fn compile_globs(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut globs = GlobSetBuilder::new();
    for pattern in patterns {
        let pattern = pattern.trim_start_matches('/');
        let anywhere =
            if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
        globs.add(GlobBuilder::new(&anywhere).literal_separator(true).build()?);
    }
    globs.build()
}

impl Selection {
    /// Everything below `paths`, or in the whole filesystem when there are none, but for what `excludes` matches.
    ///
    /// # Errors
    /// If a path does not exist, or metadata can't be read.
    pub fn resolve(fs: &Filesystem, paths: &[Vec<u8>], excludes: &GlobSet) -> Result<Self> {
        let mut selection = Self::default();
        if !paths.is_empty() {
            for path in paths {
                let location = fs.resolve(path)?;
                let path = path.strip_prefix(b"/").unwrap_or(path);
                selection.add(fs, location, path, excludes)?;
            }
            return Ok(selection);
        }
        for subvolume in fs.subvolumes()?.iter().filter(|subvolume| !subvolume.is_deleted) {
            if excludes.is_empty() {
                selection.subvolumes.insert(subvolume.id, Inodes::All);
            } else if subvolume.parent.is_none() {
                let top = Location::top_of(subvolume.id);
                selection.add(fs, top, &subvolume.path, excludes)?;
            }
        }
        Ok(selection)
    }

    /// Selects what is at `location` and all below it, nested subvolumes too.
    pub fn add(
        &mut self,
        fs: &Filesystem,
        location: Location,
        path: &[u8],
        excludes: &GlobSet,
    ) -> Result<()> {
        let mut open = vec![(location, path.to_vec())];
        while let Some((here, path)) = open.pop() {
            let is_top = here == Location::top_of(here.root);
            if here.kind != FileKind::DIRECTORY {
                self.add_inode(here);
                continue;
            }
            if is_top && excludes.is_empty() {
                self.subvolumes.insert(here.root, Inodes::All);
            }
            let is_all = self.subvolumes.get(&here.root) == Some(&Inodes::All);
            for entry in fs.read_dir(here.root, here.ino)? {
                let path = match path.as_slice() {
                    [] => entry.name.clone(),
                    path => [path, b"/", &entry.name].concat(),
                };
                if excludes.is_match(as_path(&path)) {
                    self.excluded += 1;
                    continue;
                }
                let location = match entry.target {
                    Target::Inode(ino) => Location { root: here.root, ino, kind: entry.kind },
                    Target::Subvolume(root) => Location::top_of(root),
                    Target::Placeholder => continue,
                };
                // Of a subvolume that is selected whole only directories are of interest: others may hang in them.
                if !is_all || location.root != here.root || entry.kind == FileKind::DIRECTORY {
                    open.push((location, path));
                }
            }
        }
        Ok(())
    }

    fn add_inode(&mut self, file: Location) {
        let inodes =
            self.subvolumes.entry(file.root).or_insert_with(|| Inodes::Only(BTreeSet::new()));
        if let Inodes::Only(inodes) = inodes
            && file.kind == FileKind::REGULAR
        {
            inodes.insert(file.ino);
        }
    }
}

fn as_path(bytes: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(bytes))
}
