//! Damaged tree blocks.

use btrpress::format::{Key, KeyKind};

use super::super::NONE;
use super::super::content::{Kind, content};
use super::super::image::Image;
use super::super::surgery;
use super::{Column, MIB, Place, What, cat, find, hurt, recompress, texts};
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
    let cases: [(&str, usize, What); 8] = [
        ("dup", 1, What::Copies(1)),
        ("raid1", 2, What::Copies(1)),
        ("raid1c3", 3, What::Copies(2)),
        ("raid10", 4, What::Copies(1)),
        ("raid5", 3, What::Columns(&[])),
        ("raid6", 4, What::Columns(&[])),
        ("raid6", 4, What::Columns(&[Column::Data])),
        ("raid6", 4, What::Columns(&[Column::P])),
    ];
    for (profile, count, what) in cases {
        let (image, truth) = texts(count, &["-d", "single", "-m", profile]);
        hurt(&image, &leaf(&image, "snapshot"), what);
        let (text, said) = cat(&image, "snapshot/5");
        assert!(text == content(Kind::Text, 5, MIB), "{profile}, {what:?}: {said}");
        assert!(said.contains("bad copy"), "{profile}, {what:?}: {said}");
        let (status, said) = recompress(&image, &[]);
        assert_eq!(status, Some(0), "{profile}, {what:?}: {said}");
        assert!(said.contains("bad copy"), "{profile}, {what:?}: {said}");
        assert_eq!(truth.complaints(&image), NONE, "{profile}, {what:?}");
    }
}

#[test]
fn a_tree_block_that_no_copy_can_give_is_named_and_nothing_is_written() {
    if !tool::kernel_can_judge("damaged tree blocks") {
        return;
    }
    let cases: [(&str, usize, What); 7] = [
        ("single", 1, What::Copies(1)),
        ("dup", 1, What::Copies(2)),
        ("raid1", 2, What::Copies(2)),
        ("raid1c3", 3, What::Copies(3)),
        ("raid10", 4, What::Copies(2)),
        ("raid5", 3, What::Columns(&[Column::P])),
        ("raid6", 4, What::Columns(&[Column::P, Column::Q])),
    ];
    for (profile, count, what) in cases {
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
