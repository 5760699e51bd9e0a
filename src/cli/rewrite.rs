//! `recompress` and `defrag`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Result;
use btrpress::apply::Limits;
use btrpress::batch::{self, Options, Verdict};
use btrpress::device::Access;
use btrpress::error::Error;
use btrpress::plan::{Action, Request};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::args::{DefragArgs, RecompressArgs, RunArgs};
use super::open::{Place, Source, Writes};
use super::status::is_full;

/// Status of a run that a signal or a limit stopped: not all was done, and what is there is as of the last commit.
const STOPPED: u8 = 1;

impl RecompressArgs {
    fn request(&self) -> Request {
        Request {
            action: Action::Recompress(self.to),
            only_uncompressed: self.only_uncompressed,
            min_gain_percent: self.min_gain.unwrap_or(0.0),
            force: self.force,
        }
    }
}

/// Recompresses; gives the exit status.
pub(crate) fn recompress(args: &RecompressArgs, place: Place, is_batch: bool) -> Result<u8> {
    run(place, args.request(), &args.run, is_batch)
}

/// Defragments; gives the exit status.
pub(crate) fn defrag(args: &DefragArgs, place: Place, is_batch: bool) -> Result<u8> {
    let request = Request {
        action: Action::Defrag,
        only_uncompressed: false,
        min_gain_percent: 0.0,
        force: false,
    };
    run(place, request, &args.run, is_batch)
}

/// Where notes between runs are kept, as the XDG base directory specification has it.
fn notes() -> Option<PathBuf> {
    let from = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = from("XDG_STATE_HOME").or_else(|| Some(from("HOME")?.join(".local/state")))?;
    Some(state.join("btrpress"))
}

fn run(place: Place, request: Request, args: &RunArgs, is_batch: bool) -> Result<u8> {
    let start = Instant::now();
    let source = Source::new(args.devices.clone(), place);
    let options = Options {
        request,
        paths: args.paths.iter().map(|path| path.as_bytes().to_vec()).collect(),
        excludes: args.excludes.clone(),
        notes: (place != Place::Demo).then(notes).flatten(),
        is_dry_run: args.dry_run,
        checks: !args.no_check,
        asks: !is_batch && !args.dry_run,
        is_json: args.json,
        is_verbose: args.verbose,
    };
    let mut opened = if args.dry_run {
        source.open_with(Access::Read, Writes::KeptAside)?
    } else {
        source.open(Access::Write)?
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The second signal ends the program at once, which is as safe as a power cut.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let is_time_up = || args.max_time.is_some_and(|max| start.elapsed() >= max);
    let write_max = args.max_write.unwrap_or(u64::MAX);
    let limits = Limits { stop: &stop, is_time_up: &is_time_up, write_max };
    let verdict = batch::run(&mut opened.fs, &options, limits);
    opened.warn_of_faults();
    let verdict = verdict.map_err(|error| match error.downcast_ref() {
        Some(Error::Io { source, .. }) if is_full(source) => {
            error.context("the disk that holds the image is full; make room there and run again")
        }
        _ => error,
    });
    Ok(match verdict? {
        Verdict::Done | Verdict::Declined => 0,
        Verdict::Stopped => STOPPED,
        Verdict::Damaged => 4,
        Verdict::NoSpace => 5,
    })
}
