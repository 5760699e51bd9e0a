//! Images that are broken on purpose, with all checksums right: a typed error or a right answer, never a panic, never a
//! hang, and never a write that leaves less than was there. A filesystem that `check` finds broken is not written at all;
//! one that it finds sound holds the same bytes after a run, and what was damaged before is as it was.
//!
//! `BTRPRESS_CORRUPTIONS=N` tries N images of each kind; `BTRPRESS_SEED=N` begins elsewhere.

use std::io::sink;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use btrpress::apply::Limits;
use btrpress::batch;
use btrpress::check::{self, Options};
use btrpress::device::{Device, Memory};
use btrpress::error::{Error, Result};
use btrpress::format::{KeyKind, tree_id};
use btrpress::fs::Filesystem;
use btrpress::usage::{roots, subtree, unwatched, whole};
use zerocopy::IntoBytes;

use self::surgery::{Surgery, is_same};
use self::view::{difference, view};
use self::wounds::Random;
use crate::crash::{image, press, recompress};

mod bounded;
mod entangled;
pub(crate) mod surgery;
pub(crate) mod view;
mod wounds;

/// Images to try of each kind and fixture.
const CORRUPTIONS: u64 = 12;
/// Longer than anything takes on so small an image, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that reads.
fn read_all(fs: &Filesystem) -> Result<()> {
    let subvolumes = fs.subvolumes()?;
    let ids: Vec<u64> = subvolumes.iter().map(|subvolume| subvolume.id).collect();
    let mut first = whole::scan(fs, &ids, &mut unwatched).map(drop);
    first = first.and(roots::scan(fs, &ids, &mut unwatched).map(drop));
    for root in ids {
        first = first.and(subtree::scan(fs, root, &mut unwatched).map(drop));
        for item in fs.forest().tree(root)?.items() {
            let key = item?.key();
            if key.kind != KeyKind::INODE_ITEM {
                continue;
            }
            let inode = fs.inode(root, key.objectid)?;
            if inode.is_dir() {
                first = first.and(fs.read_dir(root, key.objectid).map(drop));
            } else if inode.is_file() && inode.size.get() < 1 << 30 {
                first = first.and(fs.write_contents(root, key.objectid, &mut sink()));
            }
        }
    }
    first
}

/// What `check` says of a device: whether all is well; an error if it can't even be looked at.
fn is_consistent(device: &Memory, options: Options) -> Result<bool> {
    let fs = Filesystem::open(vec![Arc::new(device.clone())])?;
    Ok(check::run(&fs, options, &mut unwatched)?.is_consistent())
}

/// Runs what `btrpress --batch recompress` runs.
fn batch(device: Arc<dyn Device>) -> anyhow::Result<batch::Verdict> {
    let mut fs = Filesystem::open(vec![device])?;
    let options = batch::Options {
        request: recompress("zlib:1"),
        paths: Vec::new(),
        excludes: Vec::new(),
        notes: None,
        is_dry_run: false,
        checks: true,
        asks: false,
        is_json: true,
        is_verbose: false,
    };
    let stop = AtomicBool::new(false);
    batch::run(&mut fs, &options, Limits::flag(&stop))
}

/// How a device stood all that was done to it.
enum Outcome {
    /// `check` found it broken.
    Found,
    /// It is sound, and was rewritten.
    Written,
}

/// Opens, reads, checks and rewrites an image.
fn try_everything(device: &Memory) -> std::result::Result<Outcome, String> {
    let metadata = Options { data: false };
    let Ok(fs) = Filesystem::open(vec![Arc::new(device.clone())]) else {
        return Ok(Outcome::Found);
    };
    let _ = read_all(&fs);
    let before = view(&fs);
    drop(fs);
    let is_sound = is_consistent(device, metadata).unwrap_or(false);
    let _ = is_consistent(device, Options { data: true });
    let after = Arc::new(device.clone());
    let outcome = batch(Arc::clone(&after) as _);
    let written = (*after).clone();
    if !is_sound {
        // Once more without the check before the first write, so that what comes after must cope by itself.
        let _ = press(Arc::new(device.clone()), &recompress("zlib:1"));
        return match outcome {
            Ok(_) => Err("check finds it broken, but a run does not mind".to_owned()),
            Err(_) if !is_same(device, &written) => Err("it is broken and was written".to_owned()),
            Err(_) => Ok(Outcome::Found),
        };
    }
    if let Err(error) = &outcome {
        let is_refusal = error.downcast_ref::<Error>().is_some_and(|error| {
            matches!(error, Error::Refused(_) | Error::Unsupported(_) | Error::NoSpace(_))
        });
        if !is_refusal {
            return Err(format!("check finds nothing, but the run fails: {error:#}"));
        }
    }
    let before = before.map_err(|error| format!("check finds nothing, but: {error}"))?;
    let fs = Filesystem::open(vec![Arc::new(written.clone())]);
    let fs = fs.map_err(|error| format!("does not open after the run: {error}"))?;
    let after = view(&fs).map_err(|error| format!("can't be read after the run: {error}"))?;
    if let Some(difference) = difference(&before, &after) {
        return Err(difference);
    }
    match is_consistent(&written, metadata) {
        Ok(true) => Ok(Outcome::Written),
        other => Err(format!("was sound, and after the run is not: {other:?}")),
    }
}

/// Runs `job`; tells when it panics or takes too long.
fn guarded<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(catch_unwind(AssertUnwindSafe(job)).ok());
    });
    receiver.recv_timeout(PATIENCE).ok().flatten()
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// A way to break an image.
type Wound = fn(&Memory, &mut Random) -> Memory;

/// Tries images that `break_it` makes of fixtures.
fn try_many(names: &[&str], break_it: Wound) {
    let first = variable("BTRPRESS_SEED", 0);
    for name in names {
        try_seeds(name, first..first + variable("BTRPRESS_CORRUPTIONS", CORRUPTIONS), break_it);
    }
}

fn try_seeds(name: &str, seeds: Range<u64>, break_it: Wound) {
    let device = image(name);
    let count = seeds.end - seeds.start;
    let mut bad = Vec::new();
    let mut found = 0;
    let mut slowest = Duration::ZERO;
    for seed in seeds {
        let broken = break_it(&device, &mut Random::new(seed));
        let begun = Instant::now();
        match guarded(move || try_everything(&broken)) {
            Some(Ok(Outcome::Found)) => found += 1,
            Some(Ok(Outcome::Written)) => {}
            Some(Err(why)) => bad.push(format!("seed {seed}: {why}")),
            None => bad.push(format!("seed {seed}: a panic, or no end")),
        }
        slowest = slowest.max(begun.elapsed());
    }
    eprintln!("{name}: {count} corruptions, {found} of them seen by check; at most {slowest:?}");
    assert!(bad.is_empty(), "{name}: {bad:#?}");
}

#[test]
fn broken_fields_are_told_or_harmless() {
    let names = ["old-features", "nodes-4k", "block-group-tree", "mixed", "quota", "zstd"];
    try_many(&names, wounds::fields);
}

#[test]
fn broken_items_are_told_or_harmless() {
    try_many(&["old-features", "space-cache", "nodes-4k", "quota", "names"], wounds::items);
}

#[test]
fn entangled_blocks_are_told_or_harmless() {
    try_many(&["nodes-4k", "names", "zstd"], wounds::pointers);
}

#[test]
fn broken_superblocks_are_told_or_harmless() {
    try_many(&["old-features"], wounds::superblock);
}

#[test]
fn damaged_data_stays_as_it_is() {
    try_many(&["zlib", "lzo", "zstd", "fragments"], wounds::data);
}

#[test]
fn data_that_expands_without_end_does_no_harm() {
    try_many(&["zlib", "lzo", "zstd"], wounds::bombs);
}

/// Each seed broke something that `check` did not look at then, and a run stumbled over it.
#[test]
fn seeds_that_found_something_find_it_no_more() {
    // The length of a tree block with a record of the old form.
    try_seeds("old-features", 1026..1027, wounds::fields);
    // The revision of references in a tree block's header.
    try_seeds("mixed", 100_240..100_241, wounds::fields);
}

/// The rule that no other program checks.
#[test]
fn a_last_snapshot_below_a_shared_block_is_found() {
    let surgery = Surgery::on(&image("zstd"));
    let (_, entry) = surgery.fs.forest().roots().range(tree_id::FIRST_FREE..).next().unwrap();
    let mut item = entry.item;
    item.last_snapshot = 1.into();
    surgery.poke(tree_id::ROOT, entry.key, 0, item.as_bytes());
    let fs = Filesystem::open(vec![Arc::new(surgery.finish())]).unwrap();
    let report = check::run(&fs, Options::default(), &mut unwatched).unwrap();
    let is_rule =
        |finding: &check::Finding| matches!(finding.problem, check::Problem::LastSnapshot { .. });
    assert!(report.findings.iter().any(is_rule), "{:#?}", report.findings);
    let error = check::require(&fs, &mut unwatched).unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error}");
}
