//! Changes to an image that keep all checksums right.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use btrpress::device::{Device, Memory};
use btrpress::format::{
    ChecksumKind, Header, Key, KeyKind, Logical, Node, NodeWriter, SUPERBLOCK_OFFSETS,
    SUPERBLOCK_SIZE, Superblock, tree_id,
};
use btrpress::fs::Filesystem;
use tempfile::NamedTempFile;
use zerocopy::{FromBytes, IntoBytes};

/// An image that is being changed. Where things are is known from before the first change.
pub(crate) struct Surgery {
    device: Arc<Memory>,
    pub(crate) fs: Filesystem,
}

pub(crate) fn seal(kind: ChecksumKind, block: &mut [u8]) {
    let csum = kind.of(&block[32..]);
    block[..32].copy_from_slice(&csum);
}

/// Whether two devices hold the same.
pub(crate) fn is_same(one: &Memory, two: &Memory) -> bool {
    const STEP: u64 = 1 << 20;
    let mut bytes = [vec![0; STEP as usize], vec![0; STEP as usize]];
    one.len() == two.len()
        && (0..one.len()).step_by(STEP as usize).all(|at| {
            let len = STEP.min(one.len() - at) as usize;
            one.read_at(at, &mut bytes[0][..len]).unwrap();
            two.read_at(at, &mut bytes[1][..len]).unwrap();
            bytes[0] == bytes[1]
        })
}

/// A file that holds what a device does, with holes for what is zero.
pub(crate) fn in_a_file(device: &Memory) -> NamedTempFile {
    const STEP: u64 = 64 << 10;
    let file = NamedTempFile::new().unwrap();
    let mut bytes = vec![0; STEP as usize];
    for at in (0..device.len()).step_by(STEP as usize) {
        let len = STEP.min(device.len() - at) as usize;
        device.read_at(at, &mut bytes[..len]).unwrap();
        if bytes[..len].iter().any(|byte| *byte != 0) {
            file.as_file().write_all_at(&bytes[..len], at).unwrap();
        }
    }
    file.as_file().set_len(device.len()).unwrap();
    file
}

impl Surgery {
    pub(crate) fn on(device: &Memory) -> Self {
        let device = Arc::new(device.clone());
        let shared: Arc<dyn Device> = Arc::clone(&device) as _;
        let fs = Filesystem::open(vec![shared]).unwrap();
        Self { device, fs }
    }

    pub(crate) fn finish(self) -> Memory {
        (*self.device).clone()
    }

    /// Every tree block.
    pub(crate) fn blocks(&self) -> Vec<Arc<Node>> {
        let forest = self.fs.forest();
        let mut found: BTreeMap<u64, Arc<Node>> = BTreeMap::new();
        let ids = [tree_id::ROOT, tree_id::CHUNK].into_iter().chain(forest.roots().keys().copied());
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

    /// Puts a block in its place, with its checksum.
    pub(crate) fn put(&self, at: u64, mut bytes: Vec<u8>) {
        let volume = self.fs.forest().volume();
        seal(volume.checksum_kind(), &mut bytes);
        volume.write(Logical(at), &bytes).unwrap();
    }

    /// A block as it is now.
    pub(crate) fn block(&self, at: u64) -> Node {
        self.fs.forest().volume().read_node(Logical(at)).unwrap()
    }

    /// Changes the header of a block.
    pub(crate) fn header(&self, at: u64, change: impl FnOnce(&mut Header)) {
        let mut bytes = self.block(at).bytes().to_vec();
        let (header, _) = Header::mut_from_prefix(&mut bytes).unwrap();
        change(header);
        self.put(at, bytes);
    }

    /// The address of the leaf where a key is or would be.
    pub(crate) fn leaf(&self, tree: u64, key: Key) -> u64 {
        self.fs.forest().tree(tree).unwrap().node_at(0, key).unwrap().bytenr()
    }

    /// Changes the items of the leaf where a key is or would be.
    pub(crate) fn items(
        &self,
        tree: u64,
        key: Key,
        change: impl FnOnce(&mut BTreeMap<Key, Vec<u8>>),
    ) {
        let at = self.leaf(tree, key);
        let leaf = self.block(at);
        let mut items: BTreeMap<Key, Vec<u8>> =
            leaf.items().map(|(key, data)| (key, data.to_vec())).collect();
        change(&mut items);
        let items: Vec<_> = items.iter().map(|(key, data)| (*key, data.as_slice())).collect();
        let writer = NodeWriter::new(leaf.bytes().len());
        self.put(at, writer.leaf(leaf.header(), items.into_iter()));
    }

    /// Changes an item's data.
    pub(crate) fn item(&self, tree: u64, key: Key, change: impl FnOnce(&mut Vec<u8>)) {
        self.items(tree, key, |items| change(items.get_mut(&key).expect("the item")));
    }

    /// Takes an item out.
    pub(crate) fn remove(&self, tree: u64, key: Key) {
        self.items(tree, key, |items| drop(items.remove(&key).expect("the item")));
    }

    /// Puts an item in.
    pub(crate) fn insert(&self, tree: u64, key: Key, data: Vec<u8>) {
        self.items(tree, key, |items| drop(items.insert(key, data)));
    }

    /// Gives an item another key, in the same leaf.
    pub(crate) fn rename(&self, tree: u64, key: Key, new: Key) {
        self.items(tree, key, |items| {
            let data = items.remove(&key).expect("the item");
            items.insert(new, data);
        });
    }

    /// Writes little-endian bytes into an item's data.
    pub(crate) fn poke(&self, tree: u64, key: Key, at: usize, bytes: &[u8]) {
        self.item(tree, key, |data| data[at..at + bytes.len()].copy_from_slice(bytes));
    }

    /// Adds to a 64-bit number in an item's data.
    pub(crate) fn add(&self, tree: u64, key: Key, at: usize, delta: i64) {
        self.item(tree, key, |data| {
            let (number, _) = data[at..].split_first_chunk_mut::<8>().expect("eight bytes");
            *number = u64::from_le_bytes(*number).wrapping_add_signed(delta).to_le_bytes();
        });
    }

    /// Changes the superblock that counts.
    pub(crate) fn superblock(&self, change: impl FnOnce(&mut Superblock)) {
        let at = SUPERBLOCK_OFFSETS[0];
        let mut bytes = [0; SUPERBLOCK_SIZE];
        self.device.read_at(at, &mut bytes).unwrap();
        let superblock = Superblock::mut_from_bytes(&mut bytes).unwrap();
        change(superblock);
        let kind = self.fs.forest().volume().checksum_kind();
        seal(kind, superblock.as_mut_bytes());
        self.device.write_at(at, &bytes).unwrap();
    }

    /// The first item of a kind in a tree that meets a condition.
    pub(crate) fn find(
        &self,
        tree: u64,
        kind: KeyKind,
        is_it: impl Fn(Key, &[u8]) -> bool,
    ) -> (Key, Vec<u8>) {
        let items = self.fs.forest().tree(tree).unwrap().items().map(Result::unwrap);
        let mut found =
            items.filter(|item| item.key().kind == kind && is_it(item.key(), item.data()));
        let item = found.next().unwrap_or_else(|| panic!("no {kind} in tree {tree}"));
        (item.key(), item.data().to_vec())
    }

    /// The first item of a kind in a tree.
    pub(crate) fn first(&self, tree: u64, kind: KeyKind) -> Key {
        self.find(tree, kind, |_, _| true).0
    }
}
