//! What a run came to.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::apply::{Outcome, Shortage, StopReason};
use crate::usage::Tally;

/// The last line of a run. All amounts are bytes.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "summary")]
pub(super) struct Summary {
    disk_before: u64,
    disk_after: u64,
    uncompressed: u64,
    referenced: u64,
    extents_rewritten: u64,
    inline_rewritten: u64,
    bytes_written: u64,
    device_bytes_written: u64,
    commits: u64,
    generation: u64,
    stopped: bool,
    stop_reason: Option<&'static str>,
    skipped: BTreeMap<&'static str, u64>,
    shortage: Option<ShortageJson>,
    #[serde(skip)]
    reasons: Vec<(String, u64)>,
    #[serde(skip)]
    stop_text: Option<String>,
}

/// What was missing. Where nothing is needed, nothing was missing.
#[derive(Debug, Serialize)]
struct ShortageJson {
    data_needed: Option<u64>,
    data_free: Option<u64>,
    metadata_needed: Option<u64>,
    metadata_free: Option<u64>,
    unallocated: u64,
}

impl ShortageJson {
    fn new(shortage: &Shortage) -> Self {
        Self {
            data_needed: shortage.data.map(|lack| lack.needed),
            data_free: shortage.data.map(|lack| lack.free),
            metadata_needed: shortage.metadata.map(|lack| lack.needed),
            metadata_free: shortage.metadata.map(|lack| lack.free),
            unallocated: shortage.unallocated,
        }
    }

    /// For people.
    fn text(&self) -> String {
        let size = |bytes: u64| humansize::format_size(bytes, humansize::BINARY);
        let mut missing = Vec::new();
        if let (Some(needed), Some(free)) = (self.data_needed, self.data_free) {
            let (needed, free) = (size(needed), size(free));
            missing.push(format!(
                "{needed} in one piece of free data space, of which there is {free}"
            ));
        }
        if let (Some(needed), Some(free)) = (self.metadata_needed, self.metadata_free) {
            let (needed, free) = (size(needed), size(free));
            missing.push(format!("{needed} of free metadata space, of which there is {free}"));
        }
        format!(
            "Too little space for all of it: the next step needs {}; {} are not allocated. Delete something or make \
             the filesystem larger, and run again.\n",
            missing.join(" and "),
            size(self.unallocated),
        )
    }
}

/// The last line of a run that was stopped before it had begun to write.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "summary")]
pub(super) struct StoppedEarly {
    commits: u64,
    stopped: bool,
    stop_reason: &'static str,
    #[serde(skip)]
    stop_text: String,
}

impl StoppedEarly {
    pub(super) fn new(why: StopReason) -> Self {
        let stop_text = why.to_string();
        Self { commits: 0, stopped: true, stop_reason: why.name(), stop_text }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        format!("Stopped before anything was written: {}.\n", self.stop_text)
    }
}

impl Summary {
    pub(super) fn new(before: &Tally, after: &Tally, outcome: &Outcome) -> Self {
        let progress = &outcome.progress;
        let total = after.total();
        Self {
            disk_before: before.total().disk,
            disk_after: total.disk,
            uncompressed: total.uncompressed,
            referenced: total.referenced,
            extents_rewritten: progress.extents_rewritten,
            inline_rewritten: progress.inline_rewritten,
            bytes_written: progress.written,
            device_bytes_written: progress.device_written,
            commits: progress.commits,
            generation: progress.generation,
            stopped: outcome.stopped.is_some(),
            stop_reason: outcome.stopped.map(StopReason::name),
            stop_text: outcome.stopped.map(|why| why.to_string()),
            shortage: outcome.shortage.as_ref().map(ShortageJson::new),
            skipped: progress.skipped.iter().map(|(why, count)| (why.name(), *count)).collect(),
            reasons: progress
                .skipped
                .iter()
                .map(|(why, count)| (why.to_string(), *count))
                .collect(),
        }
    }

    /// For people.
    pub(super) fn text(&self, is_dry_run: bool) -> String {
        let size = |bytes: u64| humansize::format_size(bytes, humansize::BINARY);
        let percent =
            |part: u64, of: u64| if of == 0 { 100.0 } else { part as f64 * 100.0 / of as f64 };
        let mut text = String::new();
        let _ = writeln!(
            text,
            "Disk usage {} -> {} ({:.1} % of before, {:.1} % of {} uncompressed)",
            size(self.disk_before),
            size(self.disk_after),
            percent(self.disk_after, self.disk_before),
            percent(self.disk_after, self.uncompressed),
            size(self.uncompressed),
        );
        let _ = writeln!(
            text,
            "{} extents and {} inline extents rewritten, {} written in {} commit{}",
            self.extents_rewritten,
            self.inline_rewritten,
            size(self.bytes_written),
            self.commits,
            if self.commits == 1 { "" } else { "s" },
        );
        if !self.reasons.is_empty() {
            let reasons: Vec<_> =
                self.reasons.iter().map(|(why, count)| format!("{count} {why}")).collect();
            let _ = writeln!(text, "Extents left as they were: {}", reasons.join(", "));
        }
        if let Some(shortage) = &self.shortage {
            text.push_str(&shortage.text());
        }
        if let Some(why) = &self.stop_text {
            let _ = writeln!(
                text,
                "Stopped before the end, {why}; what was committed stays. Run again to go on.",
            );
        }
        if is_dry_run {
            text.push_str("This was a dry run: nothing was written.\n");
        }
        text
    }
}
