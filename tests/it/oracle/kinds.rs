//! Every kind of filesystem that is supported: made by the kernel with snapshots, rewritten to
//! zstd:9 and back to none, judged, and used again by the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use super::content::{Kind as Content, content};
use super::image::{Image, Mount};
use super::judge::{Truth, check};
use super::manifest::Manifest;
use super::rare::LARGE_SECTORS;
use super::{NONE, press, workload};
use crate::fixture::fixture;
use crate::tool;

const MIB: u64 = 1 << 20;
/// Kinds that are tried at the same time: most of the time each waits for a disk.
const AT_A_TIME: usize = 3;

/// A row of the README's table that can be read and written.
pub(crate) struct Kind {
    /// As in the README.
    name: &'static str,
    /// Megabytes of each device.
    devices: &'static [u64],
    /// Options of `mkfs.btrfs`.
    mkfs: &'static [&'static str],
    /// Options of the mount that makes the contents.
    mount: &'static str,
    /// The fixture to begin with, where `mkfs.btrfs` alone can't make such a filesystem, or may be too old to.
    fixture: Option<&'static str>,
}

const fn on_one(name: &'static str, mkfs: &'static [&'static str]) -> Kind {
    on_many(name, &[512], mkfs)
}

const fn on_many(
    name: &'static str,
    devices: &'static [u64],
    mkfs: &'static [&'static str],
) -> Kind {
    Kind { name, devices, mkfs, mount: "rw", fixture: None }
}

const fn from_fixture(name: &'static str, fixture: &'static str) -> Kind {
    Kind { fixture: Some(fixture), ..on_one(name, &[]) }
}

const SIMPLE_QUOTAS: &str = "simple quotas";

/// All that is tried; several may share a name.
const KINDS: [Kind; 40] = [
    on_one("checksums crc32c", &[]),
    on_one("checksums xxhash64", &["--csum", "xxhash"]),
    on_one("checksums sha256", &["--csum", "sha256"]),
    on_one("checksums blake2b", &["--csum", "blake2"]),
    on_one("nodes of 4 KiB", &["-n", "4096"]),
    on_one("nodes of 8 KiB", &["-n", "8192"]),
    on_one("nodes of 16 KiB", &["-n", "16384", "-m", "single"]),
    on_one("nodes of 32 KiB", &["-n", "32768"]),
    on_one("nodes of 64 KiB", &["-n", "65536"]),
    on_one("mixed block groups", &["--mixed"]),
    on_one("mixed block groups", &["--mixed", "-d", "dup", "-m", "dup"]),
    on_one("without no-holes", &["-O", "^no-holes"]),
    on_one("without skinny metadata", &["-O", "^skinny-metadata"]),
    on_one("without extended references", &["-O", "^extref"]),
    on_one("free space tree", &["-R", "free-space-tree"]),
    Kind { mount: "rw,space_cache=v1", ..on_one("space cache v1", &["-R", "^free-space-tree"]) },
    Kind { mount: "rw,nospace_cache", ..on_one("no space cache", &["-R", "^free-space-tree"]) },
    on_one("full quotas", &["-R", "quota"]),
    from_fixture(SIMPLE_QUOTAS, "simple-quota"),
    from_fixture("block group tree", "block-group-tree"),
    from_fixture("changed metadata UUID", "metadata-uuid"),
    from_fixture("converted from ext4", "converted"),
    from_fixture("made by `mkfs.btrfs --rootdir`", "rootdir"),
    on_one("single data, dup metadata", &[]),
    on_one("dup", &["-d", "dup", "-m", "dup"]),
    on_many("devices of unequal size", &[700, 300, 400], &["-d", "single", "-m", "raid1"]),
    on_many("raid0", &[512, 512], &["-d", "raid0", "-m", "raid0"]),
    on_many("raid0", &[512, 400, 512], &["-d", "raid0", "-m", "raid1"]),
    on_many("raid1", &[512, 512], &["-d", "raid1", "-m", "raid1"]),
    on_many("raid1", &[300, 512, 400], &["-d", "raid1", "-m", "raid1", "--csum", "xxhash"]),
    on_many("raid1c3", &[512, 512, 512], &["-d", "raid1c3", "-m", "raid1c3"]),
    on_many("raid1c4", &[512, 512, 512, 512], &["-d", "raid1c4", "-m", "raid1c4"]),
    on_many("raid10", &[400, 400, 400, 400], &["-d", "raid10", "-m", "raid10"]),
    on_many("raid10", &[512, 300, 400, 512, 600], &["-d", "raid10", "-m", "raid1c3"]),
    on_many("raid5", &[512, 512, 512], &["-d", "raid5", "-m", "raid5"]),
    on_many("raid5", &[400, 512], &["-d", "raid5", "-m", "raid1"]),
    on_many("raid5", &[400, 512, 300, 600], &["-d", "raid5", "-m", "raid1c3", "-n", "4096"]),
    on_many("raid6", &[400, 400, 400, 400], &["-d", "raid6", "-m", "raid6"]),
    on_many("raid6", &[512, 400, 512], &["-d", "raid6", "-m", "raid1c3"]),
    on_many("raid6", &[400, 512, 300, 400, 600], &["-d", "raid6", "-m", "raid5"]),
];

/// What the README says can be written is what is tried.
#[test]
fn the_readmes_table_has_the_names_of_the_kinds() {
    let readme = fs::read_to_string("README.md").expect("README.md");
    let rows = readme.lines().filter_map(|line| {
        line.strip_prefix("| ").and_then(|line| line.strip_suffix(" | yes | yes |"))
    });
    let said: BTreeSet<&str> = rows.collect();
    let tried = KINDS.iter().map(|kind| kind.name).chain([LARGE_SECTORS]);
    let tried: BTreeSet<&str> = tried.collect();
    assert_eq!(said, tried);
}

/// Fills the filesystem: what shares data and metadata, a nested subvolume, a default one.
fn grow(mount: &Mount) {
    for path in ["work", "work/nested", "default"] {
        tool::run("btrfs", &["subvolume", "create", &mount.at(path)]);
    }
    fs::create_dir(mount.root().join("snaps")).expect("mkdir");
    let at = |path: &str| mount.root().join(path);
    let kinds = [Content::Text, Content::Records, Content::Noise, Content::Mixed, Content::Zeros];
    for (seed, kind) in (1..).zip(kinds) {
        let name = format!("work/{kind:?}");
        workload::write(&at(&name), &content(kind, seed, 2 * MIB + seed * 1111));
    }
    for number in 0..300 {
        let size_bytes = number * number % 9000;
        workload::write(
            &at(&format!("work/small.{number}")),
            &content(Content::Text, number, size_bytes),
        );
    }
    workload::reserve_beyond(&at("work/small.15"));
    workload::write(&at("work/nested/text"), &content(Content::Text, 7, MIB));
    workload::write(&at("default/records"), &content(Content::Records, 8, MIB));
    mount.sync();
    for round in 1..=3 {
        for name in ["Text", "Mixed", "Noise"] {
            let path = at(&format!("work/{name}"));
            workload::write_at(&path, round * 500_000, Content::Text, round, 30_000);
        }
        workload::reflink_part(
            &at("work/Mixed"),
            round << 17,
            &at("work/cloned"),
            round << 18,
            96 << 10,
        );
        let to = mount.at(&format!("snaps/{round}"));
        let readonly: &[&str] = if round == 2 { &[] } else { &["-r"] };
        let from = mount.at("work");
        let args = [&["subvolume", "snapshot"], readonly, &[&from, &to]].concat();
        tool::run("btrfs", &args);
    }
    workload::write(&at("snaps/2/only-here"), &content(Content::Text, 99, 70_000));
    let list = tool::run("btrfs", &["inspect-internal", "rootid", &mount.at("default")]);
    tool::run("btrfs", &["subvolume", "set-default", list.trim(), &mount.at("")]);
    mount.sync();
}

/// Puts a subvolume into a group, and that one into another.
fn group(mount: &Mount) {
    let id = tool::run("btrfs", &["inspect-internal", "rootid", &mount.at("work")]);
    for group in ["1/7", "2/9"] {
        tool::run("btrfs", &["qgroup", "create", group, &mount.at("")]);
    }
    for (member, group) in [(format!("0/{}", id.trim()).as_str(), "1/7"), ("1/7", "2/9")] {
        tool::run("btrfs", &["qgroup", "assign", "--no-rescan", member, group, &mount.at("")]);
    }
}

/// Lets the kernel write and delete a snapshot, then balance everything; what `btrfs balance` says.
fn live_on(mount: &Mount, has_quotas: bool) -> Result<(), String> {
    let count_quotas = || {
        if has_quotas {
            // Waits for the count that the kernel has begun by itself, too.
            tool::output("btrfs", &["quota", "rescan", "-w", &mount.at("")]);
        }
    };
    count_quotas();
    workload::write(&mount.root().join("work/after"), &content(Content::Mixed, 5, 2 * MIB));
    workload::write_at(&mount.root().join("work/Text"), 77_777, Content::Noise, 6, 200_000);
    tool::run("btrfs", &["subvolume", "delete", "--commit-after", &mount.at("snaps/1")]);
    tool::run("btrfs", &["subvolume", "sync", &mount.at("")]);
    let args = ["balance", "start", "--full-balance", &mount.at("")];
    let output = tool::output("btrfs", &args);
    count_quotas();
    if output.status.success() { Ok(()) } else { Err(tool::failure("btrfs", &args, &output)) }
}

/// Lets the kernel go on with the rewritten `image`. `before` is the same filesystem, not rewritten.
fn afterlife(truth: &Truth, image: &Image, before: &Image, has_quotas: bool) -> Vec<String> {
    let mount = match image.try_mount("rw") {
        Ok(mount) => mount,
        Err(refusal) => return vec![refusal],
    };
    let failure = live_on(&mount, has_quotas).err();
    // The kernel drops a snapshot's group before its numbers have come to nothing, and counts anew.
    let said = mount.unmount().into_iter().filter(|line| {
        // It also remarks upon profiles that mkfs.btrfs was asked for.
        !line.contains("to be deleted qgroup") && !line.contains("has lower redundancy than")
    });
    let mut complaints: Vec<String> = said.collect();
    if let Some(failure) = failure {
        // On as many devices as there are copies, the kernel finds no room to balance its own work either.
        let mount = before.mount("rw");
        match live_on(&mount, has_quotas) {
            Ok(()) => complaints.push(failure),
            Err(same) => eprintln!("also without us: {same}"),
        }
        mount.unmount();
    }
    complaints.extend(check(image));
    let mount = match image.try_mount("ro") {
        Ok(mount) => mount,
        Err(refusal) => return [complaints, vec![refusal]].concat(),
    };
    let untouched = |path: &Path| {
        !["work", "work/after", "work/Text", "snaps"]
            .iter()
            .any(|changed| path == Path::new(changed))
            && !path.starts_with("snaps/1")
    };
    complaints.extend(truth.manifest.differences_among(&Manifest::read(mount.root()), untouched));
    complaints.extend(mount.unmount());
    complaints
}

/// All that goes wrong with a kind.
fn complaints(kind: &Kind) -> Vec<String> {
    let sizes: Vec<u64> = kind.devices.iter().map(|megabytes| megabytes * MIB).collect();
    let image = match kind.fixture {
        Some(name) => Image::of(&fixture(name), sizes[0]),
        None => Image::mkfs_on(&sizes, kind.mkfs),
    };
    let mount = image.mount(kind.mount);
    if kind.fixture.is_some() {
        tool::run("btrfs", &["filesystem", "resize", "max", &mount.at("")]);
    }
    grow(&mount);
    if kind.name == SIMPLE_QUOTAS {
        group(&mount);
    }
    let mut complaints = mount.unmount();
    let before = image.copy();
    let truth = Truth::of(&image);
    for target in ["zstd:9", "none"] {
        let summary = press::recompress(&image, target);
        if summary.commits == 0 || (target == "none") != (summary.disk_after > summary.disk_before)
        {
            complaints.push(format!("{target}: {summary:?}"));
        }
        complaints.extend(truth.complaints(&image).iter().map(|line| format!("{target}: {line}")));
    }
    let has_quotas = kind.mkfs.contains(&"quota");
    complaints.extend(
        afterlife(&truth, &image, &before, has_quotas)
            .iter()
            .map(|line| format!("afterlife: {line}")),
    );
    complaints
}

#[test]
fn every_kind_of_filesystem_is_rewritten() {
    if !tool::kernel_can_judge("every kind of filesystem") {
        return;
    }
    let only = std::env::var("BTRPRESS_KIND").ok();
    let chosen = KINDS.iter().filter(|kind| only.as_ref().is_none_or(|only| kind.name == only));
    let (waiting, found) = (Mutex::new(chosen), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some(kind) = waiting.lock().expect("no panic").next() else { break };
            let lines = thread::scope(|scope| {
                // A panic, of a program that must succeed, is one more complaint.
                scope.spawn(|| complaints(kind)).join().unwrap_or_else(|panic| {
                    vec![panic.downcast_ref().cloned().unwrap_or_else(|| "panicked".to_owned())]
                })
            });
            let lines = lines.iter().map(|line| format!("{} {:?}: {line}", kind.name, kind.mkfs));
            found.lock().expect("no panic").extend(lines);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    let found = found.into_inner().expect("no panic");
    assert_eq!(found, NONE, "{}", found.join("\n"));
}

/// Sizes of devices in MiB, and options of mkfs.btrfs.
const CASES: [(&[u64], &[&str]); 8] = [
    (&[200], &["-m", "dup"]),
    (&[300], &["-d", "dup", "-m", "dup"]),
    (&[200, 200], &["-d", "raid1", "-m", "raid1"]),
    (&[200, 200], &["-d", "raid0", "-m", "raid1"]),
    (&[200, 200, 200, 200], &["-d", "raid10", "-m", "raid1c3"]),
    (&[200, 200, 200, 200], &["-d", "raid1c3", "-m", "raid1c4"]),
    (&[200, 200, 200], &["-d", "raid5", "-m", "raid1"]),
    (&[200, 200, 200], &["-d", "raid6", "-m", "raid1c3"]),
];

#[test]
fn new_chunks_are_made_where_block_groups_are_full() {
    if !tool::kernel_can_judge("new chunks") {
        return;
    }
    for (devices, mkfs) in CASES {
        let sizes: Vec<u64> = devices.iter().map(|megabytes| megabytes * MIB).collect();
        let image = Image::mkfs_on(&sizes, mkfs);
        let mount = image.mount("rw,compress=zstd:1");
        let mut bytes = content(Content::Text, 1, 8 * MIB);
        for number in 0_u64.. {
            // Each file is another one.
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            let path = mount.root().join(format!("{number}"));
            let written = fs::write(&path, &bytes)
                .and_then(|()| fs::File::open(&path).and_then(|file| file.sync_all()));
            if written.is_err() {
                fs::remove_file(&path).expect("remove");
                break;
            }
        }
        assert_eq!(mount.unmount(), NONE, "{mkfs:?}");
        // What there is to allocate comes only now.
        for path in image.paths() {
            let file = fs::File::options().write(true).open(path).expect("image file");
            file.set_len(1500 * MIB).expect("image file");
        }
        let mount = image.mount("rw");
        for number in 1..=devices.len() {
            let size = format!("{number}:max");
            tool::run("btrfs", &["filesystem", "resize", &size, &mount.at("")]);
        }
        assert_eq!(mount.unmount(), NONE, "{mkfs:?}");
        let truth = Truth::of(&image);
        let summary = press::recompress(&image, "none");
        assert!(summary.disk_after > summary.disk_before, "{mkfs:?}: {summary:?}");
        assert_eq!(truth.complaints(&image), NONE, "{mkfs:?}");
    }
}
