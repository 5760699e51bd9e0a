//! Everything that is on the screen, as plain data. No channels, no terminal, no clock.

mod facts;
mod inspection;
mod list;
mod plan;
mod run;

use std::collections::BTreeSet;
use std::time::Duration;

pub use facts::{
    Amounts, Device, Entry, Filesystem, Kind, Line, Method, Place, Space, Subject, Subvolume, Table,
};
pub use inspection::{Extent, Findings, Inspection, Skip, Stored};
pub use list::{Column, Cursor, Listing, Order, Step};
pub use plan::{Choice, Job, Options, Plan, Prediction, Request, Survey, sum};
pub use run::{End, Progress, Run};

use super::text;
use super::theme::Look;

/// What is seen; those below the last one are what going back leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Screen {
    /// The filesystem and its subvolumes.
    Overview,
    /// A directory.
    Browser,
    /// One thing closely.
    Inspector,
    /// What could be done with the chosen rows.
    Plan,
    /// The last question before anything is written.
    Confirm,
    /// What is being done.
    Run,
}

/// How far counting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// The filesystem is being opened.
    Opening,
    /// Blocks seen, of those there are.
    Running {
        /// Tree blocks visited.
        done: u64,
        /// Tree blocks in all; zero when that isn't known.
        total: u64,
    },
    /// All is counted.
    Done,
    /// It could not be finished; see the notice.
    Failed,
}

/// Something to tell that isn't part of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Good to know.
    Info(String),
    /// Something failed.
    Failure(String),
}

/// Everything on the screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// How things look here.
    pub look: Look,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// Time since the start.
    pub now: Duration,
    /// The screens, the one that is seen last.
    pub screens: Vec<Screen>,
    /// Whether help lies over the screen, and from which line on.
    pub help: Option<usize>,
    /// Something to tell.
    pub notice: Option<Notice>,
    /// Names of the devices, as they were given.
    pub devices: Vec<String>,
    /// The filesystem, once it is open.
    pub filesystem: Option<Filesystem>,
    /// Why it could not be opened.
    pub failure: Option<String>,
    /// How far counting is.
    pub scan: Scan,
    /// compsize's table for the whole filesystem, once it is counted.
    pub table: Option<Table>,
    /// Every subvolume, as a tree.
    pub subvolumes: Vec<Subvolume>,
    /// Ids of the marked subvolumes.
    pub marked: BTreeSet<u64>,
    /// Sets of subvolumes, with the bytes on disk that exactly these share.
    pub sharing: Vec<(Vec<u64>, u64)>,
    /// The subvolume under the cursor.
    pub cursor: Cursor,
    /// Directories from the subvolume on down to the one that is seen.
    pub trail: Vec<Listing>,
    /// How rows are ordered.
    pub order: Order,
    /// Whether a filter is being typed.
    pub is_filtering: bool,
    /// What is looked at closely.
    pub inspection: Option<Inspection>,
    /// What could be done.
    pub plan: Option<Plan>,
    /// Why the confirmed run could not begin, with what to do about it.
    pub refusal: Option<String>,
    /// What is done, or was done last.
    pub run: Option<Run>,
    /// The subvolume whose rows are being counted: blocks done, blocks in all.
    pub counting: Option<(u64, u64, u64)>,
    /// Whether to leave as soon as the run has ended.
    pub is_leaving: bool,
    /// Whether to leave.
    pub is_done: bool,
}

impl Model {
    /// Before anything is known.
    pub fn new(look: Look, devices: Vec<String>, size: (u16, u16)) -> Self {
        Self {
            look,
            size,
            now: Duration::ZERO,
            screens: vec![Screen::Overview],
            help: None,
            notice: None,
            devices,
            filesystem: None,
            failure: None,
            scan: Scan::Opening,
            table: None,
            subvolumes: Vec::new(),
            marked: BTreeSet::new(),
            sharing: Vec::new(),
            cursor: Cursor::default(),
            trail: Vec::new(),
            order: Order::default(),
            is_filtering: false,
            inspection: None,
            plan: None,
            refusal: None,
            run: None,
            counting: None,
            is_leaving: false,
            is_done: false,
        }
    }

    /// The screen that is seen.
    pub fn screen(&self) -> Screen {
        self.screens.last().copied().unwrap_or(Screen::Overview)
    }

    /// The directory that is seen.
    pub fn listing(&self) -> Option<&Listing> {
        self.trail.last()
    }

    /// The subvolume under the cursor.
    pub fn subvolume(&self) -> Option<&Subvolume> {
        self.subvolumes.get(self.cursor.at)
    }

    /// A subvolume's path from the top level, or its number if it has none.
    pub fn path_of(&self, tree: u64) -> String {
        let known = self.subvolumes.iter().find(|subvolume| subvolume.id == tree);
        known.map_or_else(|| tree.to_string(), |subvolume| subvolume.path.clone())
    }

    /// Whether a run is going on.
    pub fn is_running(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.end.is_none())
    }

    /// Disk bytes that dropping all marked subvolumes would free; none before that is known.
    pub fn freed_by_marked(&self) -> Option<u64> {
        if self.scan != Scan::Done {
            return None;
        }
        let only_marked =
            |(roots, _): &&(Vec<u64>, u64)| roots.iter().all(|root| self.marked.contains(root));
        Some(self.sharing.iter().filter(only_marked).map(|(_, bytes)| bytes).sum())
    }

    /// What an action is about: the marked rows, or the one under the cursor.
    pub fn subjects(&self) -> Vec<Subject> {
        match self.screen() {
            Screen::Overview => {
                let marked: Vec<&Subvolume> =
                    self.subvolumes.iter().filter(|s| self.marked.contains(&s.id)).collect();
                let chosen =
                    if marked.is_empty() { self.subvolume().into_iter().collect() } else { marked };
                chosen.into_iter().map(Self::subvolume_subject).collect()
            }
            Screen::Browser => {
                let Some(listing) = self.listing() else { return Vec::new() };
                let chosen = listing.chosen().into_iter();
                chosen.map(|entry| entry_subject(listing, entry)).collect()
            }
            Screen::Inspector => {
                self.inspection.iter().map(|inspection| inspection.subject.clone()).collect()
            }
            Screen::Plan | Screen::Confirm | Screen::Run => Vec::new(),
        }
    }

    /// What the inspector would look at: the row under the cursor.
    pub fn subject(&self) -> Option<Subject> {
        match self.screen() {
            Screen::Overview => self.subvolume().map(Self::subvolume_subject),
            Screen::Browser => {
                let listing = self.listing()?;
                listing.selected().map(|entry| entry_subject(listing, entry))
            }
            _ => None,
        }
    }

    fn subvolume_subject(subvolume: &Subvolume) -> Subject {
        Subject {
            place: Place::root_of(subvolume.id),
            kind: Kind::Subvolume,
            path: subvolume.raw_path.clone(),
            amounts: subvolume.amounts,
        }
    }
}

fn entry_subject(listing: &Listing, entry: &Entry) -> Subject {
    Subject {
        place: entry.place,
        kind: entry.kind,
        path: join(&listing.path, &entry.name),
        amounts: entry.amounts,
    }
}

/// The path of `name` in the directory at `path`, which is empty at the top level.
pub fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

/// A path from the top level for the screen.
pub fn shown_path(path: &[u8]) -> String {
    if path.is_empty() { "/".to_owned() } else { text::name(path) }
}
