//! What a check finds.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Place};
use crate::format::{Damage, SUPERBLOCK_OFFSETS};
use crate::volume::Fault;

/// Findings to keep; more are only counted.
const KEPT_MAX: usize = 1000;

/// Something that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub at: Place,
    /// What.
    pub problem: Problem,
}

impl Finding {
    /// Whether it keeps nobody from writing: the next commit puts it right, or has the kernel do so.
    pub fn is_harmless(&self) -> bool {
        self.is_superblock_copy() || matches!(self.problem, Problem::QuotaGroup { .. })
    }

    /// Whether it is damage of a superblock's copy, which does not count.
    pub fn is_superblock_copy(&self) -> bool {
        let [_, mirrors @ ..] = SUPERBLOCK_OFFSETS;
        matches!(&self.at, Place::Device { byte, .. } if mirrors.contains(byte))
            && matches!(self.problem, Problem::Damage(_))
    }
}

/// A rule that is broken between parts of the filesystem, each of which may be sound by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what the fields are")]
pub enum Problem {
    #[error("{0}")]
    Damage(Damage),
    #[error("can't be read: {0}")]
    Unreadable(String),
    #[error("{what} is {found}, but must be {expected}")]
    Count { what: &'static str, found: u64, expected: u64 },
    #[error("{0}")]
    Rule(&'static str),
    #[error("extent is used, but not recorded in the extent tree")]
    NoRecord,
    #[error("{recorded} references are recorded, {found} were found")]
    References { recorded: u64, found: u64 },
    #[error("the references recorded are not those found")]
    OtherReferences,
    #[error(
        "shared block has generation {generation}, but a subvolume that uses it has last_snapshot {last_snapshot}; the kernel would take it for unshared"
    )]
    LastSnapshot { generation: u64, last_snapshot: u64 },
    #[error("copy {copy} is bad")]
    Copy { copy: usize },
    #[error("{what} is {found}, but must be {expected}; a run has the kernel count anew")]
    QuotaGroup { what: &'static str, found: u64, expected: u64 },
}

impl Problem {
    /// A word for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Damage(_) => "damage",
            Self::Unreadable(_) => "unreadable",
            Self::Count { .. } => "count",
            Self::Rule(_) => "rule",
            Self::NoRecord => "no_record",
            Self::References { .. } => "references",
            Self::OtherReferences => "other_references",
            Self::LastSnapshot { .. } => "last_snapshot",
            Self::Copy { .. } => "copy",
            Self::QuotaGroup { .. } => "quota_group",
        }
    }
}

/// The outcome of a check.
#[derive(Debug, Clone)]
pub struct Report {
    /// The first findings, by no particular order of importance.
    pub findings: Vec<Finding>,
    /// How many there are, those that were not kept too.
    pub count: u64,
    /// How many of them do no harm.
    pub harmless: u64,
    /// Bad copies whose contents were then had from another one.
    pub faults: Vec<Fault>,
    /// Tree blocks that were read.
    pub blocks: u64,
    /// Extents and tree blocks that the extent tree records.
    pub extents: u64,
    /// Bytes of data that were read, each copy counted.
    pub data_bytes: u64,
}

impl Report {
    /// Whether all is well with the filesystem; single bad copies of something are no matter.
    pub const fn is_consistent(&self) -> bool {
        self.count == self.harmless
    }
}

/// Gathers findings from many threads.
#[derive(Debug, Default)]
pub(super) struct Findings {
    list: Mutex<Vec<Finding>>,
    count: AtomicU64,
    harmless: AtomicU64,
}

impl Findings {
    pub(super) fn add(&self, at: Place, problem: Problem) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let finding = Finding { at, problem };
        self.harmless.fetch_add(finding.is_harmless().into(), Ordering::Relaxed);
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < KEPT_MAX {
            list.push(finding);
        }
    }

    /// Whether nothing that does harm was found.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == self.harmless.load(Ordering::Relaxed)
    }

    pub(super) fn error(&self, error: Error) {
        match error {
            Error::Corrupt { at, damage } => self.add(at, Problem::Damage(damage)),
            other => self.add(Place::Filesystem, Problem::Unreadable(other.to_string())),
        }
    }

    pub(super) fn rule(&self, at: Place, rule: &'static str) {
        self.add(at, Problem::Rule(rule));
    }

    /// Adds a finding unless two numbers are the same.
    pub(super) fn compare(&self, at: Place, what: &'static str, found: u64, expected: u64) {
        if found != expected {
            self.add(at, Problem::Count { what, found, expected });
        }
    }

    /// The findings, how many there are, and how many of them do no harm.
    pub(super) fn into_parts(self) -> (Vec<Finding>, u64, u64) {
        let mut list = self.list.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut list = mem::take(&mut list);
        list.sort_by_cached_key(|finding| format!("{finding:?}"));
        (list, self.count.into_inner(), self.harmless.into_inner())
    }
}
