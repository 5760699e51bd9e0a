//! What is accepted until the next commit: where it goes, and the commit itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::apply::encode::Encoded;
use crate::apply::remap::{NewExtent, Remap, Segment};
use crate::apply::work::Again;
use crate::error::{Error, Result};
use crate::format::{
    COMPRESSED_EXTENT_MAX, Compression, Incompat, Key, Logical, Node, RAW_EXTENT_MAX, tree_id,
};
use crate::fs::data_csums;
use crate::plan::{InlineItem, Run};
use crate::tree::Forest;
use crate::txn::{Committed, Space, SpaceKind, Txn};

/// What the kernel wants to have at hand for tree blocks to be able to delete files on a full filesystem, at least and at
/// most: its "global reserve".
const RESERVE_BLOCKS_MIN: u64 = 22 * 16;
const RESERVE_MAX: u64 = 512 << 20;

/// Space that a step needs, or more, and what of it is there; bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    /// The least that would do.
    pub needed: u64,
    /// What is free.
    pub free: u64,
}

/// Contents for one extent, or for a row of extents where free space is in pieces.
#[derive(Debug)]
pub(super) struct Part {
    /// Index of the first chunk, and behind the last one.
    chunks: std::ops::Range<usize>,
    encoded: Encoded,
}

impl Part {
    /// Length on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.encoded.payload.len() as u64
    }
}

/// Joins neighbouring uncompressed chunks. Only whole ones are followed by more, so that the next run cuts the joined
/// extent into the same chunks.
pub(super) fn join_parts(encoded: Vec<Encoded>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (index, encoded) in encoded.into_iter().enumerate() {
        let is_raw = |encoded: &Encoded| encoded.compression == Compression::NONE;
        match parts.last_mut() {
            Some(last)
                if is_raw(&last.encoded)
                    && is_raw(&encoded)
                    && last.encoded.data_bytes.is_multiple_of(COMPRESSED_EXTENT_MAX)
                    && last.encoded.data_bytes + encoded.data_bytes <= RAW_EXTENT_MAX =>
            {
                last.chunks.end = index + 1;
                last.encoded.data_bytes += encoded.data_bytes;
                last.encoded.payload.extend(encoded.payload);
                last.encoded.csums.extend(encoded.csums);
            }
            _ => parts.push(Part { chunks: index..index + 1, encoded }),
        }
    }
    parts
}

/// Everything accepted since the last commit.
#[derive(Debug, Default)]
pub(super) struct Batch {
    remap: Remap,
    /// The leaves that change.
    leaves: BTreeMap<u64, Arc<Node>>,
    runs: Vec<Run>,
    inline: Vec<InlineItem>,
    /// Data that is still to be written.
    unwritten: Vec<(u64, Vec<u8>)>,
    unwritten_bytes: u64,
    /// Bytes of all new data.
    data_bytes: u64,
    features: Incompat,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Bytes of new data.
    pub(super) const fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Bytes of new data that is still to be written.
    pub(super) const fn unwritten_bytes(&self) -> u64 {
        self.unwritten_bytes
    }

    /// Number of extents to be replaced, and of leaves that change.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.remap.olds.len(), self.leaves.len())
    }

    /// Number of runs and inline extents.
    pub(super) fn items(&self) -> usize {
        self.runs.len() + self.inline.len()
    }

    /// Data that is still to be written: address and bytes. The caller writes it before [`commit`](Self::commit).
    pub(super) fn take_unwritten(&mut self) -> Vec<(u64, Vec<u8>)> {
        self.unwritten_bytes = 0;
        std::mem::take(&mut self.unwritten)
    }

    /// Addresses of the extents that are replaced, and of those that replace them.
    pub(super) fn extents(&self) -> (impl Iterator<Item = u64>, impl Iterator<Item = u64>) {
        (self.remap.olds.keys().copied(), self.remap.news.iter().map(|new| new.bytenr))
    }

    /// Accepts a run: finds room for its parts. When there is none, nothing is changed and the run comes back.
    pub(super) fn add(
        &mut self,
        space: &mut Space,
        sector: u64,
        run: Run,
        parts: Vec<Part>,
    ) -> Result<(), Box<(Run, Vec<Part>)>> {
        let mark = space.mark();
        let mut rooms = Vec::with_capacity(parts.len());
        for part in &parts {
            let Some(room) = find_room(space, &part.encoded, sector) else {
                space.undo_to(mark);
                return Err(Box::new((run, parts)));
            };
            rooms.push(room);
        }
        for (part, room) in parts.into_iter().zip(rooms) {
            self.place(&run, part, &room, sector);
        }
        for found in run.extents.iter().flat_map(|extent| &extent.uses) {
            self.leaves.insert(found.leaf.bytenr(), Arc::clone(&found.leaf));
        }
        for extent in &run.extents {
            if let Some(segments) = self.remap.olds.get_mut(&extent.data.bytenr) {
                segments.sort_by_key(|segment| segment.old.start);
            }
        }
        self.runs.push(run);
        Ok(())
    }

    /// Notes where the pieces of a part come to lie.
    fn place(&mut self, run: &Run, part: Part, room: &[(u64, u64)], sector: u64) {
        let Part { chunks, encoded } = part;
        let is_raw = encoded.compression == Compression::NONE;
        self.features |= feature_of(encoded.compression);
        let mut pieces: Vec<_> =
            run.chunks[chunks].iter().flat_map(|chunk| chunk.pieces.clone()).rev().collect();
        let Encoded { data_bytes, compression, mut payload, mut csums } = encoded;
        let csum_size = csums.len() as u64 / (payload.len() as u64 / sector);
        for (bytenr, length) in room {
            let rest = payload.split_off(*length as usize);
            let rest_csums = csums.split_off((length / sector * csum_size) as usize);
            let new = self.remap.news.len();
            let length_data = if is_raw { *length } else { data_bytes };
            self.remap.news.push(NewExtent {
                bytenr: *bytenr,
                disk_bytes: *length,
                data_bytes: length_data,
                compression,
                csums: std::mem::replace(&mut csums, rest_csums),
                payer: run.payer(),
            });
            self.data_bytes += length;
            self.unwritten_bytes += length;
            self.unwritten.push((*bytenr, std::mem::replace(&mut payload, rest)));
            let mut at = 0;
            while at < length_data {
                let mut piece = pieces.pop().expect("the pieces are as long as the data");
                let old_start = piece.range.start;
                let old_end = piece.range.end.min(old_start + (length_data - at));
                let old = old_start..old_end;
                let segments =
                    self.remap.olds.entry(run.extents[piece.extent].data.bytenr).or_default();
                segments.push(Segment { old, new, at });
                at += old_end - old_start;
                piece.range.start = old_end;
                if piece.range.start < piece.range.end {
                    pieces.push(piece);
                }
            }
        }
    }

    /// Accepts new data for the item of an inline extent.
    pub(super) fn add_inline(&mut self, item: &InlineItem, data: Vec<u8>) {
        let compression = data.get(16).copied().map_or(Compression::NONE, Compression);
        self.features |= feature_of(compression);
        self.leaves.insert(item.leaf.bytenr(), Arc::clone(&item.leaf));
        let key: (u64, Key) = (item.leaf.bytenr(), item.key);
        self.remap.inline.insert(key, data);
        self.inline.push(item.clone());
    }

    /// Re-points every reference and commits. The data must be written by now. When the metadata does not fit, it tells
    /// by how much: nothing has happened then, and all space taken is free again.
    ///
    /// The filesystem is left with as much free metadata space as the kernel needs to delete files, or with no less than
    /// it had.
    pub(super) fn commit(
        &self,
        forest: &mut Forest,
        space: &mut Space,
    ) -> Result<Result<Committed, Lack>> {
        let free = space.available(SpaceKind::Metadata);
        let enough = kernel_reserve(forest).min(free);
        let mut txn = Txn::begin(forest, space)?;
        let prepared = self.build(&mut txn).and_then(|()| txn.prepare());
        let lack = match &prepared {
            Ok(_) => enough.saturating_sub(space.free_after_commit(SpaceKind::Metadata)),
            Err(Error::NoSpace(_)) => forest.volume().node_size().into(),
            Err(_) => 0,
        };
        match prepared {
            Ok(prepared) if lack == 0 => prepared.commit(forest, space).map(Ok),
            Ok(_) | Err(Error::NoSpace(_)) => {
                space.undo_to(0);
                Ok(Err(Lack { needed: free + lack, free }))
            }
            Err(error) => {
                space.undo_to(0);
                Err(error)
            }
        }
    }

    fn build(&self, txn: &mut Txn<'_>) -> Result<()> {
        for new in &self.remap.news {
            txn.add_data(new.bytenr, new.disk_bytes, new.csums.clone(), new.payer);
        }
        txn.require(self.features);
        let leaves = self
            .leaves
            .values()
            .map(|leaf| Ok((Arc::clone(leaf), self.remap.leaf(leaf)?)))
            .collect::<Result<_>>()?;
        txn.rewrite_leaves(leaves)
    }

    /// The runs that were accepted.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The inline extents that were accepted.
    pub(super) fn inline(&self) -> &[InlineItem] {
        &self.inline
    }

    /// Hands everything accepted over, to be tried again after the batch could not be committed.
    pub(super) fn give_back(self, again: &mut Again) {
        again.runs.extend(self.runs);
        again.inline.extend(self.inline);
    }
}

/// What the kernel reserves for tree blocks: as much as its own trees take, within bounds.
fn kernel_reserve(forest: &Forest) -> u64 {
    let trees = [tree_id::EXTENT, tree_id::CSUM, tree_id::FREE_SPACE, tree_id::BLOCK_GROUP];
    let entries = trees.iter().filter_map(|tree| forest.roots().get(tree));
    let used = entries.map(|entry| entry.item.bytes_used.get()).fold(0, u64::saturating_add);
    used.max(RESERVE_BLOCKS_MIN * u64::from(forest.volume().node_size())).min(RESERVE_MAX)
}

/// Address and length of each extent for a part; compressed ones can't be split.
fn find_room(space: &mut Space, encoded: &Encoded, sector: u64) -> Option<Vec<(u64, u64)>> {
    let mut left = encoded.payload.len() as u64;
    if encoded.compression != Compression::NONE {
        return Some(vec![(space.take_data(left)?, left)]);
    }
    let mut room = Vec::new();
    while left > 0 {
        let range = space.take_data_up_to(sector, left)?;
        left -= range.end - range.start;
        room.push((range.start, range.end - range.start));
    }
    Some(room)
}

const fn feature_of(compression: Compression) -> Incompat {
    match compression {
        Compression::LZO => Incompat::COMPRESS_LZO,
        Compression::ZSTD => Incompat::COMPRESS_ZSTD,
        _ => Incompat::empty(),
    }
}

/// Bytes of data after which to look again whether somebody else uses the devices.
const RECHECK_BYTES: usize = 1 << 20;

/// Writes data to the space that was taken for it.
pub(super) fn write_data(forest: &Forest, data: Vec<(u64, Vec<u8>)>) -> Result<()> {
    let volume = forest.volume();
    let sector = volume.sector_size().into();
    let look_up = |at: Logical| Some(data_csums(forest, at.0, sector).ok()??.into());
    let mut unchecked = RECHECK_BYTES;
    for (at, bytes) in data {
        if unchecked >= RECHECK_BYTES {
            volume.recheck()?; // what is free for us may be in use by somebody else by now
            unchecked = 0;
        }
        unchecked += bytes.len();
        volume.write_beside(Logical(at), &bytes, &look_up)?;
    }
    Ok(())
}
