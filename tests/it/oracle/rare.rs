//! Kinds of filesystem that this kernel cannot make, or not even mount: very old root items, verity, large sectors. They
//! are made by others, or by hand, and judged by who can.

use std::collections::BTreeMap;
use std::path::Path;

use btrpress::format::{
    CompatRo, ITEM_SIZE, InodeFlags, InodeItem, Key, KeyKind, NodeWriter, RootItem, tree_id,
};
use btrpress::fs::Location;
use tempfile::TempDir;
use zerocopy::IntoBytes as _;

use super::content::{Kind, content};
use super::image::Image;
use super::judge::{Truth, check};
use super::layout::Layout;
use super::manifest::Manifest;
use super::{NONE, press, surgery, workload};
use crate::tool;

const MIB: u64 = 1 << 20;
/// More than what a verity file gets here takes in a leaf.
const SEAL_BYTES: usize = 3000;
/// How often a filesystem is made until there is room for it.
const TRIES: usize = 20;

/// A filesystem without any newer feature, with a subvolume and three snapshots.
fn old(mkfs: &[&str], options: &str) -> Image {
    let image = Image::mkfs(512 * MIB, mkfs);
    let mount = image.mount(options);
    tool::run("btrfs", &["subvolume", "create", &mount.at("work")]);
    let at = |name: &str| mount.root().join("work").join(name);
    for seed in 0..200 {
        workload::write(&at(&seed.to_string()), &content(Kind::Text, seed, seed * 100));
    }
    workload::write(&at("text"), &content(Kind::Text, 7, 3 * MIB));
    for (round, readonly) in (1..).zip([&["-r"][..], &[], &["-r"]]) {
        workload::write_at(&at("text"), round * 700_000, Kind::Records, round, 70_000);
        let to = mount.at(&format!("snapshot.{round}"));
        let from = mount.at("work");
        tool::run("btrfs", &[&["subvolume", "snapshot"], readonly, &[&from, &to]].concat());
    }
    assert_eq!(mount.unmount(), NONE);
    image
}

/// Lengths of the root items of the top level and of all subvolumes, by number.
fn root_item_sizes(image: &Image) -> BTreeMap<u64, usize> {
    let fs = surgery::filesystem(image);
    let items = fs.forest().tree(tree_id::ROOT).expect("tree of trees").items();
    let items = items.map(|item| item.expect("an item"));
    let roots = items.filter(|item| {
        item.key().kind == KeyKind::ROOT_ITEM && tree_id::is_subvolume(item.key().objectid)
    });
    roots.map(|item| (item.key().objectid, item.data().len())).collect()
}

/// Root items have had 439 bytes since Linux 3.6, and the kernel makes them so when it next writes to one. Here they are
/// cut to the 239 that they had before.
#[test]
fn root_items_from_before_linux_3_6_are_read_and_keep_their_size() {
    if !tool::kernel_can_judge("old root items") {
        return;
    }
    let mkfs = ["-O", "^skinny-metadata,^no-holes,^extref", "-R", "^free-space-tree"];
    let image = old(&mkfs, "rw,nospace_cache");
    let text = |path: &str| press::stdout(&["cat".as_ref(), image.path(), path.as_ref()]);
    let before = text("snapshot.2/text");
    surgery::edit_leaf(&image, tree_id::ROOT, Key::MIN, |items| {
        for (key, data) in items.iter_mut() {
            if key.kind == KeyKind::ROOT_ITEM && tree_id::is_subvolume(key.objectid) {
                data.truncate(RootItem::LEGACY_SIZE);
            }
        }
    });
    // The tree of UUIDs knows more than there is now.
    surgery::edit_superblock(&image, |superblock| superblock.uuid_tree_generation = 0.into());
    let truth = Truth::of(&image);
    assert_eq!(check(&image), NONE);
    for target in ["zstd:9", "lzo", "none"] {
        assert!(press::recompress(&image, target).extents_rewritten > 0, "{target}");
        let sizes = root_item_sizes(&image);
        assert_eq!(sizes.len(), 5);
        assert!(sizes.values().all(|size| *size == RootItem::LEGACY_SIZE), "{target}: {sizes:?}");
        assert!(text("snapshot.2/text") == before, "{target}");
        let copy = image.copy();
        assert_eq!(truth.complaints(&copy), NONE, "{target}");
        // The kernel goes on from there.
        let mount = copy.mount("rw");
        workload::write_at(&mount.root().join("work/text"), 5000, Kind::Noise, 1, 50_000);
        let id = mount.at("snapshot.1");
        tool::run("btrfs", &["subvolume", "delete", "--commit-after", &id]);
        tool::run("btrfs", &["subvolume", "sync", &mount.at("")]);
        mount.unmount();
        assert_eq!(check(&copy), NONE, "{target}, afterlife");
        let untouched =
            |path: &Path| path.starts_with("snapshot.2") || path.starts_with("snapshot.3");
        let mount = copy.mount("ro");
        let now = Manifest::read(mount.root());
        assert_eq!(truth.manifest.differences_among(&now, untouched), NONE, "{target}, afterlife");
    }
}

/// Items of a verity file, by key. A kernel without verity lists such a file, and does not open it.
fn verity_items(image: &Image, path: &str) -> Vec<(Key, Vec<u8>)> {
    let fs = surgery::filesystem(image);
    let at = fs.resolve(path.as_bytes()).expect("a file");
    let keys = Key::new(at.ino, KeyKind::VERITY_DESC_ITEM, 0)
        ..=Key::new(at.ino, KeyKind::VERITY_MERKLE_ITEM, u64::MAX);
    let items = fs.forest().tree(at.root).expect("a tree").range(keys);
    items
        .map(|item| item.expect("an item"))
        .map(|item| (item.key(), item.data().to_vec()))
        .collect()
}

/// A filesystem where the leaf with the inode of `work/text` has room for its seal. How full the kernel leaves it differs
/// from time to time.
fn with_room() -> (Image, Location) {
    let found = (0..TRIES).find_map(|_| {
        let image = old(&[], "rw");
        let fs = surgery::filesystem(&image);
        let at = fs.resolve(b"work/text").expect("a file");
        let inode = Key::new(at.ino, KeyKind::INODE_ITEM, 0);
        let leaf = fs.forest().tree(at.root).and_then(|tree| tree.node_at(0, inode));
        let leaf = leaf.expect("a leaf");
        let used: usize = leaf.items().map(|(_, data)| ITEM_SIZE + data.len()).sum();
        let has_room = used + SEAL_BYTES <= NodeWriter::new(leaf.bytes().len()).capacity();
        has_room.then_some((image, at))
    });
    found.expect("not every leaf is full")
}

#[test]
fn verity_files_keep_their_seal_and_their_contents() {
    if !tool::kernel_can_judge("verity files") {
        return;
    }
    let (image, at) = with_room();
    let inode = Key::new(at.ino, KeyKind::INODE_ITEM, 0);
    surgery::edit_leaf(&image, at.root, inode, |items| {
        let (_, data) = items.iter_mut().find(|(key, _)| *key == inode).expect("an inode");
        let mut item = *InodeItem::view(data).expect("an inode");
        item.flags = (item.flags.get() | InodeFlags::VERITY.bits()).into();
        *data = item.as_bytes().to_vec();
        // The size of the descriptor, the descriptor, and its tree in pieces.
        let descriptor = [&[0; 8][..], &256_u64.to_le_bytes(), &[0; 9]].concat();
        for (kind, offset, data) in [
            (KeyKind::VERITY_DESC_ITEM, 0, descriptor),
            (KeyKind::VERITY_DESC_ITEM, 1, content(Kind::Noise, 1, 256)),
            (KeyKind::VERITY_MERKLE_ITEM, 0, content(Kind::Noise, 2, 2048)),
            (KeyKind::VERITY_MERKLE_ITEM, 2048, content(Kind::Noise, 3, 500)),
        ] {
            items.push((Key::new(at.ino, kind, offset), data));
        }
        items.sort_by_key(|(key, _)| *key);
    });
    surgery::edit_superblock(&image, |superblock| {
        let flags = superblock.compat_ro() | CompatRo::VERITY;
        superblock.compat_ro_flags = flags.bits().into();
    });
    let text = |path: &str| press::stdout(&["cat".as_ref(), image.path(), path.as_ref()]);
    let paths = ["work/text", "snapshot.3/text"];
    let before = paths.map(text);
    let sealed = verity_items(&image, paths[0]);
    assert_eq!(sealed.len(), 4);
    let truth = Truth::of(&image);
    for target in ["zstd:9", "none"] {
        assert!(press::recompress(&image, target).extents_rewritten > 0, "{target}");
        assert!(paths.map(text) == before, "{target}");
        for path in paths {
            assert!(verity_items(&image, path) == sealed, "{target}: {path}");
        }
        // This kernel can't open it, so it can't be asked how much of it is shared.
        let mut complaints = check(&image);
        // One of the modes of `btrfs check` has not heard of verity.
        complaints.retain(|line| !line.contains("UNKNOWN TYPE"));
        assert_eq!(complaints, NONE, "{target}");
        assert_eq!(truth.layout.lost_sharing(&Layout::read(image.path())), NONE, "{target}");
        let mount = image.mount("ro");
        let now = Manifest::read(mount.root());
        assert_eq!(truth.manifest.differences(&now), NONE, "{target}");
        assert_eq!(mount.unmount(), NONE, "{target}");
    }
}

/// A directory with files of many sizes.
fn directory() -> (TempDir, BTreeMap<String, Vec<u8>>) {
    let dir = tempfile::tempdir().expect("tempdir");
    let mut files = BTreeMap::new();
    for (seed, size) in (0..).zip([0, 10, 2047, 2048, 5000, 20_000, 70_000, 140_000, 3_000_001]) {
        let kind = if seed % 4 == 3 { Kind::Mixed } else { Kind::Text };
        let (name, bytes) = (format!("{size}"), content(kind, seed, size));
        workload::write(&dir.path().join(&name), &bytes);
        files.insert(name, bytes);
    }
    (dir, files)
}

/// The row of the README's table for what the next test tries.
pub(super) const LARGE_SECTORS: &str = "sectors of 8 to 64 KiB";

/// Only kernels with larger pages, and very new ones, mount these: `btrfs check` is the judge of the metadata.
#[test]
fn sectors_that_this_kernel_cannot_mount_are_read_and_rewritten() {
    if !tool::kernel_can_judge("large sectors") {
        return;
    }
    let (dir, files) = directory();
    let rootdir = dir.path().to_str().expect("temporary paths are UTF-8");
    for sector in ["8192", "16384", "32768", "65536"] {
        let node = if sector == "8192" { "16384" } else { sector };
        let image = Image::mkfs(300 * MIB, &["-s", sector, "-n", node, "--rootdir", rootdir]);
        for target in ["none", "zstd:9", "lzo", "zlib", "none"] {
            let summary = press::recompress(&image, target);
            let is_done = summary.disk_after < summary.disk_before || summary.commits == 0;
            assert!(is_done || target != "zstd:9", "{sector}, {target}: {summary:?}");
            for (name, bytes) in &files {
                let args = ["cat".as_ref(), image.path().as_os_str(), name.as_ref()];
                assert!(&press::stdout(&args) == bytes, "{sector}, {target}: {name}");
            }
            assert_eq!(check(&image), NONE, "{sector}, {target}");
            let checked = press::stdout(&["check".as_ref(), "--data".as_ref(), image.path()]);
            assert!(String::from_utf8_lossy(&checked).contains("nothing wrong"));
        }
    }
}
