//! The judge's own test: it is content with a filesystem that nobody touched, and sees each kind
//! of damage that a run could do.

use std::fs;

use super::content::{Kind, content};
use super::image::Image;
use super::judge::Truth;
use super::{NONE, afterlife, workload};
use crate::tool;

fn small_tree() -> (Image, Truth) {
    let image = Image::mkfs(512 << 20, &[]);
    let mount = image.mount("rw");
    workload::grow(&mount, 8);
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    (image, truth)
}

#[test]
fn the_judge_is_content_with_an_untouched_tree_and_its_afterlife() {
    if !tool::kernel_can_judge("the judge's own test") {
        return;
    }
    let (image, truth) = small_tree();
    assert_eq!(truth.complaints(&image), NONE);
    assert_eq!(afterlife::complaints(&truth, &image.copy()), NONE);
}

#[test]
fn the_judge_sees_damage_to_data_times_and_sharing() {
    if !tool::kernel_can_judge("the judge's test of damage") {
        return;
    }
    let (image, truth) = small_tree();

    let flipped = image.copy();
    flipped.flip_bit_in(&content(Kind::Text, 77, 300 << 10)[..64]);
    let complaints = truth.complaints(&flipped).join("\n");
    for expected in ["top.txt", "Unreadable", "csum", "kernel log"] {
        assert!(complaints.contains(expected), "{expected} is missing from:\n{complaints}");
    }

    let touched = image.copy();
    let mount = touched.mount("rw");
    fs::File::open(mount.root().join("home/sizes/0/30"))
        .and_then(|file| file.set_modified(std::time::UNIX_EPOCH))
        .expect("utimens");
    assert_eq!(mount.unmount(), NONE);
    let complaints = truth.complaints(&touched).join("\n");
    assert!(complaints.contains("home/sizes/0/30 differs"), "{complaints}");
    assert!(complaints.contains("shared the leaf of inode"), "{complaints}");

    let unshared = image.copy();
    let mount = unshared.mount("rw");
    let args = ["filesystem", "defragment", "-r", "-czstd", &mount.at("home")];
    tool::run("btrfs", &args);
    mount.unmount();
    let complaints = truth.complaints(&unshared).join("\n");
    for expected in ["shared (", "sectors lost their sharing", "`btrfs filesystem du` has"] {
        assert!(complaints.contains(expected), "{expected} is missing from:\n{complaints}");
    }
}
