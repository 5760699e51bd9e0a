//! Visiting the tree blocks of many subvolumes, each once.
//!
//! First every block gets a *label*, from the roots down: what the labels of all its parents come to together. A label
//! may be the number of roots that reach the block, or say which ones they are. Then a walk goes through each block
//! that it has not yet seen, and hands what is in a leaf to a [`Sink`], with the leaf's label.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::format::{FileExtent, FileExtentKind, InodeItem, Key, KeyKind, KeyPtr, Logical, Node};
use crate::tree::{Expect, Forest, Tree};
use crate::usage::tally::Fragments;
use crate::usage::{Progress, Tally, Watch};

/// Blocks between two reports of progress.
const WATCH_EVERY: u64 = 256;
/// Blocks that are read at once.
pub(super) const AHEAD: usize = 64;

/// Takes what the leaves hold.
pub(super) trait Sink {
    /// What a leaf says by itself: files, references, inline pieces, fragments; no extents.
    fn leaf(&mut self, label: u32, tally: &Tally);
    /// A reference to a data extent, as often as there are some.
    fn extent(&mut self, label: u32, extent: &FileExtent);
    /// Two blocks next to each other below a node turn out to hold parts of one fragment.
    fn join_fragments(&mut self, label: u32, count: u64);
}

/// The label of every block that some root reaches.
#[derive(Debug, Default)]
pub(super) struct Labels {
    blocks: HashMap<u64, u32>,
}

impl Labels {
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = u32> {
        self.blocks.values().copied()
    }

    /// Labels all blocks below `roots`, each of which has a label of its own. `join` puts labels together.
    pub(super) fn new(
        forest: &Forest,
        roots: &[(u64, u32)],
        mut join: impl FnMut(u32, u32) -> u32,
    ) -> Result<Self> {
        let mut labels = Self::default();
        // Nodes by level and address, with what their parents say of them.
        let mut waiting: BTreeMap<u8, BTreeMap<u64, Expect>> = BTreeMap::new();
        for (root, label) in roots {
            let Some(root) = forest.root(*root) else { continue };
            labels.add(root.bytenr, *label, &mut join);
            if root.level > 0 {
                let nodes = waiting.entry(root.level).or_default();
                nodes.insert(root.bytenr, Expect::root(&root));
            }
        }
        while let Some((level, nodes)) = waiting.pop_last() {
            for (bytenr, expect) in nodes {
                let node = forest.load(Logical(bytenr), &expect)?;
                let label = labels.of(bytenr);
                for ptr in node.ptrs() {
                    labels.add(ptr.bytenr, label, &mut join);
                    if level > 1 {
                        let below = waiting.entry(level - 1).or_default();
                        below.insert(ptr.bytenr, expect_child(&node, &ptr, expect.tree));
                    }
                }
            }
        }
        Ok(labels)
    }

    fn add(&mut self, bytenr: u64, label: u32, join: &mut impl FnMut(u32, u32) -> u32) {
        let known = self.blocks.entry(bytenr);
        known.and_modify(|known| *known = join(*known, label)).or_insert(label);
    }

    fn of(&self, bytenr: u64) -> u32 {
        self.blocks.get(&bytenr).copied().unwrap_or_default()
    }
}

fn expect_child(parent: &Node, ptr: &KeyPtr, tree: Option<u64>) -> Expect {
    Expect {
        level: parent.level().saturating_sub(1),
        generation: Some(ptr.generation),
        first_key: Some(ptr.key),
        tree,
    }
}

/// Walks all blocks below `roots`, each once, in the order of `roots` and of keys.
pub(super) fn visit(
    forest: &Forest,
    roots: &[u64],
    labels: &Labels,
    sink: &mut dyn Sink,
    watch: Watch<'_>,
) -> Result<()> {
    let mut visit = Visit { labels, sink, watch, seen: HashMap::new() };
    for root in roots {
        if let Some(tree) = forest.find_tree(*root) {
            let node = tree.root_node()?;
            visit.block(&tree, &node)?;
        }
    }
    Ok(())
}

struct Visit<'a> {
    labels: &'a Labels,
    sink: &'a mut dyn Sink,
    watch: Watch<'a>,
    /// The blocks visited, with what their neighbours must know of their fragments.
    seen: HashMap<u64, Fragments>,
}

impl Visit<'_> {
    fn block(&mut self, tree: &Tree<'_>, node: &Node) -> Result<Fragments> {
        let label = self.labels.of(node.bytenr());
        let fragments = if node.level() == 0 {
            self.leaf(tree, node, label)?
        } else {
            self.node(tree, node, label)?
        };
        self.seen.insert(node.bytenr(), fragments);
        let done = self.seen.len() as u64;
        if done.is_multiple_of(WATCH_EVERY) {
            (self.watch)(Progress { done, total: self.labels.len() as u64 })?;
        }
        Ok(fragments)
    }

    fn node(&mut self, tree: &Tree<'_>, node: &Node, label: u32) -> Result<Fragments> {
        let mut fragments = Fragments::default();
        let mut joined: u64 = 0;
        let addresses: Vec<u64> = node.ptrs().map(|ptr| ptr.bytenr).collect();
        let slots: Vec<usize> = (0..node.len()).collect();
        for slots in slots.chunks(AHEAD) {
            let new =
                slots.iter().copied().filter(|slot| !self.seen.contains_key(&addresses[*slot]));
            let mut children = load(tree, node, &new.collect::<Vec<_>>())?.into_iter();
            for slot in slots {
                let below = match self.seen.get(&addresses[*slot]) {
                    Some(below) => *below,
                    None => match children.next() {
                        Some(child) => self.block(tree, &child)?,
                        None => continue,
                    },
                };
                joined = joined.saturating_add(fragments.then(&below));
            }
        }
        self.sink.join_fragments(label, joined);
        Ok(fragments)
    }

    fn leaf(&mut self, tree: &Tree<'_>, leaf: &Node, label: u32) -> Result<Fragments> {
        let mut tally = Tally::default();
        let mut fragments = Fragments::default();
        let mut links = HashSet::new();
        let mut inode = None;
        for (key, data) in leaf.items() {
            let broken = |damage| Error::in_item(damage, tree.id(), key);
            match key.kind {
                KeyKind::INODE_ITEM => {
                    let item = InodeItem::view(data).map_err(broken)?;
                    tally.files = tally.files.saturating_add(item.is_file().into());
                    inode = Some(key.objectid);
                    if item.is_symlink() {
                        links.insert(key.objectid);
                    }
                }
                KeyKind::EXTENT_DATA => {
                    let (extent, payload) = FileExtent::parse(data).map_err(broken)?;
                    if extent.is_hole() {
                        continue;
                    }
                    if extent.kind == FileExtentKind::Inline {
                        let is_link = if inode == Some(key.objectid) {
                            links.contains(&key.objectid)
                        } else {
                            is_symlink(tree, key.objectid)?
                        };
                        if is_link {
                            continue;
                        }
                        tally.add_inline(&extent, payload.len());
                    } else {
                        tally.add_ref(&extent);
                        self.sink.extent(label, &extent);
                    }
                    let new = fragments.next(key.objectid, &extent);
                    tally.fragments = tally.fragments.saturating_add(new);
                }
                _ => {}
            }
        }
        self.sink.leaf(label, &tally);
        Ok(fragments)
    }
}

/// Some children of a node. Leaves, of which there are many, are read and checked on all cores.
pub(super) fn load(tree: &Tree<'_>, node: &Node, slots: &[usize]) -> Result<Vec<Arc<Node>>> {
    if node.level() == 1 {
        slots.par_iter().map(|slot| tree.child(node, *slot)).collect()
    } else {
        slots.iter().map(|slot| tree.child(node, *slot)).collect()
    }
}

/// Whether an inode, whose item is in another leaf, is a symbolic link: its target looks like a file's contents.
fn is_symlink(tree: &Tree<'_>, ino: u64) -> Result<bool> {
    let key = Key::new(ino, KeyKind::INODE_ITEM, 0);
    let item = tree.get(key)?;
    let inode = InodeItem::view(item.data());
    inode.map(InodeItem::is_symlink).map_err(|damage| Error::in_item(damage, tree.id(), key))
}
