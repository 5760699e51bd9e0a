//! Devices that are missing, too old, too many, or of another filesystem.

use std::fs;
use std::path::PathBuf;

use super::super::image::{Image, Loop};
use super::super::workload;
use super::{Case, MIB, SEEDS, text, texts};
use crate::tool;

const SPROUT: &str = "it has sprouted from a seed device";

/// Names all devices of an image, in an order that is not theirs.
fn backwards(image: &Image) -> Vec<PathBuf> {
    image.paths().iter().rev().cloned().collect()
}

/// As many devices are missing as the profile allows; what they hold is rebuilt.
pub(super) fn missing() -> Vec<Case> {
    let kinds: [(&str, usize, &[&[usize]]); 6] = [
        ("raid1", 2, &[&[0], &[1]]),
        ("raid1c3", 3, &[&[0, 2]]),
        ("raid1c4", 4, &[&[0, 1, 3]]),
        ("raid10", 4, &[&[0], &[3]]),
        ("raid5", 3, &[&[0], &[1], &[2]]),
        ("raid6", 4, &[&[0, 1], &[1, 3], &[2, 3]]),
    ];
    let mut cases = Vec::new();
    for (profile, count, missing) in kinds {
        let image = texts(count, &["-d", profile, "-m", profile]);
        for numbers in missing {
            cases.push(Case::new(image.copy().without(numbers), "is missing"));
        }
    }
    cases
}

/// One device was away while the others were written to: its old bytes must not be taken for the new ones.
pub(super) fn of_different_generations() -> Vec<Case> {
    let mut cases = Vec::new();
    for (profile, count) in [("raid1", 2), ("raid10", 4), ("raid5", 3), ("raid6", 4)] {
        for away in [0, count - 1] {
            let image = texts(count, &["-d", profile, "-m", "raid1"]);
            let mount = image.try_mount_without(&[away], "rw").expect("mounts degraded");
            for seed in SEEDS {
                // Where a mirror or a column is that the absent one still has as it was.
                let path = mount.root().join(format!("home/{seed}"));
                workload::write(&path, &text(10 + seed));
            }
            workload::write(&mount.root().join("home/new"), &text(20));
            mount.unmount();
            let mut case = Case::new(image, "different generations");
            case.texts.extend(SEEDS.map(|seed| (format!("home/{seed}"), 10 + seed)));
            case.texts.push(("home/new".to_owned(), 20));
            case.given = backwards(&case.image);
            cases.push(case);
        }
    }
    cases
}

pub(super) fn clones() -> Vec<Case> {
    const SAYS: &str = "are clones of one device";
    let one = texts(1, &[]);
    let copy = one.copy();
    let given = vec![one.path().to_owned(), copy.path().to_owned()];
    let mut cases = vec![Case { given, also: Some(copy), ..Case::new(one, SAYS) }];

    let two = texts(2, &["-d", "raid1", "-m", "raid1"]);
    let copy = two.copy();
    let given = [two.paths(), &copy.paths()[1..]].concat();
    cases.push(Case { given, also: Some(copy), ..Case::new(two.copy(), SAYS) });
    // Beside the one that is given there are two that could be its partner.
    let beside = two.path().with_file_name("backup");
    fs::copy(&two.paths()[1], beside).expect("copy");
    cases.push(Case { unreadable: Some(SAYS), ..Case::new(two, SAYS) });
    cases
}

pub(super) fn seed_and_sprout() -> Vec<Case> {
    let image = texts(1, &[]);
    tool::run("btrfstune", &["-S".as_ref(), "1".as_ref(), image.path().as_os_str()]);
    let seed = image.copy();

    let image = image.with_room(512 * MIB);
    let mount = image.try_mount_without(&[1], "ro").expect("a seed can be mounted");
    let room = Loop::attach(&image.paths()[1]).expect("loop device");
    tool::run("btrfs", &["device", "add", "-f", &room.device, &mount.at("")]);
    tool::run("mount", &["-o", "remount,rw", &mount.at("")]);
    let new: Vec<_> = (20..24).map(|seed| (format!("home/{seed}"), seed)).collect();
    for (path, seed) in &new {
        workload::write(&mount.root().join(path), &text(*seed));
    }
    mount.unmount();
    drop(room);
    let mut cases = vec![Case::new(seed, "it is a seed device")];
    for given in [<[PathBuf]>::to_vec, |paths: &[PathBuf]| paths.iter().rev().cloned().collect()] {
        let mut case = Case::new(image.copy(), SPROUT);
        case.given = given(case.image.paths());
        case.texts.extend(new.clone());
        cases.push(case);
    }
    let alone = Case::new(image.without(&[0]), SPROUT);
    cases.push(Case { unreadable: Some("device 1 is missing"), ..alone });
    cases
}
