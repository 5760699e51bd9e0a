//! A tree whose nodes share their children: without a look at the order of keys, each level would multiply the visits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use btrpress::check;
use btrpress::format::{Key, KeyKind, KeyPtr, NodeWriter, tree_id};
use btrpress::fs::Filesystem;
use btrpress::usage::unwatched;
use zerocopy::IntoBytes;

use super::surgery::Surgery;
use crate::crash::image;

/// Blocks of each level; the visits without care would be some sixty to the power of seven.
const WIDTH: u64 = 60;
/// Levels above the leaves.
const HEIGHT: u8 = 7;

#[test]
fn a_walk_through_entangled_blocks_ends() {
    let surgery = Surgery::on(&image("nodes-4k"));
    let forest = surgery.fs.forest();
    let root = forest.tree(tree_id::UUID).unwrap().root_node().unwrap();
    let size = root.bytes().len() as u64;
    let chunk = forest.volume().chunk_at(btrpress::format::Logical(root.bytenr())).unwrap();
    // The last blocks of the chunk are free.
    let place =
        |level: u8, number: u64| chunk.end() - size * (1 + u64::from(level) * WIDTH + number);
    let key = |number: u64| Key::new(number, KeyKind::UUID_SUBVOL, 0);
    let writer = NodeWriter::new(size as usize);
    for level in 0..=HEIGHT {
        for number in 0..WIDTH {
            let mut header = *root.header();
            header.bytenr = place(level, number).into();
            header.level = level;
            let block = if level == 0 {
                writer.leaf(&header, [(key(number), [0_u8; 8].as_slice())].into_iter())
            } else {
                let children: Vec<KeyPtr> = (number..WIDTH)
                    .map(|child| KeyPtr {
                        key: key(child),
                        bytenr: place(level - 1, child),
                        generation: root.generation(),
                    })
                    .collect();
                writer.node(&header, &children)
            };
            surgery.put(place(level, number), block);
        }
    }
    let entry = &forest.roots()[&tree_id::UUID];
    let mut item = entry.item;
    item.bytenr = place(HEIGHT, 0).into();
    item.level = HEIGHT;
    let len = item.as_bytes().len();
    surgery.poke(tree_id::ROOT, entry.key, 0, &item.as_bytes()[..len]);

    let begun = Instant::now();
    let fs = Filesystem::open(vec![Arc::new(surgery.finish())]).unwrap();
    let items: Vec<_> = fs.forest().tree(tree_id::UUID).unwrap().items().collect();
    assert!(items.last().unwrap().is_err(), "{} items", items.len());
    assert!(check::require(&fs, &mut unwatched).is_err());
    assert!(begun.elapsed() < Duration::from_secs(60));
}
