//! Work at hand: what is gathered to be encoded at a time, and what has to be tried once more.

use std::collections::{BTreeMap, VecDeque};

use crate::apply::encode::Encoded;
use crate::error::Result;
use crate::format::Logical;
use crate::plan::{InlineItem, Run};
use crate::tree::{Expect, Forest};

/// Contents to encode at a time, in bytes. With what waits to be written, it bounds the memory that a run needs.
const WINDOW_BYTES: u64 = 16 << 20;
/// Inline extents to encode at a time.
const WINDOW_ITEMS: usize = 16 << 10;

/// How much more the next commit can take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Runs and inline extents.
    pub(super) items: usize,
    /// Leaves that change.
    pub(super) leaves: usize,
}

/// What is encoded at a time.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) runs: Vec<Run>,
    pub(super) inline: Vec<InlineItem>,
    bytes: u64,
    /// Leaves of inline extents; those of one leaf follow each other.
    leaves: usize,
}

impl Window {
    pub(super) fn is_full(&self, room: Room) -> bool {
        self.bytes >= WINDOW_BYTES
            || self.inline.len() >= WINDOW_ITEMS
            || self.runs.len() + self.inline.len() >= room.items
            || self.leaves >= room.leaves
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.inline.is_empty()
    }

    pub(super) fn add(&mut self, run: Run) {
        self.bytes += run.data_bytes();
        self.runs.push(run);
    }

    pub(super) fn add_inline(&mut self, item: InlineItem) {
        if self.inline.last().is_none_or(|last| last.leaf.bytenr() != item.leaf.bytenr()) {
            self.leaves += 1;
        }
        self.inline.push(item);
    }
}

/// Results in the order of the window's runs and inline extents.
pub(super) struct EncodedWindow {
    pub(super) runs: Vec<Result<Vec<Encoded>>>,
    pub(super) inline: Vec<Result<Option<Vec<u8>>>>,
}

/// What was accepted, but could not be committed at once.
#[derive(Debug, Default)]
pub(super) struct Again {
    pub(super) runs: VecDeque<Run>,
    pub(super) inline: VecDeque<InlineItem>,
}

impl Again {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.inline.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.inline.clear();
    }

    /// Finds inline extents where a commit put them. Runs are located when their turn comes.
    pub(super) fn follow(&mut self, forest: &Forest, replaced: &[(u64, Vec<u64>)]) -> Result<()> {
        if self.inline.is_empty() {
            return Ok(());
        }
        let replaced: BTreeMap<u64, &Vec<u64>> =
            replaced.iter().map(|(old, new)| (*old, new)).collect();
        for item in &mut self.inline {
            let Some(new) = replaced.get(&item.leaf.bytenr()) else { continue };
            for at in *new {
                let leaf = forest.load(Logical(*at), &Expect::leaf())?;
                if leaf.search(item.key).is_ok() {
                    item.leaf = leaf;
                    break;
                }
            }
        }
        Ok(())
    }
}
