//! A table of faults: each is made in a sound image, must be found by `check` with these words, and keeps a run from
//! writing. Where the kernel's tools are there, `btrfs check` must find those too that it knows.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use btrpress::check::{self, Options};
use btrpress::device::Memory;
use btrpress::error::Error;
use btrpress::fs::Filesystem;
use btrpress::usage::unwatched;

use super::{faults_of_files, faults_of_space};
use crate::corrupt::surgery::{Surgery, in_a_file, is_same};
use crate::crash::{image, press, recompress};
use crate::tool::{self, kernel_can_judge};

/// Whether `btrfs check` finds a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Both,
    /// `btrfs check` of some version passes it over.
    Ours,
    /// To both, but a run puts it right, and so need not be refused.
    Harmless,
}

/// Something that can be wrong.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) fixture: &'static str,
    pub(super) known: Known,
    /// What a finding must say.
    pub(super) says: &'static str,
    pub(super) make: fn(&Surgery),
}

/// Shorter to write in a table.
pub(super) const fn fault(
    name: &'static str,
    fixture: &'static str,
    known: Known,
    says: &'static str,
    make: fn(&Surgery),
) -> Fault {
    Fault { name, fixture, known, says, make }
}

fn all() -> impl Iterator<Item = &'static Fault> {
    faults_of_files::FAULTS.iter().chain(faults_of_space::FAULTS)
}

/// A fixture, unpacked once for all its faults.
fn sound(name: &'static str) -> Memory {
    static IMAGES: Mutex<BTreeMap<&str, Memory>> = Mutex::new(BTreeMap::new());
    let mut images = IMAGES.lock().unwrap();
    images.entry(name).or_insert_with(|| image(name)).clone()
}

/// An image with the fault; nothing if it can't be made, of which the panic tells.
fn broken(fault: &Fault) -> Option<Memory> {
    let device = sound(fault.fixture);
    let make = AssertUnwindSafe(|| {
        let surgery = Surgery::on(&device);
        (fault.make)(&surgery);
        surgery.finish()
    });
    catch_unwind(make).ok()
}

/// What is wrong with how a fault is found.
fn complaint(fault: &Fault) -> Option<String> {
    let Some(device) = broken(fault) else {
        return Some(format!("{}: can't be made", fault.name));
    };
    let said = match Filesystem::open(vec![Arc::new(device.clone())]) {
        Err(error) => vec![error.to_string()],
        Ok(fs) => match check::run(&fs, Options::default(), &mut unwatched) {
            Err(error) => vec![error.to_string()],
            Ok(report) => {
                let findings = report.findings.iter();
                findings.map(|finding| format!("{}: {}", finding.at, finding.problem)).collect()
            }
        },
    };
    if !said.iter().any(|said| said.contains(fault.says)) {
        return Some(format!("{}: should say {:?}: {said:#?}", fault.name, fault.says));
    }
    if fault.known == Known::Harmless {
        return None;
    }
    let after = Arc::new(device.clone());
    let refused = Filesystem::open(vec![Arc::clone(&after) as _]).and_then(|fs| {
        check::require(&fs, &mut unwatched)?;
        press(Arc::clone(&after) as _, &recompress("zlib:1"))
    });
    match refused {
        Ok(_) => Some(format!("{}: is written all the same", fault.name)),
        Err(Error::Io { .. }) => Some(format!("{}: is taken for a bad device", fault.name)),
        Err(_) if !is_same(&device, &after) => {
            Some(format!("{}: was written before it was refused", fault.name))
        }
        Err(_) => None,
    }
}

#[test]
fn every_fault_is_found_and_nothing_written() {
    let complaints: Vec<String> = all().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    eprintln!("{} faults are found", all().count());
}

#[test]
fn btrfs_check_agrees() {
    if !kernel_can_judge("btrfs_check_agrees") {
        return;
    }
    let mut complaints = Vec::new();
    for fault in all() {
        let file = in_a_file(&broken(fault).expect("the fault can be made"));
        let path = file.path().to_string_lossy();
        let output = tool::output("btrfs", &["check", "--readonly", "--force", &*path]);
        let finds = !output.status.success();
        if !finds && fault.known != Known::Ours {
            complaints.push(tool::failure("btrfs check", &[fault.name], &output));
        }
        if finds && fault.known == Known::Ours {
            eprintln!("{}: `btrfs check` finds it too", fault.name);
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}
