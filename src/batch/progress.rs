//! How a run shows that it goes on.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::apply::{Observer, Progress};
use crate::batch::Options;
use crate::plan::Skipped;

/// Time between two lines where there is no bar.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Damaged places that are named one by one.
const DAMAGED_MAX: usize = 1000;

/// Shows progress as the options ask for.
pub(super) struct Reporter {
    form: Form,
    total: u64,
    is_verbose: bool,
    last: Instant,
    commits: u64,
    damaged: Vec<Skipped>,
}

enum Form {
    Bar(ProgressBar),
    Lines,
    Json,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "progress")]
struct Line {
    pass: u32,
    examined: u64,
    total: u64,
    bytes_written: u64,
    saved: i64,
    extents_rewritten: u64,
    commits: u64,
}

impl Reporter {
    /// `total` is the contents to examine, in bytes.
    pub(super) fn new(options: &Options, total: u64) -> Self {
        let form = if options.is_json {
            Form::Json
        } else if io::stderr().is_terminal() {
            let style = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {msg} ETA {eta}";
            let style = ProgressStyle::with_template(style).expect("the template is sound");
            Form::Bar(ProgressBar::new(total).with_style(style))
        } else {
            Form::Lines
        };
        let is_verbose = options.is_verbose;
        Self { form, total, is_verbose, last: Instant::now(), commits: 0, damaged: Vec::new() }
    }

    /// Ends the display; gives the damaged places that were met.
    pub(super) fn finish(self) -> Vec<Skipped> {
        if let Form::Bar(bar) = self.form {
            bar.finish_and_clear();
        }
        self.damaged
    }
}

fn saved_text(progress: &Progress) -> String {
    let size = |bytes: u64| humansize::format_size(bytes, humansize::BINARY);
    let saved = progress.saved();
    if saved >= 0 {
        format!("{} saved", size(saved.unsigned_abs()))
    } else {
        format!("{} more used", size(saved.unsigned_abs()))
    }
}

impl Observer for Reporter {
    fn progress(&mut self, progress: &Progress) {
        let is_commit = progress.commits > self.commits;
        self.commits = progress.commits;
        let is_due = self.last.elapsed() >= LINE_EVERY || (is_commit && self.is_verbose);
        let examined = progress.examined.min(self.total);
        match &self.form {
            Form::Bar(bar) => {
                bar.set_position(examined);
                bar.set_message(saved_text(progress));
            }
            Form::Lines if is_due => {
                self.last = Instant::now();
                let size = |bytes: u64| humansize::format_size(bytes, humansize::BINARY);
                eprintln!(
                    "{} of {}, {}, {} commits",
                    size(examined),
                    size(self.total),
                    saved_text(progress),
                    progress.commits,
                );
            }
            Form::Json if is_due || is_commit => {
                self.last = Instant::now();
                let line = Line {
                    pass: progress.pass,
                    examined,
                    total: self.total,
                    bytes_written: progress.written,
                    saved: progress.saved(),
                    extents_rewritten: progress.extents_rewritten,
                    commits: progress.commits,
                };
                println!("{}", serde_json::to_string(&line).expect("numbers are JSON"));
            }
            Form::Lines | Form::Json => {}
        }
    }

    fn damaged(&mut self, skipped: Skipped) {
        if self.damaged.len() < DAMAGED_MAX {
            self.damaged.push(skipped);
        }
    }
}
