//! The checksum tree, and with it all data.

use std::ops::Range;

use rayon::prelude::*;

use crate::check::Check;
use crate::check::extents::{Index, each_leaf};
use crate::check::finding::{Findings, Problem};
use crate::error::{Place, Result};
use crate::format::{Damage, Key, KeyKind, Logical, RangeSet, tree_id};
use crate::tree::Forest;
use crate::usage::{Progress, Watch};

/// Sectors to read at a time.
const SECTORS: u64 = 64;

/// Which data has checksums.
#[derive(Debug, Default)]
pub(super) struct Csums {
    /// In order, neighbours joined.
    ranges: Vec<Range<u64>>,
    /// Whether all of the checksum tree could be read.
    pub(super) is_complete: bool,
}

impl Csums {
    pub(super) fn load(forest: &Forest, findings: &Findings) -> Self {
        let mut csums = Self::default();
        let Some(tree) = forest.find_tree(tree_id::CSUM) else { return csums };
        let size = forest.volume().checksum_kind().size();
        let sector = u64::from(forest.volume().sector_size());
        csums.is_complete = each_leaf(&tree, &mut |leaf| {
            for (key, data) in leaf.items() {
                if (key.objectid, key.kind) != (tree_id::EXTENT_CSUM, KeyKind::EXTENT_CSUM) {
                    continue;
                }
                let count = (data.len() / size) as u64;
                let end = key.offset.saturating_add(count.saturating_mul(sector));
                let at = || Place::Item { tree: tree_id::CSUM, key };
                if !data.len().is_multiple_of(size) || !key.offset.is_multiple_of(sector) {
                    findings.rule(at(), "is not checksums of whole sectors");
                }
                match csums.ranges.last_mut() {
                    Some(last) if last.end > key.offset => {
                        findings.rule(at(), "overlaps the checksums before it");
                        last.end = last.end.max(end);
                    }
                    Some(last) if last.end == key.offset => last.end = end,
                    _ => csums.ranges.push(key.offset..end),
                }
            }
        });
        csums
    }

    /// Whether all of a range has checksums.
    pub(super) fn covers(&self, range: &Range<u64>) -> bool {
        let before = self.ranges.partition_point(|known| known.start <= range.start);
        let known = before.checked_sub(1).and_then(|slot| self.ranges.get(slot));
        known.is_some_and(|known| known.end >= range.end)
    }

    /// Whether any of a range has a checksum.
    pub(super) fn intersects(&self, range: &Range<u64>) -> bool {
        let first = self.ranges.partition_point(|known| known.end <= range.start);
        self.ranges.get(first).is_some_and(|known| known.start < range.end)
    }

    /// Whether there is data, if only in the log, wherever there are checksums.
    pub(super) fn check_extents(&self, index: &Index, logged: &RangeSet, findings: &Findings) {
        for range in &self.ranges {
            let mut at = range.start;
            for extent in index.within(range).iter().filter(|extent| extent.level.is_none()) {
                if extent.bytenr > at {
                    if !logged.contains(&(at..extent.bytenr)) {
                        break;
                    }
                    at = extent.bytenr;
                }
                at = at.max(extent.bytenr.saturating_add(extent.length));
            }
            if at < range.end && !logged.contains(&(at..range.end)) {
                findings.rule(Place::Block(Logical(at)), "checksums for what is no data");
            }
        }
    }
}

/// Some sectors with their checksums.
struct Piece {
    at: u64,
    sums: Vec<u8>,
}

/// Reads every copy of all data that has checksums; gives the bytes read.
pub(super) fn check_data(check: &Check<'_>, watch: Watch<'_>) -> Result<u64> {
    let Some(tree) = check.forest.find_tree(tree_id::CSUM) else { return Ok(0) };
    let total = check
        .csums
        .ranges
        .iter()
        .fold(0_u64, |sum, range| sum.saturating_add(range.end.saturating_sub(range.start)));
    let (mut done, mut read, mut outcome) = (0_u64, 0_u64, Ok(()));
    let size = check.forest.volume().checksum_kind().size();
    let sector = u64::from(check.forest.volume().sector_size());
    each_leaf(&tree, &mut |leaf| {
        if outcome.is_err() {
            return;
        }
        let sums = leaf.items().filter(|(key, _)| key.kind == KeyKind::EXTENT_CSUM);
        let pieces: Vec<Piece> =
            sums.flat_map(|(key, data)| pieces(key, data, sector, size)).collect();
        done = pieces
            .iter()
            .fold(done, |sum, piece| sum.saturating_add((piece.sums.len() / size) as u64 * sector));
        let bytes: u64 = pieces.par_iter().map(|piece| check_piece(check, piece)).sum();
        read = read.saturating_add(bytes);
        outcome = watch(Progress { done, total });
    });
    outcome.map(|()| read)
}

fn pieces(key: Key, data: &[u8], sector: u64, size: usize) -> impl Iterator<Item = Piece> {
    let step = SECTORS as usize * size;
    data.chunks(step).enumerate().map(move |(number, sums)| Piece {
        at: key.offset.saturating_add(number as u64 * SECTORS * sector),
        sums: sums[..sums.len() - sums.len() % size].to_vec(),
    })
}

fn check_piece(check: &Check<'_>, piece: &Piece) -> u64 {
    let volume = check.forest.volume();
    let (kind, sector) = (volume.checksum_kind(), u64::from(volume.sector_size()));
    let at = Logical(piece.at);
    let copies = match volume.copies(at) {
        Ok(copies) => copies,
        Err(error) => {
            check.findings.error(error);
            return 0;
        }
    };
    let mut bytes = vec![0; piece.sums.len() / kind.size() * sector as usize];
    for copy in 0..copies {
        let whole = volume.read_copy(at, copy, &mut bytes);
        let sectors = bytes.chunks_exact_mut(sector as usize).zip(piece.sums.chunks(kind.size()));
        for (number, (bytes, expected)) in sectors.enumerate() {
            let at = Logical(piece.at.saturating_add(number as u64 * sector));
            let is_read = whole.is_ok() || volume.read_copy(at, copy, bytes).is_ok();
            if !is_read {
                check.findings.add(Place::Block(at), Problem::Copy { copy });
            } else if !kind.of(bytes).starts_with(expected) {
                let what = if copies == 1 {
                    Problem::Damage(Damage::Checksum)
                } else {
                    Problem::Copy { copy }
                };
                check.findings.add(Place::Block(at), what);
            }
        }
    }
    (bytes.len() * copies) as u64
}
