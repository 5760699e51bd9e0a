//! Sets of byte ranges.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "ends are not below starts, and lengths sum up to less than 2^64"
)]

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges that never touch: neighbours are joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    ends: BTreeMap<u64, u64>,
    total: u64,
}

impl RangeSet {
    /// Adds `range`; what of it is in the set already stays there once.
    pub fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((&other, &other_end)) =
            self.ends.range(..=end).next_back().filter(|(_, other_end)| **other_end >= start)
        {
            self.ends.remove(&other);
            self.total -= other_end - other;
            start = start.min(other);
            end = end.max(other_end);
        }
        self.ends.insert(start, end);
        self.total += end - start;
    }

    /// Takes `range` out, as far as it is in the set.
    pub fn remove(&mut self, range: Range<u64>) {
        while let Some((&start, &end)) =
            self.ends.range(..range.end).next_back().filter(|(_, end)| **end > range.start)
        {
            self.ends.remove(&start);
            self.total -= end - start;
            for (start, end) in [(start, range.start), (range.end, end)] {
                if start < end {
                    self.ends.insert(start, end);
                    self.total += end - start;
                }
            }
        }
    }

    /// Whether all of `range` is in the set.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        self.ends.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    /// Sum of all lengths.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// The ranges, or ends of ranges, from `at` on, in order.
    pub fn iter_from(&self, at: u64) -> impl Iterator<Item = Range<u64>> {
        let first = self.ends.range(..at).next_back().filter(|(_, end)| **end > at);
        first
            .map(|(_, end)| at..*end)
            .into_iter()
            .chain(self.ends.range(at..).map(|(start, end)| *start..*end))
    }

    /// The ranges that overlap `range` or touch it, in order.
    pub fn touching(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.ends.range(..range.start).next_back();
        first
            .filter(|(_, end)| **end >= range.start)
            .into_iter()
            .chain(self.ends.range(range.start..=range.end))
            .map(|(start, end)| *start..*end)
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::default();
        ranges.into_iter().for_each(|range| set.insert(range));
        set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_join_and_holes_split() {
        let mut set: RangeSet = [0..10, 20..30, 10..20].into_iter().collect();
        assert!(set.iter().eq(std::iter::once(0..30)));
        set.remove(5..7);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0..5, 7..30]);
        assert_eq!(set.total(), 28);
        assert_eq!(set.touching(&(5..7)).collect::<Vec<_>>(), [0..5, 7..30]);
        assert!(set.touching(&(30..31)).eq(std::iter::once(7..30)));
        assert_eq!(set.touching(&(31..32)).count(), 0);
        assert_eq!(set.iter_from(3).collect::<Vec<_>>(), [3..5, 7..30]);
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_numbers(ops in prop::collection::vec((any::<bool>(), 0..64_u64, 0..16_u64), 0..60)) {
            let mut set = RangeSet::default();
            let mut model = [false; 96];
            for (is_insert, start, len) in ops {
                if is_insert { set.insert(start..start + len) } else { set.remove(start..start + len) }
                model[start as usize..(start + len) as usize].fill(is_insert);
            }
            let mut found = [false; 96];
            for range in set.iter() {
                found[range.start as usize..range.end as usize].fill(true);
            }
            prop_assert_eq!(found, model);
            prop_assert_eq!(set.total(), model.iter().filter(|bit| **bit).count() as u64);
        }
    }
}
