//! The tree of trees.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::finding::Findings;
use crate::error::{Error, Place, Result};
use crate::format::{Damage, Key, KeyKind, dir_entries, name_hash, root_ref, tree_id};
use crate::fs::Filesystem;

/// Trees without which there is no filesystem.
const NEEDED: [(u64, &str); 4] = [
    (tree_id::EXTENT, "extent"),
    (tree_id::DEV, "device"),
    (tree_id::CSUM, "checksum"),
    (tree_id::FS, "top-level"),
];

pub(super) fn check(fs: &Filesystem, findings: &Findings) {
    let forest = fs.forest();
    for (id, tree) in NEEDED {
        if forest.root(id).is_none() {
            findings.error(Error::in_filesystem(Damage::NoTree { tree }));
        }
    }
    for entry in forest.roots().values() {
        let at = Place::Item { tree: tree_id::ROOT, key: entry.key };
        let generation = entry.item.generation.get();
        if !entry.is_legacy {
            let found = entry.item.generation_v2.get();
            findings.compare(at.clone(), "generation_v2", found, generation);
        }
        if generation > forest.superblock().generation.get() {
            findings.rule(at, "tree is newer than the last commit");
        }
    }
    if let Err(error) = check_places(fs, findings) {
        findings.error(error);
    }
}

/// A subvolume and the one that it hangs in name each other, and a directory has its name.
fn check_places(fs: &Filesystem, findings: &Findings) -> Result<()> {
    let forest = fs.forest();
    let (mut down, mut up) = (BTreeSet::new(), BTreeSet::new());
    for item in forest.tree(tree_id::ROOT)?.items() {
        let item = item?;
        let key = item.key();
        let broken = |damage| Error::in_item(damage, tree_id::ROOT, key);
        match key.kind {
            KeyKind::ROOT_REF => {
                let place = root_ref(item.data()).map_err(broken)?;
                down.insert((key.objectid, key.offset, place.dirid, place.name.to_vec()));
            }
            KeyKind::ROOT_BACKREF => {
                let place = root_ref(item.data()).map_err(broken)?;
                up.insert((key.offset, key.objectid, place.dirid, place.name.to_vec()));
            }
            _ => {}
        }
    }
    for (parent, child, ..) in down.symmetric_difference(&up) {
        let key = Key::new(*parent, KeyKind::ROOT_REF, *child);
        let at = Place::Item { tree: tree_id::ROOT, key };
        findings.rule(at, "a subvolume and the one that it hangs in do not agree on its place");
    }
    for (parent, child, dirid, name) in &down {
        let key = Key::new(*dirid, KeyKind::DIR_ITEM, name_hash(name));
        let item = forest.tree(*parent)?.find(key)?;
        let is_there = item.is_some_and(|item| {
            dir_entries(item.data()).filter_map(std::result::Result::ok).any(|entry| {
                let location = entry.location;
                entry.name == name
                    && (location.objectid, location.kind) == (*child, KeyKind::ROOT_ITEM)
            })
        });
        if !is_there {
            let at = Place::Item { tree: *parent, key };
            findings.rule(at, "directory lacks the name of a subvolume that hangs in it");
        }
    }
    let mut places: BTreeMap<u64, u64> = BTreeMap::new();
    for (_, child, ..) in &up {
        *places.entry(*child).or_default() += 1;
    }
    for id in forest.subvolumes().filter(|id| *id != tree_id::FS) {
        let refs = forest.roots().get(&id).map_or(0, |entry| entry.item.refs.get());
        let places = places.get(&id).copied().unwrap_or_default();
        let key = Key::new(id, KeyKind::ROOT_ITEM, 0);
        let at = Place::Item { tree: tree_id::ROOT, key };
        findings.compare(at, "refs", refs.into(), places);
    }
    Ok(())
}
