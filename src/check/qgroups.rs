//! Quota groups: what they record, and whether full ones count what their subvolumes use.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Check;
use crate::check::finding::Problem;
use crate::error::{Error, Place, Result};
use crate::format::{Key, KeyKind, QgroupInfo, QgroupStatus, qgroup_level, tree_id};
use crate::fs::Filesystem;
use crate::usage::{Watch, roots};

/// The quota tree as recorded.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) infos: BTreeMap<u64, QgroupInfo>,
    /// Group and member.
    relations: BTreeSet<(u64, u64)>,
    is_current: bool,
}

/// Compares the quota groups with what is used, unless the kernel is to count anew.
pub(super) fn check(fs: &Filesystem, check: &Check<'_>, watch: Watch<'_>) -> Result<()> {
    let Some(groups) = load(check)? else { return Ok(()) };
    if !groups.is_current {
        return Ok(());
    }
    let ids: Vec<u64> = fs.forest().subvolumes().collect();
    let usage = roots::scan(fs, &ids, watch)?;
    for (id, info) in &groups.infos {
        let members = groups.members(*id);
        let (mut used, mut exclusive) = (0_u64, 0_u64);
        for set in &usage.sharing {
            let bytes = set.extents.saturating_add(set.metadata);
            let inside = set.roots.iter().filter(|root| members.contains(root)).count();
            if inside > 0 {
                used = used.saturating_add(bytes);
            }
            if inside == set.roots.len() {
                exclusive = exclusive.saturating_add(bytes);
            }
        }
        let key = Key::new(0, KeyKind::QGROUP_INFO, *id);
        let counts = [
            ("bytes referred to by the group", info.rfer.get(), used),
            ("exclusive bytes of the group", info.excl.get(), exclusive),
        ];
        // Groups of subvolumes that are gone keep what they had.
        let is_live = members.iter().any(|root| ids.contains(root));
        for (what, found, expected) in counts {
            if is_live && found != expected {
                let at = Place::Item { tree: tree_id::QUOTA, key };
                check.findings.add(at, Problem::QuotaGroup { what, found, expected });
            }
        }
    }
    Ok(())
}

pub(super) fn load(check: &Check<'_>) -> Result<Option<Groups>> {
    let Some(tree) = check.forest.find_tree(tree_id::QUOTA) else { return Ok(None) };
    let mut groups = Groups::default();
    for item in tree.items() {
        let item = item?;
        let key = item.key();
        let broken = |damage| Error::in_item(damage, tree_id::QUOTA, key);
        match key.kind {
            KeyKind::QGROUP_STATUS => {
                let (status, _) = QgroupStatus::view(item.data()).map_err(broken)?;
                let newest = check.forest.superblock().generation;
                groups.is_current =
                    status.flags.get() == QgroupStatus::ON && status.generation == newest;
            }
            KeyKind::QGROUP_INFO => {
                let info = QgroupInfo::view(item.data()).map_err(broken)?;
                groups.infos.insert(key.offset, *info);
            }
            // Each is there twice, once from either side.
            KeyKind::QGROUP_RELATION if qgroup_level(key.objectid) > qgroup_level(key.offset) => {
                groups.relations.insert((key.objectid, key.offset));
            }
            _ => {}
        }
    }
    Ok(Some(groups))
}

impl Groups {
    /// The subvolumes that belong to a group, directly or by way of other groups.
    pub(super) fn members(&self, group: u64) -> BTreeSet<u64> {
        let mut members = BTreeSet::new();
        let (mut waiting, mut seen) = (vec![group], BTreeSet::new());
        while let Some(next) = waiting.pop() {
            if qgroup_level(next) == 0 {
                members.insert(next);
            } else if seen.insert(next) {
                let below = self.relations.range((next, 0)..=(next, u64::MAX));
                waiting.extend(below.map(|(_, member)| *member));
            }
        }
        members
    }
}
