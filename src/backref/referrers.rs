//! Which subvolumes refer to an extent: up from the leaves that name it, over all their parents, to the roots.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::backref::{ExtentRecord, LeafUse, Parent, data_uses, parents};
use crate::error::Result;
use crate::format::{LEVELS, Node, tree_id};
use crate::tree::Forest;

/// Answers which subvolumes refer to something; remembers the roots of the blocks that it came by.
#[derive(Debug)]
pub struct Referrers<'f> {
    forest: &'f Forest,
    known: HashMap<u64, Arc<BTreeSet<u64>>>,
}

impl<'f> Referrers<'f> {
    /// Knows nothing yet.
    pub fn new(forest: &'f Forest) -> Self {
        Self { forest, known: HashMap::new() }
    }

    /// How often an extent is referred to, and from which subvolumes.
    pub fn of_extent(&mut self, bytenr: u64) -> Result<(u64, BTreeSet<u64>)> {
        let record = ExtentRecord::load(&self.forest.tree(tree_id::EXTENT)?, bytenr)?;
        let uses = data_uses(self.forest, &record)?;
        let pieces = uses.iter().map(|found| found.items.len() as u64).sum();
        Ok((pieces, self.of_uses(&uses)?))
    }

    /// The subvolumes that these leaves belong to.
    pub fn of_uses(&mut self, uses: &[LeafUse]) -> Result<BTreeSet<u64>> {
        let mut roots = BTreeSet::new();
        for found in uses {
            roots.extend(self.of_block(&found.leaf)?.iter());
        }
        Ok(roots)
    }

    /// The subvolumes that a tree block belongs to.
    pub fn of_block(&mut self, node: &Node) -> Result<Arc<BTreeSet<u64>>> {
        self.of_node(node, LEVELS)
    }

    fn of_node(&mut self, node: &Node, levels: u8) -> Result<Arc<BTreeSet<u64>>> {
        if let Some(known) = self.known.get(&node.bytenr()) {
            return Ok(Arc::clone(known));
        }
        let mut roots = BTreeSet::new();
        if levels > 0 {
            let record = ExtentRecord::load(&self.forest.tree(tree_id::EXTENT)?, node.bytenr())?;
            for parent in parents(self.forest, node, &record)? {
                match parent {
                    Parent::Root(root) => {
                        roots.insert(root);
                    }
                    Parent::Node(parent) => roots.extend(self.of_node(&parent, levels - 1)?.iter()),
                }
            }
        }
        let roots = Arc::new(roots);
        self.known.insert(node.bytenr(), Arc::clone(&roots));
        Ok(roots)
    }
}
