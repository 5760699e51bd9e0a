//! Edits of a tree that has no snapshots: extent, checksum, free space, block group, root, quota tree.
//!
//! Blocks on the way to an edit are copied once in a transaction, to new addresses, and then changed in memory.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::error::Result;
use crate::format::{ITEM_SIZE, Key, KeyPtr, Logical, Node, tree_id};
use crate::tree::{Expect, Forest, TreeRoot};
use crate::txn::repack::{leaf_runs, node_runs};
use crate::txn::space::SpaceKind;

/// New data of an item, or `None` to delete it.
pub(super) type Edit = (Key, Option<Vec<u8>>);

/// Edits still to be made, in order.
type Edits = std::iter::Peekable<std::vec::IntoIter<Edit>>;

/// Where an edit gets new blocks from and gives old ones to.
pub(super) trait Blocks {
    /// The committed state.
    fn forest(&self) -> &Forest;
    /// Generation of new blocks.
    fn generation(&self) -> u64;
    /// Takes a block for `tree`.
    fn allocate(&mut self, tree: u64, level: u8, first_key: Key, kind: SpaceKind) -> Result<u64>;
    /// Gives up a block of `tree`.
    fn release(&mut self, tree: u64, bytenr: u64);
}

/// A block that the transaction has copied.
#[derive(Debug)]
pub(super) enum Dirty {
    /// Items of a leaf.
    Leaf(Vec<(Key, Vec<u8>)>),
    /// Children of a node, and its level.
    Node(u8, Vec<KeyPtr>),
}

impl Dirty {
    const fn level(&self) -> u8 {
        match self {
            Self::Leaf(_) => 0,
            Self::Node(level, _) => *level,
        }
    }

    fn first_key(&self) -> Key {
        match self {
            Self::Leaf(items) => items.first().map(|(key, _)| *key),
            Self::Node(_, ptrs) => ptrs.first().map(|ptr| ptr.key),
        }
        .unwrap_or(Key::MIN)
    }

    /// Space that it takes, in the unit of [`Sizes`].
    fn size(&self) -> usize {
        match self {
            Self::Leaf(items) => items.iter().map(|(_, data)| data.len() + ITEM_SIZE).sum(),
            Self::Node(_, ptrs) => ptrs.len(),
        }
    }
}

/// What fits into blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Bytes of a leaf for items with their heads.
    pub(super) leaf_capacity: usize,
    /// Pointers of a node.
    pub(super) ptrs_max: usize,
}

/// A tree as the transaction sees it.
#[derive(Debug)]
pub(super) struct TreeEdit {
    root: TreeRoot,
    sizes: Sizes,
    dirty: HashMap<u64, Dirty>,
}

impl TreeEdit {
    pub(super) fn new(root: TreeRoot, sizes: Sizes) -> Self {
        Self { root, sizes, dirty: HashMap::new() }
    }

    /// Where the root is by now.
    pub(super) const fn root(&self) -> TreeRoot {
        self.root
    }

    /// Whether anything was changed.
    pub(super) fn is_changed(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// All changed blocks, with their addresses.
    pub(super) fn dirty(&self) -> impl Iterator<Item = (u64, &Dirty)> {
        self.dirty.iter().map(|(at, block)| (*at, block))
    }

    /// Makes all of `edits`, which ascend by key.
    pub(super) fn apply(&mut self, blocks: &mut impl Blocks, edits: Vec<Edit>) -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let root = self.root;
        let ptr = KeyPtr { key: Key::MIN, bytenr: root.bytenr, generation: root.generation };
        let mut edits = edits.into_iter().peekable();
        let mut parts = self.edit_block(blocks, (ptr, root.level), None, &mut edits)?;
        let mut level = root.level;
        if parts.is_empty() {
            // A tree without items still has a root, an empty leaf.
            level = 0;
            let kind = self.space_kind();
            let bytenr = blocks.allocate(root.id, level, Key::MIN, kind)?;
            self.dirty.insert(bytenr, Dirty::Leaf(Vec::new()));
            parts.push(KeyPtr { key: Key::MIN, bytenr, generation: blocks.generation() });
        }
        while parts.len() > 1 {
            level += 1;
            parts = self.pack(blocks, None, Dirty::Node(level, parts))?;
        }
        let mut bytenr = parts[0].bytenr;
        // A root with one changed child is a level too many.
        while let Some(Dirty::Node(_, ptrs)) = self.dirty.get(&bytenr)
            && let [only] = ptrs.as_slice()
            && self.dirty.contains_key(&only.bytenr)
        {
            let child = only.bytenr;
            self.dirty.remove(&bytenr);
            blocks.release(root.id, bytenr);
            bytenr = child;
            level -= 1;
        }
        self.root = TreeRoot { id: root.id, bytenr, level, generation: blocks.generation() };
        Ok(())
    }

    /// Makes the edits below `end` in the block at `ptr`; gives the pointers that replace `ptr`.
    fn edit_block(
        &mut self,
        blocks: &mut impl Blocks,
        (ptr, level): (KeyPtr, u8),
        end: Option<Key>,
        edits: &mut Edits,
    ) -> Result<Vec<KeyPtr>> {
        let is_below = |edit: &Edit| end.is_none_or(|end| edit.0 < end);
        let (at, block) = self.open(blocks, ptr, level)?;
        let block = match block {
            Dirty::Leaf(items) => Dirty::Leaf(merge(items, edits, is_below)),
            Dirty::Node(level, ptrs) => {
                let mut children = Vec::with_capacity(ptrs.len() + 1);
                for (slot, child) in ptrs.iter().enumerate() {
                    let child_end = ptrs.get(slot + 1).map(|next| next.key).or(end);
                    let has_edits =
                        edits.peek().is_some_and(|edit| child_end.is_none_or(|end| edit.0 < end));
                    if has_edits {
                        let child = (*child, level - 1);
                        children.extend(self.edit_block(blocks, child, child_end, edits)?);
                    } else {
                        children.push(*child);
                    }
                }
                self.join_small(blocks, level - 1, &mut children)?;
                Dirty::Node(level, children)
            }
        };
        self.pack(blocks, Some(at), block)
    }

    /// Takes a block out for changing, copied to a new address if it is still the committed one.
    fn open(&mut self, blocks: &mut impl Blocks, ptr: KeyPtr, level: u8) -> Result<(u64, Dirty)> {
        if let Some(block) = self.dirty.remove(&ptr.bytenr) {
            return Ok((ptr.bytenr, block));
        }
        let block = self.read(blocks.forest(), ptr, level)?;
        let at = blocks.allocate(self.root.id, level, block.first_key(), self.space_kind())?;
        blocks.release(self.root.id, ptr.bytenr);
        Ok((at, block))
    }

    const fn space_kind(&self) -> SpaceKind {
        if self.root.id == tree_id::CHUNK { SpaceKind::System } else { SpaceKind::Metadata }
    }

    fn read(&self, forest: &Forest, ptr: KeyPtr, level: u8) -> Result<Dirty> {
        let node = self.load(forest, ptr, level)?;
        Ok(if level == 0 {
            Dirty::Leaf(node.items().map(|(key, data)| (key, data.to_vec())).collect())
        } else {
            Dirty::Node(level, node.ptrs().collect())
        })
    }

    /// A block of the committed state.
    fn load(&self, forest: &Forest, ptr: KeyPtr, level: u8) -> Result<Arc<Node>> {
        let expect = Expect {
            level,
            generation: Some(ptr.generation),
            first_key: (ptr.key != Key::MIN).then_some(ptr.key),
            tree: Some(self.root.id),
        };
        forest.load(Logical(ptr.bytenr), &expect)
    }

    /// Puts a block back, cut into as many as it needs; the first stays at `at`. An empty one is given up.
    fn pack(
        &mut self,
        blocks: &mut impl Blocks,
        at: Option<u64>,
        block: Dirty,
    ) -> Result<Vec<KeyPtr>> {
        let level = block.level();
        let parts: Vec<Dirty> = match block {
            Dirty::Leaf(items) => {
                let sizes: Vec<_> = items.iter().map(|(_, data)| data.len()).collect();
                let runs = leaf_runs(&sizes, self.sizes.leaf_capacity);
                let mut items = items.into_iter();
                runs.into_iter()
                    .map(|run| Dirty::Leaf(items.by_ref().take(run.len()).collect()))
                    .collect()
            }
            Dirty::Node(level, ptrs) => node_runs(ptrs.len(), self.sizes.ptrs_max)
                .into_iter()
                .map(|run| Dirty::Node(level, ptrs[run].to_vec()))
                .collect(),
        };
        if parts.is_empty()
            && let Some(at) = at
        {
            blocks.release(self.root.id, at);
        }
        let mut free = at;
        let mut ptrs = Vec::with_capacity(parts.len());
        for part in parts {
            let key = part.first_key();
            let bytenr = match free.take() {
                Some(at) => at,
                None => blocks.allocate(self.root.id, level, key, self.space_kind())?,
            };
            self.dirty.insert(bytenr, part);
            ptrs.push(KeyPtr { key, bytenr, generation: blocks.generation() });
        }
        Ok(ptrs)
    }

    /// Joins changed children that have become small with a neighbour, so that trees do not thin out over many runs.
    fn join_small(
        &mut self,
        blocks: &mut impl Blocks,
        level: u8,
        children: &mut Vec<KeyPtr>,
    ) -> Result<()> {
        let capacity = if level == 0 { self.sizes.leaf_capacity } else { self.sizes.ptrs_max };
        let mut slot = 0;
        while slot + 1 < children.len() {
            let sizes = [slot, slot + 1]
                .map(|slot| self.dirty.get(&children[slot].bytenr).map(Dirty::size));
            let is_small = sizes.iter().flatten().any(|size| *size * 4 < capacity);
            if !is_small
                || !self.fit_together(blocks, level, &children[slot..slot + 2], capacity)?
            {
                slot += 1;
                continue;
            }
            let (right_at, right) = self.open(blocks, children[slot + 1], level)?;
            let (left_at, left) = self.open(blocks, children[slot], level)?;
            blocks.release(self.root.id, right_at);
            let joined = match (left, right) {
                (Dirty::Leaf(left), Dirty::Leaf(right)) => {
                    Dirty::Leaf(left.into_iter().chain(right).collect())
                }
                (Dirty::Node(level, left), Dirty::Node(_, right)) => {
                    Dirty::Node(level, left.into_iter().chain(right).collect())
                }
                _ => unreachable!("children of a node have one level"),
            };
            let ptrs = self.pack(blocks, Some(left_at), joined)?;
            children.splice(slot..slot + 2, ptrs);
        }
        Ok(())
    }

    fn fit_together(
        &self,
        blocks: &impl Blocks,
        level: u8,
        pair: &[KeyPtr],
        capacity: usize,
    ) -> Result<bool> {
        let mut total = 0;
        for ptr in pair {
            total += match self.dirty.get(&ptr.bytenr) {
                Some(block) => block.size(),
                None => self.read(blocks.forest(), *ptr, level)?.size(),
            };
        }
        Ok(total <= capacity)
    }

    /// Key and data of every item in `keys`, as the transaction has them now.
    pub(super) fn items(
        &self,
        forest: &Forest,
        keys: &RangeInclusive<Key>,
    ) -> Result<Vec<(Key, Vec<u8>)>> {
        let root = self.root;
        let ptr = KeyPtr { key: Key::MIN, bytenr: root.bytenr, generation: root.generation };
        let mut found = Vec::new();
        self.collect(forest, (ptr, root.level), keys, &mut found)?;
        Ok(found)
    }

    fn collect(
        &self,
        forest: &Forest,
        (ptr, level): (KeyPtr, u8),
        keys: &RangeInclusive<Key>,
        found: &mut Vec<(Key, Vec<u8>)>,
    ) -> Result<()> {
        match self.dirty.get(&ptr.bytenr) {
            Some(Dirty::Leaf(items)) => {
                let from = items.partition_point(|(key, _)| key < keys.start());
                found
                    .extend(items[from..].iter().take_while(|(key, _)| key <= keys.end()).cloned());
            }
            Some(Dirty::Node(level, ptrs)) => {
                let from = ptrs.partition_point(|ptr| ptr.key <= *keys.start()).saturating_sub(1);
                for ptr in ptrs[from..].iter().take_while(|ptr| ptr.key <= *keys.end()) {
                    self.collect(forest, (*ptr, level - 1), keys, found)?;
                }
            }
            None => {
                let node = self.load(forest, ptr, level)?;
                let from = node.search(*keys.start()).unwrap_or_else(|slot| slot);
                let items = node.items().skip(from).take_while(|(key, _)| key <= keys.end());
                found.extend(items.map(|(key, data)| (key, data.to_vec())));
                let ptrs = node.ptrs().skip(node.child_slot(*keys.start()));
                for ptr in ptrs.take_while(|ptr| ptr.key <= *keys.end()) {
                    self.collect(forest, (ptr, level - 1), keys, found)?;
                }
            }
        }
        Ok(())
    }

    /// The last item at or before `key`.
    pub(super) fn item_at_or_before(
        &self,
        forest: &Forest,
        key: Key,
    ) -> Result<Option<(Key, Vec<u8>)>> {
        let root = self.root;
        let mut ptr = KeyPtr { key: Key::MIN, bytenr: root.bytenr, generation: root.generation };
        let mut level = root.level;
        loop {
            match self.dirty.get(&ptr.bytenr) {
                Some(Dirty::Leaf(items)) => {
                    let count = items.partition_point(|(other, _)| *other <= key);
                    return Ok(count.checked_sub(1).map(|slot| items[slot].clone()));
                }
                Some(Dirty::Node(_, ptrs)) => {
                    let count = ptrs.partition_point(|ptr| ptr.key <= key);
                    ptr = ptrs[count.saturating_sub(1)];
                }
                None => {
                    let node = self.load(forest, ptr, level)?;
                    if level == 0 {
                        let count = node.search(key).map_or_else(|slot| slot, |slot| slot + 1);
                        let slot = count.checked_sub(1);
                        return Ok(slot.map(|slot| (node.key(slot), node.data(slot).to_vec())));
                    }
                    ptr = node.ptr(node.child_slot(key));
                }
            }
            level -= 1;
        }
    }
}

/// Merges the edits that are below a block's end into its items.
fn merge(
    items: Vec<(Key, Vec<u8>)>,
    edits: &mut Edits,
    is_below: impl Fn(&Edit) -> bool,
) -> Vec<(Key, Vec<u8>)> {
    let mut merged = Vec::with_capacity(items.len());
    for (key, data) in items {
        let mut replaced = false;
        while let Some((edit, new)) = edits.next_if(|edit| is_below(edit) && edit.0 <= key) {
            replaced |= edit == key;
            merged.extend(new.map(|new| (edit, new)));
        }
        if !replaced {
            merged.push((key, data));
        }
    }
    while let Some((edit, new)) = edits.next_if(&is_below) {
        merged.extend(new.map(|new| (edit, new)));
    }
    merged
}
