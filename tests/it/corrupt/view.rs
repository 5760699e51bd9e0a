//! What a reader gets of a filesystem that may be damaged: every sector of every file, or that it can't be had.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use btrpress::compress::Decoder;
use btrpress::error::Result;
use btrpress::format::{FileExtentKind, InodeFlags, InodeItem, KeyKind, Logical};
use btrpress::fs::{DataExtent, FilePiece, Filesystem, decode_inline, read_extent};

/// Longest piece of a file that is looked at, in bytes; a broken item may claim any length.
const PIECE_MAX: u64 = 64 << 20;
/// Bytes that are told apart.
const STEP: usize = 4096;

/// A hash of a sector's data, or of what stands in place of it on disk when that can't be read or decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sector {
    Good(u64),
    Bad(u64),
}

/// What is seen of an inode: sizes, owner, times, names and attributes as a hash, and its data but for zeros.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    inode: u64,
    data: BTreeMap<u64, Sector>,
}

/// What is seen of every inode, by subvolume and number.
pub(crate) type View = BTreeMap<(u64, u64), Seen>;

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Reads all that can be read.
pub(crate) fn view(fs: &Filesystem) -> Result<View> {
    let mut seen = View::new();
    let mut decoder = Decoder::default();
    for root in fs.forest().subvolumes() {
        for item in fs.forest().tree(root)?.items() {
            let item = item?;
            let (key, data) = (item.key(), item.data());
            let of_inode = seen.entry((root, key.objectid)).or_default();
            match key.kind {
                KeyKind::INODE_ITEM => of_inode.inode = hash((of_inode.inode, lasting(data))),
                KeyKind::EXTENT_DATA => {}
                _ => of_inode.inode = hash((of_inode.inode, key, data)),
            }
        }
    }
    let places: Vec<(u64, u64)> = seen.keys().copied().collect();
    for (root, ino) in places {
        let Ok(inode) = fs.inode(root, ino) else { continue };
        let has_sums = !inode.inode_flags().contains(InodeFlags::NODATASUM);
        for piece in fs.file_extents(root, ino)?.flatten() {
            let end = inode.size.get().saturating_sub(piece.offset);
            let of_inode = seen.entry((root, ino)).or_default();
            of_inode.data.extend(sectors(fs, &mut decoder, &piece, (end, has_sums)));
        }
    }
    Ok(seen)
}

/// What of an inode a run must leave as it is: all but `nbytes`, which counts what is inline in another way.
fn lasting(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    if data.len() == size_of::<InodeItem>() {
        data[24..32].fill(0);
    }
    data
}

/// The sectors of a piece that are not zeros, up to the end of the file.
fn sectors(
    fs: &Filesystem,
    decoder: &mut Decoder,
    piece: &FilePiece,
    (end, has_sums): (u64, bool),
) -> Vec<(u64, Sector)> {
    let extent = &piece.extent;
    let len = extent.place.num_bytes.min(PIECE_MAX);
    let data = match extent.kind {
        FileExtentKind::Prealloc => return Vec::new(),
        FileExtentKind::Regular if extent.is_hole() => return Vec::new(),
        FileExtentKind::Inline => decode_inline(fs.forest(), decoder, extent, &piece.inline),
        FileExtentKind::Regular if has_sums => {
            let start = extent.place.offset;
            read_extent(fs.forest(), decoder, &DataExtent::from(extent), start..start + len)
        }
        FileExtentKind::Regular => {
            let mut data = vec![0; len as usize];
            let start = Logical(extent.place.disk_bytenr.saturating_add(extent.place.offset));
            fs.forest().volume().read_any(start, &mut data).map(|()| data)
        }
    };
    let Ok(data) = data else {
        let mut raw = vec![0; extent.place.disk_num_bytes.min(PIECE_MAX) as usize];
        let at = Logical(extent.place.disk_bytenr);
        let is_read = fs.forest().volume().read_any(at, &mut raw).is_ok();
        return vec![(
            piece.offset,
            Sector::Bad(hash((&piece.inline, extent.place, is_read, raw))),
        )];
    };
    let shown = &data[..data.len().min(end as usize)];
    let numbered = shown.chunks(STEP).zip((piece.offset..).step_by(STEP));
    numbered
        .filter(|(bytes, _)| bytes.iter().any(|byte| *byte != 0))
        .map(|(bytes, at)| (at, Sector::Good(hash(trimmed(bytes)))))
        .collect()
}

/// Zeros at the end of a sector are as good as the end of the file.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..len]
}

/// The first difference, as text.
pub(crate) fn difference(before: &View, after: &View) -> Option<String> {
    for (place, was) in before {
        let Some(is) = after.get(place) else { return Some(format!("inode {place:?} is gone")) };
        if was.inode != is.inode {
            return Some(format!("inode {place:?} has changed"));
        }
        let offsets = was.data.keys().chain(is.data.keys());
        for offset in offsets {
            let (was, is) = (was.data.get(offset), is.data.get(offset));
            if was != is {
                return Some(format!("inode {place:?} at {offset}: {was:?} has become {is:?}"));
            }
        }
    }
    let new = after.keys().find(|place| !before.contains_key(place));
    new.map(|place| format!("inode {place:?} is new"))
}
