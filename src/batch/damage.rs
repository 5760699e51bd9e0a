//! Which files have lost something to damaged extents.

use std::collections::{BTreeMap, BTreeSet};

use crate::backref::{ExtentRecord, Referrers, data_uses};
use crate::compress::Decoder;
use crate::error::Result;
use crate::format::tree_id;
use crate::fs::{DataExtent, Filesystem, read_extent};
use crate::plan::Skipped;

/// Subvolume, inode and file offset.
type Place = (u64, u64, u64);

/// Every file that refers to what is damaged of these extents, in whatever subvolume, with what is wrong where in it.
pub(super) fn files(fs: &Filesystem, damaged: &[Skipped]) -> Result<BTreeSet<(Vec<u8>, String)>> {
    let mut files = BTreeSet::new();
    if damaged.is_empty() {
        return Ok(files);
    }
    let subvolumes = fs.subvolumes()?;
    let is_listed = |root| subvolumes.iter().any(|found| found.id == root && !found.is_deleted);
    let mut referrers = Referrers::new(fs.forest());
    for skipped in damaged {
        let places = skipped.extent.map(|extent| places(fs, &mut referrers, &extent));
        // When its references do not add up there is at least where it was met.
        let places = match places {
            Some(Ok(places)) => places,
            Some(Err(_)) | None => [skipped.place].into(),
        };
        for (root, ino, offset) in places.into_iter().filter(|(root, ..)| is_listed(*root)) {
            // What has no name any more is nobody's loss.
            if let Ok(path) = fs.path_of_inode(root, ino) {
                files.insert((path, format!("{} data at offset {offset}", skipped.reason)));
            }
        }
    }
    Ok(files)
}

/// Everything that refers to a part of an extent that can't be read.
fn places(
    fs: &Filesystem,
    referrers: &mut Referrers<'_>,
    extent: &DataExtent,
) -> Result<BTreeSet<Place>> {
    let mut decoder = Decoder::default();
    let mut known = BTreeMap::new();
    let mut is_hurt = |start: u64, len: u64| {
        *known.entry((start, len)).or_insert_with(|| {
            let range = start..start.saturating_add(len);
            read_extent(fs.forest(), &mut decoder, extent, range).is_err()
        })
    };
    let record = ExtentRecord::load(&fs.forest().tree(tree_id::EXTENT)?, extent.bytenr)?;
    let mut places = BTreeSet::new();
    for found in data_uses(fs.forest(), &record)? {
        for (key, item) in found.items {
            if !is_hurt(item.place.offset, item.place.num_bytes) {
                continue;
            }
            let roots = referrers.of_block(&found.leaf)?;
            places.extend(roots.iter().map(|root| (*root, key.objectid, key.offset)));
        }
    }
    Ok(places)
}
