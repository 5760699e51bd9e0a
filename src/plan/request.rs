//! What is wanted, and when a rewrite is worth it.

use std::fmt;

use crate::compress::{Algorithm, Codec, Target};
use crate::format::Compression;
use crate::plan::Run;

/// What to do with the selected data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Encode it anew.
    Recompress(Target),
    /// Join what is fragmented; each extent keeps its algorithm.
    Defrag,
}

/// What is wanted of a run of btrpress.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What to do.
    pub action: Action,
    /// Leave compressed extents alone.
    pub only_uncompressed: bool,
    /// Rewrite only what gets smaller by so many percent.
    pub min_gain_percent: f64,
    /// Rewrite also what does not get smaller, as long as it is not larger than uncompressed.
    pub force: bool,
}

/// Why an extent was left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// The file has no checksums or is overwritten in place (`chattr +C`, swap files).
    Nodatacow,
    /// Space is reserved in it that was never written.
    Preallocated,
    /// The new encoding would not be smaller.
    NoGain,
    /// It is compressed and only uncompressed data was asked for.
    Compressed,
    /// Its data can't be read, or its checksums don't match.
    Damaged,
    /// References and records do not agree.
    Inconsistent,
    /// Encrypted, or of an encoding that is not known.
    UnknownEncoding,
    /// It is large, or full, enough that joining it with others gains nothing.
    NotFragmented,
    /// Free space does not suffice for its new copy.
    NoSpace,
    /// A pattern to exclude matches; counts files and directories, not extents.
    Excluded,
}

impl SkipReason {
    /// The name in JSON documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nodatacow => "nodatacow",
            Self::Preallocated => "preallocated",
            Self::NoGain => "no_gain",
            Self::Compressed => "compressed",
            Self::Damaged => "damaged",
            Self::Inconsistent => "inconsistent",
            Self::UnknownEncoding => "unknown_encoding",
            Self::NotFragmented => "not_fragmented",
            Self::NoSpace => "no_space",
            Self::Excluded => "excluded",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nodatacow => "nodatacow or nodatasum",
            Self::Preallocated => "preallocated",
            Self::NoGain => "no gain",
            Self::Compressed => "already compressed",
            Self::Damaged => "damaged",
            Self::Inconsistent => "inconsistent references",
            Self::UnknownEncoding => "unknown encoding",
            Self::NotFragmented => "not fragmented",
            Self::NoSpace => "no space",
            Self::Excluded => "excluded files and directories",
        })
    }
}

/// Rewriting many extents for a saving below this part of them is not worth the writes.
const LEAST_PART: u64 = 256;

impl Request {
    /// The codec for new extents in place of ones with `compression`; `None` to store them uncompressed.
    pub fn codec_for(&self, compression: Compression) -> Option<Codec> {
        match self.action {
            Action::Recompress(target) => target.codec(),
            Action::Defrag => Algorithm::from_disk_id(compression.0)
                .map(|algorithm| Codec { algorithm, level: algorithm.default_level() }),
        }
    }

    /// Whether extents with `compression` have to be rewritten to be what was asked for.
    pub fn must_change(&self, compression: Compression) -> bool {
        let Action::Recompress(target) = self.action else { return false };
        let wanted = target.codec().map_or(Compression::NONE.0, |codec| codec.algorithm.disk_id());
        compression != Compression::NONE && compression.0 != wanted
    }

    /// Whether to replace the extents of `run` by `new_count` extents that take `new_bytes` on disk.
    pub fn accepts(&self, run: &Run, new_bytes: u64, new_count: usize, sector: u64) -> bool {
        let old_bytes = run.disk_bytes();
        match self.action {
            Action::Defrag => new_count < run.extents.len() && new_bytes <= old_bytes,
            Action::Recompress(_) => {
                let part = if run.extents.len() > 1 || old_bytes > LEAST_PART * sector {
                    old_bytes / LEAST_PART
                } else {
                    0
                };
                let asked = (old_bytes as f64 * self.min_gain_percent / 100.0).ceil() as u64;
                let changes =
                    run.extents.iter().any(|extent| self.must_change(extent.data.compression));
                changes
                    || self.force
                    || old_bytes.saturating_sub(new_bytes) >= sector.max(part).max(asked)
            }
        }
    }
}
