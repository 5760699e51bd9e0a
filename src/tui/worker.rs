//! Runs effects on threads, which send messages and end when nobody listens any more.
//!
//! One thread looks things up in the order in which they are asked for, one counts, one predicts, one writes. A run has
//! the filesystem for itself: what the others have open is let go before it and opened anew after it.

mod census;
mod export;
mod facts;
mod lookup;
mod predict;
mod run;
mod scan;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::Result;
use crossbeam_channel::{Sender, unbounded};

use super::Options;
use super::message::{Effect, Message};
use crate::device::Access;
use crate::fs;

/// An open filesystem with what was found out about it.
#[derive(Debug)]
struct Opened {
    fs: fs::Filesystem,
    subvolumes: Vec<fs::Subvolume>,
    costs: Mutex<scan::Costs>,
}

/// What all threads share.
#[derive(Debug)]
struct Shared {
    options: Options,
    messages: Sender<Message>,
    opened: Mutex<Option<Arc<Opened>>>,
    control: run::Control,
    /// Tells the thread that counts to stop.
    scan: Mutex<Arc<AtomicBool>>,
}

impl Shared {
    /// The open filesystem.
    fn opened(&self) -> Option<Arc<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_opened(&self, opened: Option<Arc<Opened>>) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = opened;
    }

    /// Sends a message; false when nobody listens any more.
    fn send(&self, message: Message) -> bool {
        self.messages.send(message).is_ok()
    }

    /// The flag of the scan that goes on.
    fn this_scan(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.scan.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops the scan that goes on, and gives a flag to the next one.
    fn next_scan(&self) -> Arc<AtomicBool> {
        let next = Arc::new(AtomicBool::new(false));
        let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
        scan.store(true, Ordering::Relaxed);
        *scan = Arc::clone(&next);
        next
    }

    /// Opens for reading, tells what was found, and counts everything.
    fn open_and_count(self: &Arc<Self>) {
        let is_cancelled = self.next_scan();
        match self.open() {
            Ok((opened, message)) => {
                self.set_opened(Some(Arc::clone(&opened)));
                if self.send(message) {
                    scan::count(self, &opened, &is_cancelled);
                }
            }
            Err(error) => {
                self.send(Message::Failed(chain(error)));
            }
        }
    }

    fn open(&self) -> Result<(Arc<Opened>, Message)> {
        let fs = self.options.open_fs(Access::Read)?;
        let subvolumes = fs.subvolumes()?;
        let filesystem = facts::filesystem(&fs, &self.options.names)?;
        let tree = facts::subvolumes(&subvolumes);
        let opened = Arc::new(Opened { fs, subvolumes, costs: Mutex::default() });
        Ok((opened, Message::Opened(Box::new(filesystem), tree)))
    }
}

/// An error with what caused it, in a line.
fn chain(error: impl Into<anyhow::Error>) -> String {
    let error = error.into();
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // Some errors tell of their cause themselves.
        if !text.ends_with(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

type Task = Box<dyn FnOnce(&Arc<Shared>) + Send>;

/// The threads.
#[derive(Debug)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    lookups: Sender<Task>,
    wishes: Sender<predict::Wish>,
    run: Option<JoinHandle<()>>,
}

impl Workers {
    /// Starts them; they open the filesystem at once.
    pub(super) fn start(options: Options, messages: Sender<Message>) -> Self {
        let shared = Arc::new(Shared {
            options,
            messages,
            opened: Mutex::new(None),
            control: run::Control::default(),
            scan: Mutex::default(),
        });
        let (lookups, tasks) = unbounded::<Task>();
        let for_lookups = Arc::clone(&shared);
        thread::spawn(move || tasks.iter().for_each(|task| task(&for_lookups)));
        let (wishes, of_predictor) = unbounded();
        let for_predictor = Arc::clone(&shared);
        thread::spawn(move || predict::serve(&for_predictor, &of_predictor));
        let workers = Self { shared, lookups, wishes, run: None };
        workers.spawn(Shared::open_and_count);
        workers
    }

    fn spawn(&self, work: impl FnOnce(&Arc<Shared>) + Send + 'static) -> JoinHandle<()> {
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || work(&shared))
    }

    fn look_up(&self, task: impl FnOnce(&Arc<Shared>) + Send + 'static) {
        // The thread ends only after this sender.
        let _ = self.lookups.send(Box::new(task));
    }

    /// Does what the model asks for.
    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::List(places) => self.look_up(move |shared| lookup::list(shared, &places)),
            Effect::Inspect(subject) => {
                self.look_up(move |shared| lookup::inspect(shared, &subject));
            }
            Effect::Predict(request, targets) => {
                let _ = self.wishes.send(Some((request, targets)));
            }
            Effect::Forget => {
                let _ = self.wishes.send(None);
            }
            Effect::Run(request) => {
                self.shared.control.reset();
                let _ = self.wishes.send(None);
                self.run = Some(self.spawn(move |shared| run::run(shared, &request)));
            }
            Effect::Pause(is_paused) => self.shared.control.pause(is_paused),
            Effect::Stop => self.shared.control.stop(),
            Effect::Export(subjects) => {
                self.look_up(move |shared| {
                    let written = export::write(&subjects).map_err(|error| error.to_string());
                    shared.send(Message::Exported(written));
                });
            }
            Effect::Rescan => {
                self.spawn(Shared::open_and_count);
            }
        }
    }

    /// Stops a run that goes on, and waits for its last commit.
    pub(super) fn finish(&mut self) {
        self.shared.control.stop();
        self.shared.next_scan().store(true, Ordering::Relaxed);
        if let Some(run) = self.run.take() {
            // What it panics of was told by the panic's own message.
            let _ = run.join();
        }
    }
}
