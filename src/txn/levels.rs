//! Rewriting leaves of subvolumes, and all blocks above them, level by level.
//!
//! All blocks of one level have their parents one level up, so one pass from the leaves to the roots rewrites every
//! block once, however many snapshots share it. A new block keeps owner, level and reference style of the one it
//! replaces and has the same parents (or their replacements), so sharing stays as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::backref::{Allocation, ExtentRecord, Parent, child_refs, parents};
use crate::error::{Error, Result};
use crate::format::{Damage, Header, Key, KeyPtr, Logical, Node, NodeWriter, Ref, tree_id};
use crate::txn::repack::{leaf_runs, node_runs};
use crate::txn::settle::Txn;
use crate::txn::space::SpaceKind;

/// New contents of a leaf.
pub type LeafItems = Vec<(Key, Vec<u8>)>;

/// What replaces a block: the pointers to its parts.
#[derive(Debug, Clone)]
struct Replaced {
    by: Vec<KeyPtr>,
    /// Whether anything from here down is shared, or refers by address.
    is_shared: bool,
}

/// A block to be rewritten because children of it were.
#[derive(Debug)]
struct DirtyNode {
    node: Arc<Node>,
    children: BTreeMap<u64, Replaced>,
}

/// A new root of a subvolume.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewRoot {
    pub(super) bytenr: u64,
    pub(super) level: u8,
    /// Whether a rewritten block below is shared, or refers by address: then the kernel must not take the new generation
    /// for a proof that the block is this subvolume's alone.
    pub(super) is_shared: bool,
}

impl Txn<'_> {
    /// Gives leaves of subvolumes new contents. Each leaf must be a block of the committed state, and must keep an item.
    pub fn rewrite_leaves(&mut self, leaves: Vec<(Arc<Node>, LeafItems)>) -> Result<()> {
        let mut level: BTreeMap<u64, DirtyNode> = BTreeMap::new();
        for (leaf, items) in leaves {
            let record = self.record_of(&leaf)?;
            let by = self.replace_leaf(&leaf, &record, &items)?;
            let is_shared = is_shared(&record);
            self.hand_up(&leaf, &record, &Replaced { by, is_shared }, &mut level)?;
        }
        while !level.is_empty() {
            let mut above = BTreeMap::new();
            for dirty in std::mem::take(&mut level).into_values() {
                let record = self.record_of(&dirty.node)?;
                let is_shared =
                    is_shared(&record) || dirty.children.values().any(|child| child.is_shared);
                let by = self.replace_node(&dirty, &record)?;
                self.hand_up(&dirty.node, &record, &Replaced { by, is_shared }, &mut above)?;
            }
            level = above;
        }
        Ok(())
    }

    fn record_of(&self, node: &Node) -> Result<ExtentRecord> {
        let extents = self.forest.tree(tree_id::EXTENT)?;
        let record = ExtentRecord::load(&extents, node.bytenr())?;
        if node.header().has_mixed_backrefs() {
            Ok(record)
        } else {
            let what = "it has a backref revision that only old kernels wrote";
            Err(Error::at(Damage::Extent { bytenr: node.bytenr(), what }, Logical(node.bytenr())))
        }
    }

    /// Tells every parent of `node` what replaces it.
    fn hand_up(
        &mut self,
        node: &Arc<Node>,
        record: &ExtentRecord,
        replaced: &Replaced,
        above: &mut BTreeMap<u64, DirtyNode>,
    ) -> Result<()> {
        for parent in parents(self.forest, node, record)? {
            match parent {
                Parent::Root(tree) => {
                    self.refs.change(node.bytenr(), Ref::TreeBlock { root: tree }, -1);
                    self.replace_root(tree, node.level(), replaced)?;
                }
                Parent::Node(parent) => {
                    let dirty = above
                        .entry(parent.bytenr())
                        .or_insert_with(|| DirtyNode { node: parent, children: BTreeMap::new() });
                    let Replaced { by, is_shared } = &replaced;
                    dirty
                        .children
                        .insert(node.bytenr(), Replaced { by: by.clone(), is_shared: *is_shared });
                }
            }
        }
        Ok(())
    }

    fn replace_leaf(
        &mut self,
        leaf: &Node,
        record: &ExtentRecord,
        items: &LeafItems,
    ) -> Result<Vec<KeyPtr>> {
        let sizes: Vec<_> = items.iter().map(|(_, data)| data.len()).collect();
        let writer = self.writer();
        let runs = leaf_runs(&sizes, writer.capacity());
        self.replace_block(leaf, record, runs.len(), |header, part| {
            let items = &items[runs[part].clone()];
            writer.leaf(header, items.iter().map(|(key, data)| (*key, data.as_slice())))
        })
    }

    fn replace_node(&mut self, dirty: &DirtyNode, record: &ExtentRecord) -> Result<Vec<KeyPtr>> {
        let mut ptrs = Vec::with_capacity(dirty.node.len());
        let mut found = BTreeSet::new();
        for ptr in dirty.node.ptrs() {
            match dirty.children.get(&ptr.bytenr) {
                Some(replaced) => {
                    found.insert(ptr.bytenr);
                    ptrs.extend_from_slice(&replaced.by);
                }
                None => ptrs.push(ptr),
            }
        }
        assert_eq!(found.len(), dirty.children.len(), "a parent points to each of its children");
        let writer = self.writer();
        let runs = node_runs(ptrs.len(), writer.ptrs_max());
        self.replace_block(&dirty.node, record, runs.len(), |header, part| {
            writer.node(header, &ptrs[runs[part].clone()])
        })
    }

    /// Writes `parts` blocks in place of `old`, and moves the references that `old` makes over to them.
    fn replace_block(
        &mut self,
        old: &Node,
        record: &ExtentRecord,
        parts: usize,
        write: impl Fn(&Header, usize) -> Vec<u8>,
    ) -> Result<Vec<KeyPtr>> {
        let is_full = record.is_full_backref;
        let broken = |damage| Error::at(damage, Logical(old.bytenr()));
        for ((bytenr, reference), count) in child_refs(old, is_full).map_err(broken)? {
            self.refs.change(bytenr, reference, -i64::from(count));
        }
        self.charges.remove_block(old.owner(), record.generation);
        let mut by = Vec::with_capacity(parts);
        for part in 0..parts {
            self.charges.add_block(old.owner());
            let bytenr = self.space.take_block(SpaceKind::Metadata)?;
            let header = Header {
                bytenr: bytenr.into(),
                generation: self.generation.into(),
                ..*old.header()
            };
            let new = Node::parse(write(&header, part).into()).map_err(broken)?;
            for ((bytenr, reference), count) in child_refs(&new, is_full).map_err(broken)? {
                self.refs.change(bytenr, reference, i64::from(count));
            }
            let key = new.first_key().unwrap_or(Key::MIN);
            let record = self.new_record(bytenr, self.block_allocation(old.level(), key));
            self.refs.create(ExtentRecord { is_full_backref: is_full, ..record });
            self.written.insert(bytenr, new.bytes().to_vec());
            by.push(KeyPtr { key, bytenr, generation: self.generation });
        }
        self.replaced.push((old.bytenr(), by.iter().map(|ptr| ptr.bytenr).collect()));
        Ok(by)
    }

    fn replace_root(&mut self, tree: u64, level: u8, replaced: &Replaced) -> Result<()> {
        let (mut level, mut by) = (level, replaced.by.clone());
        let writer = self.writer();
        while by.len() > 1 {
            level += 1;
            let mut above = Vec::new();
            for run in node_runs(by.len(), writer.ptrs_max()) {
                self.charges.add_block(tree);
                let bytenr = self.new_block(level, by[run.start].key, SpaceKind::Metadata)?;
                let header = Header {
                    bytenr: bytenr.into(),
                    generation: self.generation.into(),
                    owner: tree.into(),
                    level,
                    ..self.new_header()
                };
                self.written.insert(bytenr, writer.node(&header, &by[run.clone()]));
                for child in &by[run.clone()] {
                    self.refs.change(child.bytenr, Ref::TreeBlock { root: tree }, 1);
                }
                above.push(KeyPtr { key: by[run.start].key, bytenr, generation: self.generation });
            }
            by = above;
        }
        let bytenr = by[0].bytenr;
        self.refs.change(bytenr, Ref::TreeBlock { root: tree }, 1);
        self.roots.insert(tree, NewRoot { bytenr, level, is_shared: replaced.is_shared });
        Ok(())
    }

    /// A record for something allocated by this transaction, without references so far.
    pub(super) const fn new_record(&self, bytenr: u64, allocation: Allocation) -> ExtentRecord {
        ExtentRecord {
            bytenr,
            allocation,
            generation: self.generation,
            is_full_backref: false,
            owner: None,
            refs: BTreeMap::new(),
        }
    }

    /// Takes a new tree block, without references so far.
    pub(super) fn new_block(&mut self, level: u8, first_key: Key, kind: SpaceKind) -> Result<u64> {
        let bytenr = self.space.take_block(kind)?;
        let record = self.new_record(bytenr, self.block_allocation(level, first_key));
        self.refs.create(record);
        Ok(bytenr)
    }

    /// How new tree blocks are recorded in this filesystem's extent tree.
    pub(super) fn block_allocation(&self, level: u8, first_key: Key) -> Allocation {
        if self.has_skinny_metadata {
            Allocation::Block { level }
        } else {
            let length = self.forest.volume().node_size().into();
            Allocation::OldBlock { level, first_key, length }
        }
    }

    const fn writer(&self) -> NodeWriter {
        NodeWriter::new(self.node_size)
    }
}

/// Whether the kernel has to look at a block's references before it may write to it.
fn is_shared(record: &ExtentRecord) -> bool {
    record.is_full_backref || record.total() > 1
}
