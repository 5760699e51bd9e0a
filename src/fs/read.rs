//! Contents of extents and of files.

use std::io::{self, Write};
use std::ops::Range;

use super::{FilePiece, Filesystem, display_path};
use crate::compress::{Algorithm, COMPRESSED_MAX, DecodeError, Decoder};
use crate::error::{Error, Place, Result};
use crate::format::{
    Compression, Damage, FileExtent, FileExtentKind, Incompat, InodeFlags, Key, KeyKind, Logical,
    tree_id,
};
use crate::tree::Forest;

/// Bytes that are read at a time when a file's contents are written out.
const STEP: u64 = 1 << 20;

/// A data extent, as every file extent item that refers to it describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataExtent {
    /// Logical address.
    pub bytenr: u64,
    /// Length on disk.
    pub disk_bytes: u64,
    /// Length once decoded.
    pub data_bytes: u64,
    /// How it is encoded.
    pub compression: Compression,
}

impl From<&FileExtent> for DataExtent {
    fn from(extent: &FileExtent) -> Self {
        Self {
            bytenr: extent.place.disk_bytenr,
            disk_bytes: extent.place.disk_num_bytes,
            data_bytes: extent.data_bytes(),
            compression: extent.compression,
        }
    }
}

/// The checksums of `len` bytes of data from `bytenr` on, end to end; none if at least one sector has none.
pub fn data_csums(forest: &Forest, bytenr: u64, len: u64) -> Result<Option<Vec<u8>>> {
    let volume = forest.volume();
    let (sector, size) = (u64::from(volume.sector_size()), volume.checksum_kind().size());
    let count = (len / sector) as usize;
    let end = bytenr.saturating_add(len);
    let csum_key = |at| Key::new(tree_id::EXTENT_CSUM, KeyKind::EXTENT_CSUM, at);
    let tree = forest.tree(tree_id::CSUM)?;
    let first = tree.find_at_or_before(csum_key(bytenr))?.map(|item| item.key());
    let first = first.filter(|key| key.kind == KeyKind::EXTENT_CSUM).unwrap_or(csum_key(bytenr));
    let mut sums = Vec::with_capacity(count.saturating_mul(size).min(1 << 20));
    for item in tree.range(first..=csum_key(end.saturating_sub(1))) {
        let item = item?;
        // The next checksum wanted, and how many sectors into the item it stands.
        let wanted = bytenr.saturating_add((sums.len() / size) as u64 * sector);
        let Some(ahead) = wanted.checked_sub(item.key().offset) else { return Ok(None) };
        let skip = ((ahead / sector) as usize).saturating_mul(size);
        let Some(found) = item.data().get(skip..) else { continue };
        let missing = count.saturating_mul(size).saturating_sub(sums.len());
        let whole = found.len() - found.len() % size;
        sums.extend_from_slice(&found[..whole.min(missing)]);
    }
    Ok((sums.len() == count.saturating_mul(size)).then_some(sums))
}

/// Reads `len` bytes from `bytenr` on, whole sectors, verified.
fn read_verified(forest: &Forest, bytenr: u64, len: u64) -> Result<Vec<u8>> {
    let at = Logical(bytenr);
    let sums = data_csums(forest, bytenr, len)?
        .ok_or_else(|| Error::at(Damage::NoDataChecksum { at }, at))?;
    let mut data = vec![0; len as usize];
    forest.volume().read_data(at, &sums, &mut data)?;
    Ok(data)
}

/// The bytes `range` of an extent, decoded.
///
/// Of an uncompressed extent only the sectors that hold them are read. Every sector that is read is verified.
///
/// # Errors
/// [`Damage::NoDataChecksum`] if a checksum is missing, and [`Error::Unsupported`] for an unknown encoding.
pub fn read_extent(
    forest: &Forest,
    decoder: &mut Decoder,
    extent: &DataExtent,
    range: Range<u64>,
) -> Result<Vec<u8>> {
    read_with(forest, decoder, extent, range, read_verified)
}

fn read_with(
    forest: &Forest,
    decoder: &mut Decoder,
    extent: &DataExtent,
    range: Range<u64>,
    read: fn(&Forest, u64, u64) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let at = Logical(extent.bytenr);
    let wrong = |what| Error::at(Damage::Extent { bytenr: extent.bytenr, what }, at);
    if range.start > range.end || range.end > extent.data_bytes {
        return Err(wrong("a reference reaches beyond the extent's end"));
    }
    if forest.superblock().incompat().contains(Incompat::RAID_STRIPE_TREE) {
        return Err(Error::Unsupported("data placed by a RAID stripe tree".to_owned()));
    }
    let sector = u64::from(forest.volume().sector_size());
    if !extent.bytenr.is_multiple_of(sector) || !extent.disk_bytes.is_multiple_of(sector) {
        return Err(wrong("it does not consist of whole sectors"));
    }
    if extent.compression == Compression::NONE {
        let start = range.start - range.start % sector;
        let end = range.end.checked_next_multiple_of(sector).unwrap_or(range.end);
        let data = read(forest, extent.bytenr.saturating_add(start), end.saturating_sub(start))?;
        return cut(data, range.start - start, range.end - range.start)
            .ok_or_else(|| wrong("a reference reaches beyond the extent's end"));
    }
    let algorithm = algorithm_of(extent.compression)?;
    if extent.disk_bytes > COMPRESSED_MAX as u64 {
        return Err(wrong("a compressed extent is longer than it can be"));
    }
    let payload = read(forest, extent.bytenr, extent.disk_bytes)?;
    let data = decoder
        .decode(algorithm, &payload, extent.data_bytes as usize, sector as usize)
        .map_err(|error| wrong(explain(&error)))?;
    cut(data, range.start, range.end - range.start).ok_or_else(|| wrong("decodes to too little"))
}

/// `len` bytes of `data` from `start` on.
fn cut(mut data: Vec<u8>, start: u64, len: u64) -> Option<Vec<u8>> {
    let (start, len) = (start as usize, len as usize);
    if start > 0 {
        data.drain(..start.min(data.len()));
    }
    if data.len() < len {
        return None;
    }
    data.truncate(len);
    Some(data)
}

fn algorithm_of(compression: Compression) -> Result<Algorithm> {
    Algorithm::from_disk_id(compression.0)
        .ok_or_else(|| Error::Unsupported(format!("compression number {}", compression.0)))
}

const fn explain(error: &DecodeError) -> &'static str {
    match error {
        DecodeError::RamBytes { .. } => "it claims more data than an extent can hold",
        DecodeError::Truncated(_) => "its compressed data is cut off",
        DecodeError::InlineShort { .. } => "it holds less data than it claims",
        _ => "its compressed data is broken",
    }
}

/// The data of an inline extent.
pub fn decode_inline(
    forest: &Forest,
    decoder: &mut Decoder,
    extent: &FileExtent,
    payload: &[u8],
) -> Result<Vec<u8>> {
    if extent.compression == Compression::NONE {
        return Ok(payload.to_vec());
    }
    let algorithm = algorithm_of(extent.compression)?;
    let sector = forest.volume().sector_size() as usize;
    decoder
        .decode_inline(algorithm, payload, extent.ram_bytes as usize, sector)
        .map_err(|error| Error::in_filesystem(Damage::Extent { bytenr: 0, what: explain(&error) }))
}

impl Filesystem {
    /// Writes all of a file to `into`: holes and preallocated space as zeros, everything else verified and decoded.
    pub fn write_contents(&self, root: u64, ino: u64, into: &mut dyn Write) -> Result<()> {
        let inode = self.inode(root, ino)?;
        if !inode.is_file() && !inode.is_symlink() {
            return Err(Error::WrongType {
                path: format!("inode {ino} of subvolume {root}"),
                what: "not a regular file",
            });
        }
        let is_unsummed = inode.inode_flags().contains(InodeFlags::NODATASUM);
        let read = if is_unsummed { read_unverified } else { read_verified };
        let mut out = Output { into, at: 0, size: inode.size.get() };
        let mut decoder = Decoder::default();
        for piece in self.file_extents(root, ino)? {
            let piece = piece?;
            out.zeros_to(piece.offset)?;
            self.write_piece(&mut decoder, &piece, read, &mut out).map_err(
                |error| match error {
                    Error::Corrupt { at: Place::Filesystem, damage } => Error::in_item(
                        damage,
                        root,
                        Key::new(ino, KeyKind::EXTENT_DATA, piece.offset),
                    ),
                    other => other,
                },
            )?;
        }
        out.zeros_to(out.size)
    }

    fn write_piece(
        &self,
        decoder: &mut Decoder,
        piece: &FilePiece,
        read: fn(&Forest, u64, u64) -> Result<Vec<u8>>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let extent = &piece.extent;
        match extent.kind {
            FileExtentKind::Inline => {
                out.data(&decode_inline(&self.forest, decoder, extent, &piece.inline)?)
            }
            FileExtentKind::Prealloc => Ok(()),
            FileExtentKind::Regular if extent.is_hole() => Ok(()),
            FileExtentKind::Regular => {
                let data = DataExtent::from(extent);
                let visible = out.size.saturating_sub(out.at).min(extent.place.num_bytes);
                let end = extent.place.offset.saturating_add(visible);
                let mut at = extent.place.offset;
                while at < end {
                    let next = at.saturating_add(STEP).min(end);
                    out.data(&read_with(&self.forest, decoder, &data, at..next, read)?)?;
                    at = next;
                }
                Ok(())
            }
        }
    }

    /// The contents of the file that `path` names, to `into`.
    pub fn write_contents_of(&self, path: &[u8], into: &mut dyn Write) -> Result<()> {
        let location = self.resolve(path)?;
        self.write_contents(location.root, location.ino, into).map_err(|error| match error {
            Error::WrongType { what, .. } => Error::WrongType { path: display_path(path), what },
            other => other,
        })
    }
}

fn read_unverified(forest: &Forest, bytenr: u64, len: u64) -> Result<Vec<u8>> {
    let mut data = vec![0; len as usize];
    forest.volume().read_any(Logical(bytenr), &mut data)?;
    Ok(data)
}

/// A file's contents on their way out.
struct Output<'w> {
    into: &'w mut dyn Write,
    at: u64,
    size: u64,
}

impl Output<'_> {
    /// Writes data, as far as it is within the file's size.
    fn data(&mut self, data: &[u8]) -> Result<()> {
        let left = self.size.saturating_sub(self.at).min(data.len() as u64);
        self.into.write_all(&data[..left as usize]).map_err(output_error)?;
        self.at = self.at.saturating_add(left);
        Ok(())
    }

    /// Fills up with zeros to the file offset `to`.
    fn zeros_to(&mut self, to: u64) -> Result<()> {
        let to = to.min(self.size);
        let Some(gap) = to.checked_sub(self.at) else {
            return Err(Error::in_filesystem(Damage::Value { what: "file offset", found: to }));
        };
        io::copy(&mut io::Read::take(io::repeat(0), gap), &mut self.into).map_err(output_error)?;
        self.at = to;
        Ok(())
    }
}

fn output_error(source: io::Error) -> Error {
    Error::Io { device: "output".to_owned(), source }
}
