//! From references to the figures of directories.

use std::sync::Arc;

use super::file::FileFigures;
use super::gather::{Gathered, Reference};
use super::tree::Directories;
use super::{Figures, SubtreeUsage};
use crate::backref::{ExtentRecord, data_uses};
use crate::error::{Error, Result};
use crate::format::{ExtentItem, Key, KeyKind, Node, tree_id};
use crate::tree::{Forest, Tree};
use crate::usage::{Amounts, Progress, Watch};

/// Extents between two reports of progress.
const WATCH_EVERY: u64 = 4096;

/// Gives every directory and file its figures.
pub(super) fn spread(
    forest: &Forest,
    root: u64,
    gathered: Gathered,
    watch: Watch<'_>,
) -> Result<SubtreeUsage> {
    let Gathered { directories: found, files, names, mut references } = gathered;
    // Stable: what is first in the tree says how an extent is stored.
    references.sort_by_key(|reference| reference.bytenr);
    let directories = Directories::new(found.iter().map(|(ino, _)| *ino), &names);
    let homes = Homes::new(&directories, &files, &names);
    let mut spread = Spread {
        records: Records { tree: forest.tree(tree_id::EXTENT)?, leaf: None },
        forest,
        added: vec![Figures::default(); directories.len()],
        taken: vec![Figures::default(); directories.len()],
        directories,
        homes,
        files,
    };
    for index in 0..spread.files.len() {
        spread.file(index as u32);
    }
    let total = references.len() as u64;
    let mut done: u64 = 0;
    for extent in references.chunk_by(|a, b| a.bytenr == b.bytenr) {
        spread.extent(extent)?;
        let before = done / WATCH_EVERY;
        done = done.saturating_add(extent.len() as u64);
        if done / WATCH_EVERY > before {
            watch(Progress { done, total })?;
        }
    }
    for (ino, count) in found {
        if let Some(number) = spread.directories.number(ino) {
            spread.added[number as usize].items = count;
        }
    }
    Ok(spread.finish(root))
}

/// For every file the directories that have a name of it.
struct Homes {
    /// By file, where its directories start, and at the end where they would go on.
    starts: Vec<u32>,
    /// Numbers of directories; those of a file ascend, each once.
    numbers: Vec<u32>,
}

impl Homes {
    fn new(directories: &Directories, files: &[(u64, FileFigures)], names: &[(u64, u64)]) -> Self {
        let mut pairs: Vec<(u32, u32)> = names
            .iter()
            .filter_map(|(parent, ino)| {
                let file = files.binary_search_by_key(ino, |(ino, _)| *ino).ok()?;
                Some((file as u32, directories.number(*parent)?))
            })
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        let starts = (0..=files.len() as u32)
            .map(|file| pairs.partition_point(|(of, _)| *of < file) as u32)
            .collect();
        Self { starts, numbers: pairs.into_iter().map(|(_, number)| number).collect() }
    }

    fn of(&self, file: u32) -> &[u32] {
        let file = file as usize;
        &self.numbers[self.starts[file] as usize..self.starts[file + 1] as usize]
    }
}

struct Spread<'a> {
    forest: &'a Forest,
    records: Records<'a>,
    directories: Directories,
    homes: Homes,
    files: Vec<(u64, FileFigures)>,
    /// By number of directory: what was counted there.
    added: Vec<Figures>,
    /// By number of directory: what was counted twice below.
    taken: Vec<Figures>,
}

impl Spread<'_> {
    /// Makes a change once in every directory that holds at least one of `homes`, which ascend.
    fn count(&mut self, homes: &[u32], change: impl Fn(&mut Figures)) {
        for home in homes {
            change(&mut self.added[*home as usize]);
        }
        for pair in homes.windows(2) {
            let meet = self.directories.meet(pair[0], pair[1]);
            change(&mut self.taken[meet as usize]);
        }
    }

    /// Counts what a file has by itself.
    fn file(&mut self, index: u32) {
        let homes = self.homes.of(index).to_vec();
        let own = self.files[index as usize].1.figures();
        self.count(&homes, |figures| figures.tally.add(&own.tally, 1));
        if let Some(meet) = self.meet(&homes) {
            let exclusive = &mut self.added[meet as usize].exclusive;
            *exclusive = exclusive.saturating_add(own.exclusive);
        }
    }

    /// Where all of `homes`, which ascend, meet.
    fn meet(&self, homes: &[u32]) -> Option<u32> {
        let (first, last) = (homes.first()?, homes.last()?);
        Some(self.directories.meet(*first, *last))
    }

    /// Counts an extent, given all of this subvolume's references to it.
    fn extent(&mut self, references: &[Reference]) -> Result<()> {
        let Some(first) = references.first() else { return Ok(()) };
        let count = self.records.count(first)?;
        let is_own = references.iter().all(|reference| reference.is_own)
            && count == Some(references.len() as u64);
        let waste = self.waste(references, is_own)?;
        let disk = u64::from(first.disk);
        let amounts = Amounts { disk, uncompressed: first.uncompressed.into(), referenced: 0 };
        let mut files: Vec<u32> = references.iter().map(|reference| reference.file).collect();
        files.sort_unstable();
        files.dedup();
        for file in &files {
            let (_, figures) = &mut self.files[*file as usize];
            figures.add_extent(first.storage, &amounts);
            figures.waste = figures.waste.saturating_add(waste);
            if is_own && files.len() == 1 {
                figures.exclusive = figures.exclusive.saturating_add(disk);
            }
        }
        let mut homes: Vec<u32> =
            files.iter().flat_map(|file| self.homes.of(*file)).copied().collect();
        homes.sort_unstable();
        homes.dedup();
        self.count(&homes, |figures| {
            figures.tally.add_extent(first.storage, amounts.disk, amounts.uncompressed);
            figures.waste = figures.waste.saturating_add(waste);
        });
        if let Some(meet) = self.meet(&homes).filter(|_| is_own) {
            let exclusive = &mut self.added[meet as usize].exclusive;
            *exclusive = exclusive.saturating_add(disk);
        }
        Ok(())
    }

    /// Bytes on disk of the parts of an extent that nobody refers to.
    fn waste(&self, references: &[Reference], is_own: bool) -> Result<u64> {
        let Some(first) = references.first() else { return Ok(0) };
        let whole = u64::from(first.uncompressed).max(1);
        let part = |reference: &Reference| {
            let start = u64::from(reference.offset);
            (start, start + u64::from(reference.len))
        };
        let mut parts: Vec<(u64, u64)> = references.iter().map(part).collect();
        let mut unused = whole.saturating_sub(covered(&mut parts));
        if unused > 0 && !is_own {
            // Other subvolumes may use the rest. What is damaged there is no matter of these figures.
            let uses = ExtentRecord::load(&self.records.tree, first.bytenr)
                .and_then(|record| data_uses(self.forest, &record));
            let uses = match uses {
                Err(error) if error.is_corrupt() => return Ok(0),
                other => other?,
            };
            let places = uses.iter().flat_map(|found| &found.items).map(|(_, extent)| extent.place);
            parts.extend(
                places.map(|place| (place.offset, place.offset.saturating_add(place.num_bytes))),
            );
            unused = whole.saturating_sub(covered(&mut parts));
        }
        let bytes = u128::from(first.disk) * u128::from(unused) / u128::from(whole);
        Ok(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    fn finish(mut self, root: u64) -> SubtreeUsage {
        for number in (1..self.directories.len()).rev() {
            let parent = self.directories.parent(number as u32) as usize;
            for sums in [&mut self.added, &mut self.taken] {
                let below = sums[number];
                let sum = &mut sums[parent];
                sum.tally.add(&below.tally, 1);
                sum.exclusive = sum.exclusive.saturating_add(below.exclusive);
                sum.waste = sum.waste.saturating_add(below.waste);
                sum.items = sum.items.saturating_add(below.items);
            }
        }
        let sums = self.added.into_iter().zip(self.taken).enumerate();
        let mut directories: Vec<(u64, Figures)> = sums
            .map(|(number, (mut sum, taken))| {
                sum.tally.subtract(&taken.tally);
                sum.waste = sum.waste.saturating_sub(taken.waste);
                (self.directories.ino(number), sum)
            })
            .collect();
        directories.sort_unstable_by_key(|(ino, _)| *ino);
        SubtreeUsage { root, directories, files: self.files }
    }
}

/// Bytes that ranges cover together.
fn covered(ranges: &mut [(u64, u64)]) -> u64 {
    ranges.sort_unstable();
    let mut end = 0;
    ranges.iter().fold(0, |sum: u64, (from, to)| {
        let start = (*from).max(end);
        end = end.max(*to);
        sum.saturating_add(to.saturating_sub(start))
    })
}

/// Looks up extents that come in order of their addresses.
struct Records<'a> {
    tree: Tree<'a>,
    leaf: Option<Arc<Node>>,
}

impl Records<'_> {
    /// How many references an extent has, by its record.
    fn count(&mut self, extent: &Reference) -> Result<Option<u64>> {
        let key = Key::new(extent.bytenr, KeyKind::EXTENT_ITEM, extent.disk.into());
        let holds = |leaf: &&Arc<Node>| {
            let last = leaf.len().checked_sub(1).map(|slot| leaf.key(slot));
            leaf.first_key() <= Some(key) && last >= Some(key)
        };
        let leaf = match self.leaf.as_ref().filter(holds) {
            Some(leaf) => Arc::clone(leaf),
            None => self.tree.node_at(0, key)?,
        };
        let count = match leaf.search(key) {
            Ok(slot) => {
                let head = ExtentItem::view(leaf.data(slot));
                let (head, _) =
                    head.map_err(|damage| Error::in_item(damage, tree_id::EXTENT, key))?;
                Some(head.refs.get())
            }
            Err(_) => None,
        };
        self.leaf = Some(leaf);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::covered;

    #[test]
    fn ranges_that_overlap_count_once() {
        assert_eq!(covered(&mut []), 0);
        assert_eq!(covered(&mut [(8, 12), (0, 4), (2, 6), (3, 5)]), 10);
    }
}
