//! The runs that ask nothing, or one question: usage before, apply, usage after, and a report of it. Progress goes to
//! standard error (a bar on a terminal, plain lines elsewhere), or as JSON lines to standard output.

mod damage;
mod progress;
mod resume;
mod summary;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::Serialize;

use crate::apply::{self, Limits, StopReason};
use crate::check;
use crate::error::{Error, Result};
use crate::fs::{Filesystem, display_path};
use crate::plan::{Action, Request, Selection, SkipReason, compile_globs};
use crate::usage::{Tally, Watch, unwatched, walk, whole};

use progress::Reporter;
use resume::Resume;
use summary::{StoppedEarly, Summary};

/// A run as the user means it.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct Options {
    /// What to do.
    pub request: Request,
    /// Where; everything when empty.
    pub paths: Vec<Vec<u8>>,
    /// Patterns of names and paths to leave out.
    pub excludes: Vec<String>,
    /// Where a run that is stopped leaves a note for the one that goes on, if anywhere.
    pub notes: Option<PathBuf>,
    /// Whether the changes go nowhere.
    pub is_dry_run: bool,
    /// Whether to check all metadata first.
    pub checks: bool,
    /// Whether to ask before the first write.
    pub asks: bool,
    /// Whether to write JSON lines.
    pub is_json: bool,
    /// Whether to name every file whose data is damaged at once, and each commit.
    pub is_verbose: bool,
}

/// How a run ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was done.
    Done,
    /// The user said no.
    Declined,
    /// Stopped by a limit, at a commit.
    Stopped,
    /// Done, but damaged data was left as it was.
    Damaged,
    /// Free space did not suffice for everything.
    NoSpace,
}

/// Runs a request on `fs`. With [`Options::is_dry_run`], the caller gives a filesystem whose devices keep writes to
/// themselves.
///
/// # Errors
/// If the filesystem must not be written or is damaged, a path doesn't exist, or a device fails.
pub fn run(fs: &mut Filesystem, options: &Options, limits: Limits<'_>) -> anyhow::Result<Verdict> {
    fs.writable()?;
    let globs = compile_globs(&options.excludes).context("cannot read the pattern to exclude")?;
    let mut selection = Selection::resolve(fs, &options.paths, &globs)?;
    let resume = Resume::new(fs, options);
    selection.settled = resume.settled(fs)?;
    let before = match look_around(fs, options, limits) {
        Err(Error::Cancelled) => {
            let summary = StoppedEarly::new(limits.reached().unwrap_or(StopReason::Asked));
            say(options, &summary, StoppedEarly::text)?;
            return Ok(Verdict::Stopped);
        }
        found => found?,
    };
    if options.asks && !confirm(fs, options, &before)? {
        return Ok(Verdict::Declined);
    }
    // Progress is that of data extents; inline data is counted for each snapshot, but rewritten once.
    let contents = before.total().uncompressed.saturating_sub(before.inline_bytes);
    let mut reporter = Reporter::new(options, contents);
    let outcome = apply::run(fs, &options.request, &selection, &mut reporter, limits);
    let commits = reporter.commits();
    let damaged = reporter.finish();
    let outcome = outcome.with_context(|| match commits {
        0 => "stopped before the first commit, so that nothing is changed".to_owned(),
        1 => "stopped after 1 commit, which stays".to_owned(),
        _ => format!("stopped after {commits} commits, which stay"),
    })?;
    resume.keep(options, &outcome);
    for (path, what) in damage::files(fs, &damaged)? {
        eprintln!("{}: left as it was: {what}", display_path(&path));
    }
    let after = tally(fs, &options.paths, &mut unwatched)?;
    let summary = Summary::new(&before, &after, &outcome);
    say(options, &summary, |summary| summary.text(options.is_dry_run))?;
    Ok(if outcome.stopped.is_some() {
        Verdict::Stopped
    } else if outcome.skipped(SkipReason::NoSpace) > 0 {
        Verdict::NoSpace
    } else if outcome.skipped(SkipReason::Damaged) > 0 {
        Verdict::Damaged
    } else {
        Verdict::Done
    })
}

/// Checks all metadata if that is wanted, and counts what there is.
fn look_around(fs: &Filesystem, options: &Options, limits: Limits<'_>) -> Result<Tally> {
    let mut go_on = |_| match limits.reached() {
        Some(_) => Err(Error::Cancelled),
        None => Ok(()),
    };
    if options.checks {
        check::require(fs, &mut go_on)?;
    }
    tally(fs, &options.paths, &mut go_on)
}

/// Prints the last line.
fn say<T: Serialize>(
    options: &Options,
    summary: &T,
    text: impl Fn(&T) -> String,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if options.is_json {
        serde_json::to_writer(&mut out, summary)?;
        writeln!(out)
    } else {
        write!(out, "{}", text(summary))
    }
}

fn tally(fs: &Filesystem, paths: &[Vec<u8>], watch: Watch<'_>) -> Result<Tally> {
    if paths.is_empty() {
        let subvolumes = fs.subvolumes()?;
        let roots: Vec<u64> =
            subvolumes.iter().filter(|found| !found.is_deleted).map(|found| found.id).collect();
        return whole::scan(fs, &roots, watch);
    }
    let places = paths
        .iter()
        .map(|path| Ok((path.clone(), fs.resolve(path)?)))
        .collect::<Result<Vec<_>>>()?;
    let rows = walk::Rows::Total;
    walk::scan(fs, &places, rows, &mut |_| Ok(()), watch)
}

/// Shows what is about to be done and asks for a yes.
fn confirm(fs: &Filesystem, options: &Options, before: &Tally) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("standard input is no terminal to ask on; say --batch to go on without asking");
    }
    let label = String::from_utf8_lossy(fs.forest().superblock().label_bytes()).into_owned();
    let size = |bytes: u64| humansize::format_size(bytes, humansize::BINARY);
    let what = match options.request.action {
        Action::Recompress(target) => format!("Recompress to {target}"),
        Action::Defrag => "Defragment".to_owned(),
    };
    let mut out = io::stderr().lock();
    if options.paths.is_empty() {
        writeln!(out, "{what}: the whole filesystem \"{label}\", every subvolume and snapshot")?;
    } else {
        writeln!(out, "{what}, in the filesystem \"{label}\":")?;
        for path in &options.paths {
            writeln!(out, "  {}", display_path(path))?;
        }
    }
    let total = before.total();
    writeln!(
        out,
        "{} files, {} on disk, {} uncompressed. Snapshots keep sharing what they share.",
        before.files,
        size(total.disk),
        size(total.uncompressed),
    )?;
    write!(out, "Go on? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
