//! Damaged tree blocks.

use btrpress::format::{Key, KeyKind};

use super::super::content::{Kind, content};
use super::super::image::Image;
use super::super::surgery;
use super::{BEARABLE, MIB, Place, UNBEARABLE, assert_borne, cat, find, hurt, recompress, texts};
use crate::tool;

/// The first bytes of the leaf that has the inodes of a subvolume: checksum, filesystem and address.
fn leaf(image: &Image, subvolume: &str) -> Vec<Place> {
    let fs = surgery::filesystem(image);
    let at = fs.resolve(subvolume.as_bytes()).expect("a subvolume");
    let key = Key::new(at.ino, KeyKind::INODE_ITEM, 0);
    let leaf = fs.forest().tree(at.root).and_then(|tree| tree.node_at(0, key)).expect("a leaf");
    find(image, &leaf.bytes()[..64])
}

#[test]
fn a_bad_copy_of_a_tree_block_changes_nothing_and_is_reported() {
    if !tool::kernel_can_judge("bad copies of tree blocks") {
        return;
    }
    for (profile, count, what) in BEARABLE {
        let (image, truth) = texts(count, &["-d", "single", "-m", profile]);
        hurt(&image, &leaf(&image, "snapshot"), what);
        assert_borne(&image, &truth, &["snapshot/3"], &format!("{profile}, {what:?}"));
    }
}

#[test]
fn a_tree_block_that_no_copy_can_give_is_named_and_nothing_is_written() {
    if !tool::kernel_can_judge("damaged tree blocks") {
        return;
    }
    for (profile, count, what) in UNBEARABLE {
        let (image, _) = texts(count, &["-d", "single", "-m", profile]);
        hurt(&image, &leaf(&image, "work"), what);
        let before = image.digest();
        let (status, said) = recompress(&image, &[]);
        assert!(matches!(status, Some(1 | 3)), "{profile}: {status:?} {said}");
        assert!(said.contains("block "), "{profile}: {said}");
        let (status, said) = recompress(&image, &["--no-check"]);
        assert_ne!(status, Some(0), "{profile}, unchecked: {said}");
        assert_eq!(image.digest(), before, "{profile}: written to");
        let (text, said) = cat(&image, "other/text");
        assert!(text == content(Kind::Text, 99, MIB), "{profile}: {said}");
        assert!(cat(&image, "work/1").1.contains("block "), "{profile}");
    }
}
