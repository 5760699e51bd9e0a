//! Inodes, put together from parts that may lie in several leaves.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::check::Check;
use crate::error::{Error, Place};
use crate::format::{
    Compression, Damage, FileExtent, FileExtentKind, FileKind, InodeFlags, InodeItem, Key, KeyKind,
    Node, dir_entries, inode_extrefs, inode_refs, tree_id,
};
use crate::fs::TOP_DIR;

/// What the items of one inode in one stretch of a tree come to.
#[derive(Debug, Clone, Default)]
struct Part {
    ino: u64,
    /// The tree that the first leaf belongs to, for messages.
    tree: u64,
    item: Option<InodeItem>,
    names: u64,
    /// Hashes of what the two kinds of directory entries say.
    by_name: u64,
    by_index: u64,
    name_bytes: u64,
    /// File bytes from the first extent's start to the last one's end.
    span: Option<(u64, u64)>,
    nbytes: u64,
    /// Where the first hole without an item starts.
    gap: Option<u64>,
    has_overlap: bool,
    /// Extents whose data lacks a checksum.
    unsummed: u64,
    /// Those of them that are compressed.
    unsummed_encoded: u64,
    /// Regular extents that have one.
    summed: u64,
    /// Extents that are not inline.
    outside: u64,
}

/// What a stretch of a tree leaves open: its first and last inode, which may go on in the neighbours.
#[derive(Debug, Clone, Default)]
pub(super) struct Summary {
    edges: Vec<Part>,
    /// Hashes of directory entries, less those of the names that inodes say they have.
    names: u64,
    /// Hashes of the types that directory entries tell, less those of what inodes are.
    kinds: u64,
    /// Inodes without a name.
    nameless: Vec<u64>,
    /// Inodes that the kernel is asked to remove.
    orphans: Vec<u64>,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Part {
    fn then(mut self, next: &Self) -> Self {
        self.item = self.item.or(next.item);
        self.names = self.names.saturating_add(next.names);
        self.by_name = self.by_name.wrapping_add(next.by_name);
        self.by_index = self.by_index.wrapping_add(next.by_index);
        self.name_bytes = self.name_bytes.saturating_add(next.name_bytes);
        self.nbytes = self.nbytes.saturating_add(next.nbytes);
        self.unsummed = self.unsummed.saturating_add(next.unsummed);
        self.unsummed_encoded = self.unsummed_encoded.saturating_add(next.unsummed_encoded);
        self.summed = self.summed.saturating_add(next.summed);
        self.outside = self.outside.saturating_add(next.outside);
        self.has_overlap |= next.has_overlap;
        self.span = match (self.span, next.span) {
            (Some((start, end)), Some((next_start, next_end))) => {
                self.gap = self.gap.or((end < next_start).then_some(end));
                self.has_overlap |= end > next_start;
                Some((start, next_end))
            }
            (span, next) => span.or(next),
        };
        self.gap = self.gap.or(next.gap);
        self
    }

    /// Whether all that was put together makes an inode. What it is, and whether it has a name, goes to `summary`.
    fn finish(&self, check: &Check<'_>, summary: &mut Summary) {
        let key = Key::new(self.ino, KeyKind::INODE_ITEM, 0);
        let at = || Place::Item { tree: self.tree, key };
        let findings = &check.findings;
        let Some(item) = &self.item else {
            return findings.error(Error::in_item(Damage::NoItem { key }, self.tree, key));
        };
        findings.compare(at(), "nlink", item.nlink.get().into(), self.names);
        let kind = FileKind::of_mode(item.mode.get()).map_or(0, |kind| kind.0);
        // The top directory is nobody's entry.
        let names = if self.ino == TOP_DIR { 0 } else { self.names };
        let said = hash((self.ino, kind)).wrapping_mul(names);
        summary.kinds = summary.kinds.wrapping_sub(said);
        self.check_extents(check, item);
        if item.nlink.get() == 0 {
            // Deleted while it was open; the kernel removes what is left of it at the next mount.
            summary.nameless.push(self.ino);
            return;
        }
        if self.by_name != self.by_index {
            findings.rule(at(), "the two lists of the directory's entries do not agree");
        }
        if item.is_dir() {
            findings.compare(at(), "size of the directory", item.size.get(), self.name_bytes);
        } else if self.name_bytes > 0 {
            findings.rule(at(), "has directory entries, but is no directory");
        }
        // What `mkfs.btrfs` writes for directories means nothing.
        if !item.is_dir() {
            findings.compare(at(), "nbytes", item.nbytes.get(), self.nbytes);
        }
        let has_holes = !check.limits.has_no_holes();
        if has_holes && item.is_file() {
            let (start, end) = self.span.unwrap_or_default();
            let size = item.size.get();
            // What is preallocated behind the end needs no item before it.
            let first = if start > 0 { Some(0) } else { self.gap };
            if first.is_some_and(|gap| gap < size) || end < size {
                findings.rule(at(), "a part of the file has no extent");
            }
        }
    }

    fn check_extents(&self, check: &Check<'_>, item: &InodeItem) {
        let key = Key::new(self.ino, KeyKind::INODE_ITEM, 0);
        let at = || Place::Item { tree: self.tree, key };
        let is_unsummed = item.inode_flags().contains(InodeFlags::NODATASUM);
        let found = [
            (self.has_overlap, "file extents overlap"),
            (self.unsummed > 0 && !is_unsummed, "data has no checksum"),
            (self.unsummed_encoded > 0 && is_unsummed, "compressed data has no checksum"),
            (self.summed > 0 && is_unsummed, "data has checksums, but its file is to have none"),
            (self.outside > 0 && item.is_symlink(), "target of a symbolic link is not inline"),
            (self.span.is_some() && item.is_dir(), "directory has file extents"),
        ];
        for (_, rule) in found.iter().filter(|(is_so, _)| *is_so) {
            check.findings.rule(at(), rule);
        }
    }
}

impl Summary {
    /// Joins the summary of the stretch that follows. Inodes that are complete by now are checked.
    pub(super) fn then(mut self, next: &Self, check: &Check<'_>) -> Self {
        self.names = self.names.wrapping_add(next.names);
        self.kinds = self.kinds.wrapping_add(next.kinds);
        self.nameless.extend(&next.nameless);
        self.orphans.extend(&next.orphans);
        let mut parts = next.edges.iter();
        if let (Some(last), Some(first)) = (self.edges.last(), next.edges.first())
            && last.ino == first.ino
            && let Some(last) = self.edges.pop()
        {
            self.edges.push(last.then(first));
            parts.next();
        }
        self.edges.extend(parts.cloned());
        let inner = 1..self.edges.len().saturating_sub(1).max(1);
        let inner: Vec<Part> = self.edges.drain(inner).collect();
        for part in inner {
            part.finish(check, &mut self);
        }
        self
    }

    /// Checks what is left once a whole tree is joined.
    pub(super) fn finish(mut self, tree: u64, check: &Check<'_>) {
        for part in std::mem::take(&mut self.edges) {
            part.finish(check, &mut self);
        }
        let at = || Place::Item { tree, key: Key::new(TOP_DIR, KeyKind::DIR_INDEX, 0) };
        if self.names != 0 {
            let rule = "directory entries and the names that inodes say they have do not agree";
            check.findings.rule(at(), rule);
        } else if self.kinds != 0 {
            check.findings.rule(at(), "types in directory entries and in inodes do not agree");
        }
        let orphans: HashSet<u64> = self.orphans.into_iter().collect();
        for ino in self.nameless.into_iter().filter(|ino| !orphans.contains(ino)) {
            let key = Key::new(tree_id::ORPHAN, KeyKind::ORPHAN_ITEM, ino);
            check.findings.error(Error::in_item(Damage::NoItem { key }, tree, key));
        }
    }
}

/// Sums a leaf of a subvolume up, and checks the inodes that are wholly inside of it.
pub(super) fn summarize(check: &Check<'_>, leaf: &Node) -> Summary {
    let mut summary = Summary::default();
    let mut part: Option<Part> = None;
    for (key, data) in leaf.items() {
        if (key.objectid, key.kind) == (tree_id::ORPHAN, KeyKind::ORPHAN_ITEM) {
            summary.orphans.push(key.offset);
        }
        if !(tree_id::FIRST_FREE..=tree_id::LAST_FREE).contains(&key.objectid) {
            continue;
        }
        if part.as_ref().is_some_and(|part| part.ino != key.objectid) {
            summary = push(summary, part.take(), check);
        }
        let new = || Part { ino: key.objectid, tree: leaf.owner(), ..Part::default() };
        let part = part.get_or_insert_with(new);
        if let Err(damage) = part.add(check, key, data, &mut summary) {
            check.findings.error(Error::in_item(damage, leaf.owner(), key));
        }
    }
    push(summary, part, check)
}

fn push(summary: Summary, part: Option<Part>, check: &Check<'_>) -> Summary {
    match part {
        Some(part) => summary.then(&Summary { edges: vec![part], ..Summary::default() }, check),
        None => summary,
    }
}

impl Part {
    fn add(
        &mut self,
        check: &Check<'_>,
        key: Key,
        data: &[u8],
        summary: &mut Summary,
    ) -> Result<(), Damage> {
        match key.kind {
            KeyKind::INODE_ITEM => self.item = Some(*InodeItem::view(data)?),
            KeyKind::INODE_REF | KeyKind::INODE_EXTREF => {
                self.add_names(key, data, &mut summary.names)?;
            }
            KeyKind::DIR_ITEM | KeyKind::DIR_INDEX => self.add_entries(key, data, summary)?,
            KeyKind::EXTENT_DATA => self.add_extent(check, key, data)?,
            _ => {}
        }
        Ok(())
    }

    fn add_names(&mut self, key: Key, data: &[u8], names: &mut u64) -> Result<(), Damage> {
        let mut add = |parent: u64, index: u64, name: &[u8]| {
            self.names = self.names.saturating_add(1);
            // The top directory is its own parent, and nobody's entry.
            if (key.objectid, parent) != (TOP_DIR, TOP_DIR) {
                *names = names.wrapping_sub(hash((parent, index, name, key.objectid)));
            }
        };
        if key.kind == KeyKind::INODE_REF {
            for name in inode_refs(key.offset, data) {
                let name = name?;
                add(name.parent, name.index, name.name);
            }
        } else {
            for name in inode_extrefs(data) {
                let name = name?;
                add(name.parent, name.index, name.name);
            }
        }
        Ok(())
    }

    fn add_entries(&mut self, key: Key, data: &[u8], summary: &mut Summary) -> Result<(), Damage> {
        for entry in dir_entries(data) {
            let entry = entry?;
            let said = hash((entry.location, entry.kind.0, entry.name));
            self.name_bytes = self.name_bytes.saturating_add(entry.name.len() as u64);
            if key.kind == KeyKind::DIR_ITEM {
                self.by_name = self.by_name.wrapping_add(said);
                continue;
            }
            self.by_index = self.by_index.wrapping_add(said);
            if entry.location.kind == KeyKind::INODE_ITEM {
                let target = entry.location.objectid;
                let said = hash((key.objectid, key.offset, entry.name, target));
                summary.names = summary.names.wrapping_add(said);
                summary.kinds = summary.kinds.wrapping_add(hash((target, entry.kind.0)));
            }
        }
        Ok(())
    }

    fn add_extent(&mut self, check: &Check<'_>, key: Key, data: &[u8]) -> Result<(), Damage> {
        let (extent, _) = FileExtent::parse(data)?;
        let sector = u64::from(check.forest.volume().sector_size());
        let (len, bytes) = match extent.kind {
            FileExtentKind::Inline => {
                let len = extent.ram_bytes.checked_next_multiple_of(sector);
                (len.unwrap_or(extent.ram_bytes), extent.ram_bytes)
            }
            _ if extent.is_hole() => (extent.place.num_bytes, 0),
            _ => (extent.place.num_bytes, extent.place.num_bytes),
        };
        let end = key
            .offset
            .checked_add(len)
            .ok_or(Damage::Value { what: "end of a file extent", found: len })?;
        let is_outside = extent.kind != FileExtentKind::Inline;
        self.outside = self.outside.saturating_add(is_outside.into());
        let is_written = extent.kind == FileExtentKind::Regular && !extent.is_hole();
        if check.csums.is_complete && is_written {
            self.add_sums(check, &extent);
        }
        let part = Self { span: Some((key.offset, end)), nbytes: bytes, ..Self::default() };
        *self = std::mem::take(self).then(&part);
        Ok(())
    }

    fn add_sums(&mut self, check: &Check<'_>, extent: &FileExtent) {
        let range = extent.summed_range();
        let has_some = check.csums.intersects(&range);
        let lacks_some = !check.csums.covers(&range);
        let is_encoded = extent.compression != Compression::NONE;
        self.summed = self.summed.saturating_add(has_some.into());
        self.unsummed = self.unsummed.saturating_add(lacks_some.into());
        let is_worse = lacks_some && is_encoded;
        self.unsummed_encoded = self.unsummed_encoded.saturating_add(is_worse.into());
    }
}
