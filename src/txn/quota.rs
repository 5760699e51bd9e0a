//! Quota groups: full ones are left to the kernel to be counted anew, simple ones are charged.

use std::collections::{BTreeMap, BTreeSet};

use zerocopy::IntoBytes;

use crate::backref::simple_quotas_since;
use crate::error::{Error, Result};
use crate::format::{Damage, Key, KeyKind, QgroupInfo, QgroupStatus, qgroup_level, tree_id};
use crate::tree::Forest;
use crate::txn::edit::Edit;
use crate::txn::settle::{TreeBlocks, Trees, Txn};

/// What subvolumes have to pay more or less under simple quotas, in bytes.
#[derive(Debug)]
pub(super) struct Charges {
    /// The transaction since which allocations are charged; `None` if none are.
    pub(super) since: Option<u64>,
    node_size: u64,
    by_payer: BTreeMap<u64, i64>,
}

impl Charges {
    pub(super) fn begin(forest: &Forest) -> Result<Self> {
        let since = simple_quotas_since(forest)?;
        let node_size = forest.volume().node_size().into();
        Ok(Self { since, node_size, by_payer: BTreeMap::new() })
    }

    /// Charges a new extent.
    pub(super) fn add(&mut self, payer: Option<u64>, bytes: u64) {
        self.change(payer, bytes.cast_signed());
    }

    /// Takes the charge for an extent back.
    pub(super) fn remove(&mut self, payer: Option<u64>, bytes: u64) {
        self.change(payer, -bytes.cast_signed());
    }

    /// Charges a new tree block to the tree that its header names.
    pub(super) fn add_block(&mut self, owner: u64) {
        self.add(tree_id::is_subvolume(owner).then_some(owner), self.node_size);
    }

    /// Takes the charge for a tree block, allocated in transaction `generation`, back.
    pub(super) fn remove_block(&mut self, owner: u64, generation: u64) {
        let was_charged = self.since.is_some_and(|since| generation >= since);
        let payer = (was_charged && tree_id::is_subvolume(owner)).then_some(owner);
        self.remove(payer, self.node_size);
    }

    fn change(&mut self, payer: Option<u64>, bytes: i64) {
        if let (Some(payer), Some(_)) = (payer, self.since) {
            *self.by_payer.entry(payer).or_insert(0) += bytes;
        }
    }

    /// What changes for each quota group: a subvolume's charge is also that of every group above.
    fn by_group(&self, parents: &BTreeMap<u64, Vec<u64>>) -> BTreeMap<u64, i64> {
        let mut changes = BTreeMap::new();
        for (payer, bytes) in &self.by_payer {
            let (mut seen, mut waiting) = (BTreeSet::from([*payer]), vec![*payer]);
            while let Some(group) = waiting.pop() {
                *changes.entry(group).or_insert(0) += bytes;
                let above = parents.get(&group).into_iter().flatten();
                waiting.extend(above.filter(|parent| seen.insert(**parent)));
            }
        }
        changes
    }
}

impl Txn<'_> {
    /// Brings the quota tree to agree with what was charged. Full quotas count who shares what: zeroed and marked as
    /// being rescanned, the kernel counts them anew by itself at the next mount.
    pub(super) fn write_quotas(&mut self, trees: &mut Trees) -> Result<()> {
        if self.forest.root(tree_id::QUOTA).is_none() {
            return Ok(());
        }
        let tree = trees.edit(self.forest, tree_id::QUOTA)?;
        let items = tree.items(self.forest, &(Key::MIN..=Key::MAX))?;
        let mut parents: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (key, _) in &items {
            let is_relation = key.kind == KeyKind::QGROUP_RELATION;
            if is_relation && qgroup_level(key.offset) > qgroup_level(key.objectid) {
                parents.entry(key.objectid).or_default().push(key.offset);
            }
        }
        let changes = self.charges.by_group(&parents);
        let mut edits: Vec<Edit> = Vec::new();
        for (key, data) in items {
            let new = match key.kind {
                KeyKind::QGROUP_STATUS => self.new_status(&data),
                KeyKind::QGROUP_INFO => self.new_info(&data, changes.get(&key.offset).copied()),
                _ => continue,
            };
            let new = new.map_err(|damage| Error::in_item(damage, tree_id::QUOTA, key))?;
            edits.extend(new.map(|new| (key, Some(new))));
        }
        tree.apply(&mut TreeBlocks(self), edits)
    }

    fn new_status(&self, data: &[u8]) -> Result<Option<Vec<u8>>, Damage> {
        let (status, rest) = QgroupStatus::view(data)?;
        let mut new = QgroupStatus { generation: self.generation.into(), ..*status };
        if self.charges.since.is_none() {
            new.flags = (status.flags.get() | QgroupStatus::RESCAN_INCONSISTENT).into();
            new.rescan = 0.into();
        }
        Ok(Some([new.as_bytes(), rest].concat()))
    }

    /// The kernel charges simple quotas to the two counters without compression alone.
    fn new_info(&self, data: &[u8], change: Option<i64>) -> Result<Option<Vec<u8>>, Damage> {
        let old = QgroupInfo::view(data)?;
        let mut new = QgroupInfo { generation: self.generation.into(), ..*old };
        if self.charges.since.is_none() {
            for counter in [&mut new.rfer, &mut new.rfer_cmpr, &mut new.excl, &mut new.excl_cmpr] {
                *counter = 0.into();
            }
        } else {
            let Some(change) = change else { return Ok(None) };
            for (what, counter) in [("rfer", &mut new.rfer), ("excl", &mut new.excl)] {
                let found = counter.get();
                let sum = found.checked_add_signed(change);
                *counter = sum.ok_or(Damage::Value { what, found })?.into();
            }
        }
        Ok(Some(new.as_bytes().to_vec()))
    }
}
