//! The target that opens a whole image. Its bytes say what to change in an image of the tests; checksums are put right.

use std::fs::File;
use std::io::{Read, sink};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use btrpress::apply::{self, Limits, Silent};
use btrpress::check::{self, Options};
use btrpress::device::{Device, Memory};
use btrpress::format::{
    ChecksumKind, HEADER_SIZE, Key, Logical, Node, RawKey, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE,
    tree_id,
};
use btrpress::fs::{Filesystem, Target};
use btrpress::plan::{Action, Request, Selection, compile_globs};
use btrpress::usage::{roots, unwatched, whole};
use zerocopy::IntoBytes;

/// Images of the tests, with small blocks, old features and quotas.
const IMAGES: [&str; 3] = ["nodes-4k", "old-features", "quota"];

struct Base {
    device: Memory,
    blocks: Vec<Arc<Node>>,
    /// Where on the device the copies of each block are.
    places: Vec<Vec<u64>>,
}

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| IMAGES.map(load).into())
}

fn load(name: &str) -> Base {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = [own.join("tests/fixtures"), own.join("../fixtures")];
    let place = places.iter().find(|place| place.is_dir()).expect("the images of the tests");
    let archive = File::open(place.join(format!("{name}.img.zst"))).expect("the image");
    let mut bytes = Vec::new();
    zstd::Decoder::new(archive)
        .and_then(|mut archive| archive.read_to_end(&mut bytes))
        .expect("a whole image");
    let device = Memory::of(&bytes);
    let fs = open(&device).expect("a sound image");
    let blocks = tree_blocks(&fs);
    let places = blocks.iter().map(|node| copies(&fs, node.bytenr())).collect();
    Base { device, blocks, places }
}

/// Where on the only device the copies of a block are.
fn copies(fs: &Filesystem, bytenr: u64) -> Vec<u64> {
    let chunk = fs.forest().volume().chunk_at(Logical(bytenr)).expect("a sound image");
    let within = bytenr - chunk.logical.0;
    chunk.stripes.iter().map(|stripe| stripe.offset.get() + within).collect()
}

fn open(device: &Memory) -> btrpress::error::Result<Filesystem> {
    Filesystem::open(vec![Arc::new(device.clone())])
}

fn tree_blocks(fs: &Filesystem) -> Vec<Arc<Node>> {
    let forest = fs.forest();
    let mut found = Vec::new();
    for id in [tree_id::ROOT, tree_id::CHUNK].into_iter().chain(forest.roots().keys().copied()) {
        let Ok(tree) = forest.tree(id) else { continue };
        let mut waiting: Vec<_> = tree.root_node().into_iter().collect();
        while let Some(node) = waiting.pop() {
            if node.level() > 0 {
                waiting.extend((0..node.len()).flat_map(|slot| tree.child(&node, slot)));
            }
            found.push(node);
        }
    }
    found
}

/// Opens, lists, reports, checks and rewrites an image. The first byte chooses the image; then each fourteen bytes are a
/// change: where, in which block, at which offset, how wide, and what.
pub fn image(data: &[u8]) {
    let Some((which, changes)) = data.split_first() else { return };
    let base = &bases()[usize::from(*which) % IMAGES.len()];
    let device = base.device.clone();
    for change in changes.chunks_exact(CHANGE).take(8) {
        apply_change(&device, base, change);
    }
    use_image(&device);
}

/// Bytes of one change.
const CHANGE: usize = 14;

fn apply_change(device: &Memory, base: &Base, change: &[u8]) {
    let number = |range: std::ops::Range<usize>| {
        let mut bytes = [0; 8];
        bytes[..range.len()].copy_from_slice(&change[range]);
        u64::from_le_bytes(bytes)
    };
    let (place, block, offset, value) = (change[0], number(1..3), number(3..5), number(6..14));
    let width = 1 + usize::from(change[5] % 8);
    let value = value.to_le_bytes();
    if place % 8 == 0 {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        let at = SUPERBLOCK_OFFSETS[0];
        device.read_at(at, &mut bytes).expect("memory does not fail");
        let from = 32 + offset as usize % (SUPERBLOCK_SIZE - 40);
        bytes[from..from + width].copy_from_slice(&value[..width]);
        let csum = ChecksumKind::Crc32c.of(&bytes[32..]);
        bytes[..32].copy_from_slice(&csum);
        device.write_at(at, &bytes).expect("memory does not fail");
        return;
    }
    let node = &base.blocks[block as usize % base.blocks.len()];
    let mut bytes = node.bytes().to_vec();
    let from = 48 + offset as usize % (bytes.len() - 56);
    bytes[from..from + width].copy_from_slice(&value[..width]);
    let csum = ChecksumKind::Crc32c.of(&bytes[32..]);
    bytes[..32].copy_from_slice(&csum);
    for at in &base.places[block as usize % base.blocks.len()] {
        device.write_at(*at, &bytes).expect("memory does not fail");
    }
}

fn use_image(device: &Memory) {
    let Ok(fs) = open(device) else { return };
    let _ = read_all(&fs);
    let report = check::run(&fs, Options { data: true }, &mut unwatched);
    let is_sound = report.is_ok_and(|report| report.is_consistent());
    drop(fs);
    let after: Arc<dyn Device> = Arc::new(device.clone());
    let outcome = press(Arc::clone(&after));
    if is_sound && outcome.is_ok() {
        let fs = Filesystem::open(vec![after]).expect("a run leaves a filesystem");
        let report = check::run(&fs, Options::default(), &mut unwatched);
        let report = report.expect("a run leaves nothing half done");
        assert!(report.is_consistent(), "{:?}", report.findings);
    }
}

fn press(device: Arc<dyn Device>) -> btrpress::error::Result<()> {
    let mut fs = Filesystem::open(vec![device])?;
    let request = Request {
        action: Action::Recompress("lzo:1".parse().expect("a codec")),
        only_uncompressed: false,
        min_gain_percent: 0.0,
        force: true,
    };
    let globs = compile_globs(&[]).expect("no pattern is malformed");
    let selection = Selection::resolve(&fs, &[], &globs)?;
    fs.writable()?;
    let stop = AtomicBool::new(false);
    apply::run(&mut fs, &request, &selection, &mut Silent, Limits::flag(&stop)).map(drop)
}

fn read_all(fs: &Filesystem) -> btrpress::error::Result<()> {
    let ids: Vec<u64> = fs.subvolumes()?.iter().map(|subvolume| subvolume.id).collect();
    let _ = whole::scan(fs, &ids, &mut unwatched);
    let _ = roots::scan(fs, &ids, &mut unwatched);
    for root in ids {
        let mut waiting = vec![256];
        for _ in 0..64 {
            let Some(directory) = waiting.pop() else { break };
            for entry in fs.read_dir(root, directory)? {
                let Target::Inode(ino) = entry.target else { continue };
                let inode = fs.inode(root, ino)?;
                if inode.is_dir() {
                    waiting.push(ino);
                } else if inode.is_file() && inode.size.get() < 1 << 26 {
                    let _ = fs.write_contents(root, ino, &mut sink());
                }
            }
        }
    }
    Ok(())
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (which, base) in bases().iter().enumerate() {
        let mut bytes = vec![0; SUPERBLOCK_SIZE];
        base.device.read_at(SUPERBLOCK_OFFSETS[0], &mut bytes).expect("memory does not fail");
        seeds.push(("superblock", bytes));
        seeds.push(("image", vec![which as u8]));
        for (number, node) in base.blocks.iter().enumerate() {
            if node.bytes().len() == 4096 || number % 4 == 0 {
                seeds.push(("block", node.bytes().to_vec()));
            }
            let items = node.items().filter(|(_, data)| data.len() < 600);
            seeds.extend(items.step_by(7).map(|(key, data)| ("item", with_key(key, data))));
            let offset = (HEADER_SIZE - 48 + 17) as u16;
            let mut change = vec![which as u8, 1];
            change.extend((number as u16).to_le_bytes());
            change.extend(offset.to_le_bytes());
            change.extend([7, 1, 0, 0, 0, 0, 0, 0, 0]);
            seeds.push(("image", change));
        }
    }
    seeds
}

fn with_key(key: Key, data: &[u8]) -> Vec<u8> {
    [RawKey::from(key).as_bytes(), data].concat()
}
