//! A close count of some files: how they are stored, how far they are compressed, what would be left alone.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use crate::compress::Algorithm;
use crate::error::{Error, Result};
use crate::format::{Compression, FileExtent, FileExtentKind, InodeFlags, InodeItem, Key, KeyKind};
use crate::plan::{Inodes, Selection, SkipReason};
use crate::tree::Forest;
use crate::tui::model::{Amounts, Line, Method, Skip, Table};
use crate::usage::SectorSet;

/// Items between two looks at whether to go on.
const WATCH_EVERY: u64 = 4096;

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) table: Table,
    pub(super) ratios: [u64; 10],
    skips: BTreeMap<SkipReason, (u64, u64)>,
    pub(super) files: u64,
    seen: SectorSet,
}

/// How an extent is stored.
pub(super) fn method(kind: FileExtentKind, compression: Compression) -> Method {
    if kind == FileExtentKind::Prealloc {
        return Method::Preallocated;
    }
    match (compression, Algorithm::from_disk_id(compression.0)) {
        (_, Some(algorithm)) => Some(algorithm).into(),
        (Compression::NONE, None) => Method::Uncompressed,
        (_, None) => Method::Unknown,
    }
}

impl Census {
    /// Counts what is selected, until `go_on` says no.
    pub(super) fn of(
        forest: &Forest,
        selection: &Selection,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self> {
        let mut census = Self::default();
        for (&root, inodes) in &selection.subvolumes {
            let ranges: Vec<RangeInclusive<Key>> = match inodes {
                Inodes::All => vec![Key::MIN..=Key::MAX],
                Inodes::Only(inodes) => inodes.iter().map(|&inode| Key::all_of(inode)).collect(),
            };
            for range in ranges {
                if !census.add(forest, root, range, go_on)? {
                    return Err(Error::Cancelled);
                }
            }
        }
        Ok(census)
    }

    fn add(
        &mut self,
        forest: &Forest,
        root: u64,
        keys: RangeInclusive<Key>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        let mut inode = None;
        let mut links = HashSet::new();
        for (index, item) in forest.tree(root)?.range(keys).enumerate() {
            let item = item?;
            let key = item.key();
            let broken = |damage| Error::in_item(damage, root, key);
            match key.kind {
                KeyKind::INODE_ITEM => {
                    let found = InodeItem::view(item.data()).map_err(broken)?;
                    self.files += u64::from(found.is_file());
                    if found.is_symlink() {
                        links.insert(key.objectid);
                    }
                    inode = Some((key.objectid, found.inode_flags()));
                }
                KeyKind::EXTENT_DATA if !links.contains(&key.objectid) => {
                    let (extent, payload) = FileExtent::parse(item.data()).map_err(broken)?;
                    let flags = inode.filter(|(number, _)| *number == key.objectid);
                    self.extent(&extent, payload.len() as u64, flags.map(|(_, flags)| flags));
                }
                _ => {}
            }
            if (index as u64 + 1).is_multiple_of(WATCH_EVERY) && !go_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn extent(&mut self, extent: &FileExtent, payload: u64, flags: Option<InodeFlags>) {
        if extent.is_hole() {
            return;
        }
        let method = method(extent.kind, extent.compression);
        let line = &mut self.table.lines[method as usize];
        if extent.kind == FileExtentKind::Inline {
            add(line, payload, extent.ram_bytes, extent.ram_bytes);
            self.ratio(payload, extent.ram_bytes);
            return;
        }
        let disk = extent.place.disk_num_bytes;
        let is_new = self.seen.insert(extent.place.disk_bytenr);
        let (counted, held) = if is_new { (disk, extent.ram_bytes) } else { (0, 0) };
        add(line, counted, held, extent.place.num_bytes);
        if !is_new {
            return;
        }
        if method != Method::Preallocated {
            self.ratio(disk, extent.ram_bytes);
        }
        let no_cow = InodeFlags::NODATASUM | InodeFlags::NODATACOW;
        let reason = match method {
            _ if flags.is_some_and(|flags| flags.intersects(no_cow)) => SkipReason::Nodatacow,
            Method::Preallocated => SkipReason::Preallocated,
            Method::Unknown => SkipReason::UnknownEncoding,
            _ => return,
        };
        let skip = self.skips.entry(reason).or_default();
        *skip = (skip.0.saturating_add(disk), skip.1 + 1);
    }

    fn ratio(&mut self, disk: u64, held: u64) {
        let tenth = (u128::from(disk) * 10).div_ceil(u128::from(held.max(1)));
        let index = (tenth as usize).clamp(1, self.ratios.len()) - 1;
        self.ratios[index] = self.ratios[index].saturating_add(disk);
    }

    /// What would be left alone.
    pub(super) fn skips(&self) -> Vec<Skip> {
        let skip = |(reason, &(bytes, extents)): (&SkipReason, &(u64, u64))| Skip {
            reason: reason.to_string(),
            bytes,
            extents,
        };
        self.skips.iter().map(skip).collect()
    }

    /// The same as a row's amounts; what takes more than a look at these files is zero.
    pub(super) fn amounts(&self) -> Amounts {
        let total = self.table.total();
        Amounts {
            disk_by_method: self.table.disk_by_method(),
            uncompressed: total.uncompressed,
            referenced: total.referenced,
            items: self.files,
            ..Amounts::default()
        }
    }
}

fn add(line: &mut Line, disk: u64, uncompressed: u64, referenced: u64) {
    line.disk = line.disk.saturating_add(disk);
    line.uncompressed = line.uncompressed.saturating_add(uncompressed);
    line.referenced = line.referenced.saturating_add(referenced);
}
