//! Filesystems in partitions of disk images: found by themselves where that is clear, named where it is not, and nothing
//! around them is touched.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tempfile::TempDir;

use super::content::{Kind, content};
use super::image::Image;
use super::judge::Truth;
use super::{NONE, press, workload};
use crate::tool;

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 700 * MIB;
const PART_BYTES: u64 = 200 * MIB;
/// What stands right before and after a partition.
static FILLER: [u8; 512 << 10] = [0xa5; 512 << 10];

/// A disk image with a partition table.
struct Disk {
    _dir: TempDir,
    path: PathBuf,
}

impl Disk {
    /// A disk that `sfdisk` has partitioned by `script`, with a table of this type.
    fn new(label: &str, script: &str) -> Self {
        let disk = Self::blank();
        Self::partition(&disk.path, label, script);
        disk
    }

    fn blank() -> Self {
        let dir = tempfile::Builder::new().prefix("btrpress-disk-").tempdir().expect("tempdir");
        let path = dir.path().join("disk");
        File::create(&path).and_then(|file| file.set_len(DISK_BYTES)).expect("disk image");
        Self { _dir: dir, path }
    }

    fn partition(disk: &Path, label: &str, script: &str) {
        let options = ["--quiet", "--no-reread", "--no-tell-kernel", "--label", label];
        let mut sfdisk = tool::command("sfdisk", &options);
        let mut sfdisk = sfdisk
            .arg(disk)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("sfdisk starts");
        let mut stdin = sfdisk.stdin.take().expect("a pipe");
        stdin.write_all(script.as_bytes()).expect("sfdisk reads");
        drop(stdin);
        assert!(sfdisk.wait().expect("sfdisk ends").success(), "{script}");
    }

    fn file(&self) -> File {
        File::options().read(true).write(true).open(&self.path).expect("disk image")
    }

    /// Puts a filesystem into a partition, with something right before and after it.
    fn put(&self, image: &Image, at_byte: u64) {
        self.put_device(image, 0, at_byte);
        let before = at_byte - FILLER.len() as u64;
        self.file().write_all_at(&FILLER, before).expect("disk image");
        self.file().write_all_at(&FILLER, at_byte + PART_BYTES).expect("disk image");
    }

    fn put_device(&self, image: &Image, number: usize, at_byte: u64) {
        let (from, to) = (File::open(&image.paths()[number]).expect("image"), self.file());
        copy(&from, 0, &to, at_byte);
    }

    /// The filesystem at a place, on its own.
    fn cut(&self, at_byte: u64) -> Image {
        let image = Image::blank(PART_BYTES);
        let to = File::options().write(true).open(image.path()).expect("image");
        copy(&self.file(), at_byte, &to, 0);
        image
    }

    /// All that is not in the partition at a place, as a number.
    fn around(&self, at_byte: u64) -> u64 {
        let (file, mut sum) = (self.file(), 0_u64);
        let mut block = vec![0; FILLER.len()];
        for at in (0..DISK_BYTES).step_by(block.len()) {
            if !(at_byte..at_byte + PART_BYTES).contains(&at) {
                file.read_exact_at(&mut block, at).expect("disk image");
                sum = sum.rotate_left(1) ^ u64::from(crc32c::crc32c(&block));
            }
        }
        sum
    }

    fn recompress(&self, place: &[&str]) -> Output {
        let args: Vec<&OsStr> = ["--batch", "recompress", "--to", "zstd:5"]
            .iter()
            .chain(place)
            .map(OsStr::new)
            .chain([self.path.as_os_str()])
            .collect();
        press::output(&args, None)
    }
}

fn copy(from: &File, from_byte: u64, to: &File, to_byte: u64) {
    let mut block = vec![0; MIB as usize];
    for at in (0..PART_BYTES).step_by(block.len()) {
        from.read_exact_at(&mut block, from_byte + at).expect("read");
        if block.iter().any(|byte| *byte != 0) {
            to.write_all_at(&block, to_byte + at).expect("write");
        }
    }
}

/// Copies a partition over an image, zeros too.
fn copy_all(from: &File, from_byte: u64, to: &File) {
    to.set_len(0).and_then(|()| to.set_len(PART_BYTES)).expect("image");
    copy(from, from_byte, to, 0);
}

fn has_sfdisk() -> bool {
    tool::kernel_can_judge("partitions") && tool::has("sfdisk")
}

/// A filesystem with texts and a snapshot.
fn texts(seed: u64) -> (Image, Truth) {
    let image = Image::mkfs(PART_BYTES, &[]);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("home")]);
    workload::write(&mount.root().join("home/text"), &content(Kind::Text, seed, 4 * MIB));
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("home"), &mount.at("snapshot")]);
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    (image, truth)
}

/// A partition table with a place for a filesystem.
struct Table {
    name: &'static str,
    /// Its type.
    label: &'static str,
    /// What `sfdisk` reads.
    script: &'static str,
    /// Number of the partition.
    number: &'static str,
    /// Where it starts.
    start: u64,
}

/// Sectors are of 512 bytes, but for the one that says otherwise.
const TABLES: [Table; 4] = [
    Table {
        name: "MBR",
        label: "dos",
        script: "2048,100M,83\n,200M,83\n,,83\n",
        number: "2",
        start: 101 * MIB,
    },
    Table {
        name: "logical partition of an MBR",
        label: "dos",
        script: "2048,100M,83\n206848,,5\n208896,50M,83\n313344,200M,83\n",
        number: "6",
        start: 153 * MIB,
    },
    Table {
        name: "GPT",
        label: "gpt",
        script: "2048,100M\n,200M\n,,\n",
        number: "2",
        start: 101 * MIB,
    },
    Table {
        name: "GPT with a gap in its numbers",
        label: "gpt",
        script: "7 : start=206848, size=200M\n",
        number: "7",
        start: 101 * MIB,
    },
];

#[test]
fn a_filesystem_in_a_partition_is_found_and_nothing_around_it_is_touched() {
    if !has_sfdisk() {
        return;
    }
    let (image, truth) = texts(1);
    for Table { name, label, script, number, start } in TABLES {
        let offset = start.to_string();
        let colon = format!(":{number}");
        let places: [(&str, &[&str]); 4] = [
            ("by itself", &[]),
            ("--partition", &["--partition", number]),
            ("--offset", &["--offset", &offset]),
            ("PATH:N", &[&colon]),
        ];
        for (how, place) in places {
            let disk = Disk::new(label, script);
            disk.put(&image, start);
            let around = disk.around(start);
            let output = if how == "PATH:N" {
                let named = format!("{}{colon}", disk.path.display());
                let args = ["--batch", "recompress", "--to", "zstd:5", &named];
                press::output(&args.map(OsStr::new), None)
            } else {
                disk.recompress(place)
            };
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{name}, {how}: {said}");
            assert_eq!(disk.around(start), around, "{name}, {how}: something else was written to");
            let now = disk.cut(start);
            assert_ne!(now.digest(), image.digest(), "{name}, {how}: nothing was written");
            if how == "by itself" {
                assert_eq!(truth.complaints(&now), NONE, "{name}");
                assert_eq!(seen_at(&disk.path, start), content(Kind::Text, 1, 4 * MIB), "{name}");
            }
        }
    }
}

/// The text as the kernel reads it from the disk image.
fn seen_at(disk: &Path, start: u64) -> Vec<u8> {
    let at = tempfile::tempdir().expect("tempdir");
    let options = format!("ro,loop,offset={start},sizelimit={PART_BYTES}");
    let args = ["-o".as_ref(), options.as_ref(), disk.as_os_str(), at.path().as_os_str()];
    tool::run("mount", &args);
    let text = std::fs::read(at.path().join("home/text")).expect("text");
    tool::unmount(at.path());
    text
}

#[test]
fn of_several_filesystems_in_one_disk_image_one_must_be_named() {
    if !has_sfdisk() {
        return;
    }
    let (first, _) = texts(1);
    let (second, truth) = texts(2);
    let disk = Disk::new("gpt", "2048,200M\n,200M\n,200M\n");
    disk.put(&first, MIB);
    disk.put(&second, 401 * MIB);
    let output = disk.recompress(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{said}");
    let path = disk.path.display();
    assert!(said.contains(&format!("name one of {path}:1, {path}:3")), "{said}");
    assert_eq!(disk.cut(MIB).digest(), first.digest());

    let around = disk.around(401 * MIB);
    let output = disk.recompress(&["--partition", "3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(disk.around(401 * MIB), around);
    assert_eq!(truth.complaints(&disk.cut(401 * MIB)), NONE);

    for (place, why) in [
        (["--partition", "2"], "magic"),
        (["--partition", "9"], "no partition 9"),
        (["--offset", "5"], "magic"),
        (["--offset", "99999999999999"], "magic"),
    ] {
        let output = disk.recompress(&place);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why), "{place:?}: {said}");
    }
}

#[test]
fn a_gpt_with_a_damaged_header_is_read_from_its_copy() {
    if !has_sfdisk() {
        return;
    }
    let (image, truth) = texts(1);
    let disk = Disk::new("gpt", "206848,200M\n");
    disk.put(&image, 101 * MIB);
    disk.file().write_all_at(&FILLER[..64], 512 + 20).expect("disk image");
    let output = disk.recompress(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(truth.complaints(&disk.cut(101 * MIB)), NONE);
}

#[test]
fn a_gpt_of_a_disk_with_large_sectors_is_read() {
    if !has_sfdisk() {
        return;
    }
    let (image, truth) = texts(1);
    let disk = Disk::blank();
    let args = ["--find", "--show", "--sector-size=4096"].map(OsStr::new);
    let device = tool::run("losetup", &[&args[..], &[disk.path.as_os_str()]].concat());
    Disk::partition(device.trim().as_ref(), "gpt", "start=25856, size=51200\n");
    tool::run("losetup", &["--detach", device.trim()]);
    disk.put(&image, 101 * MIB);
    let around = disk.around(101 * MIB);
    let output = disk.recompress(&["--partition", "1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(disk.around(101 * MIB), around);
    assert_eq!(truth.complaints(&disk.cut(101 * MIB)), NONE);
}

/// Two devices of one filesystem, with a text.
fn mirrors() -> (Image, Truth) {
    let image = Image::mkfs_on(&[PART_BYTES, PART_BYTES], &["-d", "raid1", "-m", "raid1"]);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("home")]);
    workload::write(&mount.root().join("home/text"), &content(Kind::Text, 3, 4 * MIB));
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    (image, truth)
}

#[test]
fn devices_of_one_filesystem_are_found_in_partitions() {
    if !has_sfdisk() {
        return;
    }
    let (image, truth) = mirrors();
    let mut back = image.copy();
    let places = [MIB, 201 * MIB];
    let mut named = |disk: &Disk, names: &[String]| {
        let args = ["--batch", "recompress", "--to", "zstd:5"].into_iter();
        let args: Vec<&OsStr> =
            args.chain(names.iter().map(String::as_str)).map(OsStr::new).collect();
        let output = press::output(&args, None);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{names:?}: {said}");
        for (path, at) in back.paths().iter().zip(places) {
            let to = File::options().write(true).open(path).expect("image");
            copy_all(&disk.file(), at, &to);
        }
        assert_ne!(back.digest(), image.digest(), "{names:?}");
        assert_eq!(truth.complaints(&back), NONE, "{names:?}");
        back = image.copy();
    };
    // In one disk image.
    for numbers in [&[][..], &[1], &[2], &[2, 1]] {
        let disk = Disk::new("gpt", "2048,200M\n,200M\n");
        disk.put_device(&image, 0, places[0]);
        disk.put_device(&image, 1, places[1]);
        let path = disk.path.display();
        let mut names: Vec<_> = numbers.iter().map(|number| format!("{path}:{number}")).collect();
        if names.is_empty() {
            names.push(path.to_string());
        }
        named(&disk, &names);
    }
}

#[test]
fn devices_of_one_filesystem_are_found_in_partitions_of_several_disk_images() {
    if !has_sfdisk() {
        return;
    }
    let (image, truth) = mirrors();
    let disks = [0, 1].map(|number| {
        let disk = Disk::new("dos", "2048,100M,83\n,200M,83\n");
        disk.put_device(&image, number, 101 * MIB);
        disk
    });
    // Beside each other.
    let second = disks[0].path.with_file_name("second");
    std::fs::rename(&disks[1].path, &second).expect("rename");
    let around = disks[0].around(101 * MIB);
    let output = disks[0].recompress(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(disks[0].around(101 * MIB), around);
    for (path, disk) in image.paths().iter().zip([&disks[0].path, &second]) {
        let to = File::options().write(true).open(path).expect("image");
        copy_all(&File::open(disk).expect("disk image"), 101 * MIB, &to);
    }
    assert_eq!(truth.complaints(&image), NONE);
}
