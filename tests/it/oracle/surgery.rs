//! Changes of an image that this kernel cannot be brought to make: fields of superblocks, items of leaves.

use std::sync::Arc;

use btrpress::device::{Access, Device, FileDevice};
use btrpress::format::{Key, Logical, NodeWriter, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use btrpress::fs::Filesystem;
use btrpress::tree::Forest;
use btrpress::volume::Volume;

use super::image::Image;

/// A leaf's items, in order.
pub(crate) type Items = Vec<(Key, Vec<u8>)>;

fn devices(image: &Image, access: Access) -> Vec<Arc<dyn Device>> {
    let open = |path| FileDevice::open(path, access).expect("image file");
    image.paths().iter().map(|path| Arc::new(open(path)) as Arc<dyn Device>).collect()
}

/// The filesystem as the engine reads it.
pub(crate) fn filesystem(image: &Image) -> Filesystem {
    Filesystem::open(devices(image, Access::Read)).expect("a filesystem")
}

/// The data of an item.
pub(crate) fn item(image: &Image, tree: u64, key: Key) -> Option<Vec<u8>> {
    let fs = filesystem(image);
    let item = fs.forest().tree(tree).and_then(|tree| tree.find(key)).expect("a tree");
    item.map(|item| item.data().to_vec())
}

/// Changes every copy of the superblock on every device.
pub(crate) fn edit_superblock(image: &Image, edit: impl Fn(&mut Superblock)) {
    for device in devices(image, Access::Write) {
        for at in SUPERBLOCK_OFFSETS {
            let mut bytes = [0; SUPERBLOCK_SIZE];
            if device.read_at(at, &mut bytes).is_err() {
                continue;
            }
            let mut superblock = Superblock::parse(&bytes, at).expect("a superblock");
            edit(&mut superblock);
            let bytes = superblock.to_bytes(at).expect("a known checksum");
            device.write_at(at, &bytes).expect("image file");
        }
    }
}

/// Changes the items of the leaf of `tree` that has, or would have, `key`: not its first key, unless it is the root.
pub(crate) fn edit_leaf(image: &Image, tree: u64, key: Key, edit: impl FnOnce(&mut Items)) {
    let volume = Volume::open(devices(image, Access::Write)).expect("a volume");
    let forest = Forest::open(volume).expect("trees");
    let leaf = forest.tree(tree).and_then(|tree| tree.node_at(0, key)).expect("a leaf");
    let mut items: Items = leaf.items().map(|(key, data)| (key, data.to_vec())).collect();
    edit(&mut items);
    assert!(items.is_sorted_by_key(|(key, _)| *key), "keys ascend");
    let writer = NodeWriter::new(leaf.bytes().len());
    let items = items.iter().map(|(key, data)| (*key, data.as_slice()));
    let mut block = writer.leaf(leaf.header(), items);
    let csum = forest.volume().checksum_kind().of(&block[32..]);
    block[..32].copy_from_slice(&csum);
    forest.volume().write(Logical(leaf.bytenr()), &block).expect("image files");
    forest.volume().flush().expect("image files");
}
