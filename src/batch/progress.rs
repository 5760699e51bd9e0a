//! How a run shows that it goes on.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::apply::{Observer, Progress};
use crate::batch::Options;
use crate::plan::Skipped;

/// Time between two lines where there is no bar.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Time between two steps of a bar that has nothing new to show.
const BAR_EVERY: Duration = Duration::from_millis(250);
/// Damaged extents whose files are named.
const DAMAGED_MAX: usize = 1000;

/// Shows progress as the options ask for.
pub(super) struct Reporter {
    form: Form,
    total: u64,
    is_verbose: bool,
    commits: u64,
    damaged: Vec<Skipped>,
}

enum Form {
    Bar(ProgressBar),
    Lines(Printer),
    Json(Printer),
}

/// Prints lines from a thread of its own, so that they go on coming while a device takes its time.
struct Printer {
    lines: Sender<Said>,
    thread: JoinHandle<()>,
}

/// A line, and whether it has to be printed at once.
struct Said {
    line: String,
    is_due: bool,
}

impl Printer {
    fn new(print: fn(&str)) -> Self {
        let (lines, said) = mpsc::channel();
        Self { lines, thread: thread::spawn(move || print_now_and_then(&said, LINE_EVERY, print)) }
    }

    fn say(&self, line: String, is_due: bool) {
        // It listens until the sender is dropped.
        let _ = self.lines.send(Said { line, is_due });
    }

    fn finish(self) {
        drop(self.lines);
        let _ = self.thread.join();
    }
}

/// Prints the latest line whenever `every` has passed, the same one again if need be, and those that are due.
fn print_now_and_then(said: &Receiver<Said>, every: Duration, mut print: impl FnMut(&str)) {
    let mut latest = None;
    let mut last = Instant::now();
    loop {
        let is_due = match said.recv_timeout(every.saturating_sub(last.elapsed())) {
            Ok(Said { line, is_due }) => {
                latest = Some(line);
                is_due || last.elapsed() >= every
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if is_due {
            last = Instant::now();
            if let Some(line) = &latest {
                print(line);
            }
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "progress")]
struct Line {
    pass: u32,
    examined: u64,
    total: u64,
    bytes_written: u64,
    device_bytes_written: u64,
    saved: i64,
    extents_rewritten: u64,
    commits: u64,
}

impl Reporter {
    /// `total` is the contents to examine, in bytes.
    pub(super) fn new(options: &Options, total: u64) -> Self {
        let form = if options.is_json {
            Form::Json(Printer::new(|line| println!("{line}")))
        } else if io::stderr().is_terminal() {
            let style = "{spinner} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {msg} ETA {eta}";
            let style = ProgressStyle::with_template(style).expect("the template is sound");
            let bar = ProgressBar::new(total).with_style(style);
            bar.enable_steady_tick(BAR_EVERY);
            Form::Bar(bar)
        } else {
            Form::Lines(Printer::new(|line| eprintln!("{line}")))
        };
        let is_verbose = options.is_verbose;
        Self { form, total, is_verbose, commits: 0, damaged: Vec::new() }
    }

    /// Number of commits so far.
    pub(super) const fn commits(&self) -> u64 {
        self.commits
    }

    /// Ends the display; gives the damaged places that were met.
    pub(super) fn finish(self) -> Vec<Skipped> {
        match self.form {
            Form::Bar(bar) => bar.finish_and_clear(),
            Form::Lines(printer) | Form::Json(printer) => printer.finish(),
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
        let examined = progress.examined.min(self.total);
        match &self.form {
            Form::Bar(bar) => {
                bar.set_position(examined);
                bar.set_message(saved_text(progress));
            }
            Form::Lines(printer) => {
                let size = |bytes: u64| humansize::format_size(bytes, humansize::BINARY);
                let line = format!(
                    "{} of {}, {}, {} commits",
                    size(examined),
                    size(self.total),
                    saved_text(progress),
                    progress.commits,
                );
                printer.say(line, is_commit && self.is_verbose);
            }
            Form::Json(printer) => {
                let line = Line {
                    pass: progress.pass,
                    examined,
                    total: self.total,
                    bytes_written: progress.written,
                    device_bytes_written: progress.device_written,
                    saved: progress.saved(),
                    extents_rewritten: progress.extents_rewritten,
                    commits: progress.commits,
                };
                let line = serde_json::to_string(&line).expect("numbers are JSON");
                printer.say(line, is_commit);
            }
        }
    }

    fn damaged(&mut self, skipped: Skipped) {
        if self.damaged.len() < DAMAGED_MAX {
            self.damaged.push(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_while_nothing_new_is_said() {
        let (lines, said) = mpsc::channel();
        let printer = thread::spawn(move || {
            let mut printed: Vec<String> = Vec::new();
            print_now_and_then(&said, Duration::from_millis(20), |line| {
                printed.push(line.to_owned());
            });
            printed
        });
        let say = |line: &str, is_due| lines.send(Said { line: line.to_owned(), is_due }).unwrap();
        say("commit", true);
        say("slow", false);
        thread::sleep(Duration::from_millis(500));
        drop(lines);
        let printed = printer.join().unwrap();
        assert_eq!(printed[0], "commit");
        assert!(printed[1..].iter().all(|line| line == "slow"), "{printed:?}");
        assert!(printed.len() > 3, "{printed:?}");
    }
}
