//! Damaged copies: one is read around and reported, and when all are, only the files that had their bytes there are
//! named, and left as they are.

mod metadata;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::content::{Kind, content};
use super::image::Image;
use super::judge::{Truth, check};
use super::{NONE, press, surgery, workload};
use crate::tool;

const MIB: u64 = 1 << 20;
const FILE_COUNT: u64 = 8;
/// The file that is damaged.
const HURT: u64 = 3;
const SECTOR_BYTES: u64 = 4096;
/// Of a stripe, before the next column's turn comes.
const ELEMENT_BYTES: u64 = 64 << 10;

/// A byte of the image of a device.
type Place = (PathBuf, u64);

/// Which places are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// So many copies of the data itself.
    Copies(usize),
    /// The data, and other columns of the row that it is in.
    Columns(&'static [Column]),
}

/// A column of a row of RAID5 or RAID6 beside the data's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Data,
    P,
    Q,
}

/// Every place of a filesystem's images where whole sectors begin with `needle`.
fn find(image: &Image, needle: &[u8]) -> Vec<Place> {
    let mut found = Vec::new();
    for path in image.paths() {
        let file = File::open(path).expect("image file");
        let mut block = vec![0; MIB as usize];
        let mut next = 0;
        while let Ok(at) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(next)) {
            let at = at / SECTOR_BYTES * SECTOR_BYTES;
            let count = file.read_at(&mut block, at).expect("image file");
            for (sector, bytes) in (0..).zip(block[..count].chunks(SECTOR_BYTES as usize)) {
                if bytes.starts_with(needle) {
                    found.push((path.clone(), at + sector * SECTOR_BYTES));
                }
            }
            next = at + block.len() as u64;
        }
    }
    found
}

/// Every place where a file's first bytes are.
fn places(image: &Image, seed: u64) -> Vec<Place> {
    find(image, &content(Kind::Text, seed, MIB)[..64])
}

fn flip((path, at_bytes): &Place) {
    let file = File::options().read(true).write(true).open(path).expect("image file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at_bytes + 11).expect("image file");
    file.write_all_at(&[byte[0] ^ 1], at_bytes + 11).expect("image file");
}

/// Damages what is at `places`, of one address, and more of the rows that they are in.
fn hurt(image: &Image, places: &[Place], what: What) {
    match what {
        What::Copies(count) => {
            assert!(places.len() >= count, "there are {} copies", places.len());
            places[..count].iter().for_each(flip);
        }
        What::Columns(columns) => {
            // On two devices, parity is the same as the data.
            let own = places.iter().find(|place| row_of(image, place).is_data());
            let row = row_of(image, own.expect("a column of data"));
            flip(row.own());
            for column in columns {
                flip(row.place(*column));
            }
        }
    }
}

/// The same bytes of every stripe of a row of RAID5 or RAID6.
struct Row {
    /// In order: data, P, and Q.
    places: Vec<Place>,
    parities: usize,
    own: usize,
}

impl Row {
    fn is_data(&self) -> bool {
        self.own < self.places.len() - self.parities
    }

    fn own(&self) -> &Place {
        &self.places[self.own]
    }

    fn place(&self, column: Column) -> &Place {
        let width = self.places.len() - self.parities;
        match column {
            Column::Data => &self.places[(self.own + 1) % width],
            Column::P => &self.places[width],
            Column::Q => &self.places[width + 1],
        }
    }
}

/// The row that has a place in one of its columns.
fn row_of(image: &Image, (path, at): &Place) -> Row {
    let devid = image.paths().iter().position(|other| other == path).expect("its device") + 1;
    let fs = surgery::filesystem(image);
    for chunk in fs.forest().volume().chunks() {
        let parities = match chunk.flags.profile_name() {
            "RAID5" => 1,
            "RAID6" => 2,
            _ => continue,
        };
        let count = chunk.stripes.len();
        let stripe_bytes = chunk.length / (count - parities) as u64;
        for (number, stripe) in chunk.stripes.iter().enumerate() {
            let Some(within) = at.checked_sub(stripe.offset.get()) else { continue };
            if stripe.devid.get() != devid as u64 || within >= stripe_bytes {
                continue;
            }
            // Each row begins one stripe further than the one before.
            let row = (within / ELEMENT_BYTES) as usize;
            let place = |column: usize| {
                let stripe = &chunk.stripes[(column + row) % count];
                let path = &image.paths()[stripe.devid.get() as usize - 1];
                (path.clone(), stripe.offset.get() + within)
            };
            let own = (number + count - row % count) % count;
            return Row { places: (0..count).map(place).collect(), parities, own };
        }
    }
    panic!("no chunk with parity has this place");
}

/// A filesystem with some files of text and a snapshot of them.
fn texts(count: usize, mkfs: &[&str]) -> (Image, Truth) {
    let image = Image::mkfs_on(&vec![400 * MIB; count], mkfs);
    let mount = image.mount("rw");
    tool::run("btrfs", &["subvolume", "create", &mount.at("work")]);
    for seed in 0..FILE_COUNT {
        let path = mount.root().join(format!("work/{seed}"));
        workload::write(&path, &content(Kind::Text, seed, MIB));
        mount.sync();
    }
    let snapshot = mount.at("snapshot");
    tool::run("btrfs", &["subvolume", "snapshot", "-r", &mount.at("work"), &snapshot]);
    tool::run("btrfs", &["subvolume", "create", &mount.at("other")]);
    workload::write(&mount.root().join("other/text"), &content(Kind::Text, 99, MIB));
    // One shares with the damaged file what will be damaged, the other one what won't.
    for (name, from) in [("hurt", 0), ("whole", MIB / 2)] {
        let to = mount.root().join("other").join(name);
        workload::reflink_part(&mount.root().join("work/3"), from, &to, 0, MIB / 4);
    }
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    (image, truth)
}

/// Exit status and messages of a run that recompresses everything, or what else is asked for.
fn recompress(image: &Image, options: &[&str]) -> (Option<i32>, String) {
    let args = ["--batch", "recompress", "--to", "zstd:3"].iter().chain(options).map(OsStr::new);
    let args: Vec<_> = args.chain([image.path().as_os_str()]).collect();
    let output = press::output(&args, None);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A file's contents as the engine reads them, and its messages.
fn cat(image: &Image, path: &str) -> (Vec<u8>, String) {
    let output = press::output(&["cat".as_ref(), image.path().as_os_str(), path.as_ref()], None);
    (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn metadata_for(count: usize) -> &'static str {
    if count == 1 { "dup" } else { "raid1" }
}

/// What a profile can do without: its name, devices, and what is damaged.
const BEARABLE: [(&str, usize, What); 11] = [
    ("dup", 1, What::Copies(1)),
    ("raid1", 2, What::Copies(1)),
    ("raid1c3", 3, What::Copies(2)),
    ("raid1c4", 4, What::Copies(3)),
    ("raid10", 4, What::Copies(1)),
    ("raid5", 3, What::Columns(&[])),
    ("raid5", 2, What::Columns(&[])),
    ("raid6", 4, What::Columns(&[])),
    ("raid6", 4, What::Columns(&[Column::P])),
    ("raid6", 4, What::Columns(&[Column::Q])),
    ("raid6", 4, What::Columns(&[Column::Data])),
];

#[test]
fn bad_copies_that_others_make_up_for_change_nothing_and_are_reported() {
    if !tool::kernel_can_judge("bad copies") {
        return;
    }
    for (profile, count, what) in BEARABLE {
        let (image, truth) = texts(count, &["-d", profile, "-m", metadata_for(count)]);
        hurt(&image, &places(&image, HURT), what);
        let case = format!("{profile}, {what:?}");
        assert_borne(&image, &truth, &["work/3", "snapshot/3"], &case);
    }
}

/// These paths, which are damaged, are read from other copies, which is reported, and a run does as if nothing had
/// happened.
fn assert_borne(image: &Image, truth: &Truth, paths: &[&str], case: &str) {
    for path in paths {
        let (text, said) = cat(image, path);
        assert!(text == content(Kind::Text, HURT, MIB), "{case}");
        assert!(said.contains("bad copy"), "{case}: {said}");
    }
    let (status, said) = recompress(image, &[]);
    assert_eq!(status, Some(0), "{case}: {said}");
    assert!(said.contains("bad copy"), "{case}: {said}");
    assert_eq!(truth.complaints(image), NONE, "{case}");
}

/// Writing beside damaged data must not take away what it can be rebuilt from.
#[test]
fn damage_beside_which_is_written_can_be_mended_as_before() {
    if !tool::kernel_can_judge("writing beside damage") {
        return;
    }
    for (profile, count, what) in BEARABLE {
        let (image, truth) = texts(count, &["-d", profile, "-m", metadata_for(count)]);
        hurt(&image, &places(&image, HURT), what);
        // Back and forth, so that what was free in the rows of the damaged file is used.
        for target in ["zstd:3", "none", "lzo"] {
            let is_other = |seed: &u64| *seed != HURT;
            let paths = (0..FILE_COUNT).filter(is_other).map(|seed| format!("work/{seed}"));
            let paths: Vec<String> = paths.chain(["other".to_owned()]).collect();
            let mut options = vec!["--to", target];
            for path in &paths {
                options.extend(["--path", path]);
            }
            press::recompress_with(&image, &options, None);
        }
        let (text, said) = cat(&image, "snapshot/3");
        assert!(text == content(Kind::Text, HURT, MIB), "{profile}, {what:?}: {said}");
        let mut complaints = check(&image);
        complaints.extend(truth.complaints_about_contents(&image));
        // The kernel tells of the damage, and reads around it too.
        complaints.retain(|line| !line.starts_with("kernel log: "));
        assert_eq!(complaints, NONE, "{profile}, {what:?}");
    }
}

/// What no profile can do without.
const UNBEARABLE: [(&str, usize, What); 9] = [
    ("single", 1, What::Copies(1)),
    ("dup", 1, What::Copies(2)),
    ("raid0", 2, What::Copies(1)),
    ("raid1", 2, What::Copies(2)),
    ("raid1c3", 3, What::Copies(3)),
    ("raid1c4", 4, What::Copies(4)),
    ("raid10", 4, What::Copies(2)),
    ("raid5", 3, What::Columns(&[Column::P])),
    ("raid6", 4, What::Columns(&[Column::P, Column::Q])),
];

/// Where a file's data is, and the bytes there.
fn stored(image: &Image, path: &str) -> Vec<(u64, u64, Vec<u8>)> {
    let fs = surgery::filesystem(image);
    let at = fs.resolve(path.as_bytes()).expect("a file");
    let pieces = fs.file_extents(at.root, at.ino).expect("a file");
    let read = |piece: btrpress::fs::FilePiece| {
        let place = piece.extent.place;
        let mut bytes = vec![0; place.disk_num_bytes as usize];
        let bytenr = btrpress::format::Logical(place.disk_bytenr);
        fs.forest().volume().read_copy(bytenr, 0, &mut bytes).expect("data");
        (piece.offset, place.disk_bytenr, bytes)
    };
    pieces.map(|piece| read(piece.expect("an extent"))).collect()
}

#[test]
fn data_that_no_copy_can_give_is_named_and_left_alone() {
    if !tool::kernel_can_judge("damaged data") {
        return;
    }
    for (profile, count, what) in UNBEARABLE {
        let (image, _) = texts(count, &["-d", profile, "-m", metadata_for(count)]);
        hurt(&image, &places(&image, HURT), what);
        let before = stored(&image, "work/3");
        let (status, said) = recompress(&image, &[]);
        assert_eq!(status, Some(4), "{profile}: {said}");
        let named = said.lines().filter(|line| line.contains("left as it was"));
        let named: BTreeSet<&str> = named.filter_map(|line| line.split(':').next()).collect();
        assert_eq!(named, ["other/hurt", "snapshot/3", "work/3"].into(), "{profile}: {said}");
        assert_eq!(stored(&image, "work/3"), before, "{profile}: bits have changed");
        assert_eq!(stored(&image, "snapshot/3"), before, "{profile}: bits have changed");
        for seed in (0..FILE_COUNT).filter(|seed| *seed != HURT) {
            let path = format!("snapshot/{seed}");
            assert!(cat(&image, &path).0 == content(Kind::Text, seed, MIB), "{profile}: {path}");
            let stored: usize = stored(&image, &path).iter().map(|(.., bytes)| bytes.len()).sum();
            assert!((stored as u64) < MIB, "{profile}: {path} is as it was");
        }
        assert_eq!(check(&image), NONE, "{profile}");
        let (status, said) = recompress(&image, &[]);
        assert_eq!(status, Some(4), "{profile}, once more: {said}");
        assert_eq!(stored(&image, "work/3"), before, "{profile}, once more: bits have changed");
    }
}
