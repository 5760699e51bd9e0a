//! Foretelling what targets would make of some files, from samples of their data.
//!
//! The engine's own walk cuts the files into runs, as it would for a real run. Samples are chunks at even distances; each
//! is encoded at each target, the picked one first, and every result makes the prediction better. When the walk goes on
//! and there are too many samples, every other one is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};

use super::run::{engine_request, selection};
use super::{Opened, Shared, census, chain};
use crate::apply::Workers;
use crate::backref::Referrers;
use crate::compress::Target;
use crate::error::{Error, Result};
use crate::format::{FileExtent, Key, KeyKind};
use crate::plan::{Action, Inodes, Run, Selection, SkipReason, Skipped, Step, Walk};
use crate::tui::message::Message;
use crate::tui::model::{Amounts, Job, Prediction, Request, Skip, Survey, sum};
use crate::tui::text;

/// What to foretell, and for which targets; or nothing any more.
pub(super) type Wish = Option<(Box<Request>, Vec<Target>)>;

/// How long to walk before samples have their turn.
const WALK_TIME: Duration = Duration::from_millis(150);
/// Between two messages.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Samples kept at most.
const SAMPLES_MAX: usize = 192;
/// Contents between two samples at first, in bytes.
const DISTANCE: u64 = 128 << 10;
/// The picked target is so many samples ahead of the others.
const AHEAD: usize = 12;

/// Foretells what is wished until nobody wishes any more.
pub(super) fn serve(shared: &Arc<Shared>, wishes: &Receiver<Wish>) {
    let mut session: Option<Session> = None;
    let mut is_idle = true;
    loop {
        let wish = if is_idle {
            match wishes.recv() {
                Ok(wish) => Some(wish),
                Err(_) => return,
            }
        } else {
            match wishes.try_recv() {
                Ok(wish) => Some(wish),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return,
            }
        };
        match wish {
            Some(None) => session = None,
            Some(Some((request, targets))) => {
                let known = session.take().filter(|known| known.is_about(&request));
                let next = match known {
                    Some(known) => Ok(known),
                    None => Session::new(shared, &request),
                };
                match next {
                    Ok(next) => session = Some(Session { targets, told: None, ..next }),
                    Err(why) => {
                        shared.send(Message::PlanFailed(why));
                    }
                }
            }
            None => {}
        }
        is_idle = match &mut session {
            None => true,
            Some(active) => match active.step(shared) {
                Ok(is_done) => is_done,
                Err(error) => {
                    shared.send(Message::PlanFailed(chain(error)));
                    session = None;
                    true
                }
            },
        };
    }
}

/// A chunk that is encoded to see what becomes of it.
struct Sample {
    run: Run,
    chunk: usize,
    /// Its part of what the run takes on disk.
    old: f64,
    /// What it would take at a target, and how long encoding took.
    results: BTreeMap<Target, (f64, Duration)>,
}

/// Foretelling for one request.
struct Session {
    opened: Arc<Opened>,
    request: Request,
    targets: Vec<Target>,
    selection: Selection,
    walk: Option<Walk>,
    samples: Vec<Sample>,
    distance: u64,
    /// Contents since the last sample.
    since: u64,
    /// Contents and disk usage of what would be encoded anew.
    contents: u64,
    disk: u64,
    /// All that was seen, what is left alone too.
    amounts: Amounts,
    skips: BTreeMap<SkipReason, (u64, u64)>,
    workers: Workers,
    told: Option<Instant>,
}

impl Session {
    fn new(shared: &Shared, request: &Request) -> Result<Self, String> {
        let Some(opened) = shared.opened() else {
            return Err("the filesystem isn't open".to_owned());
        };
        let selection = selection(&opened, request)?;
        let walk = Walk::new(engine_request(request), &selection);
        Ok(Self {
            opened,
            request: request.clone(),
            targets: Vec::new(),
            selection,
            walk: Some(walk),
            samples: Vec::new(),
            distance: DISTANCE,
            since: 0,
            contents: 0,
            disk: 0,
            amounts: Amounts::default(),
            skips: BTreeMap::new(),
            workers: Workers::default(),
            told: None,
        })
    }

    /// Whether samples taken for this session answer `request` too.
    fn is_about(&self, request: &Request) -> bool {
        Request { target: request.target, ..self.request.clone() } == *request
    }

    /// Walks or encodes for a moment; tells whether nothing is left to do.
    fn step(&mut self, shared: &Shared) -> Result<bool> {
        if self.walk.is_some() {
            self.walk_on()?;
            if self.walk.is_none() {
                let survey = self.survey()?;
                shared.send(Message::Surveyed(Box::new(survey)));
            }
        }
        let until = Instant::now() + WALK_TIME;
        let mut is_done = self.walk.is_none();
        while let Some((sample, target)) = self.next_sample() {
            self.encode(sample, target)?;
            if Instant::now() >= until {
                is_done = false;
                break;
            }
        }
        let is_due = self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        if is_due || is_done {
            self.told = Some(Instant::now());
            let targets = self.targets.iter();
            let predictions =
                targets.filter_map(|&target| Some((target, self.prediction(target)?))).collect();
            if !shared.send(Message::Predicted(predictions)) {
                return Ok(true);
            }
        }
        Ok(is_done)
    }

    fn walk_on(&mut self) -> Result<()> {
        let until = Instant::now() + WALK_TIME;
        let opened = Arc::clone(&self.opened);
        let forest = opened.fs.forest();
        while Instant::now() < until {
            let Some(walk) = &mut self.walk else { break };
            match walk.next(forest)? {
                None => self.walk = None,
                Some(Step::Run(run)) => self.take(&run),
                Some(Step::Inline(item)) => {
                    if let Some(data) =
                        item.leaf.search(item.key).ok().map(|slot| item.leaf.data(slot))
                    {
                        let (extent, payload) = FileExtent::parse(data).map_err(|damage| {
                            Error::in_item(damage, item.leaf.owner(), item.key)
                        })?;
                        let method = census::method(extent.kind, extent.compression);
                        self.amounts.disk_by_method[method as usize] += payload.len() as u64;
                        self.amounts.uncompressed += extent.ram_bytes;
                    }
                }
                Some(Step::Skip(skipped)) => self.skip(skipped)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, run: &Run) {
        self.contents += run.data_bytes();
        self.disk += run.disk_bytes();
        for extent in &run.extents {
            let kind = crate::format::FileExtentKind::Regular;
            let method = census::method(kind, extent.data.compression);
            self.amounts.disk_by_method[method as usize] += extent.data.disk_bytes;
            self.amounts.uncompressed += extent.data.data_bytes;
        }
        let old = run.disk_bytes() as f64 / run.data_bytes().max(1) as f64;
        for (index, chunk) in run.chunks.iter().enumerate() {
            self.since += chunk.len();
            if self.since < self.distance && !self.samples.is_empty() {
                continue;
            }
            self.since = 0;
            self.samples.push(Sample {
                run: run.clone(),
                chunk: index,
                old: old * chunk.len() as f64,
                results: BTreeMap::new(),
            });
        }
        while self.samples.len() > SAMPLES_MAX {
            self.distance *= 2;
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    fn skip(&mut self, skipped: Skipped) -> Result<()> {
        let (root, inode, offset) = skipped.place;
        let key = Key::new(inode, KeyKind::EXTENT_DATA, offset);
        let Some(item) = self.opened.fs.forest().tree(root)?.find(key)? else { return Ok(()) };
        let (extent, _) =
            FileExtent::parse(item.data()).map_err(|damage| Error::in_item(damage, root, key))?;
        let disk = extent.place.disk_num_bytes;
        let method = census::method(extent.kind, extent.compression);
        self.amounts.disk_by_method[method as usize] += disk;
        self.amounts.uncompressed += extent.ram_bytes;
        let skip = self.skips.entry(skipped.reason).or_default();
        *skip = (skip.0 + disk, skip.1 + 1);
        Ok(())
    }

    /// The next sample to be encoded, spread over all of them, and at which target.
    fn next_sample(&self) -> Option<(usize, Target)> {
        let done = |target: &Target| {
            self.samples.iter().filter(|sample| sample.results.contains_key(target)).count()
        };
        let (target, _) = self
            .targets
            .iter()
            .enumerate()
            .map(|(index, target)| (*target, done(target), index))
            .filter(|&(_, done, _)| done < self.samples.len())
            .map(|(target, done, index)| {
                (target, (if index == 0 { done.saturating_sub(AHEAD) } else { done }, index))
            })
            .min_by_key(|&(_, rank)| rank)?;
        let len = self.samples.len();
        // A stride without a common factor with the number of samples comes by all of them.
        let apart = |stride: &usize| gcd(*stride, len) == 1;
        let stride = (len * 5 / 8..=len).find(apart).unwrap_or(1).max(1);
        (0..len)
            .map(|step| step * stride % len)
            .find(|&index| !self.samples[index].results.contains_key(&target))
            .map(|index| (index, target))
    }

    fn encode(&mut self, index: usize, target: Target) -> Result<()> {
        let mut request = engine_request(&self.request);
        if self.request.job == Job::Recompress {
            request.action = Action::Recompress(target);
        }
        let forest = self.opened.fs.forest();
        let sample = &mut self.samples[index];
        let (run, chunk) = (&sample.run, &sample.run.chunks[sample.chunk]);
        let start = Instant::now();
        let new = match self.workers.encode_chunk(forest, &request, run, chunk) {
            Ok(encoded) => {
                let len = encoded.payload.len() as f64;
                let all = len * run.data_bytes() as f64 / chunk.len().max(1) as f64;
                let sector = u64::from(forest.volume().sector_size());
                let is_raw = encoded.compression == crate::format::Compression::NONE;
                let count = if is_raw { 1 } else { run.chunks.len() };
                if request.accepts(run, all as u64, count, sector) { len } else { sample.old }
            }
            // It would be left as it is.
            Err(Error::Corrupt { .. } | Error::Unsupported(_)) => sample.old,
            Err(error) => return Err(error),
        };
        sample.results.insert(target, (new, start.elapsed()));
        Ok(())
    }

    /// Ratio of new to old over the samples, times all of it. Twice the standard error of that ratio is the margin.
    fn prediction(&self, target: Target) -> Option<Prediction> {
        let results: Vec<(f64, f64, Duration)> = self
            .samples
            .iter()
            .filter_map(|sample| {
                let &(new, time) = sample.results.get(&target)?;
                Some((sample.old, new, time))
            })
            .collect();
        let count = results.len() as f64;
        let old: f64 = results.iter().map(|(old, ..)| old).sum();
        let new: f64 = results.iter().map(|(_, new, _)| new).sum();
        if self.walk.is_none() && self.samples.is_empty() {
            let after = self.amounts.disk();
            return Some(Prediction { after, ..Prediction::default() });
        }
        if old <= 0.0 {
            return None;
        }
        let ratio = new / old;
        let square = |(old, new, _): &(f64, f64, Duration)| (new - ratio * old).powi(2);
        let spread: f64 = results.iter().map(square).sum();
        let variance = spread / (count - 1.0).max(1.0);
        let chunks = self.contents as f64 / f64::from(128 << 10);
        let unseen = (1.0 - count / chunks.max(count)).max(0.0);
        let error = (variance / count * unseen).sqrt() / (old / count);
        // One sample tells nothing of how much they differ.
        let error = if count < 3.0 && unseen > 0.0 { error.max(0.25) } else { error };
        let scale = self.scale();
        let (disk, rest) =
            (self.disk as f64 * scale, (self.amounts.disk() - self.disk) as f64 * scale);
        let time: f64 = results.iter().map(|(.., time)| time.as_secs_f64()).sum();
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        Some(Prediction {
            after: (disk * ratio + rest) as u64,
            margin: (disk * error * 2.0) as u64,
            time: Duration::from_secs_f64((time / count * chunks * scale / threads).min(1e9)),
            samples: results.len() as u32,
        })
    }

    /// How much more there is than was walked through.
    fn scale(&self) -> f64 {
        let (seen, all) = (self.amounts.disk(), sum(&self.request.subjects).disk());
        if self.walk.is_none() || seen == 0 { 1.0 } else { (all as f64 / seen as f64).max(1.0) }
    }

    fn survey(&self) -> Result<Survey> {
        let mut referrers = Referrers::new(self.opened.fs.forest());
        let mut roots = BTreeSet::new();
        for extent in self.samples.iter().flat_map(|sample| &sample.run.extents) {
            roots.extend(referrers.of_uses(&extent.uses)?);
        }
        let chosen = &self.selection.subvolumes;
        let others = roots.iter().filter(|root| chosen.get(root) != Some(&Inodes::All));
        let own: BTreeSet<u64> = self.request.subjects.iter().map(|s| s.place.tree).collect();
        let paths = others.filter(|root| !own.contains(root)).map(|root| {
            let known = self.opened.subvolumes.iter().find(|known| known.id == *root);
            known.map_or_else(|| root.to_string(), |known| text::name(&known.path))
        });
        let files = chosen.values().map(|inodes| match inodes {
            Inodes::All => None,
            Inodes::Only(inodes) => Some(inodes.len() as u64),
        });
        Ok(Survey {
            amounts: self.amounts,
            files: files.sum(),
            skips: self
                .skips
                .iter()
                .map(|(reason, &(bytes, extents))| Skip {
                    reason: reason.to_string(),
                    bytes,
                    extents,
                })
                .collect(),
            shared_with: paths.collect(),
        })
    }
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}
