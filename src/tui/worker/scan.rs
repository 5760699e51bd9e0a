//! Counting: everything, then the rows of the subvolumes that are looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::census::Census;
use super::{Opened, Shared, chain};
use crate::error::Error;
use crate::fs::Subvolume;
use crate::plan::{Inodes, Selection};
use crate::tui::message::Message;
use crate::tui::model::Amounts;

/// What rows cost, by subvolume.
#[derive(Debug, Default)]
pub(super) struct Costs {}

/// What the rows of one subvolume cost.
#[derive(Debug)]
pub(super) struct TreeCosts {}

impl TreeCosts {
    pub(super) fn of(&self, _inode: u64) -> Amounts {
        Amounts::default()
    }
}

/// Counts everything, and tells of it as it goes on.
pub(super) fn count(shared: &Arc<Shared>, opened: &Arc<Opened>, is_cancelled: &AtomicBool) {
    let mut selection = Selection::default();
    for subvolume in opened.subvolumes.iter().filter(|s: &&Subvolume| !s.is_deleted) {
        selection.subvolumes.insert(subvolume.id, Inodes::All);
    }
    let mut go_on = || !is_cancelled.load(Ordering::Relaxed);
    match Census::of(opened.fs.forest(), &selection, &mut go_on) {
        Ok(census) => {
            shared.send(Message::Counted(Box::new(census.table), Vec::new()));
        }
        Err(Error::Cancelled) => {}
        Err(error) => {
            shared.send(Message::ScanFailed(chain(&error)));
        }
    }
}

pub(super) fn costs(_: &Opened, _: u64) -> Option<Arc<TreeCosts>> {
    None
}

pub(super) fn subvolume(_: &Opened, _: u64) -> Option<Amounts> {
    None
}

pub(super) fn want(_: &Arc<Shared>, _: &Arc<Opened>, _: u64) {}
