//! What is no file data stays what it is, and data that must not move stays where it is.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{IFlags, OFlags, XattrFlags};

use super::content::{Kind, content};
use super::image::{Image, Mount};
use super::judge::{Truth, check};
use super::layout::Layout;
use super::manifest::Manifest;
use super::{NONE, press, surgery, workload};
use crate::tool;

const MIB: u64 = 1 << 20;

/// An access control list as the kernel takes it: tag, permissions and number of each entry.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// A file, or directory, for each property and flag that a user can set.
fn properties(mount: &Mount) {
    let at = |name: &str| mount.root().join("work").join(name);
    let text = |name: &str| workload::write(&at(name), &content(Kind::Text, 5, 700_000));
    for value in ["zlib", "lzo", "zstd", "none"] {
        text(value);
        let path = mount.at(&format!("work/{value}"));
        tool::run("btrfs", &["property", "set", &path, "compression", value]);
    }
    let flags = [
        ("nocow", IFlags::NOCOW),
        ("dir-nocow", IFlags::NOCOW),
        ("compressed", IFlags::COMPRESSED),
        ("immutable", IFlags::IMMUTABLE),
        ("append-only", IFlags::APPEND),
        ("no-dump", IFlags::NODUMP),
        ("no-atime", IFlags::NOATIME),
        ("sync", IFlags::SYNC),
        ("dir-sync", IFlags::DIRSYNC),
    ];
    for (name, flag) in flags {
        if name.starts_with("dir-") {
            fs::create_dir(at(name)).expect("mkdir");
        } else {
            let file = File::create(at(name)).expect("create");
            // Without checksums there is no going back, so this one comes before the data.
            if flag == IFlags::NOCOW {
                rustix::fs::ioctl_setflags(&file, flag).expect("chattr");
            }
            text(name);
        }
        let file = File::open(at(name)).expect("open");
        rustix::fs::ioctl_setflags(&file, flag).expect("chattr");
    }
    let everybody = [(1, 6, u32::MAX), (4, 4, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)];
    let one_more = [&everybody[..1], &[(2, 7, 1000), (2, 0, 1001)], &everybody[1..]].concat();
    text("acl");
    fs::create_dir(at("dir-acl")).expect("mkdir");
    for (path, name) in [
        ("acl", "system.posix_acl_access"),
        ("dir-acl", "system.posix_acl_access"),
        ("dir-acl", "system.posix_acl_default"),
    ] {
        let none = XattrFlags::empty();
        rustix::fs::setxattr(at(path), name, &acl(&one_more), none).expect("setfacl");
    }
    // Inherited.
    text("dir-acl/child");
}

/// Flags of each file and directory below a directory, and what its access control lists are.
fn flags(dir: &Path) -> BTreeMap<String, (IFlags, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("directory") {
        let path = entry.expect("entry").path();
        let file = File::open(&path).expect("open");
        let flags = rustix::fs::ioctl_getflags(&file).expect("lsattr");
        let mut acl = vec![0; 4096];
        let len = rustix::fs::getxattr(&path, "system.posix_acl_access", &mut acl).unwrap_or(0);
        acl.truncate(len);
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        found.insert(name, (flags, acl));
    }
    found
}

#[test]
fn properties_flags_and_access_control_lists_are_kept() {
    if !tool::kernel_can_judge("properties, flags and access control lists") {
        return;
    }
    let image = Image::mkfs(512 * MIB, &[]);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("work")]);
    properties(&mount);
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("work"), &mount.at("snapshot")]);
    let flags_before = flags(&mount.root().join("work"));
    assert_eq!(flags_before.len(), 15);
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    for target in ["zstd:9", "none"] {
        assert!(press::recompress(&image, target).extents_rewritten > 0, "{target}");
        assert_eq!(truth.complaints(&image), NONE, "{target}");
        let mount = image.mount("ro");
        assert!(flags(&mount.root().join("work")) == flags_before, "{target}");
        assert!(flags(&mount.root().join("snapshot")) == flags_before, "{target}");
        let path = mount.at("snapshot/lzo");
        let said = tool::run("btrfs", &["property", "get", &path, "compression"]);
        assert_eq!(said.trim(), "compression=lzo", "{target}");
    }
}

/// Where a file's data is.
fn place(image: &Image, path: &str) -> Vec<(u64, u64)> {
    let fs = surgery::filesystem(image);
    let at = fs.resolve(path.as_bytes()).expect("a file");
    let pieces = fs.file_extents(at.root, at.ino).expect("a file").map(|piece| {
        let place = piece.expect("an extent").extent.place;
        (place.disk_bytenr, place.disk_num_bytes)
    });
    pieces.collect()
}

#[test]
fn a_swap_file_stays_where_it_is_and_can_be_used() {
    if !tool::kernel_can_judge("swap files") || !tool::has("mkswap") {
        return;
    }
    let image = Image::mkfs(512 * MIB, &[]);
    let mount = image.mount("rw");
    for name in ["work", "swap"] {
        tool::run("btrfs", &["subvolume", "create", &mount.at(name)]);
    }
    workload::write(&mount.root().join("work/text"), &content(Kind::Text, 5, 4 * MIB));
    let path = mount.at("swap/file");
    let file = File::create(&path).expect("create");
    rustix::fs::ioctl_setflags(&file, IFlags::NOCOW).expect("chattr +C");
    file.write_all_at(&content(Kind::Text, 6, 16 * MIB), 0).expect("write");
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
    drop(file);
    tool::run("mkswap", &[&path]);
    let use_it = |path: &str| {
        tool::run("swapon", &[path]);
        tool::run("swapoff", &[path]);
    };
    use_it(&path);
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    let before = place(&image, "swap/file");
    for target in ["zstd:9", "none"] {
        let summary = press::recompress(&image, target);
        assert!(summary.extents_rewritten > 0, "{target}: {summary:?}");
        assert_eq!(place(&image, "swap/file"), before, "{target}");
        assert_eq!(truth.complaints(&image), NONE, "{target}");
    }
    press::defragment(&image);
    assert_eq!(place(&image, "swap/file"), before);
    let mount = image.mount("rw");
    use_it(&mount.at("swap/file"));
    assert_eq!(mount.unmount(), NONE);
}

/// A filesystem whose power failed while a program had files open that no name is left of: of one whose data others
/// share, of one that is alone, and of one that never had a name.
fn with_orphans() -> (Image, u64) {
    let image = Image::mkfs(512 * MIB, &[]);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("work")]);
    let at = |name: &str| mount.root().join("work").join(name);
    for (seed, name) in [(1, "shared"), (2, "alone"), (3, "stays")] {
        workload::write(&at(name), &content(Kind::Text, seed, 3 * MIB + seed));
    }
    mount.sync();
    workload::reflink(&at("shared"), &at("clone"));
    let temporary = (OFlags::TMPFILE.bits()).cast_signed();
    let unnamed = OpenOptions::new()
        .write(true)
        .custom_flags(temporary)
        .open(mount.root().join("work"))
        .expect("a file without a name");
    unnamed.write_all_at(&content(Kind::Text, 4, 2 * MIB), 0).expect("write");
    unnamed.sync_all().expect("sync");
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("work"), &mount.at("snapshot")]);
    let open = ["shared", "alone"].map(|name| File::open(at(name)).expect("open"));
    for name in ["shared", "alone"] {
        fs::remove_file(at(name)).expect("remove");
    }
    mount.sync();
    let cut = image.copy();
    let list = tool::run("btrfs", &["inspect-internal", "rootid", &mount.at("work")]);
    drop((open, unnamed));
    assert_eq!(mount.unmount(), NONE);
    (cut, list.trim().parse().expect("a number"))
}

/// Contents of files that have no name, by inode.
fn orphans(image: &Image, root: u64) -> BTreeMap<u64, Vec<u8>> {
    use btrpress::format::{Key, KeyKind, tree_id};
    let fs = surgery::filesystem(image);
    let keys = Key::all_of_kind(tree_id::ORPHAN, KeyKind::ORPHAN_ITEM);
    let found = fs.forest().tree(root).expect("a tree").range(keys);
    let read = |ino| {
        let mut bytes = Vec::new();
        fs.write_contents(root, ino, &mut bytes).expect("contents");
        (ino, bytes)
    };
    found.map(|item| read(item.expect("an item").key().offset)).collect()
}

#[test]
fn files_that_have_no_name_any_more_are_kept_until_the_kernel_removes_them() {
    if !tool::kernel_can_judge("files without a name") {
        return;
    }
    let (image, root) = with_orphans();
    let before = orphans(&image, root);
    let mut sizes: Vec<usize> = before.values().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [2 * MIB as usize, 3 * MIB as usize + 1, 3 * MIB as usize + 2]);
    let truth = Truth::of(&image);
    for target in ["zstd:9", "lzo", "none"] {
        assert!(press::recompress(&image, target).extents_rewritten > 0, "{target}");
        assert!(orphans(&image, root) == before, "{target}: their contents have changed");
        assert_eq!(check(&image), NONE, "{target}");
        assert_eq!(truth.layout.lost_sharing(&Layout::read(image.path())), NONE, "{target}");
        let mount = image.mount("ro");
        let now = Manifest::read(mount.root());
        assert_eq!(truth.manifest.differences(&now), NONE, "{target}");
        assert_eq!(mount.unmount(), NONE, "{target}");
        // A mount that may write removes them.
        let copy = image.copy();
        let mount = copy.mount("rw");
        let now = Manifest::read(mount.root());
        assert_eq!(truth.manifest.differences(&now), NONE, "{target}, removed");
        tool::run("btrfs", &["subvolume", "delete", "--commit-after", &mount.at("snapshot")]);
        tool::run("btrfs", &["subvolume", "sync", &mount.at("")]);
        assert_eq!(mount.unmount(), NONE, "{target}");
        assert_eq!(orphans(&copy, root), BTreeMap::new(), "{target}");
        assert_eq!(check(&copy), NONE, "{target}, removed");
    }
}

/// A filesystem whose power failed right after some subvolumes were deleted, before any of them was gone.
fn with_deleted_subvolumes() -> Image {
    let image = Image::mkfs(512 * MIB, &[]);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("work")]);
    tool::run("btrfs", &["subvolume", "create", &mount.at("alone")]);
    let at = |name: &str| mount.root().join(name);
    workload::write(&at("alone/text"), &content(Kind::Text, 8, 2 * MIB));
    for seed in 0..300 {
        workload::write(&at(&format!("work/{seed}")), &content(Kind::Text, seed, seed * 70));
    }
    workload::write(&at("work/text"), &content(Kind::Text, 7, 3 * MIB));
    mount.sync();
    for name in ["kept", "gone", "changed"] {
        tool::run("btrfs", &["subvolume", "snapshot", &mount.at("work"), &mount.at(name)]);
        workload::write_at(&at(&format!("{name}/text")), 90_000, Kind::Text, 9, 70_000);
        workload::write_at(&at("work/text"), 500_000, Kind::Records, 9, 70_000);
    }
    workload::reflink(&at("changed/text"), &at("work/cloned"));
    mount.sync();
    let gone = ["alone", "gone", "changed"];
    // The kernel begins only when nobody has a file open.
    let open = gone.map(|name| File::open(at(name).join("text")).expect("open"));
    for name in gone {
        tool::run("btrfs", &["subvolume", "delete", "--commit-after", &mount.at(name)]);
    }
    let cut = image.copy();
    drop(open);
    assert_eq!(mount.unmount(), NONE);
    cut
}

#[test]
fn subvolumes_whose_deletion_has_not_begun_are_no_hindrance() {
    if !tool::kernel_can_judge("deleted subvolumes") {
        return;
    }
    let image = with_deleted_subvolumes();
    let fs = surgery::filesystem(&image);
    let deleted = fs.subvolumes().expect("subvolumes");
    assert_eq!(deleted.iter().filter(|subvolume| subvolume.is_deleted).count(), 3);
    drop(fs);
    let truth = Truth::of(&image);
    for target in ["zstd:9", "lzo", "none"] {
        let summary = press::recompress(&image, target);
        assert!(summary.extents_rewritten > 0, "{target}: {summary:?}");
        let copy = image.copy();
        assert_eq!(truth.complaints(&copy), NONE, "{target}");
        // The kernel deletes them once it may.
        let mount = copy.mount("rw");
        tool::run("btrfs", &["subvolume", "sync", &mount.at("")]);
        assert_eq!(mount.unmount(), NONE, "{target}");
        let fs = surgery::filesystem(&copy);
        let left = fs.subvolumes().expect("subvolumes");
        assert!(left.iter().all(|subvolume| !subvolume.is_deleted), "{target}");
        drop(fs);
        assert_eq!(check(&copy), NONE, "{target}, deleted");
        assert_eq!(truth.complaints_about_contents(&copy), NONE, "{target}, deleted");
    }
}
