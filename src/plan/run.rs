//! Runs: neighbouring pieces of contents, and the extents that they replace.

use std::ops::Range;

use crate::backref::LeafUse;
use crate::format::COMPRESSED_EXTENT_MAX;
use crate::fs::DataExtent;

/// A data extent to be replaced.
#[derive(Debug, Clone)]
pub struct OldExtent {
    /// What its file extent items say of it.
    pub data: DataExtent,
    /// Everything that refers to it.
    pub uses: Vec<LeafUse>,
    /// The subvolume that it is charged to under simple quotas.
    pub payer: Option<u64>,
}

/// A part of an old extent, in bytes of its decoded data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Index of the extent in the run.
    pub extent: usize,
    /// The part.
    pub range: Range<u64>,
}

impl Piece {
    /// Length in bytes.
    pub const fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Contents of one new extent: pieces of old ones, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The pieces; none is empty.
    pub pieces: Vec<Piece>,
}

impl Chunk {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(Piece::bytes).sum()
    }

    /// Whether it has no contents.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// The unit of decision: all of these extents are replaced by new ones, or none.
#[derive(Debug, Clone)]
pub struct Run {
    /// The extents that give their space back.
    pub extents: Vec<OldExtent>,
    /// Every byte of them that anybody refers to, once, cut into the contents of new extents.
    pub chunks: Vec<Chunk>,
    /// Subvolume, inode and file offset where it starts.
    pub place: (u64, u64, u64),
}

impl Run {
    /// The subvolume that all its extents are charged to.
    pub fn payer(&self) -> Option<u64> {
        self.extents.first().and_then(|extent| extent.payer)
    }

    /// Bytes that its extents take on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.data.disk_bytes).sum()
    }

    /// Bytes of contents that have to be read and encoded.
    pub fn data_bytes(&self) -> u64 {
        self.chunks.iter().map(Chunk::len).sum()
    }
}

/// Cuts pieces, in order, into chunks of 128 KiB; the last one may be shorter.
pub(super) fn cut(pieces: &[Piece]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let (mut open, mut room) = (Chunk::default(), COMPRESSED_EXTENT_MAX);
    for piece in pieces {
        let Range { mut start, end } = piece.range;
        while start < end {
            let next = end.min(start + room);
            open.pieces.push(Piece { extent: piece.extent, range: start..next });
            room -= next - start;
            start = next;
            if room == 0 {
                chunks.push(std::mem::take(&mut open));
                room = COMPRESSED_EXTENT_MAX;
            }
        }
    }
    if !open.is_empty() {
        chunks.push(open);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_across_pieces() {
        let piece = |extent, range| Piece { extent, range };
        let chunks = cut(&[piece(0, 0..100 << 10), piece(1, 4096..200 << 10)]);
        let expected = [
            vec![piece(0, 0..100 << 10), piece(1, 4096..32 << 10)],
            vec![piece(1, 32 << 10..160 << 10)],
            vec![piece(1, 160 << 10..200 << 10)],
        ];
        assert_eq!(chunks.into_iter().map(|chunk| chunk.pieces).collect::<Vec<_>>(), expected);
    }
}
