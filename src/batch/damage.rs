//! Which files have lost something to damaged extents.

use std::collections::BTreeSet;

use crate::backref::{ExtentRecord, Referrers, data_uses};
use crate::compress::Decoder;
use crate::error::Result;
use crate::format::tree_id;
use crate::fs::{DataExtent, Filesystem, read_extent};
use crate::plan::Skipped;

/// Every file that refers to one of these extents, in whatever subvolume, with what is wrong where in it.
pub(super) fn files(fs: &Filesystem, damaged: &[Skipped]) -> BTreeSet<(Vec<u8>, String)> {
    let mut files = BTreeSet::new();
    let mut referrers = Referrers::new(fs.forest());
    let mut decoder = Decoder::default();
    for skipped in damaged {
        // A sound one is left only because of others beside it.
        let mut is_sound = |extent: DataExtent| {
            read_extent(fs.forest(), &mut decoder, &extent, 0..extent.data_bytes).is_ok()
        };
        let places = match skipped.extent {
            Some(extent) if is_sound(extent) => continue,
            Some(extent) => places(fs, &mut referrers, extent.bytenr),
            None => Ok(BTreeSet::new()),
        };
        // When its references do not add up there is at least where it was met.
        let mut places = places.unwrap_or_default();
        if places.is_empty() {
            places.insert(skipped.place);
        }
        for (root, ino, offset) in places {
            // What has no name any more is nobody's loss.
            if let Ok(path) = fs.path_of_inode(root, ino) {
                files.insert((path, format!("{} data at offset {offset}", skipped.reason)));
            }
        }
    }
    files
}

/// Subvolume, inode and file offset of everything that refers to an extent.
fn places(
    fs: &Filesystem,
    referrers: &mut Referrers<'_>,
    bytenr: u64,
) -> Result<BTreeSet<(u64, u64, u64)>> {
    let record = ExtentRecord::load(&fs.forest().tree(tree_id::EXTENT)?, bytenr)?;
    let mut places = BTreeSet::new();
    for found in data_uses(fs.forest(), &record)? {
        for root in referrers.of_block(&found.leaf)?.iter() {
            places.extend(found.items.iter().map(|(key, _)| (*root, key.objectid, key.offset)));
        }
    }
    Ok(places)
}
