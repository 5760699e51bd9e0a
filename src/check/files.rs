//! From the summaries of leaves up to whole subvolumes.

use std::collections::HashMap;

use crate::check::Check;
use crate::check::blocks::Walked;
use crate::check::inode::Summary;

/// Joins summaries along every node of every subvolume, each node once.
pub(super) fn check(check: &Check<'_>, walked: &Walked) {
    if !walked.is_complete {
        return; // what is missing would be found missing in every file
    }
    let mut above: HashMap<u64, Summary> = HashMap::new();
    for node in walked.nodes.iter().rev() {
        let mut joined: Option<Summary> = None;
        for child in &node.children {
            let Some(next) = walked.summaries.get(child).or_else(|| above.get(child)) else {
                continue;
            };
            joined = Some(match joined {
                None => next.clone(),
                Some(joined) => joined.then(next, check),
            });
        }
        above.insert(node.bytenr, joined.unwrap_or_default());
    }
    for id in check.forest.subvolumes() {
        let Some(root) = check.forest.root(id) else { continue };
        let summary = walked.summaries.get(&root.bytenr).or_else(|| above.get(&root.bytenr));
        if let Some(summary) = summary {
            summary.clone().finish(id, check);
        }
    }
}
