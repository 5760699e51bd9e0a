//! `report`.

use std::io::{BufWriter, Write, stdout};
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use btrpress::device::Access;
use btrpress::error::Error;
use btrpress::format::FileKind;
use btrpress::fs::{Filesystem, Location, TOP_DIR, display_path};
use btrpress::report::{self, Document, JsonRow, Rows};
use btrpress::usage::walk::Row;
use btrpress::usage::{Tally, unwatched, walk, whole};

use super::args::ReportArgs;
use super::open::Source;

/// Prints what was asked for.
pub(crate) fn run(source: &Source, args: &ReportArgs) -> Result<()> {
    let opened = source.open(Access::Read)?;
    let printed = print(&opened.fs, args);
    opened.warn_of_faults();
    printed
}

fn print(fs: &Filesystem, args: &ReportArgs) -> Result<()> {
    let places = places(fs, args)?;
    let rows = match (args.per_file, args.depth) {
        (true, _) => walk::Rows::Files,
        (_, Some(depth_max)) => walk::Rows::Directories { depth_max },
        _ => walk::Rows::Total,
    };
    let mut out = BufWriter::new(stdout().lock());
    if args.json {
        let document = document(fs, args, &places, rows)?;
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    let lines = Rows::of_report(args.units());
    if rows != walk::Rows::Total {
        writeln!(out, "{}", lines.head())?;
    }
    let tally = count(fs, &places, rows, &mut |row| {
        writeln!(out, "{}", lines.row(&row.tally, &shown(&row))).map_err(output_error)
    })?;
    if rows != walk::Rows::Total {
        writeln!(out)?;
    }
    match report::nothing(&tally) {
        None => write!(out, "{}", report::table(&tally, args.units()))?,
        Some(message) => eprintln!("{message}"),
    }
    Ok(out.flush()?)
}

/// The paths asked for, with what they name; the top level if there are none.
fn places(fs: &Filesystem, args: &ReportArgs) -> Result<Vec<(Vec<u8>, Location)>> {
    let paths = args.paths.iter().map(|path| path.as_bytes());
    let mut places = Vec::new();
    for path in paths {
        let parts: Vec<&[u8]> = path
            .split(|byte| *byte == b'/')
            .filter(|part| !part.is_empty() && part != b".")
            .collect();
        places.push((parts.join(&b'/'), fs.resolve(path)?));
    }
    if places.is_empty() {
        places.push((Vec::new(), fs.resolve(b"")?));
    }
    Ok(places)
}

/// Counts block by block where only whole subvolumes are asked for, else path by path.
fn count(
    fs: &Filesystem,
    places: &[(Vec<u8>, Location)],
    rows: walk::Rows,
    emit: &mut dyn FnMut(Row) -> Result<(), Error>,
) -> Result<Tally, Error> {
    let is_whole = places.iter().all(|(_, at)| at.ino == TOP_DIR && at.kind == FileKind::DIRECTORY);
    if rows != walk::Rows::Total || !is_whole {
        return walk::scan(fs, places, rows, emit, &mut unwatched);
    }
    let subvolumes = fs.subvolumes()?;
    let mut roots = Vec::new();
    for (_, at) in places {
        for root in whole::subvolumes_below(&subvolumes, at.root) {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
    }
    whole::scan(fs, &roots, &mut unwatched)
}

fn document(
    fs: &Filesystem,
    args: &ReportArgs,
    places: &[(Vec<u8>, Location)],
    rows: walk::Rows,
) -> Result<Document> {
    let mut list = Vec::new();
    let tally = count(fs, places, rows, &mut |row| {
        list.push(JsonRow {
            path: display_path(&row.path),
            kind: if row.kind == FileKind::DIRECTORY { "directory" } else { "file" },
            figures: report::figures(&row.tally),
        });
        Ok(())
    })?;
    let superblock = fs.forest().superblock();
    Ok(Document {
        uuid: report::uuid(&superblock.fsid),
        label: display_path(superblock.label_bytes()),
        paths: args.paths.iter().map(|path| display_path(path.as_bytes())).collect(),
        figures: report::figures(&tally),
        rows: (rows != walk::Rows::Total).then_some(list),
    })
}

/// A row's path; a directory's ends with a slash.
fn shown(row: &Row) -> String {
    let path = display_path(&row.path);
    if row.kind == FileKind::DIRECTORY { path + "/" } else { path }
}

fn output_error(source: std::io::Error) -> Error {
    Error::Io { device: "output".to_owned(), source }
}
