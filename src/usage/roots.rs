//! Every subvolume, and what dropping some of them would free.
//!
//! For each tree block the set of subvolumes that reach it is known once all its parents are; for each extent, the set
//! of those that refer to it. Equal sets are one number, so that a million extents need no million sets. What belongs
//! to just one set is freed when all of it is dropped.

use std::collections::HashMap;

use crate::error::Result;
use crate::format::FileExtent;
use crate::fs::Filesystem;
use crate::usage::blocks::{self, Labels, Sink};
use crate::usage::{Storage, Tally, Watch};

/// What a set of subvolumes, no more and no fewer, shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharing {
    /// The subvolumes, in the order in which they were given.
    pub roots: Vec<u64>,
    /// Bytes of data extents and of inline data on disk.
    pub disk: u64,
    /// Bytes of data extents alone.
    pub extents: u64,
    /// Bytes of tree blocks; one that holds inline data counts here too.
    pub metadata: u64,
}

/// The figures of one subvolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootUsage {
    /// The subvolume.
    pub id: u64,
    /// What compsize would say of it alone.
    pub tally: Tally,
    /// Bytes on disk that no other subvolume needs.
    pub exclusive: u64,
    /// Bytes of tree blocks that no other subvolume needs.
    pub metadata_exclusive: u64,
}

/// The figures of several subvolumes, together and each by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootsUsage {
    /// What compsize says of all of them.
    pub tally: Tally,
    /// Each by itself, in the order in which they were given.
    pub roots: Vec<RootUsage>,
    /// Which sets share how much; every byte belongs to one of them.
    pub sharing: Vec<Sharing>,
}

/// What dropping subvolumes would give back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Freed {
    /// Bytes on disk.
    pub disk: u64,
    /// Bytes of tree blocks.
    pub metadata: u64,
}

impl RootsUsage {
    /// The figures of one subvolume.
    pub fn root(&self, id: u64) -> Option<&RootUsage> {
        self.roots.iter().find(|root| root.id == id)
    }

    /// What dropping all of these subvolumes, and no other, would give back.
    pub fn freed_by(&self, ids: &[u64]) -> Freed {
        let gone = self.sharing.iter().filter(|set| set.roots.iter().all(|id| ids.contains(id)));
        gone.fold(Freed::default(), |freed, set| Freed {
            disk: freed.disk.saturating_add(set.disk),
            metadata: freed.metadata.saturating_add(set.metadata),
        })
    }
}

/// Counts these subvolumes, each tree block once. A data extent takes some 50 bytes of memory.
pub fn scan(fs: &Filesystem, roots: &[u64], watch: Watch<'_>) -> Result<RootsUsage> {
    let forest = fs.forest();
    let mut sets = Sets::default();
    let labelled: Vec<_> =
        roots.iter().enumerate().map(|(index, root)| (*root, sets.of_one(index))).collect();
    let labels = Labels::new(forest, &labelled, |a, b| sets.union(a, b))?;
    let mut count = Count { sets, by_set: Vec::new(), extents: HashMap::new() };
    blocks::visit(forest, roots, &labels, &mut count, watch)?;
    for label in labels.values() {
        let of_set = count.of_set(label);
        of_set.metadata = of_set.metadata.saturating_add(forest.volume().node_size().into());
    }
    Ok(count.finish(roots))
}

/// Sets of small numbers, each known by a number of its own.
#[derive(Debug, Default)]
struct Sets {
    members: Vec<Box<[u64]>>,
    numbers: HashMap<Box<[u64]>, u32>,
    unions: HashMap<(u32, u32), u32>,
}

impl Sets {
    fn of_one(&mut self, member: usize) -> u32 {
        let mut words = vec![0; member / 64 + 1];
        words[member / 64] |= 1 << (member % 64);
        self.number(words)
    }

    fn number(&mut self, words: Vec<u64>) -> u32 {
        let words = words.into_boxed_slice();
        if let Some(number) = self.numbers.get(&words) {
            return *number;
        }
        let number = self.members.len() as u32;
        self.members.push(words.clone());
        self.numbers.insert(words, number);
        number
    }

    fn union(&mut self, a: u32, b: u32) -> u32 {
        if a == b {
            return a;
        }
        let pair = (a.min(b), a.max(b));
        if let Some(number) = self.unions.get(&pair) {
            return *number;
        }
        let [a, b] = [a, b].map(|number| &self.members[number as usize]);
        let len = a.len().max(b.len());
        let word = |set: &[u64], index| set.get(index).copied().unwrap_or_default();
        let words = (0..len).map(|index| word(a, index) | word(b, index)).collect();
        let number = self.number(words);
        self.unions.insert(pair, number);
        number
    }

    /// The members of a set, in ascending order.
    fn members(&self, number: u32) -> impl Iterator<Item = usize> {
        let words = self.members[number as usize].iter().enumerate();
        words.flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
        })
    }
}

/// What is found for a set.
#[derive(Debug, Clone, Default)]
struct OfSet {
    /// Of the files, once for each member.
    refs: Tally,
    joined: u64,
    /// Of the extents, once for all members.
    extents: Tally,
    metadata: u64,
}

/// An extent and the set of those that refer to it.
#[derive(Debug)]
struct Used {
    set: u32,
    storage: Storage,
    disk: u64,
    uncompressed: u64,
}

/// A label is a set of roots.
struct Count {
    sets: Sets,
    by_set: Vec<OfSet>,
    extents: HashMap<u64, Used>,
}

impl Sink for Count {
    fn leaf(&mut self, label: u32, tally: &Tally) {
        self.of_set(label).refs.add(tally, 1);
    }

    fn extent(&mut self, label: u32, extent: &FileExtent) {
        let sets = &mut self.sets;
        self.extents
            .entry(extent.place.disk_bytenr)
            .and_modify(|used| used.set = sets.union(used.set, label))
            .or_insert_with(|| Used {
                set: label,
                storage: Storage::of(extent),
                disk: extent.place.disk_num_bytes,
                uncompressed: extent.ram_bytes,
            });
    }

    fn join_fragments(&mut self, label: u32, count: u64) {
        let of_set = self.of_set(label);
        of_set.joined = of_set.joined.saturating_add(count);
    }
}

impl Count {
    fn of_set(&mut self, set: u32) -> &mut OfSet {
        let set = set as usize;
        if set >= self.by_set.len() {
            self.by_set.resize(set + 1, OfSet::default());
        }
        &mut self.by_set[set]
    }

    fn finish(mut self, ids: &[u64]) -> RootsUsage {
        for used in std::mem::take(&mut self.extents).into_values() {
            self.of_set(used.set).extents.add_extent(used.storage, used.disk, used.uncompressed);
        }
        let new = |id: &u64| RootUsage {
            id: *id,
            tally: Tally::default(),
            exclusive: 0,
            metadata_exclusive: 0,
        };
        let mut usage = RootsUsage {
            tally: Tally::default(),
            roots: ids.iter().map(new).collect(),
            sharing: Vec::new(),
        };
        for (set, of_set) in (0..).zip(&mut self.by_set) {
            // Pieces counted apart that turned out to be one.
            of_set.refs.fragments = of_set.refs.fragments.saturating_sub(of_set.joined);
            let members: Vec<usize> = self.sets.members(set).collect();
            usage.tally.add(&of_set.refs, members.len() as u64);
            usage.tally.add(&of_set.extents, 1);
            let inline = of_set.refs.total().disk;
            let extents = of_set.extents.total().disk;
            let disk = extents.saturating_add(inline);
            for member in &members {
                let root = &mut usage.roots[*member];
                root.tally.add(&of_set.refs, 1);
                root.tally.add(&of_set.extents, 1);
                if members.len() == 1 {
                    root.exclusive = disk;
                    root.metadata_exclusive = of_set.metadata;
                }
            }
            if disk > 0 || of_set.metadata > 0 {
                let roots = members.iter().map(|member| ids[*member]).collect();
                usage.sharing.push(Sharing { roots, disk, extents, metadata: of_set.metadata });
            }
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_have_one_number() {
        let mut sets = Sets::default();
        let [a, b, c] = [0, 3, 70].map(|member| sets.of_one(member));
        let all = sets.union(a, b);
        let all = sets.union(all, c);
        let other_way = sets.union(c, b);
        assert_eq!(sets.union(a, other_way), all);
        assert_eq!(sets.union(all, b), all);
        assert_eq!(sets.members(all).collect::<Vec<_>>(), [0, 3, 70]);
    }
}
