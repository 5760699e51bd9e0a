//! Whether a filesystem is consistent: everything that must agree is compared, nothing is changed.
//!
//! Every tree block of every tree is read once, however many trees share it, on all cores. References are compared by
//! sums: each extent has the sum of the hashes of the references that its record lists, from which every reference that
//! a block makes is taken away, so that 0 is left. Inodes are compared in the same spirit: each block has a summary of
//! the inodes at its two edges, and summaries of neighbours join. So a snapshot costs as much as it differs.
//!
//! One rule is here that `btrfs check` does not know: a subvolume's `last_snapshot` must not be below the generation of
//! a block that it shares, since the kernel then takes the block for its own.

mod blocks;
mod csums;
mod devices;
mod extents;
mod files;
mod finding;
mod free_space;
mod inode;
mod items;
mod log;
mod qgroups;
mod quota;
mod roots;
mod uuids;

pub use finding::{Finding, Problem, Report};

use self::csums::Csums;
use self::extents::Index;
use self::finding::Findings;
use self::items::Limits;
use self::quota::Charged;
use crate::error::{Error, Refusal, Result};
use crate::format::tree_id;
use crate::fs::Filesystem;
use crate::tree::Forest;
use crate::usage::{Progress, Watch};

/// What to check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Also read every copy of all data and of all tree blocks.
    pub data: bool,
}

/// What all parts of a check look at.
struct Check<'a> {
    forest: &'a Forest,
    findings: Findings,
    index: Index,
    charged: Charged,
    csums: Csums,
    options: Options,
    limits: Limits,
}

/// Checks a filesystem. `watch` is told of tree blocks, then of bytes of data.
///
/// # Errors
/// If the filesystem is in the middle of something that only the kernel can finish, or `watch` stops it. What is wrong
/// with the filesystem is not an error, but a [`Finding`].
pub fn run(fs: &Filesystem, options: Options, watch: Watch<'_>) -> Result<Report> {
    examine(fs, options, true, watch)
}

/// `counts_quotas` has full quotas counted, which takes one more walk through all subvolumes.
fn examine(
    fs: &Filesystem,
    options: Options,
    counts_quotas: bool,
    watch: Watch<'_>,
) -> Result<Report> {
    let forest = fs.forest();
    nothing_is_half_deleted(forest)?;
    let findings = Findings::default();
    devices::check(forest, &findings);
    roots::check(fs, &findings);
    let charged = Charged::begin(forest);
    let index = Index::load(forest, &charged, &findings);
    let csums = Csums::load(forest, &findings);
    let limits = Limits::new(forest.superblock());
    let mut check = Check { forest, findings, index, charged, csums, options, limits };
    let walked = blocks::walk(&check, watch)?;
    watch(Progress { done: walked.count, total: walked.count })?;
    files::check(&check, &walked);
    uuids::check(&check);
    if counts_quotas && walked.is_complete && check.findings.is_empty() {
        qgroups::check(fs, &check, watch)?;
    }
    let logged = log::check(&check);
    if check.index.is_complete {
        if walked.is_complete {
            check.index.compare(&check.findings);
            quota::check(&check);
        }
        check.index.check_space(forest, &check.findings);
        check.csums.check_extents(&check.index, &logged, &check.findings);
        free_space::check(&check);
    }
    let mut data_bytes = 0;
    if options.data {
        data_bytes = csums::check_data(&check, watch)?;
    }
    let extents = check.index.len() as u64;
    let faults = forest.volume().faults();
    let (findings, count, harmless) = std::mem::take(&mut check.findings).into_parts();
    Ok(Report { findings, count, harmless, faults, blocks: walked.count, extents, data_bytes })
}

/// Succeeds if the metadata is consistent, which must be known before anything is written. Damaged copies of a
/// superblock are no matter: the first commit writes them anew. Nor are the counts of full quotas, which the kernel makes
/// anew after a run.
///
/// # Errors
/// [`Refusal::Inconsistent`] with the first finding.
pub fn require(fs: &Filesystem, watch: Watch<'_>) -> Result<()> {
    let report = examine(fs, Options::default(), false, watch)?;
    if report.is_consistent() {
        return Ok(());
    }
    let harm = report.findings.iter().find(|finding| !finding.is_harmless());
    let first = harm.map_or_else(String::new, |first| format!("{}: {}", first.at, first.problem));
    let count = report.count.saturating_sub(report.harmless);
    Err(Refusal::Inconsistent { count, first }.into())
}

/// A tree that is partly gone already can't be walked from its root.
fn nothing_is_half_deleted(forest: &Forest) -> Result<()> {
    let unsupported = |what: String| Err(Error::Unsupported(what));
    for (id, entry) in forest.roots() {
        let progress = entry.item.drop_progress;
        if entry.item.refs.get() == 0 && progress.objectid.get() != 0 {
            return unsupported(format!("subvolume {id} is half deleted; mount it once"));
        }
    }
    if forest.roots().contains_key(&tree_id::TREE_RELOC) {
        return unsupported("a relocation was interrupted; mount it once".to_owned());
    }
    Ok(())
}
