//! The walk through all tree blocks, each once, from the highest level down.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::backref::child_refs;
use crate::check::Check;
use crate::check::finding::{Findings, Problem};
use crate::check::inode::{self, Summary};
use crate::check::items;
use crate::error::{Error, Place, Result};
use crate::format::{
    BlockFlags, FileExtent, FileExtentKind, Key, KeyKind, LEVELS, Logical, Node, Ref, tree_id,
};
use crate::tree::{Expect, Forest};
use crate::usage::{Progress, Watch};

/// Blocks between two reports of progress.
const STEP: usize = 4096;

/// What one parent, or root item, says of a block.
#[derive(Debug, Clone, Copy)]
struct Pointer {
    bytenr: u64,
    generation: u64,
    /// None for a root.
    first_key: Option<Key>,
    /// The key at which the next block begins, if there is one.
    end: Option<Key>,
    tree: u64,
    /// The lowest `last_snapshot` of all subvolumes that come here.
    last_snapshot: u64,
    /// Whether more than one block points here or above.
    is_shared: bool,
}

/// A block of a subvolume that has been visited.
pub(super) struct Inner {
    pub(super) bytenr: u64,
    pub(super) children: Vec<u64>,
}

/// What the walk leaves for the check of files.
#[derive(Default)]
pub(super) struct Walked {
    /// Nodes of subvolumes, from the highest level down.
    pub(super) nodes: Vec<Inner>,
    pub(super) summaries: HashMap<u64, Summary>,
    /// Blocks visited.
    pub(super) count: u64,
    /// Whether all of them could be read.
    pub(super) is_complete: bool,
}

struct Visited {
    children: Vec<Pointer>,
    inner: Option<Inner>,
    summary: Option<(u64, Summary)>,
}

/// Visits every block of every tree.
pub(super) fn walk(check: &Check<'_>, watch: Watch<'_>) -> Result<Walked> {
    let mut walked = Walked { is_complete: true, ..Walked::default() };
    let mut levels: [Vec<Pointer>; LEVELS as usize] = Default::default();
    for (level, pointer) in roots(check) {
        if let Some(waiting) = levels.get_mut(usize::from(level)) {
            waiting.push(pointer);
        } else {
            check.findings.rule(Place::Block(Logical(pointer.bytenr)), "tree is too high");
        }
    }
    let total = check.index.len() as u64;
    for level in (0..LEVELS).rev() {
        let waiting = merge(std::mem::take(&mut levels[usize::from(level)]), &check.findings);
        for step in waiting.chunks(STEP) {
            let visited: Vec<_> =
                step.par_iter().map(|pointer| visit(check, level, pointer)).collect();
            for found in visited {
                let Some(found) = found else {
                    walked.is_complete = false;
                    continue;
                };
                walked.nodes.extend(found.inner);
                walked.summaries.extend(found.summary);
                if let Some(below) = level.checked_sub(1) {
                    levels[usize::from(below)].extend(found.children);
                }
            }
            walked.count += step.len() as u64;
            watch(Progress { done: walked.count, total })?;
        }
    }
    Ok(walked)
}

/// The root of every tree but the log, whose blocks are recorded nowhere.
fn roots(check: &Check<'_>) -> Vec<(u8, Pointer)> {
    let forest = check.forest;
    let ids = [tree_id::ROOT, tree_id::CHUNK].into_iter().chain(forest.roots().keys().copied());
    ids.filter_map(|id| {
        let root = forest.root(id)?;
        let last_snapshot =
            forest.roots().get(&id).map_or(0, |entry| entry.item.last_snapshot.get());
        check.index.count(root.bytenr, Ref::TreeBlock { root: id }, 1, &check.findings);
        let pointer = Pointer {
            bytenr: root.bytenr,
            generation: root.generation,
            first_key: None,
            end: None,
            tree: id,
            last_snapshot,
            is_shared: false,
        };
        Some((root.level, pointer))
    })
    .collect()
}

/// Puts what all parents say of each block together.
fn merge(mut pointers: Vec<Pointer>, findings: &Findings) -> Vec<Pointer> {
    pointers.sort_by_key(|pointer| (pointer.bytenr, pointer.tree));
    pointers.dedup_by(|next, kept| {
        if next.bytenr != kept.bytenr {
            return false;
        }
        let agree = (next.generation, next.first_key) == (kept.generation, kept.first_key)
            && (next.tree == kept.tree
                || [next.tree, kept.tree].iter().all(|tree| tree_id::is_subvolume(*tree)));
        if !agree {
            findings.rule(
                Place::Block(Logical(kept.bytenr)),
                "those who point to the block do not agree",
            );
        }
        kept.end = [kept.end, next.end].into_iter().flatten().min();
        kept.last_snapshot = kept.last_snapshot.min(next.last_snapshot);
        kept.is_shared = true;
        true
    });
    pointers
}

fn visit(check: &Check<'_>, level: u8, pointer: &Pointer) -> Option<Visited> {
    let Pointer { bytenr, generation, first_key, tree, .. } = *pointer;
    let expect = Expect { level, generation: Some(generation), first_key, tree: Some(tree) };
    let node = match check.forest.load(Logical(bytenr), &expect) {
        Ok(node) => node,
        Err(error) => {
            check.findings.error(error);
            return None;
        }
    };
    if check.options.data {
        check_copies(check.forest, &node, &check.findings);
    }
    check_block(check, &node, pointer);
    let (is_full, is_shared) = check_record(check, &node, pointer);
    count_refs(check, &node, is_full);
    check.charged.add_block(&node);
    let children = node
        .ptrs()
        .enumerate()
        .map(|(slot, ptr)| Pointer {
            bytenr: ptr.bytenr,
            generation: ptr.generation,
            first_key: Some(ptr.key),
            end: node.find_key(slot.saturating_add(1)).or(pointer.end),
            is_shared,
            ..*pointer
        })
        .collect::<Vec<_>>();
    if !tree_id::is_subvolume(tree) {
        return Some(Visited { children, inner: None, summary: None });
    }
    let is_leaf = level == 0;
    let summary = is_leaf.then(|| (bytenr, inode::summarize(check, &node)));
    let inner = (!is_leaf)
        .then(|| Inner { bytenr, children: children.iter().map(|child| child.bytenr).collect() });
    Some(Visited { children, inner, summary })
}

/// What a block must be by itself and in its place.
fn check_block(check: &Check<'_>, node: &Node, pointer: &Pointer) {
    let findings = &check.findings;
    let at = || Place::Block(Logical(node.bytenr()));
    let last = node.len().checked_sub(1).and_then(|slot| node.find_key(slot));
    if let (Some(last), Some(end)) = (last, pointer.end)
        && last >= end
    {
        findings.rule(at(), "block holds keys that belong into the next one");
    }
    if last.is_none() && pointer.first_key.is_some() {
        findings.rule(at(), "leaf is empty, but not the root of its tree");
    }
    if !node.header().block_flags().contains(BlockFlags::WRITTEN) {
        findings.rule(at(), "block is not marked as written");
    }
    if !node.header().has_mixed_backrefs() {
        findings.rule(at(), "block has references as kernels before 2009 made them");
    }
    items::check(&check.limits, node, pointer.tree, findings);
}

/// Compares a block with its record. Tells whether it refers by its address, and whether it is shared.
fn check_record(check: &Check<'_>, node: &Node, pointer: &Pointer) -> (bool, bool) {
    let findings = &check.findings;
    let at = || Place::Block(Logical(node.bytenr()));
    if node.generation() > check.forest.superblock().generation.get() {
        findings.rule(at(), "block is newer than the last commit");
    }
    let Some(record) = check.index.find(node.bytenr()) else { return (false, pointer.is_shared) };
    match record.level {
        Some(level) => {
            findings.compare(at(), "level in the record", level.into(), node.level().into());
        }
        None => findings.rule(at(), "tree block is recorded as data"),
    }
    findings.compare(at(), "generation in the record", record.generation, node.generation());
    if check.index.is_system(node.bytenr()) != (pointer.tree == tree_id::CHUNK) {
        findings.rule(at(), "only the chunk tree, and all of it, belongs into system block groups");
    }
    let is_shared = pointer.is_shared || record.refs > 1 || record.is_full_backref;
    let is_moving = node.header().block_flags().contains(BlockFlags::RELOC);
    let can_be_shared = tree_id::is_subvolume(pointer.tree) && pointer.first_key.is_some();
    if can_be_shared && is_shared && !is_moving && node.generation() > pointer.last_snapshot {
        let (generation, last_snapshot) = (node.generation(), pointer.last_snapshot);
        findings.add(at(), Problem::LastSnapshot { generation, last_snapshot });
    }
    (record.is_full_backref, is_shared)
}

fn count_refs(check: &Check<'_>, node: &Node, is_full: bool) {
    match child_refs(node, is_full) {
        Ok(refs) => {
            for ((bytenr, reference), count) in refs {
                check.index.count(bytenr, reference, count, &check.findings);
            }
        }
        Err(damage) => check.findings.error(Error::at(damage, Logical(node.bytenr()))),
    }
    for (key, data) in node.items().filter(|(key, _)| key.kind == KeyKind::EXTENT_DATA) {
        let Ok((extent, _)) = FileExtent::parse(data) else { continue };
        if extent.kind == FileExtentKind::Inline || extent.is_hole() {
            continue;
        }
        let Some(record) = check.index.find(extent.place.disk_bytenr) else { continue };
        let at = Place::Item { tree: node.owner(), key };
        if record.level.is_some() {
            check.findings.rule(at, "data lies where a tree block is");
        } else {
            let found = extent.place.disk_num_bytes;
            check.findings.compare(at, "disk_num_bytes", found, record.length);
        }
    }
}

/// Compares all copies of a block with the one that is used.
fn check_copies(forest: &Forest, node: &Node, findings: &Findings) {
    let at = Logical(node.bytenr());
    let mut bytes = vec![0; node.bytes().len()];
    for copy in 0..forest.volume().copies(at).unwrap_or_default() {
        let is_good = forest.volume().read_copy(at, copy, &mut bytes).is_ok();
        if !is_good || bytes != node.bytes() {
            findings.add(Place::Block(at), Problem::Copy { copy });
        }
    }
}
