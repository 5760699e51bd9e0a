//! A run while the walk adds to it.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::backref::{Allocation, ExtentRecord, data_uses, simple_quotas_since};
use crate::error::Result;
use crate::format::{
    COMPRESSED_EXTENT_MAX, Compression, FileExtent, FileExtentKind, Key, RAW_EXTENT_MAX, RangeSet,
    tree_id,
};
use crate::fs::DataExtent;
use crate::plan::run::cut;
use crate::plan::{Action, OldExtent, Piece, Run, SkipReason, Skipped};
use crate::tree::Forest;

/// A run is closed at the next border of extents when it has become so long.
const LENGTH_GOAL: u64 = 4 << 20;
/// Joined uncompressed extents may become so long.
const RAW_LENGTH_GOAL: u64 = RAW_EXTENT_MAX;
/// A run is closed here in any case; what its extents have beyond is moved with it.
const LENGTH_MAX: u64 = 256 << 20;

/// Pieces of one file so far, and the extents that they are in.
#[derive(Debug)]
pub(super) struct OpenRun {
    place: (u64, u64, u64),
    extents: Vec<DataExtent>,
    index: BTreeMap<u64, usize>,
    pieces: Vec<Piece>,
    /// What of each extent is in `pieces`.
    covered: Vec<RangeSet>,
    length: u64,
    /// File offset where the next piece would be.
    end: u64,
    /// File offset up to which the extents so far may have more pieces.
    reach: u64,
}

impl OpenRun {
    pub(super) const fn new(place: (u64, u64, u64)) -> Self {
        Self {
            place,
            extents: Vec::new(),
            index: BTreeMap::new(),
            pieces: Vec::new(),
            covered: Vec::new(),
            length: 0,
            end: place.2,
            reach: 0,
        }
    }

    /// Whether a file extent item at `key` is the run's next one.
    pub(super) fn continues_at(&self, key: Key, data: &DataExtent, action: Action) -> bool {
        let is_next = key.objectid == self.place.1 && key.offset == self.end;
        let is_alike = action != Action::Defrag
            || self.extents.last().is_none_or(|last| last.compression == data.compression);
        is_next && is_alike
    }

    pub(super) fn contains(&self, bytenr: u64) -> bool {
        self.index.contains_key(&bytenr)
    }

    /// The only extent, if there is just one.
    pub(super) fn only_extent(&self) -> Option<u64> {
        match self.extents.as_slice() {
            [only] => Some(only.bytenr),
            _ => None,
        }
    }

    pub(super) fn add(&mut self, key: Key, extent: &FileExtent, data: DataExtent) {
        let place = extent.place;
        let index = *self.index.entry(data.bytenr).or_insert_with(|| {
            self.extents.push(data);
            self.covered.push(RangeSet::default());
            self.extents.len() - 1
        });
        let mut new: RangeSet =
            std::iter::once(place.offset..place.offset + place.num_bytes).collect();
        self.covered[index].iter().for_each(|range| new.remove(range));
        for range in new.iter() {
            self.length += range.end - range.start;
            self.pieces.push(Piece { extent: index, range: range.clone() });
            self.covered[index].insert(range);
        }
        self.end = key.offset.saturating_add(place.num_bytes);
        let extent_end = key.offset.saturating_add(data.data_bytes).saturating_sub(place.offset);
        self.reach = self.reach.max(extent_end);
    }

    /// Whether old and new borders agree here, or the run is long enough.
    pub(super) fn can_close(&self, action: Action) -> bool {
        let is_raw = self.extents.iter().all(|extent| extent.compression == Compression::NONE);
        let (goal, is_on_grid) = match action {
            Action::Defrag if is_raw => (RAW_LENGTH_GOAL, false),
            Action::Defrag => (LENGTH_GOAL, false),
            Action::Recompress(_) => {
                (LENGTH_GOAL, self.length.is_multiple_of(COMPRESSED_EXTENT_MAX))
            }
        };
        let is_at_border = self.end >= self.reach;
        (is_at_border && (is_on_grid || self.length >= goal)) || self.length >= LENGTH_MAX
    }

    /// Finds everything that refers to the extents, and cuts all that is referred to into chunks: what the file has in
    /// its order, then what only others have. Extents that can't be moved are left out. Extents that different
    /// subvolumes are charged for stay apart.
    pub(super) fn close(self, forest: &Forest) -> Result<(Vec<Run>, Vec<Skipped>)> {
        let charged_since = simple_quotas_since(forest)?;
        let mut skipped = Vec::new();
        let mut gathered: BTreeMap<Option<u64>, Gathered> = BTreeMap::new();
        let mut kept = BTreeMap::new();
        for (index, data) in self.extents.into_iter().enumerate() {
            let (extent, referenced) = match locate(forest, data, charged_since)? {
                Ok(found) => found,
                Err(reason) => {
                    skipped.push(Skipped { reason, place: self.place, extent: Some(data) });
                    continue;
                }
            };
            let mut uncovered = referenced;
            self.covered[index].iter().for_each(|range| uncovered.remove(range));
            let payer = extent.payer;
            let run = gathered.entry(payer).or_default();
            let extent_index = run.extents.len();
            run.rest.extend(uncovered.iter().map(|range| Piece { extent: extent_index, range }));
            run.extents.push(extent);
            kept.insert(index, (payer, extent_index));
        }
        for piece in self.pieces {
            if let Some((payer, extent)) = kept.get(&piece.extent) {
                let run = gathered.entry(*payer).or_default();
                run.pieces.push(Piece { extent: *extent, ..piece });
            }
        }
        let runs = gathered.into_values().map(|run| run.cut(self.place)).collect();
        Ok((runs, skipped))
    }
}

/// What becomes a run.
#[derive(Default)]
struct Gathered {
    extents: Vec<OldExtent>,
    /// What the file has, in its order.
    pieces: Vec<Piece>,
    /// What only others have.
    rest: Vec<Piece>,
}

impl Gathered {
    fn cut(self, place: (u64, u64, u64)) -> Run {
        let Self { extents, mut pieces, mut rest } = self;
        let mut chunks;
        if extents.len() == 1 {
            // One extent keeps its own order, so that what others have of it stays in the same new extent.
            pieces.append(&mut rest);
            pieces.sort_by_key(|piece| piece.range.start);
            chunks = cut(&pieces);
        } else {
            chunks = cut(&pieces);
            chunks.extend(cut(&rest));
        }
        Run { extents, chunks, place }
    }
}

/// Everything that refers to an extent, and what of it is referred to; or why it can't be moved.
fn locate(
    forest: &Forest,
    data: DataExtent,
    charged_since: Option<u64>,
) -> Result<Result<(OldExtent, RangeSet), SkipReason>> {
    let sector = u64::from(forest.volume().sector_size());
    let Some(record) = ExtentRecord::find(&forest.tree(tree_id::EXTENT)?, data.bytenr)? else {
        return Ok(Err(SkipReason::Inconsistent));
    };
    if record.allocation != (Allocation::Data { length: data.disk_bytes }) {
        return Ok(Err(SkipReason::Inconsistent));
    }
    let uses = match data_uses(forest, &record) {
        Ok(uses) => uses,
        Err(error) if error.is_corrupt() => return Ok(Err(SkipReason::Inconsistent)),
        Err(error) => return Err(error),
    };
    let mut referenced = RangeSet::default();
    for (_, extent) in uses.iter().flat_map(|found| &found.items) {
        if extent.kind == FileExtentKind::Prealloc {
            return Ok(Err(SkipReason::Preallocated));
        }
        let Range { start, end } =
            extent.place.offset..extent.place.offset + extent.place.num_bytes;
        let is_aligned = start.is_multiple_of(sector) && end.is_multiple_of(sector);
        if DataExtent::from(extent) != data || !is_aligned || end > data.data_bytes {
            return Ok(Err(SkipReason::Inconsistent));
        }
        referenced.insert(start..end);
    }
    let payer = record.payer(charged_since);
    Ok(Ok((OldExtent { data, uses, payer }, referenced)))
}

impl Run {
    /// Finds all uses of its extents again, after a commit that moved the leaves that hold them.
    pub fn locate_again(&mut self, forest: &Forest) -> Result<bool> {
        let charged_since = simple_quotas_since(forest)?;
        for extent in &mut self.extents {
            match locate(forest, extent.data, charged_since)? {
                Ok((found, _)) => *extent = found,
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}
