//! How items and pointers are shared out among blocks.

use std::ops::Range;

use crate::format::ITEM_SIZE;

/// Cuts a leaf's items, given by the sizes of their data, into runs that each fit into `capacity` bytes: as few as
/// possible, and evenly filled.
pub(super) fn leaf_runs(sizes: &[usize], capacity: usize) -> Vec<Range<usize>> {
    runs(&sizes.iter().map(|size| size + ITEM_SIZE), capacity)
}

/// Cuts `count` pointers into runs of at most `count_max`.
pub(super) fn node_runs(count: usize, count_max: usize) -> Vec<Range<usize>> {
    runs(&std::iter::repeat_n(1, count), count_max)
}

fn runs(sizes: &(impl Iterator<Item = usize> + Clone), capacity: usize) -> Vec<Range<usize>> {
    let total: usize = sizes.clone().sum();
    let mut parts = total.div_ceil(capacity);
    loop {
        let goal = total.div_ceil(parts.max(1));
        let found = fill(sizes.clone(), goal, capacity);
        if found.len() <= parts || goal <= 1 {
            return found;
        }
        // Items can't be cut, so the fewest parts may be one more than the sum suggests.
        let tight = fill(sizes.clone(), capacity, capacity);
        if tight.len() <= parts {
            return tight;
        }
        parts += 1;
    }
}

/// Starts a new run where the one before has reached `goal`, or where the next item would not fit.
fn fill(sizes: impl Iterator<Item = usize>, goal: usize, capacity: usize) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut filled = 0;
    for (index, size) in sizes.enumerate() {
        match found.last_mut() {
            Some(run) if filled < goal && filled + size <= capacity => {
                run.end = index + 1;
                filled += size;
            }
            _ => {
                found.push(index..index + 1);
                filled = size;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_small_overflow_is_cut_in_the_middle() {
        assert_eq!(node_runs(11, 10), [0..6, 6..11]);
        assert_eq!(node_runs(10, 10).len(), 1);
        assert!(node_runs(0, 10).is_empty());
    }

    proptest! {
        #[test]
        fn runs_cover_everything_and_fit(sizes in prop::collection::vec(1..=100_usize, 0..200)) {
            let runs = runs(&sizes.iter().copied(), 100);
            let mut next = 0;
            for run in runs {
                prop_assert_eq!(run.start, next);
                prop_assert!(run.end > run.start);
                prop_assert!(sizes[run.clone()].iter().sum::<usize>() <= 100);
                next = run.end;
            }
            prop_assert_eq!(next, sizes.len());
        }
    }
}
