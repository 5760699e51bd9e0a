//! One tree: finding items and walking ranges of them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::{Damage, Key, Logical, Node};
use crate::tree::{Expect, Forest, TreeRoot};

/// A tree of the committed state.
#[derive(Debug, Clone, Copy)]
pub struct Tree<'f> {
    forest: &'f Forest,
    root: TreeRoot,
}

/// An item, with the leaf that holds it.
#[derive(Debug, Clone)]
pub struct Item {
    /// The leaf.
    pub leaf: Arc<Node>,
    /// Its slot in the leaf.
    pub slot: usize,
}

impl Item {
    /// The item's key.
    pub fn key(&self) -> Key {
        self.leaf.key(self.slot)
    }

    /// The item's data.
    pub fn data(&self) -> &[u8] {
        self.leaf.data(self.slot)
    }
}

impl<'f> Tree<'f> {
    pub(super) const fn new(forest: &'f Forest, root: TreeRoot) -> Self {
        Self { forest, root }
    }

    /// The tree's number.
    pub const fn id(&self) -> u64 {
        self.root.id
    }

    /// Where its root is.
    pub const fn root(&self) -> TreeRoot {
        self.root
    }

    /// The root block.
    pub fn root_node(&self) -> Result<Arc<Node>> {
        self.forest.load(Logical(self.root.bytenr), &Expect::root(&self.root))
    }

    /// Child `slot` of `parent`.
    pub fn child(&self, parent: &Node, slot: usize) -> Result<Arc<Node>> {
        self.forest.child(self.root.id, parent, slot)
    }

    /// The item with exactly this key.
    pub fn find(&self, key: Key) -> Result<Option<Item>> {
        let leaf = self.node_at(0, key)?;
        Ok(leaf.search(key).ok().map(|slot| Item { leaf, slot }))
    }

    /// The item with exactly this key, which must exist.
    pub fn get(&self, key: Key) -> Result<Item> {
        self.find(key)?.ok_or_else(|| Error::in_item(Damage::NoItem { key }, self.root.id, key))
    }

    /// The last item at or before `key`.
    pub fn find_at_or_before(&self, key: Key) -> Result<Option<Item>> {
        let leaf = self.node_at(0, key)?;
        // Below the first key of the whole tree there is nothing: a path always starts at or before its key otherwise.
        let slot = match leaf.search(key) {
            Ok(slot) => Some(slot),
            Err(slot) => slot.checked_sub(1),
        };
        Ok(slot.map(|slot| Item { leaf, slot }))
    }

    /// The block at `level` on the way to `key`. `level` must not be above the root's.
    pub fn node_at(&self, level: u8, key: Key) -> Result<Arc<Node>> {
        let mut node = self.root_node()?;
        while node.level() > level {
            node = self.child(&node, node.child_slot(key))?;
        }
        Ok(node)
    }

    /// Items whose keys are in `keys`, in order.
    pub const fn range(&self, keys: RangeInclusive<Key>) -> Range<'f> {
        let (first, last) = (*keys.start(), *keys.end());
        Range { tree: *self, path: Vec::new(), next: Some(first), last, given: None }
    }

    /// All items.
    pub const fn items(&self) -> Range<'f> {
        self.range(Key::MIN..=Key::MAX)
    }
}

/// Iterator over the items of a [`Tree`] within a range of keys. After an error it ends.
#[derive(Debug)]
pub struct Range<'f> {
    tree: Tree<'f>,
    /// Blocks from the root to the leaf, each with the slot that is next.
    path: Vec<(Arc<Node>, usize)>,
    /// Where to descend to when `path` is empty.
    next: Option<Key>,
    last: Key,
    /// The last key given. In a sound tree all that follow are above it; where blocks are entangled so that they could
    /// be come across again and again, this is where it ends.
    given: Option<Key>,
}

impl Range<'_> {
    fn descend(&mut self, key: Key) -> Result<()> {
        let mut node = self.tree.root_node()?;
        while node.level() > 0 {
            let slot = node.child_slot(key);
            let child = self.tree.child(&node, slot)?;
            self.path.push((node, slot.saturating_add(1)));
            node = child;
        }
        let slot = node.search(key).unwrap_or_else(|slot| slot);
        self.path.push((node, slot));
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Item>> {
        if let Some(key) = self.next.take() {
            self.descend(key)?;
        }
        while let Some((node, slot)) = self.path.last_mut() {
            if *slot >= node.len() {
                self.path.pop();
                continue;
            }
            let (node, here) = (Arc::clone(node), *slot);
            *slot = here.saturating_add(1);
            if node.level() == 0 {
                let item = Item { leaf: node, slot: here };
                let key = item.key();
                if self.given.is_some_and(|given| given >= key) {
                    let at = Logical(item.leaf.bytenr());
                    return Err(Error::at(Damage::KeyOrder { slot: here }, at));
                }
                self.given = Some(key);
                return Ok((key <= self.last).then_some(item));
            }
            let child = self.tree.child(&node, here)?;
            self.path.push((child, 0));
        }
        Ok(None)
    }
}

impl Iterator for Range<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.step().transpose();
        if !matches!(item, Some(Ok(_))) {
            self.path.clear();
        }
        item
    }
}
