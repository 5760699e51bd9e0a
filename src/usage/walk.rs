//! Paths, walked as `compsize` walks them: directories in the kernel's order, across subvolumes.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::format::{Damage, FileExtent, FileExtentKind, FileKind, InodeItem, Key, KeyKind};
use crate::fs::{DirEntryOwned, Filesystem, Location, Target};
use crate::usage::sectors::SectorSet;
use crate::usage::tally::Fragments;
use crate::usage::{Progress, Storage, Tally, Watch};

/// Files between two reports of progress.
const WATCH_EVERY: u64 = 256;

/// Which rows there are besides the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// None.
    Total,
    /// One for each regular file.
    Files,
    /// One for each directory that is at most so many levels below a path given, which is level 0.
    Directories {
        /// Levels.
        depth_max: usize,
    },
}

/// The figures of a file, or of all files below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Path as seen from the top level; of the top level itself empty.
    pub path: Vec<u8>,
    /// Whether it is a file or a directory.
    pub kind: FileKind,
    /// The figures.
    pub tally: Tally,
}

/// Counts the files at and below `places`, which are paths with what they name, and hands each row to `emit`:
/// directories after what is in them. An inode that is met a second time counts once in a directory that holds both
/// its names.
pub fn scan(
    fs: &Filesystem,
    places: &[(Vec<u8>, Location)],
    rows: Rows,
    emit: &mut dyn FnMut(Row) -> Result<()>,
    watch: Watch<'_>,
) -> Result<Tally> {
    let mut walk = Walk { fs, rows, emit, watch, counts: vec![Count::default()], done: 0 };
    for (path, location) in places {
        walk.place(path.clone(), *location)?;
    }
    Ok(walk.counts.swap_remove(0).tally)
}

/// What is known of the files below one place.
#[derive(Default)]
struct Count {
    tally: Tally,
    seen: SectorSet,
    /// Inodes with several names, by subvolume and number.
    linked: HashSet<(u64, u64)>,
}

impl Count {
    fn add(&mut self, root: u64, ino: u64, file: &File) {
        if file.has_more_names && !self.linked.insert((root, ino)) {
            return;
        }
        self.tally.files += 1;
        let mut fragments = Fragments::default();
        for (extent, payload) in &file.pieces {
            if extent.kind == FileExtentKind::Inline {
                self.tally.add_inline(extent, *payload);
            } else {
                let place = &extent.place;
                self.tally.add_ref(extent);
                if self.seen.insert(place.disk_bytenr) {
                    let storage = Storage::of(extent);
                    self.tally.add_extent(storage, place.disk_num_bytes, extent.ram_bytes);
                }
            }
            self.tally.fragments += fragments.next(ino, extent);
        }
    }
}

/// What is counted of a regular file.
struct File {
    has_more_names: bool,
    /// Pieces that are no holes, with the bytes that inline ones take.
    pieces: Vec<(FileExtent, usize)>,
}

/// A directory that contains the place where the walk is.
struct Directory {
    path: Vec<u8>,
    at: Location,
    is_row: bool,
    left: std::vec::IntoIter<DirEntryOwned>,
}

struct Walk<'a> {
    fs: &'a Filesystem,
    rows: Rows,
    emit: &'a mut dyn FnMut(Row) -> Result<()>,
    watch: Watch<'a>,
    /// Of everything, then of the directories that will be rows and contain the place where the walk is.
    counts: Vec<Count>,
    done: u64,
}

impl Walk<'_> {
    fn place(&mut self, path: Vec<u8>, at: Location) -> Result<()> {
        let mut open = Vec::new();
        self.enter(path, at, &mut open)?;
        while let Some(directory) = open.last_mut() {
            let Some(entry) = directory.left.next() else {
                let directory = open.pop();
                self.leave(directory)?;
                continue;
            };
            let below = match entry.target {
                Target::Inode(ino) => Location { root: directory.at.root, ino, kind: entry.kind },
                Target::Subvolume(root) => Location::top_of(root),
                Target::Placeholder => continue,
            };
            let mut path = directory.path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            self.enter(path, below, &mut open)?;
        }
        Ok(())
    }

    fn enter(&mut self, path: Vec<u8>, at: Location, open: &mut Vec<Directory>) -> Result<()> {
        match at.kind {
            FileKind::REGULAR => return self.file(path, at),
            FileKind::DIRECTORY => {}
            _ => return Ok(()),
        }
        if open.iter().any(|directory| directory.at == at) {
            let key = Key::new(at.ino, KeyKind::INODE_ITEM, 0);
            return Err(Error::in_item(Damage::TooDeep, at.root, key));
        }
        let is_row =
            matches!(self.rows, Rows::Directories { depth_max } if open.len() <= depth_max);
        if is_row {
            self.counts.push(Count::default());
        }
        let left = self.fs.read_dir(at.root, at.ino)?.into_iter();
        open.push(Directory { path, at, is_row, left });
        Ok(())
    }

    fn leave(&mut self, directory: Option<Directory>) -> Result<()> {
        let Some(directory) = directory.filter(|directory| directory.is_row) else { return Ok(()) };
        let Some(count) = self.counts.pop() else { return Ok(()) };
        let row = Row { path: directory.path, kind: FileKind::DIRECTORY, tally: count.tally };
        (self.emit)(row)
    }

    fn file(&mut self, path: Vec<u8>, at: Location) -> Result<()> {
        let file = self.read(at)?;
        for count in &mut self.counts {
            count.add(at.root, at.ino, &file);
        }
        if self.rows == Rows::Files {
            let mut count = Count::default();
            count.add(at.root, at.ino, &file);
            (self.emit)(Row { path, kind: FileKind::REGULAR, tally: count.tally })?;
        }
        self.done += 1;
        if self.done.is_multiple_of(WATCH_EVERY) {
            (self.watch)(Progress { done: self.done, total: 0 })?;
        }
        Ok(())
    }

    fn read(&self, at: Location) -> Result<File> {
        let mut file = File { has_more_names: false, pieces: Vec::new() };
        let keys = Key::new(at.ino, KeyKind::INODE_ITEM, 0)
            ..=Key::new(at.ino, KeyKind::EXTENT_DATA, u64::MAX);
        for item in self.fs.forest().tree(at.root)?.range(keys) {
            let item = item?;
            let key = item.key();
            let broken = |damage| Error::in_item(damage, at.root, key);
            match key.kind {
                KeyKind::INODE_ITEM => {
                    let inode = InodeItem::view(item.data()).map_err(broken)?;
                    file.has_more_names = inode.nlink.get() > 1;
                }
                KeyKind::EXTENT_DATA => {
                    let (extent, payload) = FileExtent::parse(item.data()).map_err(broken)?;
                    if !extent.is_hole() {
                        file.pieces.push((extent, payload.len()));
                    }
                }
                _ => {}
            }
        }
        Ok(file)
    }
}
