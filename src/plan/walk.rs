//! The way through all selected files, in order.
//!
//! A walk visits each tree block once, however many snapshots share it, and each extent once, with the first file that
//! has it. It may be left at any step, the filesystem may go on to a new commit, and the walk goes on from there:
//! it remembers keys, not blocks, and is told which blocks and extents took the places of others.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::compress::Algorithm;
use crate::error::{Error, Result};
use crate::format::{
    COMPRESSED_EXTENT_MAX, Compression, FileExtent, FileExtentKind, InodeFlags, InodeItem, Key,
    KeyKind, Node,
};
use crate::fs::DataExtent;
use crate::plan::open_run::OpenRun;
use crate::plan::{Action, Inodes, Request, Run, Selection, Settled, SkipReason};
use crate::tree::Forest;
use crate::usage::SectorSet;

/// Uncompressed extents of this length are not worth joining with others, as `btrfs filesystem defragment` has it.
const DEFRAG_MAX: u64 = 32 << 20;

/// One thing that the walk came to.
#[derive(Debug)]
pub enum Step {
    /// Neighbouring pieces to encode anew.
    Run(Run),
    /// An inline extent to encode anew.
    Inline(InlineItem),
    /// An extent that is left alone.
    Skip(Skipped),
}

/// An inline extent of a regular file.
#[derive(Debug, Clone)]
pub struct InlineItem {
    /// The leaf that holds it.
    pub leaf: Arc<Node>,
    /// Its key.
    pub key: Key,
}

/// An extent that is left alone, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// Why.
    pub reason: SkipReason,
    /// Subvolume, inode and file offset of what it was met with.
    pub place: (u64, u64, u64),
    /// The extent, if its data is not inline.
    pub extent: Option<DataExtent>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Walk {
    request: Request,
    /// Subvolumes still to come, the last one first.
    subvolumes: Vec<(u64, Inodes)>,
    /// The subvolume at hand, and key ranges in it still to come.
    root: u64,
    ranges: VecDeque<(Key, Key)>,
    /// Whether the range at hand is the whole tree.
    is_whole: bool,
    path: Vec<(Arc<Node>, usize)>,
    inode: Option<Inode>,
    open: Option<OpenRun>,
    ready: VecDeque<Step>,
    /// Blocks of which everything has been visited.
    seen: HashSet<u64>,
    /// Extents that were decided upon in this pass.
    done: SectorSet,
    settled: Settled,
    is_first_pass: bool,
}

#[derive(Debug, Clone, Copy)]
struct Inode {
    ino: u64,
    is_file: bool,
    has_no_csums: bool,
}

impl Walk {
    /// A walk through `selection`, at its start.
    pub fn new(request: Request, selection: &Selection) -> Self {
        let mut walk = Self {
            request,
            subvolumes: Vec::new(),
            root: 0,
            ranges: VecDeque::new(),
            is_whole: false,
            path: Vec::new(),
            inode: None,
            open: None,
            ready: VecDeque::new(),
            seen: HashSet::new(),
            done: SectorSet::default(),
            settled: selection.settled.clone(),
            is_first_pass: true,
        };
        walk.start(selection);
        walk
    }

    /// Starts another pass: rewriting may have made neighbours of what was apart. What was settled is passed over.
    pub fn restart(&mut self, selection: &Selection) {
        self.is_first_pass = false;
        self.start(selection);
    }

    fn start(&mut self, selection: &Selection) {
        self.subvolumes = selection
            .subvolumes
            .iter()
            .rev()
            .map(|(root, inodes)| (*root, inodes.clone()))
            .collect();
        self.seen.clear();
        self.done.clear();
    }

    /// Tells the walk that `forest` is at a new commit: where blocks went, which extents are gone, and which are new.
    pub fn follow(
        &mut self,
        blocks: &[(u64, Vec<u64>)],
        old_extents: impl Iterator<Item = u64>,
        new_extents: impl Iterator<Item = u64>,
    ) {
        for (old, new) in blocks {
            if self.seen.remove(old) {
                self.seen.extend(new);
            }
        }
        for old in old_extents {
            self.done.remove(old);
            self.settled.extents.remove(old);
        }
        for new in new_extents {
            self.done.insert(new);
            self.settled.extents.insert(new);
        }
        // Blocks on the path may have moved; the key to go on from is known.
        if !self.path.is_empty() {
            let next = self.path.iter().rev().find_map(|(node, slot)| node.find_key(*slot));
            let (_, last) = self.ranges.pop_front().unwrap_or((Key::MAX, Key::MIN));
            if let Some(next) = next {
                self.ranges.push_front((next, last));
            }
            self.path.clear();
        }
    }

    /// Notes that `run` was left as it is, and would be again.
    pub fn settle(&mut self, run: &Run) {
        match run.extents.as_slice() {
            [only] => drop(self.settled.extents.insert(only.data.bytenr)),
            _ => drop(self.settled.runs.insert(fingerprint(run))),
        }
    }

    /// What is settled by now.
    pub fn into_settled(self) -> Settled {
        self.settled
    }

    /// The next step; `None` at the end of the pass.
    pub fn next(&mut self, forest: &Forest) -> Result<Option<Step>> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return Ok(Some(step));
            }
            match self.next_leaf(forest)? {
                Some(leaf) => self.visit_leaf(forest, &leaf)?,
                None if self.open.is_some() => self.close_run(forest)?,
                None => return Ok(None),
            }
        }
    }

    /// The next leaf with items to visit; leaves its path at that leaf's first such item.
    fn next_leaf(&mut self, forest: &Forest) -> Result<Option<Arc<Node>>> {
        loop {
            let Some((node, slot)) = self.path.last_mut() else {
                if !self.next_range(forest)? {
                    return Ok(None);
                }
                continue;
            };
            if *slot >= node.len() {
                let at = node.bytenr();
                self.path.pop();
                if self.is_whole {
                    self.seen.insert(at);
                }
                if self.path.is_empty() {
                    self.ranges.pop_front();
                }
                continue;
            }
            if node.level() == 0 {
                return Ok(Some(Arc::clone(node)));
            }
            let (node, here) = (Arc::clone(node), *slot);
            *slot += 1;
            let ptr = node.ptr(here);
            if self.ranges.front().is_some_and(|(_, last)| ptr.key > *last) {
                self.path.clear();
                self.ranges.pop_front();
            } else if !self.seen.contains(&ptr.bytenr) {
                let child = forest.child(self.root, &node, here)?;
                let slot = self.start_slot(&child);
                self.path.push((child, slot));
            }
        }
    }

    /// Goes to the next key range, of the next subvolume if need be.
    fn next_range(&mut self, forest: &Forest) -> Result<bool> {
        while self.ranges.is_empty() {
            let Some((root, inodes)) = self.subvolumes.pop() else { return Ok(false) };
            self.root = root;
            self.is_whole = inodes == Inodes::All;
            self.ranges = match inodes {
                Inodes::All => VecDeque::from([(Key::MIN, Key::MAX)]),
                Inodes::Only(inodes) => inodes
                    .into_iter()
                    .map(|ino| (*Key::all_of(ino).start(), *Key::all_of(ino).end()))
                    .collect(),
            };
            self.inode = None;
        }
        let node = forest.tree(self.root)?.root_node()?;
        let slot = self.start_slot(&node);
        self.path.push((node, slot));
        Ok(true)
    }

    fn start_slot(&self, node: &Node) -> usize {
        let first = self.ranges.front().map_or(Key::MIN, |(first, _)| *first);
        if node.level() > 0 {
            node.child_slot(first)
        } else {
            node.search(first).unwrap_or_else(|slot| slot)
        }
    }

    /// Visits items of a leaf until there is something to do, or the leaf is at its end.
    fn visit_leaf(&mut self, forest: &Forest, leaf: &Arc<Node>) -> Result<()> {
        let last = self.ranges.front().map_or(Key::MIN, |(_, last)| *last);
        while self.ready.is_empty() {
            let Some((_, slot)) = self.path.last_mut() else { break };
            let here = *slot;
            if here >= leaf.len() {
                break;
            }
            if leaf.key(here) > last {
                self.path.clear();
                self.ranges.pop_front();
                break;
            }
            *slot += 1;
            self.visit_item(forest, leaf, here)?;
        }
        Ok(())
    }

    fn visit_item(&mut self, forest: &Forest, leaf: &Arc<Node>, slot: usize) -> Result<()> {
        let key = leaf.key(slot);
        match key.kind {
            KeyKind::INODE_ITEM => {
                let item = InodeItem::view(leaf.data(slot))
                    .map_err(|damage| Error::in_item(damage, self.root, key))?;
                self.inode = Some(Inode::of(key.objectid, item));
            }
            KeyKind::EXTENT_DATA => {
                let inode = self.inode_of(forest, key.objectid)?;
                let (extent, _) = FileExtent::parse(leaf.data(slot))
                    .map_err(|damage| Error::in_item(damage, self.root, key))?;
                if inode.is_file {
                    self.visit_extent(forest, leaf, (key, extent), inode)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The inode at hand; its item may be in a block that was visited earlier.
    fn inode_of(&mut self, forest: &Forest, ino: u64) -> Result<Inode> {
        if let Some(inode) = self.inode.filter(|inode| inode.ino == ino) {
            return Ok(inode);
        }
        let key = Key::new(ino, KeyKind::INODE_ITEM, 0);
        let found = forest.tree(self.root)?.get(key)?;
        let item = InodeItem::view(found.data())
            .map_err(|damage| Error::in_item(damage, self.root, key))?;
        Ok(*self.inode.insert(Inode::of(ino, item)))
    }

    fn visit_extent(
        &mut self,
        forest: &Forest,
        leaf: &Arc<Node>,
        (key, extent): (Key, FileExtent),
        inode: Inode,
    ) -> Result<()> {
        if extent.kind == FileExtentKind::Inline {
            if !inode.has_no_csums && self.is_first_pass {
                let item = InlineItem { leaf: Arc::clone(leaf), key };
                self.ready.push_back(Step::Inline(item));
            }
            return Ok(());
        }
        if extent.is_hole() {
            return self.close_run(forest);
        }
        let data = DataExtent::from(&extent);
        if self
            .open
            .as_ref()
            .is_some_and(|open| !open.continues_at(key, &data, self.request.action))
        {
            self.close_run(forest)?;
        }
        let is_in_run = self.open.as_ref().is_some_and(|open| open.contains(data.bytenr));
        if !is_in_run {
            if !self.done.insert(data.bytenr) {
                return self.close_run(forest);
            }
            if let Some(reason) = self.reason_to_skip(&extent, &data, inode) {
                self.close_run(forest)?;
                let place = (self.root, key.objectid, key.offset);
                self.ready.push_back(Step::Skip(Skipped { reason, place, extent: Some(data) }));
                return Ok(());
            }
        }
        let place = (self.root, key.objectid, key.offset);
        let open = self.open.get_or_insert_with(|| OpenRun::new(place));
        open.add(key, &extent, data);
        if open.can_close(self.request.action) { self.close_run(forest) } else { Ok(()) }
    }

    /// What can be told from one file extent item alone.
    fn reason_to_skip(
        &self,
        extent: &FileExtent,
        data: &DataExtent,
        inode: Inode,
    ) -> Option<SkipReason> {
        let is_compressed = data.compression != Compression::NONE;
        let is_known = !is_compressed || Algorithm::from_disk_id(data.compression.0).is_some();
        if inode.has_no_csums {
            return Some(SkipReason::Nodatacow);
        }
        if extent.kind == FileExtentKind::Prealloc {
            return Some(SkipReason::Preallocated);
        }
        if !is_known || extent.encryption != 0 || extent.other_encoding != 0 {
            return Some(SkipReason::UnknownEncoding);
        }
        if is_compressed && data.data_bytes.max(data.disk_bytes) > COMPRESSED_EXTENT_MAX {
            return Some(SkipReason::Inconsistent);
        }
        if is_compressed && self.request.only_uncompressed {
            return Some(SkipReason::Compressed);
        }
        let is_large =
            data.data_bytes >= if is_compressed { COMPRESSED_EXTENT_MAX } else { DEFRAG_MAX };
        (self.request.action == Action::Defrag && is_large).then_some(SkipReason::NotFragmented)
    }

    fn close_run(&mut self, forest: &Forest) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        if let Some(only) = open.only_extent()
            && self.settled.extents.contains(only)
        {
            return Ok(());
        }
        let (runs, skipped) = open.close(forest)?;
        self.ready.extend(skipped.into_iter().map(Step::Skip));
        for run in runs {
            if !self.is_settled(&run) {
                self.ready.push_back(Step::Run(run));
            }
        }
        Ok(())
    }

    fn is_settled(&self, run: &Run) -> bool {
        match run.extents.as_slice() {
            [only] => self.settled.extents.contains(only.data.bytenr),
            _ => self.settled.runs.contains(&fingerprint(run)),
        }
    }
}

impl Inode {
    fn of(ino: u64, item: &InodeItem) -> Self {
        let flags = item.inode_flags();
        Self {
            ino,
            is_file: item.is_file(),
            has_no_csums: flags.intersects(InodeFlags::NODATASUM | InodeFlags::NODATACOW),
        }
    }
}

/// A number that is the same for the same extents cut into the same chunks, and hardly ever otherwise.
fn fingerprint(run: &Run) -> u64 {
    let mut hasher = DefaultHasher::new();
    for extent in &run.extents {
        extent.data.hash(&mut hasher);
    }
    for piece in run.chunks.iter().flat_map(|chunk| &chunk.pieces) {
        (piece.extent, &piece.range).hash(&mut hasher);
    }
    hasher.finish()
}
