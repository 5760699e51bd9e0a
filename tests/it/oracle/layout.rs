//! Where file data and file tree items stand on disk, read with `btrfs inspect-internal`, and
//! whether what was shared in one layout is shared in another.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use crate::tool;

const SECTOR_BYTES: u64 = 4096;
const SHOWN_COUNT: usize = 8;

/// A sector of a file: tree, inode, number of the sector.
type FileSector = (u64, u64, u64);
/// Where its bytes come from: extent on disk, sector within the extent's decompressed bytes.
type Source = (u64, u64);

/// Where everything stands that a file tree refers to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    sources: HashMap<FileSector, Source>,
    /// By extent on disk: bytes there, and its compression.
    extents: BTreeMap<u64, (u64, u64)>,
    /// By tree and inode: the leaf that holds the inode item.
    leaves: HashMap<(u64, u64), u64>,
    /// Every block of every file tree.
    blocks: HashSet<u64>,
    inline_count: u64,
    /// File extent items that refer to an extent, counted in every tree.
    item_count: u64,
}

impl Layout {
    /// Reads the layout of an unmounted image.
    pub(crate) fn read(image: &Path) -> Self {
        let args = ["inspect-internal", "dump-tree", "--hide-names"];
        let args: Vec<_> = args.iter().map(AsRef::as_ref).chain([image.as_os_str()]).collect();
        Self::parse(&tool::run("btrfs", &args))
    }

    fn parse(dump: &str) -> Self {
        let mut layout = Self::default();
        let mut tree = None;
        let mut block = 0;
        let mut item = Item::default();
        for line in dump.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["fs", "tree", "key", ..] => tree = Some(5),
                ["file", "tree", "key", id, ..] => tree = id.trim_start_matches('(').parse().ok(),
                [_, "tree", "key", ..] | [_, _, "tree", "key", ..] => tree = None,
                ["leaf" | "node", at, "items" | "level", ..] if tree.is_some() => {
                    block = at.parse().expect("block address");
                    layout.blocks.insert(block);
                }
                ["item", _, "key", objectid, kind, offset, ..] => {
                    item = Item::new(objectid, offset);
                    if let (Some(tree), "INODE_ITEM") = (tree, kind) {
                        layout.leaves.insert((tree, item.inode), block);
                    }
                }
                ["inline", "extent", ..] if tree.is_some() => layout.inline_count += 1,
                ["prealloc" | "extent", "data", "disk", "byte", at, "nr", len] => {
                    (item.disk, item.disk_bytes) = (number(at), number(len));
                }
                ["prealloc" | "extent", "data", "offset", offset, "nr", len, ..] => {
                    (item.offset_bytes, item.len_bytes) = (number(offset), number(len));
                    if let (Some(tree), "prealloc") = (tree, words[0]) {
                        layout.add(tree, &item, 0);
                    }
                }
                ["extent", "compression", kind, ..] => {
                    if let Some(tree) = tree {
                        layout.add(tree, &item, number(kind));
                    }
                }
                _ => {}
            }
        }
        layout
    }

    fn add(&mut self, tree: u64, item: &Item, compression: u64) {
        if item.disk == 0 {
            return;
        }
        self.item_count += 1;
        self.extents.insert(item.disk, (item.disk_bytes, compression));
        for sector in 0..item.len_bytes.div_ceil(SECTOR_BYTES) {
            let at = item.file_offset / SECTOR_BYTES + sector;
            let source = (item.disk, item.offset_bytes / SECTOR_BYTES + sector);
            self.sources.insert((tree, item.inode, at), source);
        }
    }

    /// Bytes that the data extents take on disk, each counted once, inline ones left out.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.extents.values().map(|(bytes, _)| bytes).sum()
    }

    /// Extents of each kind of compression: none, zlib, lzo, zstd.
    pub(crate) fn extents_by_compression(&self) -> [usize; 4] {
        let mut counts = [0; 4];
        for (_, compression) in self.extents.values() {
            counts[*compression as usize] += 1;
        }
        counts
    }

    /// Extents that this inode number refers to, in all trees that have it.
    pub(crate) fn extent_count_of(&self, inode: u64) -> usize {
        let sources = self.sources.iter().filter(|((_, of, _), _)| *of == inode);
        sources.map(|(_, (extent, _))| extent).collect::<HashSet<_>>().len()
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "{} extents {:?} of {} bytes, {} items, {} inline, {} tree blocks",
            self.extents.len(),
            self.extents_by_compression(),
            self.disk_bytes(),
            self.item_count,
            self.inline_count,
            self.blocks.len()
        )
    }

    /// Bytes of each file tree whose sector another file or another tree uses too.
    pub(crate) fn shared_bytes(&self) -> BTreeMap<u64, u64> {
        let mut users: HashMap<Source, HashSet<(u64, u64)>> = HashMap::new();
        for ((tree, inode, _), source) in &self.sources {
            users.entry(*source).or_default().insert((*tree, *inode));
        }
        let mut shared = BTreeMap::new();
        for ((tree, ..), source) in &self.sources {
            if users[source].len() > 1 {
                *shared.entry(*tree).or_default() += SECTOR_BYTES;
            }
        }
        shared
    }

    /// What is no longer shared in `after`, the layout of the same files later on.
    pub(crate) fn lost_sharing(&self, after: &Self) -> Vec<String> {
        let mut lines = self.lost_data_sharing(after);
        lines.extend(self.lost_block_sharing(after));
        lines
    }

    /// Each old byte must have one new place, and no byte more than before may be in use.
    fn lost_data_sharing(&self, after: &Self) -> Vec<String> {
        let mut moved: HashMap<Source, (Source, FileSector)> = HashMap::new();
        let mut lines = Vec::new();
        for (sector, old) in &self.sources {
            let Some(new) = after.sources.get(sector) else {
                lines.push(format!("{sector:?} had data and has none"));
                continue;
            };
            let (first, by) = moved.entry(*old).or_insert((*new, *sector));
            if first != new {
                lines.push(format!(
                    "{sector:?} and {by:?} shared {old:?}, now they are at {new:?} and {first:?}"
                ));
            }
        }
        for sector in after.sources.keys().filter(|sector| !self.sources.contains_key(*sector)) {
            lines.push(format!("{sector:?} had no data and has some"));
        }
        shorten(lines, "sectors lost their sharing or their place")
    }

    /// Two trees that had an inode item in one and the same leaf must still have.
    fn lost_block_sharing(&self, after: &Self) -> Vec<String> {
        let mut moved: HashMap<(u64, u64), (u64, u64)> = HashMap::new();
        let mut lines = Vec::new();
        for ((tree, inode), old) in &self.leaves {
            let Some(new) = after.leaves.get(&(*tree, *inode)) else {
                lines.push(format!("inode {inode} of tree {tree} is gone"));
                continue;
            };
            let (first, by) = moved.entry((*old, *inode)).or_insert((*new, *tree));
            if first != new {
                lines.push(format!(
                    "trees {tree} and {by} shared the leaf of inode {inode} ({old}), \
                     now they have {new} and {first}"
                ));
            }
        }
        shorten(lines, "inodes lost their shared leaf")
    }
}

/// The item that is being read.
#[derive(Debug, Default)]
struct Item {
    inode: u64,
    file_offset: u64,
    disk: u64,
    disk_bytes: u64,
    offset_bytes: u64,
    len_bytes: u64,
}

impl Item {
    fn new(objectid: &str, offset: &str) -> Self {
        let inode = objectid.trim_start_matches('(').parse().unwrap_or_default();
        let file_offset = offset.trim_end_matches(')').parse().unwrap_or_default();
        Self { inode, file_offset, ..Self::default() }
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

fn shorten(mut lines: Vec<String>, what: &str) -> Vec<String> {
    if lines.len() > SHOWN_COUNT {
        let count = lines.len();
        lines.sort();
        lines.truncate(SHOWN_COUNT);
        lines.push(format!("… in all {count} {what}"));
    }
    lines
}

#[test]
fn a_dump_is_read() {
    let dump = "\
fs tree key (FS_TREE ROOT_ITEM 0) 
leaf 30834688 items 6 free space 15837 generation 9 owner FS_TREE
\titem 0 key (257 INODE_ITEM 0) itemoff 16123 itemsize 160
\titem 1 key (257 EXTENT_DATA 4096) itemoff 15816 itemsize 53
\t\tgeneration 8 type 1 (regular)
\t\textent data disk byte 13631488 nr 4096
\t\textent data offset 8192 nr 8192 ram 32768
\t\textent compression 3 (zstd)
checksum tree key (CSUM_TREE ROOT_ITEM 0) 
leaf 30703616 items 1 free space 15962 generation 8 owner CSUM_TREE
";
    let layout = Layout::parse(dump);
    assert_eq!(layout.extents_by_compression(), [0, 0, 0, 1]);
    assert_eq!(layout.disk_bytes(), 4096);
    assert_eq!(layout.sources[&(5, 257, 1)], (13_631_488, 2));
    assert_eq!(layout.sources[&(5, 257, 2)], (13_631_488, 3));
    assert_eq!(layout.leaves[&(5, 257)], 30_834_688);
    assert_eq!(layout.blocks.len(), 1);
}
