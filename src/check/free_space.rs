//! The free space tree: in every block group it must be just what no extent takes.

use std::ops::Range;

use crate::check::Check;
use crate::check::extents::{Group, each_leaf};
use crate::check::finding::Problem;
use crate::error::{Error, Place};
use crate::format::{CompatRo, Damage, FreeSpaceInfo, Key, KeyKind, tree_id};

/// The free space of a block group as recorded.
#[derive(Default)]
struct Recorded {
    /// Place of the group among all; none between groups.
    group: Option<usize>,
    info: Option<u32>,
    free: Vec<Range<u64>>,
}

impl Recorded {
    fn add(&mut self, range: Range<u64>) {
        match self.free.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.free.push(range),
        }
    }
}

/// Compares the free space tree, if it counts, with the extents. `mkfs.btrfs` leaves entries of its first block groups,
/// which are gone, below all others; they harm nobody.
pub(super) fn check(check: &Check<'_>) {
    if !check.forest.superblock().compat_ro().contains(CompatRo::FREE_SPACE_TREE_VALID) {
        return;
    }
    let Some(tree) = check.forest.find_tree(tree_id::FREE_SPACE) else {
        let damage = Damage::NoTree { tree: "free space" };
        return check.findings.error(Error::in_filesystem(damage));
    };
    let groups = &check.index.groups;
    let mut seen = vec![false; groups.len()];
    let mut recorded = Recorded::default();
    let is_complete = each_leaf(&tree, &mut |leaf| {
        for (key, data) in leaf.items() {
            let before = groups.partition_point(|group| group.range.start <= key.objectid);
            let group = before.checked_sub(1).filter(|slot| {
                groups.get(*slot).is_some_and(|group| key.objectid < group.range.end)
            });
            if group != recorded.group {
                let done = std::mem::take(&mut recorded);
                finish(check, &done, &mut seen);
                recorded.group = group;
            }
            let Some(group) = group.and_then(|slot| groups.get(slot)) else {
                if groups.first().is_some_and(|group| group.range.start <= key.objectid) {
                    let at = Place::Item { tree: tree_id::FREE_SPACE, key };
                    check.findings.rule(at, "there is no such block group");
                }
                continue;
            };
            if let Err(damage) = add(check, group, &mut recorded, key, data) {
                check.findings.error(Error::in_item(damage, tree_id::FREE_SPACE, key));
            }
        }
    });
    finish(check, &recorded, &mut seen);
    if is_complete {
        for group in groups.iter().zip(seen).filter(|(_, seen)| !seen).map(|(group, _)| group) {
            report(check, group, "it is not recorded");
        }
    }
}

fn add(
    check: &Check<'_>,
    group: &Group,
    recorded: &mut Recorded,
    key: Key,
    data: &[u8],
) -> Result<(), Damage> {
    let start = group.range.start;
    let end = key.objectid.checked_add(key.offset).filter(|end| *end <= group.range.end);
    let end = end.ok_or(Damage::FreeSpace { start, what: "an item reaches beyond it" })?;
    match key.kind {
        KeyKind::FREE_SPACE_INFO if (key.objectid, end) == (start, group.range.end) => {
            recorded.info = Some(FreeSpaceInfo::view(data)?.extent_count.get());
        }
        KeyKind::FREE_SPACE_EXTENT => recorded.add(key.objectid..end),
        KeyKind::FREE_SPACE_BITMAP => {
            let sector = u64::from(check.forest.volume().sector_size());
            let sectors = key.offset / sector;
            if (data.len() as u64) < sectors.div_ceil(8) {
                return Err(Damage::FreeSpace { start, what: "a bitmap is too short" });
            }
            for index in 0..sectors {
                let byte = data.get((index / 8) as usize).copied().unwrap_or_default();
                if byte >> (index % 8) & 1 == 1 {
                    let at = key.objectid + index * sector;
                    recorded.add(at..at + sector);
                }
            }
        }
        KeyKind(found) => {
            return Err(Damage::Value { what: "kind of free space item", found: found.into() });
        }
    }
    Ok(())
}

fn finish(check: &Check<'_>, recorded: &Recorded, seen: &mut [bool]) {
    let Some(slot) = recorded.group else { return };
    let Some(group) = check.index.groups.get(slot) else { return };
    if let Some(seen) = seen.get_mut(slot) {
        *seen = true;
    }
    let mut free = Vec::new();
    let mut at = group.range.start;
    for extent in check.index.within(&group.range) {
        if at < extent.bytenr {
            free.push(at..extent.bytenr);
        }
        at = at.max(extent.bytenr.saturating_add(extent.length));
    }
    if at < group.range.end {
        free.push(at..group.range.end);
    }
    if recorded.info != Some(free.len() as u32) {
        report(check, group, "the number of free ranges is wrong");
    }
    if recorded.free != free {
        report(check, group, "it is not what the extents leave");
    }
}

fn report(check: &Check<'_>, group: &Group, what: &'static str) {
    let start = group.range.start;
    let length = group.range.end.saturating_sub(start);
    let key = Key::new(start, KeyKind::FREE_SPACE_INFO, length);
    let at = Place::Item { tree: tree_id::FREE_SPACE, key };
    check.findings.add(at, Problem::Damage(Damage::FreeSpace { start, what }));
}
