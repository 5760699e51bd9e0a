//! The UUID tree, by which `send` and `receive` find subvolumes.

use std::collections::BTreeSet;

use crate::check::Check;
use crate::check::extents::each_leaf;
use crate::error::Place;
use crate::format::{Key, KeyKind, RootItem, tree_id};

/// Compares the UUID tree with the subvolumes. Where it was not kept up to date, the kernel makes it anew.
pub(super) fn check(check: &Check<'_>) {
    let superblock = check.forest.superblock();
    if superblock.uuid_tree_generation != superblock.generation {
        return;
    }
    let Some(tree) = check.forest.find_tree(tree_id::UUID) else { return };
    let mut listed = BTreeSet::new();
    let is_complete = each_leaf(&tree, &mut |leaf| {
        let is_listed =
            |key: Key| [KeyKind::UUID_SUBVOL, KeyKind::UUID_RECEIVED_SUBVOL].contains(&key.kind);
        for (key, data) in leaf.items().filter(|(key, _)| is_listed(*key)) {
            let ids = data.chunks_exact(8).filter_map(|id| id.first_chunk());
            listed.extend(ids.map(|id| (key, u64::from_le_bytes(*id))));
        }
    });
    let mut wanted = BTreeSet::new();
    let mut deleted = BTreeSet::new();
    for id in check.forest.subvolumes() {
        match check.forest.roots().get(&id) {
            Some(entry) if entry.item.refs.get() > 0 => {
                wanted.extend(keys(&entry.item).map(|key| (key, id)));
            }
            _ => drop(deleted.insert(id)),
        }
    }
    for (key, id) in listed.difference(&wanted).filter(|(_, id)| !deleted.contains(id)) {
        let at = Place::Item { tree: tree_id::UUID, key: *key };
        let rule = if check.forest.root(*id).is_some() {
            "lists a subvolume that has another UUID"
        } else {
            "lists a subvolume that does not exist"
        };
        check.findings.rule(at, rule);
    }
    for (key, _) in wanted.difference(&listed).filter(|_| is_complete) {
        let at = Place::Item { tree: tree_id::UUID, key: *key };
        check.findings.rule(at, "a subvolume is not listed under its UUID");
    }
}

/// Under which keys a subvolume must be listed. Those from before there were UUIDs have none.
fn keys(item: &RootItem) -> impl Iterator<Item = Key> {
    let uuids =
        [(KeyKind::UUID_SUBVOL, item.uuid), (KeyKind::UUID_RECEIVED_SUBVOL, item.received_uuid)];
    uuids.into_iter().filter(|(_, uuid)| *uuid != [0; 16]).map(|(kind, uuid)| {
        let number = u128::from_le_bytes(uuid);
        Key::new(number as u64, kind, (number >> 64) as u64)
    })
}
