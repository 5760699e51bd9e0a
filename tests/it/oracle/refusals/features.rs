//! Fields of the superblock that forbid writing, or reading too. No kernel that is at hand makes these kinds, so the bits
//! are set on an image that is otherwise plain.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use btrpress::format::{CompatRo, Incompat, SUPERBLOCK_OFFSETS, SuperFlags, Superblock};

use super::super::image::Image;
use super::super::surgery;
use super::{Case, texts};

/// An image for each of some bits, which `set` sets.
fn with_bits(
    cases: &[(u64, &'static str)],
    set: impl Fn(&mut Superblock, u64),
) -> impl Iterator<Item = Case> {
    let plain = texts(1, &[]);
    cases.iter().map(move |(bits, says)| {
        let odd = plain.copy();
        surgery::edit_superblock(&odd, |superblock| set(superblock, *bits));
        Case::new(odd, says)
    })
}

fn set_incompat(superblock: &mut Superblock, bits: u64) {
    superblock.incompat_flags = (superblock.incompat_flags.get() | bits).into();
}

pub(super) fn set_flags(superblock: &mut Superblock, bits: u64) {
    superblock.flags = (superblock.flags.get() | bits).into();
}

pub(super) fn errors() -> Vec<Case> {
    let cases = [
        (SuperFlags::ERROR.bits(), "run `btrfs check` first"),
        (SuperFlags::METADUMP.bits(), "metadata dump"),
        (SuperFlags::METADUMP_V2.bits(), "metadata dump"),
        (1 << 50, "flags 0x4000000000000"),
    ];
    with_bits(&cases, set_flags).collect()
}

/// On one device, and on one of two.
pub(super) fn damaged_superblocks() -> Vec<Case> {
    let damaged = |image: Image| {
        let device = image.paths().last().expect("a device");
        let file = File::options().write(true).open(device).expect("image file");
        file.write_all_at(b"damage", SUPERBLOCK_OFFSETS[0] + 2000).expect("image file");
        Case::new(image, "`btrfs rescue super-recover")
    };
    vec![damaged(texts(1, &[])), damaged(texts(2, &["-d", "raid1", "-m", "raid1"]))]
}

pub(super) fn zoned() -> Vec<Case> {
    const SAYS: &str = "it is zoned";
    // What mkfs makes is empty, and not every kernel can fill it.
    let empty = Image::mkfs(8 << 30, &["-O", "zoned"]);
    let empty = Case { texts: Vec::new(), ..Case::new(empty, SAYS) };
    let bits = [(Incompat::ZONED.bits(), SAYS)];
    with_bits(&bits, set_incompat).chain([empty]).collect()
}

pub(super) fn unknown_for_writing() -> Vec<Case> {
    let mut cases: Vec<Case> =
        with_bits(&[(1 << 50, "unknown bits 0x4000000000000")], |superblock, bits| {
            superblock.compat_ro_flags = (superblock.compat_ro_flags.get() | bits).into();
        })
        .collect();
    // Known ones that do not go together.
    cases.extend(with_bits(&[(0, "free space tree is not marked valid")], |superblock, _| {
        let flags = superblock.compat_ro() | CompatRo::BLOCK_GROUP_TREE;
        let flags = flags.difference(CompatRo::FREE_SPACE_TREE_VALID);
        superblock.compat_ro_flags = flags.bits().into();
    }));
    cases
}

pub(super) fn raid_stripe_tree() -> Vec<Case> {
    with_bits(&[(Incompat::RAID_STRIPE_TREE.bits(), "raid-stripe-tree")], set_incompat)
        .map(|case| Case { unreadable: Some("RAID stripe tree"), ..case })
        .collect()
}

pub(super) fn unknown_for_reading() -> Vec<Case> {
    let cases = [
        (Incompat::EXTENT_TREE_V2.bits(), "extent_tree_v2"),
        (Incompat::REMAP_TREE.bits(), "remap_tree"),
        (1 << 50, "0x4000000000000"),
    ];
    with_bits(&cases, set_incompat)
        .map(|case| Case { unreadable: Some(case.says), ..case })
        .collect()
}
