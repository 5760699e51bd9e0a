//! What is looked up at once: directories and close looks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use globset::GlobSet;

use super::census::{Census, method};
use super::{Opened, Shared, chain, scan};
use crate::backref::Referrers;
use crate::error::{Error, Result};
use crate::format::{FileExtentKind, FileKind};
use crate::fs::{DirEntryOwned, Location, Target};
use crate::plan::Selection;
use crate::tui::message::Message;
use crate::tui::model::{Entry, Extent, Findings, Kind, Place, Stored, Subject};

/// How long to find out who refers to a file's extents before it is shown without the rest.
const PATIENCE: Duration = Duration::from_secs(3);

/// Reads directories.
pub(super) fn list(shared: &Arc<Shared>, places: &[Place]) {
    let Some(opened) = shared.opened() else { return };
    for &place in places {
        let listed = entries(&opened, place).map_err(chain);
        shared.send(Message::Listed(place, listed));
    }
    if let Some(place) = places.last() {
        scan::want(shared, &opened, place.tree);
    }
}

fn entries(opened: &Opened, place: Place) -> Result<Vec<Entry>> {
    let rows = scan::rows(opened, place.tree);
    let found = opened.fs.read_dir(place.tree, place.inode)?;
    let entry = |found: DirEntryOwned| {
        let (kind, at) = match found.target {
            Target::Subvolume(tree) => (Kind::Subvolume, Place::root_of(tree)),
            Target::Inode(inode) => (kind(found.kind), Place { tree: place.tree, inode }),
            // An empty directory to the kernel; it has no inode that could be opened.
            Target::Placeholder => (Kind::Other, Place { tree: place.tree, inode: 0 }),
        };
        let amounts = match kind {
            Kind::Subvolume => scan::subvolume(opened, at.tree),
            _ => rows.as_ref().map(|rows| scan::row(rows, at.inode)),
        };
        Entry { name: found.name.into(), kind, place: at, amounts }
    };
    let mut entries: Vec<Entry> = found.into_iter().map(entry).collect();
    // Here it takes nobody's time.
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

fn kind(kind: FileKind) -> Kind {
    match kind {
        FileKind::DIRECTORY => Kind::Directory,
        FileKind::REGULAR => Kind::File,
        FileKind::SYMLINK => Kind::Link,
        _ => Kind::Other,
    }
}

/// What a subject's files are, all below it included.
pub(super) fn select(
    opened: &Opened,
    subject: &Subject,
    excludes: &GlobSet,
    into: &mut Selection,
) -> Result<()> {
    let Place { tree, inode } = subject.place;
    let kind = match subject.kind {
        Kind::Subvolume | Kind::Directory => FileKind::DIRECTORY,
        Kind::File => FileKind::REGULAR,
        Kind::Link => FileKind::SYMLINK,
        Kind::Other => return Ok(()),
    };
    let location = Location { root: tree, ino: inode, kind };
    into.add(&opened.fs, location, &subject.path, excludes)
}

/// Looks closely at a file, directory or subvolume.
pub(super) fn inspect(shared: &Arc<Shared>, subject: &Subject) {
    let Some(opened) = shared.opened() else { return };
    let findings =
        if subject.kind.is_directory() { tree(&opened, subject) } else { file(&opened, subject) };
    let findings = findings.map(Box::new).map_err(chain);
    shared.send(Message::Inspected(subject.place, findings));
}

fn census(opened: &Opened, subject: &Subject) -> Result<Census> {
    let mut selection = Selection::default();
    select(opened, subject, &GlobSet::empty(), &mut selection)?;
    Census::of(opened.fs.forest(), &selection, &mut || true)
}

fn tree(opened: &Opened, subject: &Subject) -> Result<Findings> {
    let census = census(opened, subject)?;
    let skips = census.skips();
    Ok(Findings { extents: Vec::new(), size: 0, table: census.table, ratios: census.ratios, skips })
}

fn file(opened: &Opened, subject: &Subject) -> Result<Findings> {
    let Place { tree, inode } = subject.place;
    let census = census(opened, subject)?;
    let size = opened.fs.inode(tree, inode)?.size.get();
    let mut extents = Vec::new();
    if subject.kind == Kind::File {
        let mut referrers = Referrers::new(opened.fs.forest());
        let until = Instant::now() + PATIENCE;
        for piece in opened.fs.file_extents(tree, inode)? {
            let piece = piece?;
            let length = match piece.extent.kind {
                FileExtentKind::Inline => piece.extent.ram_bytes,
                _ => piece.extent.place.num_bytes,
            };
            let stored = stored(&piece, &mut referrers, until)?;
            fill_hole(&mut extents, piece.offset);
            extents.push(Extent { file_offset: piece.offset, length, stored });
        }
        let block = u64::from(opened.fs.forest().volume().sector_size());
        fill_hole(&mut extents, size.next_multiple_of(block));
    }
    let skips = census.skips();
    Ok(Findings { extents, size, table: census.table, ratios: census.ratios, skips })
}

/// Newer filesystems have no items for holes.
fn fill_hole(extents: &mut Vec<Extent>, until: u64) {
    let end = extents.last().map_or(0, |last| last.file_offset.saturating_add(last.length));
    let is_inline = extents.last().is_some_and(|last| matches!(last.stored, Stored::Inline { .. }));
    if end < until && !is_inline {
        extents.push(Extent { file_offset: end, length: until - end, stored: Stored::Hole });
    }
}

fn stored(
    piece: &crate::fs::FilePiece,
    referrers: &mut Referrers<'_>,
    until: Instant,
) -> Result<Stored> {
    let extent = &piece.extent;
    let method = method(extent.kind, extent.compression);
    if extent.kind == FileExtentKind::Inline {
        return Ok(Stored::Inline { bytes: piece.inline.len() as u64, method });
    }
    if extent.is_hole() {
        return Ok(Stored::Hole);
    }
    let bytenr = extent.place.disk_bytenr;
    let found =
        if Instant::now() < until { referrers.of_extent(bytenr) } else { Ok(Default::default()) };
    let (references, subvolumes) = match found {
        // Who refers to it is in doubt then, where it is isn't.
        Err(Error::Corrupt { .. }) => Default::default(),
        other => other?,
    };
    Ok(Stored::Extent {
        bytenr,
        bytes: extent.place.disk_num_bytes,
        uncompressed: extent.ram_bytes,
        method,
        references,
        subvolumes: subvolumes.into_iter().collect(),
    })
}
