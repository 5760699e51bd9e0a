//! A run: opened for writing, watched, paused and stopped, and counted again afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::census::Census;
use super::lookup::select;
use super::{Opened, Shared, chain};
use crate::apply::{self, Limits, Observer};
use crate::check;
use crate::device::Access;
use crate::error::{Error, Refusal, Result};
use crate::fs::Filesystem;
use crate::plan::{Action, Request, Selection, SkipReason, Skipped, compile_globs};
use crate::tui::message::Message;
use crate::tui::model::{self, End, Job, Progress, Skip};
use crate::tui::text;

/// Between two messages about progress.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Pauses and stops a run.
#[derive(Debug, Default)]
pub(super) struct Control {
    stop: AtomicBool,
    is_paused: Mutex<bool>,
    changed: Condvar,
}

impl Control {
    pub(super) fn reset(&self) {
        self.stop.store(false, Ordering::Relaxed);
        self.pause(false);
    }

    pub(super) fn pause(&self, is_paused: bool) {
        *self.is_paused.lock().unwrap_or_else(PoisonError::into_inner) = is_paused;
        self.changed.notify_all();
    }

    /// Stops it at its next commit, also while it pauses.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.pause(false);
    }

    fn wait_while_paused(&self) {
        let guard = self.is_paused.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(guard, |is_paused| *is_paused));
    }
}

/// The engine's words for what the model wants; the target may differ.
pub(super) fn engine_request(request: &model::Request) -> Request {
    Request {
        action: match request.job {
            Job::Recompress => Action::Recompress(request.target),
            Job::Defragment => Action::Defrag,
        },
        only_uncompressed: request.options.only_uncompressed,
        min_gain_percent: request.options.min_gain.into(),
        force: false,
    }
}

/// The files that a request is about.
pub(super) fn selection(opened: &Opened, request: &model::Request) -> Result<Selection, String> {
    let excludes = compile_globs(&request.options.excludes).map_err(|error| error.to_string())?;
    let mut selection = Selection::default();
    for subject in &request.subjects {
        select(opened, subject, &excludes, &mut selection).map_err(chain)?;
    }
    Ok(selection)
}

/// Carries out a confirmed request from beginning to end.
pub(super) fn run(shared: &Arc<Shared>, request: &model::Request) {
    let Some(opened) = shared.opened() else {
        shared.send(Message::Refused("the filesystem isn't open; press r to try again".to_owned()));
        return;
    };
    let selection = match selection(&opened, request) {
        Ok(selection) => selection,
        Err(why) => {
            shared.send(Message::Refused(why));
            return;
        }
    };
    let fs = match open_for_writing(shared, &opened) {
        Ok(fs) => fs,
        Err(error) => {
            let is_stopped = matches!(error.downcast_ref(), Some(Error::Cancelled));
            let stopped = || "stopped before anything was written".to_owned();
            shared.send(Message::Refused(if is_stopped { stopped() } else { chain(error) }));
            return;
        }
    };
    // Blocks that others have in memory would be of the past.
    shared.next_scan().store(true, Ordering::Relaxed);
    shared.set_opened(None);
    shared.send(Message::Started);
    let end = write(shared, &opened, fs, request, &selection);
    drop(opened);
    if shared.send(Message::Finished(end)) {
        // Whoever waits for the run to end need not wait for this.
        let shared = Arc::clone(shared);
        std::thread::spawn(move || count_again(&shared, &selection));
    }
}

fn open_for_writing(shared: &Shared, opened: &Opened) -> anyhow::Result<Filesystem> {
    let fs = shared.options.open_fs(Access::Write)?;
    fs.writable()?;
    let (seen, now) = (generation(&opened.fs), generation(&fs));
    if seen != now {
        let device = shared.options.names.join(" ");
        return Err(Error::from(Refusal::Changed { device }).into());
    }
    let is_stopped = || shared.control.stop.load(Ordering::Relaxed);
    check::require(&fs, &mut |_| if is_stopped() { Err(Error::Cancelled) } else { Ok(()) })?;
    if is_stopped() {
        return Err(Error::Cancelled.into());
    }
    Ok(fs)
}

fn generation(fs: &Filesystem) -> u64 {
    fs.forest().superblock().generation.get()
}

fn write(
    shared: &Arc<Shared>,
    opened: &Opened,
    mut fs: Filesystem,
    request: &model::Request,
    selection: &Selection,
) -> End {
    let paths = opened.subvolumes.iter().map(|subvolume| (subvolume.id, subvolume.path.clone()));
    let mut watcher = Watcher {
        shared,
        names: Names { paths: paths.collect(), fs: None, last: None },
        told: Instant::now().checked_sub(TELL_EVERY),
    };
    let limits = Limits::flag(&shared.control.stop);
    let result = apply::run(&mut fs, &engine_request(request), selection, &mut watcher, limits);
    if let Ok(outcome) = &result {
        watcher.tell(&outcome.progress);
    }
    match result {
        Ok(outcome) if outcome.stopped.is_some() => End::Stopped,
        Ok(outcome) if outcome.skipped(SkipReason::NoSpace) > 0 => End::NoSpace,
        Ok(_) => End::Done,
        Err(Error::Cancelled) => End::Stopped,
        Err(Error::NoSpace { .. }) => End::NoSpace,
        Err(error) => End::Failed(chain(error)),
    }
}

/// Opens what was written, and counts the chosen files and everything.
fn count_again(shared: &Arc<Shared>, selection: &Selection) {
    let again = Arc::clone(shared);
    std::thread::spawn(move || again.open_and_count());
    let Ok(fs) = shared.options.open_fs(Access::Read) else { return };
    if let Ok(census) = Census::of(fs.forest(), selection, &mut || true) {
        shared.send(Message::Recounted(Box::new(census.amounts())));
    }
}

struct Watcher<'a> {
    shared: &'a Shared,
    names: Names,
    told: Option<Instant>,
}

impl Watcher<'_> {
    fn tell(&mut self, progress: &apply::Progress) {
        self.told = Some(Instant::now());
        let path = self.names.of(&self.shared.options, progress);
        self.shared.send(Message::Progressed(Box::new(told(progress, path))));
    }
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, progress: &apply::Progress) {
        let is_due = self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        if is_due {
            self.tell(progress);
        }
        self.shared.control.wait_while_paused();
    }

    fn damaged(&mut self, _: Skipped) {
        // They are counted among what is skipped.
    }
}

fn told(progress: &apply::Progress, path: String) -> Progress {
    let skip = |(reason, &extents): (&SkipReason, &u64)| Skip {
        reason: reason.to_string(),
        bytes: 0,
        extents,
    };
    Progress {
        done: progress.examined,
        written: progress.written,
        saved: progress.saved(),
        replaced: progress.replaced_disk,
        renewed: progress.new_disk,
        extents: progress.extents_rewritten + progress.inline_rewritten,
        path,
        commits: progress.commits,
        pass: progress.pass,
        skips: progress.skipped.iter().map(skip).collect(),
    }
}

/// Finds names of files while the filesystem is being written, by reading each new commit for itself.
struct Names {
    paths: BTreeMap<u64, Vec<u8>>,
    fs: Option<(u64, Filesystem)>,
    last: Option<((u64, u64), String)>,
}

impl Names {
    fn of(&mut self, options: &crate::tui::Options, progress: &apply::Progress) -> String {
        let Some((tree, inode, _)) = progress.place else { return String::new() };
        if let Some((_, name)) = self.last.as_ref().filter(|(place, _)| *place == (tree, inode)) {
            return name.clone();
        }
        if self.fs.as_ref().is_none_or(|(generation, _)| *generation != progress.generation) {
            let fs = options.open_fs(Access::Read);
            self.fs = fs.ok().map(|fs| (progress.generation, fs));
        }
        // A commit may come between: then the name is one that can't be told.
        let path = self.path(tree, inode).unwrap_or_default();
        let name = match path {
            Some(path) => text::name(&path),
            None => format!("inode {inode} of subvolume {tree}"),
        };
        self.last = Some(((tree, inode), name.clone()));
        name
    }

    fn path(&self, tree: u64, inode: u64) -> Result<Option<Vec<u8>>> {
        let Some((_, fs)) = &self.fs else { return Ok(None) };
        let Some((parent, name)) = fs.first_name(tree, inode)? else { return Ok(None) };
        let mut path = self.paths.get(&tree).cloned().unwrap_or_default();
        for part in fs.directory_path(tree, parent)?.iter().chain([&name]) {
            path = model::join(&path, part);
        }
        Ok(Some(path))
    }
}
