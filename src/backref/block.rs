//! Who points to a tree block.

use std::sync::Arc;

use crate::backref::ExtentRecord;
use crate::error::{Error, Result};
use crate::format::{Damage, Key, Logical, Node, Ref};
use crate::tree::{Expect, Forest};

/// One of the places that point to a tree block.
#[derive(Debug, Clone)]
pub enum Parent {
    /// The block is the root of this tree.
    Root(u64),
    /// A block one level up.
    Node(Arc<Node>),
}

/// Everything that points to `node`, whose record is `record`: as many parents as the record has references.
pub fn parents(forest: &Forest, node: &Node, record: &ExtentRecord) -> Result<Vec<Parent>> {
    let first_key = node.first_key().unwrap_or(Key::MIN);
    let mut found = Vec::with_capacity(record.refs.len());
    for reference in record.refs.keys() {
        found.push(match *reference {
            Ref::TreeBlock { root } => parent_in_tree(forest, root, node, first_key)?,
            Ref::SharedBlock { parent } => {
                let expect = Expect {
                    level: node.level().saturating_add(1),
                    generation: None,
                    first_key: None,
                    tree: None,
                };
                let parent = forest.load(Logical(parent), &expect)?;
                checked(parent, node.bytenr(), first_key)?
            }
            Ref::Data { .. } | Ref::SharedData { .. } => {
                return Err(wrong(node.bytenr(), "a tree block has a data reference"));
            }
        });
    }
    Ok(found)
}

fn parent_in_tree(forest: &Forest, root: u64, node: &Node, first_key: Key) -> Result<Parent> {
    let tree = forest.tree(root)?;
    if tree.root().bytenr == node.bytenr() {
        return Ok(Parent::Root(root));
    }
    if tree.root().level <= node.level() {
        return Err(wrong(node.bytenr(), "its tree does not reach up to it"));
    }
    checked(tree.node_at(node.level().saturating_add(1), first_key)?, node.bytenr(), first_key)
}

fn checked(parent: Arc<Node>, child: u64, first_key: Key) -> Result<Parent> {
    let points_to_child = parent.level() > 0
        && parent.search(first_key).is_ok_and(|slot| parent.ptr(slot).bytenr == child);
    if points_to_child {
        Ok(Parent::Node(parent))
    } else {
        Err(wrong(child, "a recorded parent does not point to it"))
    }
}

const fn wrong(bytenr: u64, what: &'static str) -> Error {
    Error::at(Damage::Extent { bytenr, what }, Logical(bytenr))
}
