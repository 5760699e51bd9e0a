//! Whole subvolumes, each tree block visited once.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::format::{FileExtent, tree_id};
use crate::fs::{Filesystem, Subvolume};
use crate::usage::blocks::{self, Labels, Sink};
use crate::usage::sectors::SectorSet;
use crate::usage::{Storage, Tally, Watch};

/// Counts the files of these subvolumes. What is inside of other subvolumes that hang in them is not counted.
pub fn scan(fs: &Filesystem, roots: &[u64], watch: Watch<'_>) -> Result<Tally> {
    let forest = fs.forest();
    let labelled: Vec<_> = roots.iter().map(|root| (*root, 1)).collect();
    let labels = Labels::new(forest, &labelled, u32::saturating_add)?;
    let mut count = Count { tally: Tally::default(), joined: 0, seen: SectorSet::default() };
    blocks::visit(forest, roots, &labels, &mut count, watch)?;
    count.tally.fragments = count.tally.fragments.saturating_sub(count.joined);
    Ok(count.tally)
}

/// A label is the number of roots that reach a block.
struct Count {
    tally: Tally,
    joined: u64,
    seen: SectorSet,
}

impl Sink for Count {
    fn leaf(&mut self, label: u32, tally: &Tally) {
        self.tally.add(tally, label.into());
    }

    fn extent(&mut self, _: u32, extent: &FileExtent) {
        let place = &extent.place;
        if self.seen.insert(place.disk_bytenr) {
            self.tally.add_extent(Storage::of(extent), place.disk_num_bytes, extent.ram_bytes);
        }
    }

    fn join_fragments(&mut self, label: u32, count: u64) {
        self.joined = self.joined.saturating_add(count.saturating_mul(label.into()));
    }
}

/// The subvolume `top` and all that hang in it, in the order in which a walk from the top level comes upon them;
/// deleted ones left out.
pub fn subvolumes_below(subvolumes: &[Subvolume], top: u64) -> Vec<u64> {
    let mut children: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for subvolume in subvolumes.iter().filter(|subvolume| !subvolume.is_deleted) {
        // One that hangs nowhere, which only damage can bring about, still is there.
        let parent = subvolume.parent.unwrap_or(tree_id::FS);
        if subvolume.id != parent {
            children.entry(parent).or_default().insert(subvolume.id);
        }
    }
    let mut found = Vec::new();
    let mut waiting = vec![top];
    while let Some(id) = waiting.pop() {
        found.push(id);
        // Taken out, so that a circle ends.
        waiting.extend(children.remove(&id).unwrap_or_default().into_iter().rev());
    }
    found
}
