//! A tree of files as years of use leave it: two subvolumes, snapshots of different ages, and
//! every shape that file data can have on disk.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, IFlags, OFlags, XattrFlags};

use super::content::{Dice, Kind, content};
use super::image::Mount;
use crate::tool;

/// The subvolumes that every workload has; their snapshots are `snaps/NAME.ROUND`, and
/// `snaps/NAME.ROUND-ro` for read-only ones.
pub(crate) const SUBVOLUMES: [&str; 2] = ["home", "srv"];
const ROUND_COUNT: u64 = 5;
const FRAGMENT_COUNT: u64 = 400;
const FRAGMENT_BYTES: u64 = 8 << 10;
const DEPTH: usize = 40;
/// From here on a tree counts as large.
const LARGE_MEGABYTES: u64 = 50;
const KIB: u64 = 1 << 10;
/// Sizes with a file each: around what fits inline, a sector, a page of 64 KiB, a chunk.
const SIZES: [std::ops::RangeInclusive<u64>; 5] =
    [0..=70, 2020..=2060, 4040..=4100, 65530..=65540, 131_070..=131_074];

/// Builds the whole tree in the mounted filesystem, which is left synced. The large files take
/// `megabytes` in each of the two subvolumes, all others some 20 MB together.
pub(crate) fn grow(mount: &Mount, megabytes: u64) {
    fs::create_dir(mount.root().join("snaps")).expect("mkdir");
    for (seed, name) in (1..).zip(SUBVOLUMES) {
        tool::run("btrfs", &["subvolume", "create", &mount.at(name)]);
        Grower::new(&mount.root().join(name), seed, megabytes).everything();
    }
    write(&mount.root().join("top.txt"), &content(Kind::Text, 77, 300 * KIB));
    mount.sync();
    for round in 1..=ROUND_COUNT {
        for (seed, name) in (1..).zip(SUBVOLUMES) {
            let mut grower = Grower::new(&mount.root().join(name), 1000 * round + seed, megabytes);
            grower.change(round);
            mount.sync();
            snapshot(mount, name, round, (round + seed) % 2 == 0);
        }
        reflink_across(mount, round);
    }
    // What the snapshots alone still hold, and what they hold together with nobody.
    for (seed, name) in (1..).zip(SUBVOLUMES) {
        Grower::new(&mount.root().join(name), 9000 + seed, megabytes).change(ROUND_COUNT + 1);
    }
    mount.sync();
}

/// The name of the snapshot that `round` takes of subvolume `name`.
fn snapshot(mount: &Mount, name: &str, round: u64, readonly: bool) {
    let from = mount.at(name);
    if readonly {
        let to = mount.at(&format!("snaps/{name}.{round}-ro"));
        tool::run("btrfs", &["subvolume", "snapshot", "-r", &from, &to]);
    } else {
        let to = mount.at(&format!("snaps/{name}.{round}"));
        tool::run("btrfs", &["subvolume", "snapshot", &from, &to]);
        // A writable snapshot goes its own way.
        write_at(
            Path::new(&to).join("big/text").as_path(),
            64 * KIB,
            Kind::Text,
            555 + round,
            30 * KIB,
        );
        write(&Path::new(&to).join("only-here"), &content(Kind::Records, round, 40 * KIB));
    }
}

/// One subvolume's files share data with the other's.
fn reflink_across(mount: &Mount, round: u64) {
    let [home, srv] = SUBVOLUMES.map(|name| mount.root().join(name));
    reflink(&home.join("big/mixed"), &srv.join(format!("from-home.{round}")));
    let target = home.join("from-srv");
    reflink_part(
        &srv.join("big/records"),
        round * 256 * KIB,
        &target,
        round * 512 * KIB,
        200 * KIB,
    );
    mount.sync();
}

/// Makes and changes the files of one subvolume.
struct Grower {
    root: PathBuf,
    dice: Dice,
    megabytes: u64,
}

impl Grower {
    fn new(root: &Path, seed: u64, megabytes: u64) -> Self {
        Self { root: root.to_owned(), dice: Dice::new(seed), megabytes }
    }

    fn path(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("below the root")).expect("mkdir");
        path
    }

    fn fill(&mut self, name: &str, kind: Kind, len_bytes: u64) -> PathBuf {
        let path = self.path(name);
        write(&path, &content(kind, self.dice.roll(), len_bytes));
        path
    }

    fn everything(&mut self) {
        let share = (self.megabytes << 20) / 8;
        self.fill("big/text", Kind::Text, 2 * share + 1234);
        self.fill("big/records", Kind::Records, 2 * share);
        self.fill("big/noise", Kind::Noise, share + 4096);
        self.fill("big/mixed", Kind::Mixed, 2 * share + 4095);
        self.fill("big/zeros", Kind::Zeros, share / 2);
        for number in 0..60 {
            let kind = [Kind::Text, Kind::Records, Kind::Mixed][number % 3];
            let len_bytes = self.dice.below(200 * KIB);
            self.fill(&format!("docs/{}/{number}", number % 7), kind, len_bytes);
        }
        self.sizes();
        self.fragments();
        self.holes();
        self.untouchables();
        self.names();
        self.metadata();
        self.sync();
        self.reflinks();
        self.sync();
        self.bookends();
    }

    fn sizes(&mut self) {
        for size in SIZES.into_iter().flatten() {
            let kind = [Kind::Text, Kind::Noise, Kind::Zeros][size as usize % 3];
            self.fill(&format!("sizes/{}/{size}", size / 1000), kind, size);
            if size == 2048 || size == 4095 {
                self.fill(&format!("sizes/text-{size}"), Kind::Text, size);
            }
        }
        // Inline once, then regular, and the other way round.
        let grown = self.fill("sizes/grown", Kind::Text, 500);
        let shrunk = self.fill("sizes/shrunk", Kind::Text, 90 * KIB);
        self.sync();
        write_at(&grown, 500, Kind::Text, 5, 9000);
        truncate(&shrunk, 700);
    }

    /// Two files whose sectors alternate on disk.
    fn fragments(&mut self) {
        let paths = [self.path("frag/one"), self.path("frag/two")];
        let open = |path| {
            let mut options = OpenOptions::new();
            let direct = (OFlags::DIRECT.bits()).cast_signed();
            options.create(true).truncate(false).write(true).custom_flags(direct);
            options.open(path).expect("open")
        };
        let files = paths.map(open);
        let pages = content(Kind::Text, self.dice.roll(), FRAGMENT_COUNT * FRAGMENT_BYTES);
        for (number, fragment) in (0..).zip(pages.chunks(FRAGMENT_BYTES as usize)) {
            for file in &files {
                let aligned = Aligned::copy_of(fragment);
                file.write_all_at(aligned.bytes(), number * FRAGMENT_BYTES).expect("write");
            }
        }
    }

    fn holes(&mut self) {
        let sparse = self.path("holes/sparse");
        for number in 0..20 {
            let at_bytes = number * 300 * KIB + self.dice.below(200) * 512;
            write_at(&sparse, at_bytes, Kind::Text, self.dice.roll(), 10 * KIB + number);
        }
        truncate(&sparse, 20 * 300 * KIB + 99);
        File::create(self.path("holes/nothing"))
            .and_then(|file| file.set_len(5 << 20))
            .expect("hole");
        let punched = self.fill("holes/punched", Kind::Mixed, 2 << 20);
        self.sync();
        let file = open(&punched);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for number in 0..12 {
            let at_bytes = number * 150_000 + 777;
            rustix::fs::fallocate(&file, punch, at_bytes, 50_000 + number).expect("punch");
        }
        rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 100_000, 30_000).expect("zero");
        write_at(&self.path("holes/tail-only"), 700 * KIB + 5, Kind::Noise, 3, 100);
    }

    /// Data that must be left where it is: nocow, preallocated.
    fn untouchables(&mut self) {
        let dir = self.path("nocow/file").parent().expect("has one").to_owned();
        let handle = File::open(&dir).expect("open");
        rustix::fs::ioctl_setflags(&handle, IFlags::NOCOW).expect("chattr +C");
        let nocow = self.fill("nocow/file", Kind::Text, 3 << 20);
        self.sync();
        write_at(&nocow, 500_000, Kind::Noise, 4, 70_000);

        let whole = open(&self.path("prealloc/whole"));
        rustix::fs::fallocate(&whole, FallocateFlags::empty(), 0, 2 << 20).expect("fallocate");
        let partly = self.path("prealloc/partly");
        let file = open(&partly);
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2 << 20).expect("fallocate");
        self.sync();
        write_at(&partly, 300_000, Kind::Text, 6, 400_000);
        write_at(&partly, 1_500_000, Kind::Noise, 6, 4096);
        let beyond = self.fill("prealloc/beyond", Kind::Text, 100_000);
        rustix::fs::fallocate(open(&beyond), FallocateFlags::KEEP_SIZE, 0, 1 << 20)
            .expect("fallocate");
    }

    fn names(&mut self) {
        let deep: String =
            (0..DEPTH).fold(String::from("deep"), |path, level| format!("{path}/level-{level}"));
        self.fill(&format!("{deep}/bottom"), Kind::Text, 20 * KIB);
        self.fill(&format!("{deep}/bottom-inline"), Kind::Text, 99);
        self.fill("names/with space 'and\" quotes", Kind::Text, 3000);
        self.fill("names/žluťoučký кот 猫", Kind::Text, 5000);
        self.fill(&format!("names/{}", "n".repeat(255)), Kind::Text, 6000);
        let bytes = OsStr::from_bytes(b"not \xff\xfe utf-8");
        write(&self.path("names/x").with_file_name(bytes), &content(Kind::Text, 8, 7000));
        let linked = self.fill("links/first", Kind::Mixed, 300 * KIB);
        for number in 0..self.link_count() {
            let name = format!("links/{}-{number}", "long-name".repeat(12));
            fs::hard_link(&linked, self.path(&name)).expect("link");
        }
        fs::hard_link(&linked, self.path("docs/0/linked")).expect("link");
        symlink("first", self.path("links/short")).expect("symlink");
        symlink("t/".repeat(1500), self.path("links/long")).expect("symlink");
        fs::create_dir_all(self.path("empty/dir")).expect("mkdir");
    }

    /// Names of one file in one directory. In large trees there are more than one item can hold;
    /// `btrfs check --mode=lowmem` (6.2), which small trees meet, has a false alarm about those.
    const fn link_count(&self) -> u64 {
        if self.megabytes >= LARGE_MEGABYTES { 200 } else { 20 }
    }

    fn metadata(&mut self) {
        for (number, mode) in (0..).zip([0o000, 0o4755, 0o2640, 0o1777, 0o600]) {
            let path = self.fill(&format!("meta/mode-{number}"), Kind::Text, 9000 * number);
            std::os::unix::fs::chown(&path, Some(1000 + number as u32), Some(7)).expect("chown");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
        }
        let path = self.fill("meta/attributes", Kind::Text, 10_000);
        for (name, len_bytes) in [("user.a", 1), ("user.empty", 0), ("user.long", 3500)] {
            let value = content(Kind::Noise, 9, len_bytes);
            rustix::fs::setxattr(&path, name, &value, XattrFlags::empty()).expect("setxattr");
        }
        let dir = path.parent().expect("has one");
        rustix::fs::setxattr(dir, "trusted.dir", b"yes", XattrFlags::empty()).expect("setxattr");
        let epochs = [(0, 0), (-86_400, 1), (4_294_967_296, 999_999_999), (253_402_300_799, 5)];
        for (number, (seconds, nanoseconds)) in (0..).zip(epochs) {
            let path = self.fill(&format!("meta/time-{number}"), Kind::Text, 5000);
            set_times(&path, seconds, nanoseconds);
        }
        let here = File::open(dir).expect("open");
        let node = |name, kind, number| {
            rustix::fs::mknodat(&here, name, kind, 0o640.into(), number).expect("mknod");
        };
        node("pipe", rustix::fs::FileType::Fifo, 0);
        node("null", rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 3));
    }

    fn reflinks(&mut self) {
        let big = self.path("big/mixed");
        reflink(&big, &self.path("clones/whole"));
        reflink(&self.path("docs/1/1"), &self.path("clones/doc"));
        let parts = self.path("clones/parts");
        for number in 0..30 {
            let from = self.dice.below(100) * 4 * KIB;
            let len_bytes = (1 + self.dice.below(40)) * 4 * KIB;
            reflink_part(&big, from, &parts, number * 170 * KIB / 4096 * 4096, len_bytes);
        }
        // The same bytes ten times over in one file, and shifted copies of itself.
        let repeated = self.path("clones/repeated");
        for number in 0..10 {
            reflink_part(&self.path("big/text"), 128 * KIB, &repeated, number * 96 * KIB, 96 * KIB);
        }
        let own = self.fill("clones/own", Kind::Records, 400 * KIB);
        self.sync();
        reflink_part(&own, 0, &own, 600 * KIB, 256 * KIB);
        reflink_part(&own, 100 * KIB, &own, 900 * KIB, 64 * KIB);
    }

    /// Large extents of which only pieces are in use any more.
    fn bookends(&mut self) {
        let middle = self.fill("ends/middle", Kind::Text, 3 << 20);
        let edges = self.fill("ends/edges", Kind::Records, 3 << 20);
        let short = self.fill("ends/short", Kind::Mixed, 3 << 20);
        let kept = self.fill("ends/kept-by-clone", Kind::Text, 1 << 20);
        self.sync();
        write_at(&middle, 500_000, Kind::Text, self.dice.roll(), 2_000_000);
        write_at(&edges, 0, Kind::Records, self.dice.roll(), 1_000_000);
        write_at(&edges, 2_500_000, Kind::Noise, self.dice.roll(), 700_000);
        truncate(&short, 70_001);
        reflink_part(&kept, 512 * KIB, &self.path("ends/clone"), 0, 64 * KIB);
        self.sync();
        fs::remove_file(&kept).expect("remove");
    }

    /// What happens between two snapshots.
    fn change(&mut self, round: u64) {
        for name in ["big/text", "big/records", "big/mixed", "ends/middle", "frag/one"] {
            let path = self.path(name);
            let len_bytes = fs::metadata(&path).expect("stat").len();
            for _ in 0..3 {
                let at_bytes = self.dice.below(len_bytes);
                let count = 1 + self.dice.below(60 * KIB);
                write_at(&path, at_bytes, Kind::Mixed, self.dice.roll(), count);
            }
            if round.is_multiple_of(2) {
                write_at(&path, len_bytes, Kind::Text, self.dice.roll(), 50 * KIB + round);
            }
        }
        self.sync();
        for number in 0..6 {
            let old = self.path(&format!("docs/{number}/{}", number + 7 * round));
            match number % 3 {
                0 => fs::remove_file(&old).expect("remove"),
                1 => fs::rename(&old, self.path(&format!("docs/renamed-{round}-{number}")))
                    .expect("rename"),
                _ => truncate(&old, self.dice.below(90 * KIB)),
            }
        }
        self.fill(&format!("new/{round}"), Kind::Mixed, 600 * KIB);
        self.fill(&format!("new/{round}-small"), Kind::Text, 300 * round);
        let target = self.path("clones/parts");
        reflink_part(
            &self.path("big/text"),
            round * 40 * KIB,
            &target,
            round * 400 * KIB,
            80 * KIB,
        );
        if round == 3 {
            fs::rename(self.path("deep"), self.path("deep-moved")).expect("rename");
            fs::remove_file(self.path("sizes/2/2048")).expect("remove");
        }
        write_at(&self.path("nocow/file"), round * 200_000, Kind::Text, round, 9000);
        write_at(&self.path("prealloc/partly"), round * 100_000, Kind::Text, round, 9000);
    }

    fn sync(&self) {
        tool::run("btrfs", &["filesystem".as_ref(), "sync".as_ref(), self.root.as_os_str()]);
    }
}

/// A buffer that direct I/O accepts.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    const ALIGNMENT: usize = 4096;

    fn copy_of(from: &[u8]) -> Self {
        let mut bytes = vec![0; from.len() + Self::ALIGNMENT];
        let start = bytes.as_ptr().align_offset(Self::ALIGNMENT);
        bytes[start..start + from.len()].copy_from_slice(from);
        Self { bytes, start, len: from.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).read(true).open(path).expect("open")
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("write");
}

pub(crate) fn write_at(path: &Path, at_bytes: u64, kind: Kind, seed: u64, len_bytes: u64) {
    open(path).write_all_at(&content(kind, seed, len_bytes), at_bytes).expect("write");
}

fn truncate(path: &Path, len_bytes: u64) {
    open(path).set_len(len_bytes).expect("truncate");
}

/// Makes `to` share all of `from`'s data.
/// Reserves space behind the end of a short file and gives the first part of it back: no item then tells of what lies
/// between.
pub(crate) fn reserve_beyond(path: &Path) {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for (mode, length) in [(FallocateFlags::KEEP_SIZE, 152 * KIB), (punch, 40 * KIB)] {
        rustix::fs::fallocate(open(path), mode, 4 * KIB, length).expect("fallocate");
    }
}

pub(crate) fn reflink(from: &Path, to: &Path) {
    rustix::fs::ioctl_ficlone(open(to), File::open(from).expect("open")).expect("clone");
}

/// Makes a range of whole sectors of `to` share data with `from`; within one Btrfs filesystem
/// that is what copying a range does.
pub(crate) fn reflink_part(from: &Path, from_bytes: u64, to: &Path, to_bytes: u64, len_bytes: u64) {
    let (source, target) = (File::open(from).expect("open"), open(to));
    let (mut from_bytes, mut to_bytes) = (from_bytes, to_bytes);
    let (from_bytes, to_bytes) = (Some(&mut from_bytes), Some(&mut to_bytes));
    let copied =
        rustix::fs::copy_file_range(source, from_bytes, target, to_bytes, len_bytes as usize)
            .expect("clone a range");
    assert_eq!(copied as u64, len_bytes, "{} is long enough to clone from", from.display());
}

fn set_times(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty())
        .expect("utimens");
}
