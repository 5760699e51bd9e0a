//! `recompress` and `defrag`.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use btrpress::batch::{self, Options, Verdict};
use btrpress::device::Access;
use btrpress::plan::{Action, Request};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::args::{DefragArgs, RecompressArgs, RunArgs};
use super::open::{Place, Source, Writes};

/// Status of a run that a signal stopped: not all was done, and what is there is as of the last commit.
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
    let source = Source::new(args.run.devices.clone(), place);
    run(&source, args.request(), &args.run, is_batch)
}

/// Defragments; gives the exit status.
pub(crate) fn defrag(args: &DefragArgs, place: Place, is_batch: bool) -> Result<u8> {
    let source = Source::new(args.run.devices.clone(), place);
    let request = Request {
        action: Action::Defrag,
        only_uncompressed: false,
        min_gain_percent: 0.0,
        force: false,
    };
    run(&source, request, &args.run, is_batch)
}

fn run(source: &Source, request: Request, args: &RunArgs, is_batch: bool) -> Result<u8> {
    let options = Options {
        request,
        paths: args.paths.iter().map(|path| path.as_bytes().to_vec()).collect(),
        excludes: args.excludes.clone(),
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
    let verdict = batch::run(&mut opened.fs, &options, &stop);
    opened.warn_of_faults();
    Ok(match verdict? {
        Verdict::Done | Verdict::Declined => 0,
        Verdict::Stopped => STOPPED,
        Verdict::Damaged => 4,
        Verdict::NoSpace => 5,
    })
}
