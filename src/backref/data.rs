//! Which leaves refer to a data extent.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backref::{Allocation, ExtentRecord};
use crate::error::{Error, Result};
use crate::format::{
    COMPRESSED_EXTENT_MAX, Damage, FileExtent, FileExtentKind, Key, KeyKind, Logical, Node, Ref,
    tree_id,
};
use crate::tree::{Expect, Forest};

/// A leaf that holds file extent items of the extent asked for.
#[derive(Debug, Clone)]
pub struct LeafUse {
    /// The leaf.
    pub leaf: Arc<Node>,
    /// The items in question: key and contents.
    pub items: Vec<(Key, FileExtent)>,
}

/// The reference that a file extent item at `key` in a leaf makes to its data extent.
pub fn data_ref_of(leaf: &Node, is_full_backref: bool, key: Key, extent: &FileExtent) -> Ref {
    if is_full_backref {
        Ref::SharedData { parent: leaf.bytenr() }
    } else {
        let offset = key.offset.wrapping_sub(extent.place.offset);
        Ref::Data { root: leaf.owner(), objectid: key.objectid, offset }
    }
}

/// Every reference that a block of a subvolume makes to extents and to other blocks, with its count.
pub fn child_refs(node: &Node, is_full_backref: bool) -> Result<BTreeMap<(u64, Ref), u32>, Damage> {
    let mut refs = BTreeMap::new();
    for ptr in node.ptrs() {
        let reference = if is_full_backref {
            Ref::SharedBlock { parent: node.bytenr() }
        } else {
            Ref::TreeBlock { root: node.owner() }
        };
        refs.insert((ptr.bytenr, reference), 1);
    }
    for (key, data) in node.items().filter(|(key, _)| key.kind == KeyKind::EXTENT_DATA) {
        let (extent, _) = FileExtent::parse(data)?;
        if extent.kind != FileExtentKind::Inline && !extent.is_hole() {
            let reference = data_ref_of(node, is_full_backref, key, &extent);
            *refs.entry((extent.place.disk_bytenr, reference)).or_insert(0) += 1;
        }
    }
    Ok(refs)
}

/// Every leaf that refers to the data extent of `record`, each once, in order of address. The references found are
/// exactly those recorded; otherwise this is an error.
pub fn data_uses(forest: &Forest, record: &ExtentRecord) -> Result<Vec<LeafUse>> {
    let mut uses: BTreeMap<u64, LeafUse> = BTreeMap::new();
    let mut counts: BTreeMap<Ref, u32> = BTreeMap::new();
    for reference in record.refs.keys() {
        match *reference {
            Ref::Data { root, objectid, offset } => {
                keyed_uses(forest, record, (root, objectid, offset), &mut uses)?;
            }
            Ref::SharedData { parent } => {
                let expect = Expect::leaf();
                let leaf = forest.load(Logical(parent), &expect)?;
                add_use(&mut uses, record.bytenr, &leaf)?;
            }
            Ref::TreeBlock { .. } | Ref::SharedBlock { .. } => {
                return Err(wrong(record.bytenr, "a data extent has a tree block reference"));
            }
        }
    }
    for found in uses.values() {
        let is_full = leaf_is_full(forest, record, &found.leaf)?;
        for (key, extent) in &found.items {
            *counts.entry(data_ref_of(&found.leaf, is_full, *key, extent)).or_insert(0) += 1;
        }
    }
    if counts != record.refs {
        return Err(wrong(record.bytenr, "the references found are not those recorded"));
    }
    Ok(uses.into_values().collect())
}

/// Whether `leaf` refers by address. Its own record tells, but the references of the extent at hand do as well.
fn leaf_is_full(forest: &Forest, record: &ExtentRecord, leaf: &Node) -> Result<bool> {
    if record.refs.contains_key(&Ref::SharedData { parent: leaf.bytenr() }) {
        return Ok(true);
    }
    let extents = forest.tree(tree_id::EXTENT)?;
    Ok(ExtentRecord::load(&extents, leaf.bytenr())?.is_full_backref)
}

/// Finds the leaves for one keyed reference by searching its tree; leaves that belong to other trees or refer by
/// address have references of their own.
fn keyed_uses(
    forest: &Forest,
    record: &ExtentRecord,
    (root, objectid, offset): (u64, u64, u64),
    uses: &mut BTreeMap<u64, LeafUse>,
) -> Result<()> {
    let Allocation::Data { length } = record.allocation else { return Ok(()) };
    // `offset` can be "negative": a file may start in the middle of an extent.
    let first = if offset >> 63 == 0 { offset } else { 0 };
    let last = offset.wrapping_add(length.max(COMPRESSED_EXTENT_MAX));
    let keys = Key::new(objectid, KeyKind::EXTENT_DATA, first)
        ..=Key::new(objectid, KeyKind::EXTENT_DATA, last);
    for item in forest.tree(root)?.range(keys) {
        let item = item?;
        let key = item.key();
        let (extent, _) =
            FileExtent::parse(item.data()).map_err(|damage| Error::in_item(damage, root, key))?;
        if extent.kind == FileExtentKind::Inline || extent.place.disk_bytenr != record.bytenr {
            continue;
        }
        if key.offset.wrapping_sub(extent.place.offset) == offset && item.leaf.owner() == root {
            let is_shared =
                record.refs.contains_key(&Ref::SharedData { parent: item.leaf.bytenr() });
            if !is_shared {
                add_use(uses, record.bytenr, &item.leaf)?;
            }
        }
    }
    Ok(())
}

fn add_use(uses: &mut BTreeMap<u64, LeafUse>, bytenr: u64, leaf: &Arc<Node>) -> Result<()> {
    if uses.contains_key(&leaf.bytenr()) {
        return Ok(());
    }
    let mut items = Vec::new();
    for (key, data) in leaf.items().filter(|(key, _)| key.kind == KeyKind::EXTENT_DATA) {
        let (extent, _) =
            FileExtent::parse(data).map_err(|damage| Error::in_item(damage, leaf.owner(), key))?;
        if extent.kind != FileExtentKind::Inline && extent.place.disk_bytenr == bytenr {
            items.push((key, extent));
        }
    }
    uses.insert(leaf.bytenr(), LeafUse { leaf: Arc::clone(leaf), items });
    Ok(())
}

const fn wrong(bytenr: u64, what: &'static str) -> Error {
    Error::at(Damage::Extent { bytenr, what }, Logical(bytenr))
}
