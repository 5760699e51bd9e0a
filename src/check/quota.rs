//! Simple quotas: whether each group counts what its subvolumes are charged for.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::backref::{ExtentRecord, simple_quotas_since};
use crate::check::{Check, qgroups};
use crate::error::Place;
use crate::format::{Key, KeyKind, Node, tree_id};
use crate::tree::Forest;

/// Bytes that subvolumes are charged for, as extents and tree blocks say.
#[derive(Debug, Default)]
pub(super) struct Charged {
    since: Option<u64>,
    by_payer: Mutex<BTreeMap<u64, u64>>,
}

impl Charged {
    /// None, if it can't be told whether simple quotas are on; the quota tree's own damage is found elsewhere.
    pub(super) fn begin(forest: &Forest) -> Self {
        let since = simple_quotas_since(forest).unwrap_or_default();
        Self { since, by_payer: Mutex::default() }
    }

    pub(super) fn add_data(&self, record: &ExtentRecord, length: u64) {
        self.add(record.payer(self.since), length);
    }

    pub(super) fn add_block(&self, node: &Node) {
        let is_charged = self.since.is_some_and(|since| node.generation() >= since);
        let payer = (is_charged && tree_id::is_subvolume(node.owner())).then(|| node.owner());
        self.add(payer, node.bytes().len() as u64);
    }

    fn add(&self, payer: Option<u64>, bytes: u64) {
        let Some(payer) = payer else { return };
        let mut by_payer = self.by_payer.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = by_payer.entry(payer).or_insert(0);
        *sum = sum.saturating_add(bytes);
    }

    fn of(&self, subvolume: u64) -> u64 {
        let by_payer = self.by_payer.lock().unwrap_or_else(PoisonError::into_inner);
        by_payer.get(&subvolume).copied().unwrap_or(0)
    }
}

/// Compares the quota groups with what was found. Everything must have been walked; an item that can't be understood is
/// found there.
pub(super) fn check(check: &Check<'_>) {
    if check.charged.since.is_none() {
        return;
    }
    let Ok(Some(groups)) = qgroups::load(check) else { return };
    for (group, info) in &groups.infos {
        let members = groups.members(*group).into_iter();
        let charged = members.fold(0, |sum: u64, of| sum.saturating_add(check.charged.of(of)));
        let key = Key::new(0, KeyKind::QGROUP_INFO, *group);
        let at = Place::Item { tree: tree_id::QUOTA, key };
        for (what, counter) in [("bytes referenced", info.rfer), ("bytes exclusive", info.excl)] {
            check.findings.compare(at.clone(), what, counter.get(), charged);
        }
    }
}
