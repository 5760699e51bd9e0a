//! The log: what was written by `fsync` after the last commit and waits for the next mount. Its blocks, and the data that
//! it brings, are recorded nowhere else.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::check::Check;
use crate::check::items::{self, Limits};
use crate::error::Place;
use crate::format::{
    FileExtent, FileExtentKind, InodeFlags, InodeItem, Key, KeyKind, Logical, Node, RangeSet,
    RootItem, tree_id,
};
use crate::tree::Expect;

/// A block that is still to be looked at.
struct Waiting {
    bytenr: u64,
    expect: Expect,
    /// The subvolume whose changes it holds; none in the list of logs.
    subvolume: Option<u64>,
}

/// What the log brings.
#[derive(Default)]
struct Logged {
    data: RangeSet,
    sums: RangeSet,
    /// Data with checksums, by the subvolume and inode that it is for.
    summed: Vec<(u64, Key, Range<u64>)>,
    flags: HashMap<(u64, u64), InodeFlags>,
}

/// Checks the log, if there is one. Gives the data that only it refers to.
pub(super) fn check(check: &Check<'_>) -> RangeSet {
    let superblock = check.forest.superblock();
    let mut logged = Logged::default();
    if superblock.log_root.get() == 0 {
        return logged.data;
    }
    let limits = Limits::of_log(superblock);
    let expect = Expect {
        level: superblock.log_root_level,
        generation: superblock.generation.get().checked_add(1),
        first_key: None,
        tree: Some(tree_id::TREE_LOG),
    };
    let mut waiting = vec![Waiting { bytenr: superblock.log_root.get(), expect, subvolume: None }];
    let mut seen = HashSet::new();
    while let Some(next) = waiting.pop() {
        if !seen.insert(next.bytenr) {
            check.findings.rule(Place::Block(Logical(next.bytenr)), "the log has the block twice");
            continue;
        }
        match check.forest.load(Logical(next.bytenr), &next.expect) {
            Ok(node) => {
                check_place(check, &node);
                items::check(&limits, &node, tree_id::TREE_LOG, &check.findings);
                waiting.extend(below(&node, &next));
                logged.add(check, &node, next.subvolume);
            }
            Err(error) => check.findings.error(error),
        }
    }
    logged.check_sums(check);
    logged.data
}

fn check_place(check: &Check<'_>, node: &Node) {
    let start = node.bytenr();
    let range = start..start.saturating_add(node.bytes().len() as u64);
    if check.index.is_complete && !check.index.within(&range).is_empty() {
        check.findings.rule(Place::Block(Logical(start)), "the log lies where something else is");
    }
}

/// The children of a node, or the logs that a leaf lists.
fn below(node: &Node, at: &Waiting) -> Vec<Waiting> {
    let children = node.ptrs().map(|ptr| Waiting {
        bytenr: ptr.bytenr,
        expect: Expect {
            level: node.level().saturating_sub(1),
            generation: Some(ptr.generation),
            first_key: Some(ptr.key),
            tree: at.expect.tree,
        },
        subvolume: at.subvolume,
    });
    let is_list = at.subvolume.is_none();
    let roots = node.items().filter(|(key, _)| is_list && key.kind == KeyKind::ROOT_ITEM);
    let logs = roots.filter_map(|(key, data)| {
        let item = RootItem::parse(data).ok()?;
        let expect = Expect {
            level: item.level,
            generation: Some(item.generation.get()),
            first_key: None,
            tree: at.expect.tree,
        };
        Some(Waiting { bytenr: item.bytenr.get(), expect, subvolume: Some(key.offset) })
    });
    children.chain(logs).collect()
}

impl Logged {
    fn add(&mut self, check: &Check<'_>, node: &Node, subvolume: Option<u64>) {
        let Some(subvolume) = subvolume else { return };
        for (key, data) in node.items() {
            match key.kind {
                KeyKind::INODE_ITEM => {
                    if let Ok(item) = InodeItem::view(data) {
                        self.flags.insert((subvolume, key.objectid), item.inode_flags());
                    }
                }
                KeyKind::EXTENT_CSUM => {
                    let size = check.forest.volume().checksum_kind().size();
                    let sector = u64::from(check.forest.volume().sector_size());
                    let len = ((data.len() / size) as u64).saturating_mul(sector);
                    self.sums.insert(key.offset..key.offset.saturating_add(len));
                }
                KeyKind::EXTENT_DATA => self.add_extent(check, subvolume, key, data),
                _ => {}
            }
        }
    }

    fn add_extent(&mut self, check: &Check<'_>, subvolume: u64, key: Key, data: &[u8]) {
        let Ok((extent, _)) = FileExtent::parse(data) else { return };
        if extent.kind == FileExtentKind::Inline || extent.is_hole() {
            return;
        }
        let start = extent.place.disk_bytenr;
        let range = start..start.saturating_add(extent.place.disk_num_bytes);
        match check.index.find(start) {
            Some(_) => {}
            None if check.index.is_complete && !check.index.within(&range).is_empty() => {
                let at = Place::Item { tree: tree_id::TREE_LOG, key };
                check.findings.rule(at, "data of the log lies where something else is");
            }
            None => self.data.insert(range),
        }
        if extent.kind == FileExtentKind::Regular {
            self.summed.push((subvolume, key, extent.summed_range()));
        }
    }

    /// Whether all data has checksums, in the log or in the checksum tree.
    fn check_sums(&self, check: &Check<'_>) {
        if !check.csums.is_complete {
            return;
        }
        for (subvolume, key, range) in &self.summed {
            let flags = self.flags.get(&(*subvolume, key.objectid)).copied().unwrap_or_default();
            let has_sums = self.sums.contains(range) || check.csums.covers(range);
            if !has_sums && !flags.contains(InodeFlags::NODATASUM) && self.knows(*subvolume, key) {
                let at = Place::Item { tree: tree_id::TREE_LOG, key: *key };
                check.findings.rule(at, "data has no checksum");
            }
        }
    }

    fn knows(&self, subvolume: u64, key: &Key) -> bool {
        self.flags.contains_key(&(subvolume, key.objectid))
    }
}
