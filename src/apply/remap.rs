//! The outcome of rewriting: where every byte of the old extents is now, and what that makes of file extent items.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::{
    Compression, Damage, FileExtent, FileExtentKind, Key, KeyKind, Logical, Node, Placement,
};
use crate::txn::LeafItems;

/// A new data extent.
#[derive(Debug, Clone)]
pub(super) struct NewExtent {
    pub(super) bytenr: u64,
    pub(super) disk_bytes: u64,
    pub(super) data_bytes: u64,
    pub(super) compression: Compression,
    pub(super) csums: Vec<u8>,
    /// The subvolume that it is charged to under simple quotas.
    pub(super) payer: Option<u64>,
}

/// A part of an old extent, and where it is now.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// Bytes of the old extent's decoded data.
    pub(super) old: Range<u64>,
    /// Index of the new extent.
    pub(super) new: usize,
    /// Where the part starts in the new extent's decoded data.
    pub(super) at: u64,
}

/// Maps old extents to new ones. Each old byte that is referred to has exactly one place.
#[derive(Debug, Default)]
pub(super) struct Remap {
    pub(super) news: Vec<NewExtent>,
    /// Segments by old extent, in the order of its data.
    pub(super) olds: BTreeMap<u64, Vec<Segment>>,
    /// New data of items with inline extents, by leaf and key.
    pub(super) inline: BTreeMap<(u64, Key), Vec<u8>>,
}

impl Remap {
    /// What becomes of a leaf: a pure function of its items and this table, so that equal leaves stay equal.
    pub(super) fn leaf(&self, leaf: &Node) -> Result<LeafItems> {
        let mut items = LeafItems::new();
        let mut last: Option<(Key, FileExtent)> = None;
        for (key, data) in leaf.items() {
            let broken = |damage| Error::at(damage, Logical(leaf.bytenr()));
            let extent = match key.kind {
                KeyKind::EXTENT_DATA => Some(FileExtent::parse(data).map_err(broken)?.0),
                _ => None,
            };
            let segments = extent
                .filter(|extent| extent.kind == FileExtentKind::Regular && !extent.is_hole())
                .and_then(|extent| Some((extent, self.olds.get(&extent.place.disk_bytenr)?)));
            let Some((extent, segments)) = segments else {
                last.take()
                    .into_iter()
                    .for_each(|(key, extent)| items.push((key, extent.to_bytes())));
                let data = self.inline.get(&(leaf.bytenr(), key)).map_or(data, Vec::as_slice);
                items.push((key, data.to_vec()));
                continue;
            };
            for (key, extent) in self.pieces(key, &extent, segments).map_err(broken)? {
                match &mut last {
                    Some(last) if continues(last, key, &extent) => {
                        last.1.place.num_bytes += extent.place.num_bytes;
                        last.1.generation = last.1.generation.max(extent.generation);
                    }
                    last => {
                        let before = last.replace((key, extent));
                        items.extend(before.map(|(key, extent)| (key, extent.to_bytes())));
                    }
                }
            }
        }
        items.extend(last.map(|(key, extent)| (key, extent.to_bytes())));
        Ok(items)
    }

    /// The file extents that one old file extent is mapped to.
    fn pieces(
        &self,
        key: Key,
        old: &FileExtent,
        segments: &[Segment],
    ) -> Result<Vec<(Key, FileExtent)>, Damage> {
        let end = old.place.offset + old.place.num_bytes;
        let mut at = old.place.offset;
        let first = segments.partition_point(|segment| segment.old.end <= at);
        let mut pieces = Vec::new();
        for segment in &segments[first..] {
            if at >= end || segment.old.start > at {
                break;
            }
            let new = &self.news[segment.new];
            let until = end.min(segment.old.end);
            let extent = FileExtent {
                ram_bytes: new.data_bytes,
                compression: new.compression,
                place: Placement {
                    disk_bytenr: new.bytenr,
                    disk_num_bytes: new.disk_bytes,
                    offset: segment.at + (at - segment.old.start),
                    num_bytes: until - at,
                },
                ..*old
            };
            let offset = key.offset + (at - old.place.offset);
            pieces.push((Key { offset, ..key }, extent));
            at = until;
        }
        if at == end {
            Ok(pieces)
        } else {
            let what = "a part that is referred to has no new place";
            Err(Damage::Extent { bytenr: old.place.disk_bytenr, what })
        }
    }
}

/// Whether a file extent goes on where another one ends, in the file and in the extent.
fn continues(last: &(Key, FileExtent), key: Key, extent: &FileExtent) -> bool {
    let (last_key, before) = last;
    last_key.objectid == key.objectid
        && last_key.offset + before.place.num_bytes == key.offset
        && before.place.disk_bytenr == extent.place.disk_bytenr
        && before.place.offset + before.place.num_bytes == extent.place.offset
}
