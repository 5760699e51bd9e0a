//! Changes of references, collected until they are written into the extent tree.

use std::collections::BTreeMap;
use std::mem;

use crate::backref::{ExtentRecord, record_keys};
use crate::error::{Error, Result};
use crate::format::{Damage, Key, Ref, tree_id};
use crate::tree::Forest;
use crate::txn::edit::{Edit, TreeEdit};

/// By how much the counts of references change, and which extents are new.
#[derive(Debug, Default)]
pub(super) struct RefChanges {
    deltas: BTreeMap<u64, BTreeMap<Ref, i64>>,
    /// New extents that the extent tree does not know yet.
    created: BTreeMap<u64, ExtentRecord>,
}

/// What became of the extent tree.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) edits: Vec<Edit>,
    /// Extents and blocks that nobody refers to any more.
    pub(super) gone: Vec<ExtentRecord>,
}

impl RefChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }

    /// Records a new extent or block; its references are still to be added.
    pub(super) fn create(&mut self, record: ExtentRecord) {
        self.deltas.entry(record.bytenr).or_default();
        self.created.insert(record.bytenr, record);
    }

    pub(super) fn change(&mut self, bytenr: u64, reference: Ref, delta: i64) {
        *self.deltas.entry(bytenr).or_default().entry(reference).or_insert(0) += delta;
    }

    /// Turns all changes so far into edits of the extent tree.
    pub(super) fn write(
        &mut self,
        forest: &Forest,
        extents: &TreeEdit,
        leaf_capacity: usize,
    ) -> Result<Written> {
        let mut written = Written::default();
        for (bytenr, deltas) in mem::take(&mut self.deltas) {
            let created = self.created.remove(&bytenr);
            if created.is_none() && deltas.values().all(|delta| *delta == 0) {
                continue;
            }
            let old = if created.is_some() {
                Vec::new()
            } else {
                extents.items(forest, &record_keys(bytenr))?
            };
            let mut record = match created {
                Some(record) => record,
                None => parse_record(bytenr, &old)?,
            };
            for (reference, delta) in deltas {
                record.change(reference, delta).map_err(Error::in_filesystem)?;
            }
            let new = if record.refs.is_empty() {
                written.gone.push(record);
                Vec::new()
            } else {
                record.items(leaf_capacity)
            };
            let mut edits: BTreeMap<Key, Option<Vec<u8>>> =
                old.into_iter().map(|(key, _)| (key, None)).collect();
            edits.extend(new.into_iter().map(|(key, data)| (key, Some(data))));
            written.edits.extend(edits);
        }
        Ok(written)
    }
}

fn parse_record(bytenr: u64, items: &[(Key, Vec<u8>)]) -> Result<ExtentRecord> {
    ExtentRecord::parse(items.iter().map(|(key, data)| (*key, data.as_slice())))
        .map_err(|(key, damage)| Error::in_item(damage, tree_id::EXTENT, key))?
        .ok_or_else(|| {
            let what = "it is referred to, but not recorded";
            Error::in_filesystem(Damage::Extent { bytenr, what })
        })
}
