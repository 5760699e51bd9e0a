//! Counting: everything, then the rows of the subvolumes that are looked at.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Opened, Shared, chain};
use crate::error::{Error, Result};
use crate::tui::message::Message;
use crate::tui::model::{Amounts, Line, Method, Table};
use crate::usage::subtree::{self, Figures, SubtreeUsage};
use crate::usage::{Progress, Storage, Tally, roots};

/// Between two messages about progress.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Subvolumes whose rows are kept in memory, those looked at last.
const TREES_MAX: usize = 6;

/// What was counted so far.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// By subvolume, the one looked at last at the end.
    trees: Vec<Arc<SubtreeUsage>>,
    /// Subvolumes that are being counted.
    waiting: BTreeSet<u64>,
    /// Each subvolume as a whole.
    roots: Vec<(u64, Amounts)>,
}

impl Opened {
    fn costs(&self) -> MutexGuard<'_, Costs> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rows' way to be stored, in the words of the model.
fn method(storage: Storage) -> Method {
    match storage {
        Storage::None => Method::Uncompressed,
        Storage::Zlib => Method::Zlib,
        Storage::Lzo => Method::Lzo,
        Storage::Zstd => Method::Zstd,
        Storage::Unknown => Method::Unknown,
        Storage::Prealloc => Method::Preallocated,
    }
}

fn table(tally: &Tally) -> Table {
    let mut table = Table::default();
    for storage in Storage::ALL {
        let amounts = tally.by(storage);
        table.lines[method(storage) as usize] = Line {
            disk: amounts.disk,
            uncompressed: amounts.uncompressed,
            referenced: amounts.referenced,
        };
    }
    table
}

fn amounts(tally: &Tally) -> Amounts {
    let total = tally.total();
    Amounts {
        disk_by_method: table(tally).disk_by_method(),
        uncompressed: total.uncompressed,
        referenced: total.referenced,
        fragments: tally.fragments,
        items: tally.files,
        ..Amounts::default()
    }
}

fn amounts_of(figures: &Figures) -> Amounts {
    Amounts {
        exclusive: figures.exclusive,
        waste: figures.waste,
        items: figures.items.max(1),
        ..amounts(&figures.tally)
    }
}

/// Tells how far a scan is, and stops it when nobody wants it any more.
struct Teller<'a> {
    shared: &'a Shared,
    is_cancelled: &'a AtomicBool,
    told: Instant,
    message: fn(u64, Progress) -> Message,
    tree: u64,
}

impl Teller<'_> {
    fn tell(&mut self, progress: Progress) -> Result<()> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            if !self.shared.send((self.message)(self.tree, progress)) {
                return Err(Error::Cancelled);
            }
        }
        Ok(())
    }
}

/// Counts everything, and tells of it as it goes on.
pub(super) fn count(shared: &Arc<Shared>, opened: &Arc<Opened>, is_cancelled: &AtomicBool) {
    let mut teller = Teller {
        shared,
        is_cancelled,
        told: Instant::now(),
        message: |_, progress| Message::Scanning(progress.done, progress.total),
        tree: 0,
    };
    let known = opened.subvolumes.iter().filter(|subvolume| !subvolume.is_deleted);
    let ids: Vec<u64> = known.map(|subvolume| subvolume.id).collect();
    match roots::scan(&opened.fs, &ids, &mut |progress| teller.tell(progress)) {
        Ok(usage) => {
            let of_root = |root: &roots::RootUsage| {
                (root.id, Amounts { exclusive: root.exclusive, ..amounts(&root.tally) })
            };
            let counted: Vec<(u64, Amounts)> = usage.roots.iter().map(of_root).collect();
            opened.costs().roots.clone_from(&counted);
            shared.send(Message::SubvolumesCounted(counted));
            let shared_by = usage.sharing.into_iter();
            let sharing = shared_by.map(|set| (set.roots, set.disk + set.metadata)).collect();
            shared.send(Message::Counted(Box::new(table(&usage.tally)), sharing));
        }
        Err(Error::Cancelled) => {}
        Err(error) => {
            shared.send(Message::ScanFailed(chain(error)));
        }
    }
}

/// What the rows of a subvolume cost, if that is known.
pub(super) fn rows(opened: &Opened, tree: u64) -> Option<Arc<SubtreeUsage>> {
    opened.costs().trees.iter().find(|known| known.root() == tree).cloned()
}

/// What a row costs; nothing, if it is neither a directory nor a regular file.
pub(super) fn row(rows: &SubtreeUsage, inode: u64) -> Amounts {
    let figures = rows.of(inode);
    figures.map_or_else(|| Amounts { items: 1, ..Amounts::default() }, |found| amounts_of(&found))
}

/// What a subvolume costs as a whole, if that is known.
pub(super) fn subvolume(opened: &Opened, tree: u64) -> Option<Amounts> {
    let costs = opened.costs();
    let known = costs.trees.iter().find(|known| known.root() == tree);
    let whole = || costs.roots.iter().find(|(id, _)| *id == tree).map(|&(_, amounts)| amounts);
    known.map(|known| amounts_of(&known.total())).or_else(whole)
}

/// Has the rows of a subvolume counted, if they aren't yet.
pub(super) fn want(shared: &Arc<Shared>, opened: &Arc<Opened>, tree: u64) {
    let mut costs = opened.costs();
    if let Some(at) = costs.trees.iter().position(|known| known.root() == tree) {
        let known = costs.trees.remove(at);
        costs.trees.push(known);
        return;
    }
    if !costs.waiting.insert(tree) {
        return;
    }
    drop(costs);
    let (shared, opened) = (Arc::clone(shared), Arc::clone(opened));
    std::thread::spawn(move || count_rows(&shared, &opened, tree));
}

fn count_rows(shared: &Shared, opened: &Opened, tree: u64) {
    let is_cancelled = shared.this_scan();
    let mut teller = Teller {
        shared,
        is_cancelled: &is_cancelled,
        told: Instant::now(),
        message: |tree, progress| Message::SubvolumeScanning(tree, progress.done, progress.total),
        tree,
    };
    let counted = subtree::scan(&opened.fs, tree, &mut |progress| teller.tell(progress));
    let mut costs = opened.costs();
    costs.waiting.remove(&tree);
    match counted {
        Ok(rows) => {
            let total = amounts_of(&rows.total());
            costs.trees.push(Arc::new(rows));
            if costs.trees.len() > TREES_MAX {
                costs.trees.remove(0);
            }
            drop(costs);
            shared.send(Message::SubvolumesCounted(vec![(tree, total)]));
        }
        Err(Error::Cancelled) => {}
        Err(error) => {
            drop(costs);
            shared.send(Message::ScanFailed(chain(error)));
        }
    }
}
