//! The loop over windows, batches and passes.

use std::thread;

use rayon::prelude::*;

use crate::apply::batch::{Batch, Lack, Part, join_parts, write_data};
use crate::apply::encode::{Encoded, Workers};
use crate::apply::limits::{Limits, StopReason};
use crate::apply::progress::{Observer, Outcome, Progress, Shortage};
use crate::apply::work::{Again, EncodedWindow, Room, Window};
use crate::error::{Error, Result};
use crate::format::BlockGroupFlags;
use crate::fs::Filesystem;
use crate::plan::{Request, Run, Selection, SkipReason, Skipped, Step, Walk};
use crate::txn::{Space, SpaceKind, add_chunk};

/// New data after which to commit, in bytes.
const BATCH_BYTES: u64 = 256 << 20;
/// Old extents after which to commit.
const BATCH_EXTENTS: usize = 32 << 10;
/// Leaves that change, in bytes, after which to commit.
const BATCH_LEAF_BYTES: usize = 128 << 20;
/// Free metadata for each leaf that a commit changes, in blocks: itself, and what else changes with it.
const BLOCKS_PER_LEAF: u64 = 3;
/// Steps in a row that found no room, after which no more are tried.
const FAILURES_MAX: u32 = 16;
/// Passes after which to stop in any case. Each gains something, or it is the last; two or three are usual.
const PASSES_MAX: u32 = 64;

/// Rewrites what is selected as requested, until nothing is left to do or a limit is reached.
///
/// Everything committed stays when this fails or stops; what was not yet committed is as it was.
///
/// # Errors
/// If the filesystem must not be written, a device fails, or its metadata is corrupt.
pub fn run(
    fs: &mut Filesystem,
    request: &Request,
    selection: &Selection,
    observer: &mut dyn Observer,
    limits: Limits<'_>,
) -> Result<Outcome> {
    fs.writable()?;
    let space = Space::load(fs.forest())?;
    let volume = fs.forest().volume();
    let written_before = volume.bytes_written();
    let device_bytes_per_mib = volume.device_bytes(BlockGroupFlags::DATA, 1 << 20);
    let mut job = Job {
        sector: fs.forest().volume().sector_size().into(),
        fs,
        request: request.clone(),
        walk: Walk::new(request.clone(), selection),
        space,
        workers: Workers::default(),
        batch: Batch::default(),
        again: Again::default(),
        items_max: usize::MAX,
        failures: 0,
        shortage: Shortage::default(),
        progress: Progress::default(),
        observer,
        limits,
        written_before,
        device_bytes_per_mib,
        is_spent: false,
    };
    if selection.excluded > 0 {
        job.progress.skipped.insert(SkipReason::Excluded, selection.excluded);
    }
    let mut stopped = None;
    for pass in 1..=PASSES_MAX {
        let commits = job.progress.commits;
        job.progress.pass = pass;
        job.progress.skipped.remove(&SkipReason::NoSpace);
        (job.shortage, job.failures) = (Shortage::default(), 0);
        stopped = job.pass()?;
        if stopped.is_some() || job.progress.commits == commits || request.force {
            break;
        }
        job.walk.restart(selection);
    }
    job.observer.progress(&job.progress);
    let shortage = job.progress.skipped.contains_key(&SkipReason::NoSpace);
    let shortage = shortage.then(|| job.shortage.at_end(job.fs.forest(), &job.space));
    Ok(Outcome { progress: job.progress, stopped, settled: job.walk.into_settled(), shortage })
}

struct Job<'a> {
    fs: &'a mut Filesystem,
    request: Request,
    walk: Walk,
    space: Space,
    workers: Workers,
    batch: Batch,
    again: Again,
    /// Runs and inline extents that a commit has room for, as far as is known.
    items_max: usize,
    /// Steps that found no room since the last commit.
    failures: u32,
    shortage: Shortage,
    progress: Progress,
    observer: &'a mut dyn Observer,
    limits: Limits<'a>,
    /// Bytes that had been written to the devices before the run.
    written_before: u64,
    /// What goes to the devices for each MiB of data.
    device_bytes_per_mib: u64,
    /// Whether data was met that may not be written any more.
    is_spent: bool,
    sector: u64,
}

impl Job<'_> {
    /// Goes once through everything selected; tells why it was stopped, if it was.
    fn pass(&mut self) -> Result<Option<StopReason>> {
        loop {
            let stopped = self.reason_to_stop();
            let is_over = stopped.is_some() || self.shortage.is_final;
            let window = if is_over { Window::default() } else { self.gather()? };
            if window.is_empty() {
                self.commit()?;
                if is_over || self.again.is_empty() {
                    self.again.clear();
                    return Ok(stopped);
                }
                continue;
            }
            let encoded = self.encode(&window)?;
            self.decide(window, encoded)?;
            if self.is_batch_full() {
                self.commit()?;
            }
            self.observer.progress(&self.progress);
        }
    }

    fn reason_to_stop(&self) -> Option<StopReason> {
        self.limits.reached().or_else(|| self.is_spent.then_some(StopReason::WriteLimit))
    }

    /// Bytes that went to the devices so far.
    fn device_written(&self) -> u64 {
        self.fs.forest().volume().bytes_written() - self.written_before
    }

    /// Whether so much more data may be written.
    fn may_write(&self, data_bytes: u64) -> bool {
        let is_first = self.progress.commits == 0 && self.batch.is_empty();
        let data_bytes = data_bytes + self.batch.unwritten_bytes();
        let more = data_bytes.saturating_mul(self.device_bytes_per_mib) >> 20;
        is_first || self.device_written().saturating_add(more) <= self.limits.write_max
    }

    /// Whether it is time to commit.
    fn is_batch_full(&self) -> bool {
        let (extents, leaves) = self.batch.size();
        let node_size = self.fs.forest().volume().node_size() as usize;
        self.batch.data_bytes() >= BATCH_BYTES
            || extents >= BATCH_EXTENTS
            || leaves * node_size >= BATCH_LEAF_BYTES
            || leaves >= self.leaves_max()
            || self.batch.items() >= self.items_max
    }

    /// Leaves that a commit may change with the metadata space at hand.
    fn leaves_max(&self) -> usize {
        let node_size = u64::from(self.fs.forest().volume().node_size());
        let free = self.space.available(SpaceKind::Metadata);
        (free / (node_size * BLOCKS_PER_LEAF)).max(1) as usize
    }

    /// What the batch has still room for, at least for one of each.
    fn room(&self) -> Room {
        let (_, leaves) = self.batch.size();
        Room {
            items: self.items_max.saturating_sub(self.batch.items()).max(1),
            leaves: self.leaves_max().saturating_sub(leaves).max(1),
        }
    }

    /// Whether no run can be written, which need not be found out for each anew.
    fn is_data_full(&self) -> bool {
        self.failures >= FAILURES_MAX && self.space.available(SpaceKind::Data) < self.sector
    }

    fn gather(&mut self) -> Result<Window> {
        let room = self.room();
        let mut window = Window::default();
        while !window.is_full(room)
            && let Some(item) = self.again.inline.pop_front()
        {
            window.add_inline(item);
        }
        while !window.is_full(room)
            && let Some(mut run) = self.again.runs.pop_front()
        {
            if run.locate_again(self.fs.forest())? {
                window.add(run);
            } else {
                self.skip_run(&run, SkipReason::Inconsistent);
            }
        }
        while !window.is_full(room) && self.limits.reached().is_none() {
            match self.walk.next(self.fs.forest())? {
                Some(Step::Run(run)) if self.is_data_full() => {
                    self.skip_run(&run, SkipReason::NoSpace);
                }
                Some(Step::Run(run)) => window.add(run),
                Some(Step::Inline(item)) => window.add_inline(item),
                Some(Step::Skip(skipped)) => self.skip(skipped),
                None => break,
            }
        }
        Ok(window)
    }

    /// Encodes a window on all cores, and meanwhile writes what the window before it left to be written. What is not
    /// encoded when the run has to stop comes back as [`Error::Cancelled`].
    fn encode(&mut self, window: &Window) -> Result<EncodedWindow> {
        let unwritten = self.batch.take_unwritten();
        let (forest, request, workers) = (self.fs.forest(), &self.request, &self.workers);
        let limits = self.limits;
        let chunks: Vec<_> = window
            .runs
            .iter()
            .flat_map(|run| run.chunks.iter().map(move |chunk| (run, chunk)))
            .collect();
        let (written, chunks, inline) = thread::scope(|scope| {
            let writer = scope.spawn(move || write_data(forest, unwritten));
            let chunks: Vec<Result<Encoded>> = chunks
                .into_par_iter()
                .map(|(run, chunk)| {
                    if limits.reached().is_some() {
                        return Err(Error::Cancelled);
                    }
                    workers.encode_chunk(forest, request, run, chunk)
                })
                .collect();
            let inline = window
                .inline
                .par_iter()
                .map(|item| workers.encode_inline(forest, request, item))
                .collect();
            (writer.join().expect("writing does not panic"), chunks, inline)
        });
        written?;
        let mut chunks = chunks.into_iter();
        let runs = window
            .runs
            .iter()
            .map(|run| chunks.by_ref().take(run.chunks.len()).collect::<Vec<_>>())
            .map(|run| run.into_iter().collect())
            .collect();
        Ok(EncodedWindow { runs, inline })
    }

    fn decide(&mut self, window: Window, encoded: EncodedWindow) -> Result<()> {
        for (item, new) in window.inline.iter().zip(encoded.inline) {
            match new {
                Ok(Some(new)) => self.batch.add_inline(item, new),
                Ok(None) => {}
                Err(error) if error.is_corrupt() => {
                    let place = (item.leaf.owner(), item.key.objectid, item.key.offset);
                    self.skip(Skipped { reason: SkipReason::Damaged, place, extent: None });
                }
                Err(error) => return Err(error),
            }
        }
        let generation = self.progress.generation;
        for (mut run, encoded) in window.runs.into_iter().zip(encoded.runs) {
            let is_current = self.progress.generation == generation;
            if !is_current && !run.locate_again(self.fs.forest())? {
                self.skip_run(&run, SkipReason::Inconsistent);
                continue;
            }
            self.decide_run(run, encoded)?;
        }
        Ok(())
    }

    fn decide_run(&mut self, run: Run, encoded: Result<Vec<Encoded>>) -> Result<()> {
        if self.is_spent || matches!(encoded, Err(Error::Cancelled)) {
            return Ok(());
        }
        let bytes = run.data_bytes();
        self.progress.examined += bytes;
        self.progress.place = Some(run.place);
        let encoded = match encoded {
            Ok(encoded) => encoded,
            // A sector that can't be read is as lost as one that is wrong.
            Err(Error::Corrupt { .. } | Error::Io { .. }) => {
                self.skip_run(&run, SkipReason::Damaged);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let parts = join_parts(encoded);
        let new_bytes = parts.iter().map(Part::disk_bytes).sum();
        if !self.request.accepts(&run, new_bytes, parts.len(), self.sector) {
            self.walk.settle(&run);
            self.skip_run(&run, SkipReason::NoGain);
            return Ok(());
        }
        if !self.may_write(new_bytes) {
            self.is_spent = true;
            return Ok(());
        }
        let Err(mut back) = self.batch.add(&mut self.space, self.sector, run, parts) else {
            return Ok(());
        };
        // The commit gives space back; when that does not do, devices may have space that no chunk takes yet.
        if !self.batch.is_empty() {
            self.commit()?;
            let (mut run, parts) = *back;
            if !run.locate_again(self.fs.forest())? {
                self.skip_run(&run, SkipReason::Inconsistent);
                return Ok(());
            }
            let Err(again) = self.batch.add(&mut self.space, self.sector, run, parts) else {
                return Ok(());
            };
            back = again;
        }
        if self.grow(SpaceKind::Data)? {
            let (run, parts) = *back;
            let Err(again) = self.batch.add(&mut self.space, self.sector, run, parts) else {
                return Ok(());
            };
            back = again;
        }
        let free = self.space.available(SpaceKind::Data);
        self.shortage.add_data(Lack { needed: new_bytes, free });
        self.failures += 1;
        self.skip_run(&back.0, SkipReason::NoSpace);
        Ok(())
    }

    /// Adds a chunk; tells whether there was room for one. The batch must be empty.
    fn grow(&mut self, kind: SpaceKind) -> Result<bool> {
        let added = add_chunk(self.fs.forest_mut(), &mut self.space, kind)?;
        let Some(committed) = added else { return Ok(false) };
        self.progress.written += committed.metadata_bytes;
        self.progress.device_written = self.device_written();
        self.progress.commits += 1;
        self.progress.generation = committed.generation;
        Ok(true)
    }

    /// Commits the batch, if there is anything in it.
    fn commit(&mut self) -> Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        write_data(self.fs.forest(), batch.take_unwritten())?;
        let committed = match batch.commit(self.fs.forest_mut(), &mut self.space)? {
            Ok(committed) => committed,
            Err(_) if self.grow(SpaceKind::Metadata)? => {
                batch.give_back(&mut self.again);
                return Ok(());
            }
            Err(lack) => {
                self.halve(batch, lack);
                return Ok(());
            }
        };
        self.progress.device_written = self.device_written();
        let progress = &mut self.progress;
        for run in batch.runs() {
            progress.replaced_disk += run.disk_bytes();
            progress.extents_rewritten += run.extents.len() as u64;
        }
        progress.new_disk += batch.data_bytes();
        progress.inline_rewritten += batch.inline().len() as u64;
        progress.written += batch.data_bytes() + committed.metadata_bytes;
        progress.commits += 1;
        progress.generation = committed.generation;
        let (old, new) = batch.extents();
        self.walk.follow(&committed.replaced, old, new);
        self.again.follow(self.fs.forest(), &committed.replaced)?;
        self.items_max = self.items_max.saturating_mul(2);
        self.failures = 0;
        self.observer.progress(&self.progress);
        Ok(())
    }

    /// After a batch whose metadata did not fit: all of it is tried again, in smaller steps. What does not even fit alone
    /// is left.
    fn halve(&mut self, batch: Batch, lack: Lack) {
        self.items_max = (batch.items() / 2).max(1);
        if batch.items() > 1 {
            batch.give_back(&mut self.again);
            return;
        }
        self.shortage.add_metadata(lack);
        self.failures += 1;
        self.shortage.is_final = self.failures >= FAILURES_MAX;
        for run in batch.runs() {
            self.skip_run(run, SkipReason::NoSpace);
        }
        for item in batch.inline() {
            let place = (item.leaf.owner(), item.key.objectid, item.key.offset);
            self.skip(Skipped { reason: SkipReason::NoSpace, place, extent: None });
        }
    }

    fn skip_run(&mut self, run: &Run, reason: SkipReason) {
        for extent in &run.extents {
            self.skip(Skipped { reason, place: run.place, extent: Some(extent.data) });
        }
    }

    fn skip(&mut self, skipped: Skipped) {
        let is_new = self.progress.pass == 1 || skipped.reason == SkipReason::NoSpace;
        if is_new {
            *self.progress.skipped.entry(skipped.reason).or_insert(0) += 1;
        }
        let is_damage = matches!(skipped.reason, SkipReason::Damaged | SkipReason::Inconsistent);
        if is_new && is_damage {
            self.observer.damaged(skipped);
        }
    }
}
