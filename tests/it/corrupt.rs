//! Images that are broken on purpose, with all checksums right: a typed error or a right answer, never a panic, never a
//! hang, and never a write that leaves less than was there.
//!
//! `BTRPRESS_CORRUPTIONS=N` tries N images of each kind; `BTRPRESS_SEED=N` begins elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io::sink;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use btrpress::check::{self, Options};
use btrpress::device::{Device, Memory};
use btrpress::error::{Error, Result};
use btrpress::format::{
    ChecksumKind, HEADER_SIZE, ITEM_SIZE, KEY_PTR_SIZE, KeyKind, Logical, Node, SUPERBLOCK_OFFSETS,
    SUPERBLOCK_SIZE, tree_id,
};
use btrpress::fs::Filesystem;
use btrpress::usage::{unwatched, whole};
use zerocopy::IntoBytes;

use crate::crash::{image, press, recompress};

/// Images to try of each kind.
const CORRUPTIONS: u64 = 60;
/// Longer than anything takes on so small an image.
const PATIENCE: Duration = Duration::from_secs(120);

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Every tree block, by address, with the tree that it is found in.
fn blocks(fs: &Filesystem) -> Vec<Arc<Node>> {
    let forest = fs.forest();
    let mut found: BTreeMap<u64, Arc<Node>> = BTreeMap::new();
    let ids: BTreeSet<u64> =
        [tree_id::ROOT, tree_id::CHUNK].into_iter().chain(forest.roots().keys().copied()).collect();
    for id in ids {
        let tree = forest.tree(id).unwrap();
        let mut waiting = vec![tree.root_node().unwrap()];
        while let Some(node) = waiting.pop() {
            if node.level() > 0 {
                waiting.extend((0..node.len()).map(|slot| tree.child(&node, slot).unwrap()));
            }
            found.insert(node.bytenr(), node);
        }
    }
    found.into_values().collect()
}

fn seal(kind: ChecksumKind, block: &mut [u8]) {
    let csum = kind.of(&block[32..]);
    block[..32].copy_from_slice(&csum);
}

/// Where in a block something worth breaking is.
fn target(random: &mut Random, node: &Node) -> Range<usize> {
    let head = if node.level() == 0 { ITEM_SIZE } else { KEY_PTR_SIZE };
    let slot = random.below(node.len());
    let head = HEADER_SIZE + slot * head..HEADER_SIZE + (slot + 1) * head;
    match random.below(10) {
        0 => 48..HEADER_SIZE,
        1 | 2 => head,
        _ if node.level() > 0 => head,
        _ if node.is_empty() => 48..HEADER_SIZE,
        _ => {
            let data = node.data(slot);
            let start = data.as_ptr() as usize - node.bytes().as_ptr() as usize;
            start..start + data.len()
        }
    }
}

/// Puts a number that is likely to hurt somewhere into a range of a block.
fn hurt(random: &mut Random, bytes: &mut [u8], range: Range<usize>) {
    let width = [1, 2, 4, 8][random.below(4)].min(range.len());
    if width == 0 {
        return;
    }
    let at = range.start + random.below(range.len() - width + 1);
    let mut old = [0; 8];
    old[..width].copy_from_slice(&bytes[at..at + width]);
    let old = u64::from_le_bytes(old);
    let new = match random.below(9) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => old.wrapping_add(1),
        4 => old.wrapping_sub(1),
        5 => old.wrapping_add(4096),
        6 => old ^ (1 << random.below(width * 8)),
        7 => u64::MAX - 4095,
        _ => random.next(),
    };
    bytes[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
}

/// A copy of `device` with one to three fields of its tree blocks changed.
fn corrupt(device: &Memory, random: &mut Random) -> Memory {
    let device = device.clone();
    let shared: Arc<dyn Device> = Arc::new(device);
    let fs = Filesystem::open(vec![Arc::clone(&shared)]).unwrap();
    let nodes = blocks(&fs);
    let volume = fs.forest().volume();
    for _ in 0..=random.below(3) {
        let node = &nodes[random.below(nodes.len())];
        let mut bytes = node.bytes().to_vec();
        let range = target(random, node);
        hurt(random, &mut bytes, range);
        seal(volume.checksum_kind(), &mut bytes);
        volume.write(Logical(node.bytenr()), &bytes).unwrap();
    }
    drop(fs);
    copy_of(&*shared)
}

fn copy_of(device: &dyn Device) -> Memory {
    let mut bytes = vec![0; device.len() as usize];
    device.read_at(0, &mut bytes).unwrap();
    Memory::of(&bytes)
}

/// All that reads.
fn read_all(fs: &Filesystem) -> Result<()> {
    let subvolumes = fs.subvolumes()?;
    let roots: Vec<u64> = subvolumes.iter().map(|subvolume| subvolume.id).collect();
    let mut first = whole::scan(fs, &roots, &mut unwatched).map(drop);
    for root in roots {
        for item in fs.forest().tree(root)?.items() {
            let key = item?.key();
            if key.kind != KeyKind::INODE_ITEM {
                continue;
            }
            let inode = fs.inode(root, key.objectid)?;
            if inode.is_dir() {
                first = first.and(fs.read_dir(root, key.objectid).map(drop));
            } else if inode.is_file() && inode.size.get() < 1 << 30 {
                first = first.and(fs.write_contents(root, key.objectid, &mut sink()));
            }
        }
    }
    first
}

/// What `check` says of a device: whether all is well; an error if it can't even be looked at.
fn is_consistent(device: &Memory) -> Result<bool> {
    let fs = Filesystem::open(vec![Arc::new(device.clone())])?;
    Ok(check::run(&fs, Options { data: true }, &mut unwatched)?.is_consistent())
}

/// Opens, reads, checks and rewrites an image. Gives what `check` says.
fn try_everything(device: &Memory) -> std::result::Result<bool, String> {
    let Ok(fs) = Filesystem::open(vec![Arc::new(device.clone())]) else { return Ok(false) };
    let read = read_all(&fs);
    let Ok(is_sound) = is_consistent(device) else { return Ok(false) };
    // Without the check before the first write, so that what comes after must cope by itself.
    let after: Arc<dyn Device> = Arc::new(device.clone());
    let outcome = press(Arc::clone(&after), &recompress("zlib:1"));
    if let (true, Ok(_)) = (is_sound, &outcome) {
        match is_consistent(&copy_of(&*after)) {
            Ok(true) => {}
            other => return Err(format!("was sound, and after the run is not: {other:?}")),
        }
    }
    if let (true, Err(error)) = (is_sound, &outcome)
        && !matches!(error, Error::Refused(_) | Error::Unsupported(_) | Error::NoSpace(_))
    {
        return Err(format!("check finds nothing, but the run fails: {error}"));
    }
    drop(read);
    Ok(is_sound)
}

/// Runs `job`; tells when it panics or takes too long.
fn guarded<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(catch_unwind(AssertUnwindSafe(job)).ok());
    });
    receiver.recv_timeout(PATIENCE).ok().flatten()
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// Tries images that `break_it` makes of a fixture.
fn try_many(name: &str, break_it: fn(&Memory, &mut Random) -> Memory) {
    let first = variable("BTRPRESS_SEED", 0);
    try_seeds(name, first..first + variable("BTRPRESS_CORRUPTIONS", CORRUPTIONS), break_it);
}

fn try_seeds(name: &str, seeds: Range<u64>, break_it: fn(&Memory, &mut Random) -> Memory) {
    let device = image(name);
    let count = seeds.end - seeds.start;
    let mut bad = Vec::new();
    let mut found = 0;
    for seed in seeds {
        let broken = break_it(&device, &mut Random(seed));
        match guarded(move || try_everything(&broken)) {
            Some(Ok(is_sound)) => found += u64::from(!is_sound),
            Some(Err(why)) => bad.push(format!("seed {seed}: {why}")),
            None => bad.push(format!("seed {seed}: a panic, or no end")),
        }
    }
    eprintln!("{name}: {count} corruptions, {found} of them seen by check");
    assert!(bad.is_empty(), "{name}: {bad:#?}");
}

#[test]
fn broken_tree_blocks_are_told_or_harmless() {
    for name in ["old-features", "nodes-4k", "block-group-tree", "mixed", "quota", "zstd"] {
        try_many(name, corrupt);
    }
}

/// The length of a tree block with a record of the old form was once not looked at.
#[test]
fn seeds_that_found_something_find_it_no_more() {
    try_seeds("old-features", 1026..1027, corrupt);
}

fn corrupt_superblock(device: &Memory, random: &mut Random) -> Memory {
    let device = device.clone();
    let at = SUPERBLOCK_OFFSETS[0];
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    device.read_at(at, &mut bytes).unwrap();
    let fields = [48..299, 299..811, 811..811 + 300];
    for _ in 0..=random.below(2) {
        let field = fields[random.below(3)].clone();
        hurt(random, &mut bytes, field);
    }
    seal(ChecksumKind::Crc32c, &mut bytes);
    device.write_at(at, &bytes).unwrap();
    device
}

#[test]
fn broken_superblocks_are_told_or_harmless() {
    try_many("old-features", corrupt_superblock);
}

/// The rule that no other program checks.
#[test]
fn a_last_snapshot_below_a_shared_block_is_found() {
    let device: Arc<dyn Device> = Arc::new(image("zstd"));
    let fs = Filesystem::open(vec![Arc::clone(&device)]).unwrap();
    let trees = fs.forest().tree(tree_id::ROOT).unwrap();
    let (_, entry) = fs.forest().roots().range(tree_id::FIRST_FREE..).next().expect("a snapshot");
    let mut item = entry.item;
    item.last_snapshot = 1.into();
    let leaf = trees.get(entry.key).unwrap().leaf;
    let slot = leaf.search(entry.key).unwrap();
    let start = leaf.data(slot).as_ptr() as usize - leaf.bytes().as_ptr() as usize;
    let mut bytes = leaf.bytes().to_vec();
    let new = item.as_bytes();
    let len = new.len().min(leaf.data(slot).len());
    bytes[start..start + len].copy_from_slice(&new[..len]);
    seal(fs.forest().volume().checksum_kind(), &mut bytes);
    fs.forest().volume().write(Logical(leaf.bytenr()), &bytes).unwrap();
    let fs = Filesystem::open(vec![device]).unwrap();
    let report = check::run(&fs, Options::default(), &mut unwatched).unwrap();
    let is_rule =
        |finding: &check::Finding| matches!(finding.problem, check::Problem::LastSnapshot { .. });
    assert!(report.findings.iter().any(is_rule), "{:#?}", report.findings);
    let error = check::require(&fs, &mut unwatched).unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error}");
}
