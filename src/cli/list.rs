//! `ls` and `cat`.

use std::io::{BufWriter, Write, stdout};

use anyhow::Result;
use btrpress::device::Access;
use btrpress::error::Error;
use btrpress::format::FileKind;
use btrpress::fs::{DirEntryOwned, Filesystem, Location, Target, display_path};
use btrpress::report::{Rows, Units};
use btrpress::usage::{Tally, unwatched, walk};

use super::open::Source;

/// Lists a directory, or one file.
pub(crate) fn list(source: &Source, path: &[u8], units: Units) -> Result<()> {
    let fs = &source.open(Access::Read)?.fs;
    let at = fs.resolve(path)?;
    let rows = Rows::of_listing(units);
    let mut out = BufWriter::new(stdout().lock());
    writeln!(out, "{}", rows.head())?;
    if at.kind != FileKind::DIRECTORY {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        writeln!(out, "{}", rows.row(&tally(fs, at)?, &display_path(name)))?;
        return Ok(out.flush()?);
    }
    let mut entries = fs.read_dir(at.root, at.ino)?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    for entry in entries {
        let name = shown(fs, at.root, &entry)?;
        let line = match entry.target {
            Target::Inode(ino) if entry.kind == FileKind::REGULAR => {
                rows.row(&tally(fs, Location { root: at.root, ino, kind: entry.kind })?, &name)
            }
            _ => rows.blank(&name),
        };
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

fn tally(fs: &Filesystem, at: Location) -> Result<Tally, Error> {
    let places = [(Vec::new(), at)];
    walk::scan(fs, &places, walk::Rows::Total, &mut |_| Ok(()), &mut unwatched)
}

/// A name, marked with what it names.
fn shown(fs: &Filesystem, root: u64, entry: &DirEntryOwned) -> Result<String> {
    let name = display_path(&entry.name);
    Ok(match (entry.target, entry.kind) {
        (Target::Inode(ino), FileKind::SYMLINK) => {
            let mut target = Vec::new();
            fs.write_contents(root, ino, &mut target)?;
            format!("{name} -> {}", display_path(&target))
        }
        (_, FileKind::DIRECTORY) => name + "/",
        _ => name,
    })
}

/// Writes a file's contents.
pub(crate) fn cat(source: &Source, path: &[u8]) -> Result<()> {
    let opened = source.open(Access::Read)?;
    let mut out = BufWriter::new(stdout().lock());
    let written = opened.fs.write_contents_of(path, &mut out);
    opened.warn_of_faults();
    written?;
    Ok(out.flush()?)
}
