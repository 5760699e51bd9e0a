//! Who pays for an extent under simple quotas.

use super::ExtentRecord;
use crate::error::{Error, Result};
use crate::format::{Key, KeyKind, QgroupStatus, tree_id};
use crate::tree::Forest;

/// The transaction since which allocations are charged, or `None` where simple quotas are off.
pub fn simple_quotas_since(forest: &Forest) -> Result<Option<u64>> {
    let Some(quotas) = forest.find_tree(tree_id::QUOTA) else { return Ok(None) };
    let key = Key::new(0, KeyKind::QGROUP_STATUS, 0);
    let Some(item) = quotas.find(key)? else { return Ok(None) };
    QgroupStatus::view(item.data())
        .and_then(|(status, rest)| status.simple_since(rest))
        .map_err(|damage| Error::in_item(damage, tree_id::QUOTA, key))
}

impl ExtentRecord {
    /// The subvolume that a data extent is charged to, where charging began in transaction `since`.
    pub const fn payer(&self, since: Option<u64>) -> Option<u64> {
        match (since, self.owner) {
            (Some(since), Some(owner))
                if self.generation >= since && tree_id::is_subvolume(owner) =>
            {
                Some(owner)
            }
            _ => None,
        }
    }
}
