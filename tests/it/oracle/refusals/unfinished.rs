//! What the kernel has begun and must go on with itself.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use btrpress::format::{
    Key, KeyKind, RootItem, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, SuperFlags, Superblock, tree_id,
};
use zerocopy::IntoBytes as _;

use super::super::content::{Kind, content};
use super::super::image::{Image, Loop, Mount};
use super::super::{NONE, press, surgery, workload};
use super::features::set_flags;
use super::{Case, MIB, SEEDS, text, texts};
use crate::tool;

/// How often work is begun again that was done before it could be stopped.
const TRIES: usize = 20;
/// Where in its item the state of a replacement is, and what it is while it goes on.
const REPLACE_STATE: usize = 32;
const REPLACE_STARTED: u8 = 1;
/// Files that it takes the kernel some time to move one by one.
const MANY: u64 = 6000;

pub(super) fn log() -> Vec<Case> {
    let image = texts(1, &[]);
    let mount = image.mount("rw");
    let path = mount.root().join("home/1");
    let file = File::options().write(true).open(path).expect("open");
    // Now and then the kernel makes a whole commit of it instead.
    let cut = (0..TRIES).find_map(|number| {
        file.write_all_at(b"logged", 5000 * number as u64).expect("write");
        file.sync_all().expect("sync");
        // As if the power had failed now.
        let cut = image.copy();
        let log_root = surgery::filesystem(&cut).forest().superblock().log_root.get();
        (log_root != 0).then_some(cut)
    });
    drop(file);
    assert_eq!(mount.unmount(), NONE);
    let cut = cut.expect("the kernel has written a log");
    vec![Case::new(cut, "has a log tree")]
}

#[test]
fn when_the_kernel_has_replayed_the_log_it_is_written_to() {
    if !tool::kernel_can_judge("a replayed log") {
        return;
    }
    let case = log().pop().expect("an image");
    drop(case.image.mount("rw"));
    assert!(press::recompress(&case.image, "zstd:3").commits > 0);
}

pub(super) fn work_of_the_kernel() -> Vec<Case> {
    let mut cases =
        vec![paused_balance(), cut_balance(), cut_removal(), cut_replacement(), half_deleted()];
    let plain = texts(1, &[]);
    for flag in [
        SuperFlags::CHANGING_FSID,
        SuperFlags::CHANGING_FSID_V2,
        SuperFlags::CHANGING_BG_TREE,
        SuperFlags::CHANGING_DATA_CSUM,
        SuperFlags::CHANGING_META_CSUM,
    ] {
        // The tools that stop half way at these are newer than what most have.
        let image = plain.copy();
        surgery::edit_superblock(&image, |superblock| set_flags(superblock, flag.bits()));
        cases.push(Case::new(image, "finish it with `btrfstune`"));
    }
    cases
}

/// The texts, and much more data in front of them, in so many files.
fn much(count: u64, bytes: u64) -> Image {
    let image = Image::mkfs(1 << 30, &[]);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("home")]);
    let noise = content(Kind::Noise, 9, bytes);
    for number in 0..count {
        workload::write(&mount.root().join(format!("noise.{number}")), &noise);
    }
    mount.sync();
    for seed in SEEDS {
        workload::write(&mount.root().join(format!("home/{seed}")), &text(seed));
    }
    super::snapshot(&mount);
    assert_eq!(mount.unmount(), NONE);
    image
}

/// A program at work on a mount.
fn begin(args: &[&str]) -> Child {
    let mut command = tool::command("btrfs", args);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("btrfs starts")
}

/// Waits until `btrfs` says of its work what it says while it works.
fn is_at_work(args: &[&str], mark: &str) -> bool {
    (0..200).any(|_| {
        sleep(Duration::from_millis(2));
        String::from_utf8_lossy(&tool::output("btrfs", args).stdout).contains(mark)
    })
}

/// Copies an image while the kernel writes to it, as if the power had failed; `None` if there was a commit meanwhile.
/// Between two commits what the last one left stays.
fn cut(image: &Image) -> Option<Image> {
    let superblock = || {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        let file = File::open(image.path()).expect("image file");
        file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSETS[0]).expect("image file");
        bytes
    };
    let before = superblock();
    let copy = image.copy();
    // A device that has been replaced has none any more.
    let is_there = Superblock::parse(&before, SUPERBLOCK_OFFSETS[0]).is_ok();
    (is_there && superblock() == before).then_some(copy)
}

/// Does something while the kernel balances; tells what came of it once that has ended.
fn while_balancing<T>(image: &Image, act: impl FnOnce(&Mount) -> T) -> T {
    let mount = image.mount("rw");
    let at = mount.at("");
    let mut balance = begin(&["balance", "start", "--full-balance", &at]);
    is_at_work(&["balance", "status", &at], "is running");
    let done = act(&mount);
    balance.wait().expect("it has started");
    mount.unmount();
    done
}

fn paused_balance() -> Case {
    let image = much(MANY, 5000);
    let pause = |mount: &Mount| {
        tool::output("btrfs", &["balance", "pause", &mount.at("")]).status.success()
    };
    let is_paused = (0..TRIES).any(|_| while_balancing(&image, pause) && has_balance(&image));
    assert!(is_paused, "the kernel balances too fast to be paused");
    Case::new(image, "a balance is unfinished")
}

/// The power fails in the middle: there are trees that the kernel was about to drop.
fn cut_balance() -> Case {
    let image = much(MANY, 5000);
    let attempt = |_: &Mount| (0..TRIES).find_map(|_| cut(&image));
    let cut = (0..TRIES).find_map(|_| while_balancing(&image, attempt).filter(has_balance));
    Case::new(cut.expect("the kernel balances slowly"), "a balance is unfinished")
}

/// Whether data is on the move: there are trees that the kernel was about to drop, or data in a tree of its own, which is
/// there from before the first extent is moved until after the last.
fn is_moving(cut: &Image) -> bool {
    let fs = surgery::filesystem(cut);
    let moved = fs.forest().tree(tree_id::DATA_RELOC).expect("a tree");
    let mut items = moved.items().map(|item| item.expect("an item").key());
    fs.forest().roots().contains_key(&tree_id::TREE_RELOC)
        || items.any(|key| key.objectid != tree_id::FIRST_FREE)
}

/// Data is moved without a balance, too: off a device that is to be removed.
fn cut_removal() -> Case {
    let image = much(MANY, 5000);
    for _ in 0..TRIES {
        let image = image.copy().with_room(1 << 30);
        let mount = image.try_mount_without(&[1], "rw").expect("mounts");
        let room = Loop::attach(&image.paths()[1]).expect("loop device");
        let at = mount.at("");
        tool::run("btrfs", &["device", "add", "-f", &room.device, &at]);
        let mut removal = begin(&["device", "remove", "1", &at]);
        let cut = (0..TRIES).find_map(|_| cut(&image).filter(is_moving));
        removal.wait().expect("it has started");
        mount.unmount();
        drop(room);
        if let Some(cut) = cut {
            return Case::new(cut, "a relocation was interrupted");
        }
    }
    panic!("the kernel removes devices too fast to be cut off");
}

fn cut_replacement() -> Case {
    let image = much(1, 200 * MIB);
    for _ in 0..TRIES {
        let image = image.copy().with_room(1 << 30);
        let mount = image.try_mount_without(&[1], "rw").expect("mounts");
        let room = Loop::attach(&image.paths()[1]).expect("loop device");
        let at = mount.at("");
        let mut replace = begin(&["replace", "start", "-B", "-f", "1", &room.device, &at]);
        is_at_work(&["replace", "status", "-1", &at], "% done");
        let cut = (0..TRIES).find_map(|_| cut(&image));
        replace.wait().expect("it has started");
        mount.unmount();
        drop(room);
        let is_begun = |cut: &Image| {
            let item = surgery::item(cut, tree_id::DEV, Key::new(0, KeyKind::DEV_REPLACE, 0));
            item.is_some_and(|item| item[REPLACE_STATE] == REPLACE_STARTED)
        };
        if let Some(cut) = cut.filter(is_begun) {
            return Case::new(cut, "a device replacement is unfinished");
        }
    }
    panic!("the kernel replaces devices too fast to be cut off");
}

/// How far a deletion has come is written down only when it takes longer than a commit, which small trees never do.
fn half_deleted() -> Case {
    let image = texts(1, &[]);
    let mount = image.mount("rw");
    let list = tool::run("btrfs", &["inspect-internal", "rootid", &mount.at("home")]);
    let id: u64 = list.trim().parse().expect("a number");
    let file = File::open(mount.root().join("home/1")).expect("open");
    tool::run("btrfs", &["subvolume", "delete", "--commit-after", &mount.at("home")]);
    // The kernel begins only when nobody has a file open.
    let cut = image.copy();
    drop(file);
    assert_eq!(mount.unmount(), NONE);
    let key = Key::new(id, KeyKind::ROOT_ITEM, 0);
    surgery::edit_leaf(&cut, tree_id::ROOT, key, |items| {
        let (_, data) = items.iter_mut().find(|(found, _)| *found == key).expect("a root item");
        let mut item = RootItem::parse(data).expect("a root item");
        assert_eq!(item.refs.get(), 0);
        item.drop_progress = Key::new(300, KeyKind::INODE_ITEM, 0).into();
        item.drop_level = 1;
        *data = item.as_bytes().to_vec();
    });
    Case::new(cut, "is being deleted")
}

fn has_balance(image: &Image) -> bool {
    surgery::item(image, tree_id::ROOT, Key::new(tree_id::BALANCE, KeyKind::TEMPORARY_ITEM, 0))
        .is_some()
}
