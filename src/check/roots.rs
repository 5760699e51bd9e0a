//! The tree of trees.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::finding::Findings;
use crate::error::{Error, Place, Result};
use crate::format::{Damage, Key, KeyKind, RootRef, dir_entries, name_hash, root_ref, tree_id};
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
    for outcome in
        [check_places(fs, findings), check_default(fs, findings), check_deleted(fs, findings)]
    {
        if let Err(error) = outcome {
            findings.error(error);
        }
    }
}

/// The subvolume that is mounted when none is named.
fn check_default(fs: &Filesystem, findings: &Findings) -> Result<()> {
    let forest = fs.forest();
    let key = Key::new(tree_id::ROOT_DIR, KeyKind::DIR_ITEM, name_hash(b"default"));
    let Some(item) = forest.tree(tree_id::ROOT)?.find(key)? else { return Ok(()) };
    for entry in dir_entries(item.data()).flatten() {
        if !forest.roots().contains_key(&entry.location.objectid) {
            let at = Place::Item { tree: tree_id::ROOT, key };
            findings.rule(at, "the default subvolume does not exist");
        }
    }
    Ok(())
}

/// The kernel goes on deleting those subvolumes that are listed, and no others.
fn check_deleted(fs: &Filesystem, findings: &Findings) -> Result<()> {
    let forest = fs.forest();
    let trees = forest.tree(tree_id::ROOT)?;
    for id in forest.subvolumes() {
        let is_deleted = forest.roots().get(&id).is_some_and(|entry| entry.item.refs.get() == 0);
        let key = Key::new(tree_id::ORPHAN, KeyKind::ORPHAN_ITEM, id);
        if is_deleted && trees.find(key)?.is_none() {
            findings.error(Error::in_item(Damage::NoItem { key }, tree_id::ROOT, key));
        }
    }
    Ok(())
}

/// Where a subvolume hangs.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hangs {
    parent: u64,
    child: u64,
    dirid: u64,
    sequence: u64,
    name: Vec<u8>,
}

impl Hangs {
    fn new(parent: u64, child: u64, place: &RootRef<'_>) -> Self {
        let RootRef { dirid, sequence, name } = *place;
        Self { parent, child, dirid, sequence, name: name.to_vec() }
    }
}

/// A directory has the name of a subvolume in both of its lists.
fn check_names(fs: &Filesystem, hangs: &Hangs, findings: &Findings) -> Result<()> {
    let tree = fs.forest().tree(hangs.parent)?;
    let keys = [
        Key::new(hangs.dirid, KeyKind::DIR_ITEM, name_hash(&hangs.name)),
        Key::new(hangs.dirid, KeyKind::DIR_INDEX, hangs.sequence),
    ];
    for key in keys {
        let is_there = tree.find(key)?.is_some_and(|item| {
            dir_entries(item.data()).flatten().any(|entry| {
                let location = entry.location;
                entry.name == hangs.name
                    && (location.objectid, location.kind) == (hangs.child, KeyKind::ROOT_ITEM)
            })
        });
        if !is_there {
            let at = Place::Item { tree: hangs.parent, key };
            findings.rule(at, "directory lacks the name of a subvolume that hangs in it");
        }
    }
    Ok(())
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
                down.insert(Hangs::new(key.objectid, key.offset, &place));
            }
            KeyKind::ROOT_BACKREF => {
                let place = root_ref(item.data()).map_err(broken)?;
                up.insert(Hangs::new(key.offset, key.objectid, &place));
            }
            _ => {}
        }
    }
    for hangs in down.symmetric_difference(&up) {
        let key = Key::new(hangs.parent, KeyKind::ROOT_REF, hangs.child);
        let at = Place::Item { tree: tree_id::ROOT, key };
        findings.rule(at, "a subvolume and the one that it hangs in do not agree on its place");
    }
    for hangs in &down {
        check_names(fs, hangs, findings)?;
    }
    let mut places: BTreeMap<u64, u64> = BTreeMap::new();
    for hangs in &up {
        *places.entry(hangs.child).or_default() += 1;
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
