//! A cursor in a list of which a window is seen, and the rows of a directory in some order.

use std::collections::HashSet;
use std::ops::Range;

use super::{Amounts, Entry, Place};

/// Where the cursor is, and which row is the first one seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Row under the cursor.
    pub at: usize,
    /// First row of the window.
    pub top: usize,
}

/// A way to go in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// By so many rows.
    By(isize),
    /// By so many halves of a window.
    Halves(isize),
    /// To the first row.
    First,
    /// To the last row.
    Last,
}

impl Cursor {
    /// Moves within `len` rows of which `height` are seen.
    pub fn step(&mut self, step: Step, len: usize, height: usize) {
        let last = len.saturating_sub(1);
        self.at = match step {
            Step::By(rows) => self.at.saturating_add_signed(rows),
            Step::Halves(halves) => {
                let rows = halves * (height.max(2) / 2) as isize;
                self.at.saturating_add_signed(rows)
            }
            Step::First => 0,
            Step::Last => last,
        }
        .min(last);
        self.top = self.window(len, height).start;
    }

    /// The rows that are seen: the cursor is always among them, and no line stays empty needlessly.
    pub fn window(&self, len: usize, height: usize) -> Range<usize> {
        let height = height.max(1);
        let top = self.top.min(len.saturating_sub(height));
        let top = top.clamp((self.at + 1).saturating_sub(height), self.at.min(len));
        top..(top + height).min(len)
    }
}

/// What rows are ordered by, and what a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    /// The name.
    Name,
    /// Disk usage.
    Disk,
    /// What the extents hold.
    Uncompressed,
    /// What the pieces add up to.
    Referenced,
    /// What deleting it would free.
    Exclusive,
    /// What nobody refers to.
    Waste,
    /// Disk usage as a share of uncompressed.
    Percent,
    /// The methods of storing.
    Methods,
    /// Pieces.
    Fragments,
    /// Files and directories.
    Items,
}

impl Column {
    /// The numbers that `a` goes through.
    pub const METRICS: [Self; 8] = [
        Self::Disk,
        Self::Uncompressed,
        Self::Referenced,
        Self::Exclusive,
        Self::Waste,
        Self::Percent,
        Self::Fragments,
        Self::Items,
    ];

    /// Its number for something that costs `amounts`.
    fn value(self, amounts: &Amounts) -> u64 {
        match self {
            Self::Name => 0,
            Self::Disk => amounts.disk(),
            Self::Uncompressed => amounts.uncompressed,
            Self::Referenced => amounts.referenced,
            Self::Exclusive => amounts.exclusive,
            Self::Waste => amounts.waste,
            // In parts of a million: nearly equal percents still have an order.
            Self::Percent => {
                let disk = u128::from(amounts.disk()) * 1_000_000;
                let share = disk.checked_div(amounts.uncompressed.into()).unwrap_or(0);
                u64::try_from(share).unwrap_or(u64::MAX)
            }
            // The method that takes most comes first; the more of it, the earlier.
            Self::Methods => {
                let parts = amounts.disk_by_method;
                let (index, &part) =
                    parts.iter().enumerate().max_by_key(|&(_, part)| part).expect("some parts");
                (index as u64) << 56 | part >> 8
            }
            Self::Fragments => amounts.fragments,
            Self::Items => amounts.items,
        }
    }
}

/// How rows are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// By what.
    pub column: Column,
    /// Against the column's own direction, which is names from a and numbers from the largest.
    pub is_reversed: bool,
    /// Whether directories come before files.
    pub directories_first: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self { column: Column::Disk, is_reversed: false, directories_first: false }
    }
}

/// A directory's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The directory.
    pub place: Place,
    /// Its path from the top level, as it is on disk.
    pub path: Vec<u8>,
    /// All rows, by name; empty while [`is_loading`](Self::is_loading).
    pub entries: Vec<Entry>,
    /// Whether the rows are still to come.
    pub is_loading: bool,
    /// Which rows are marked.
    pub marked: Vec<bool>,
    /// What names must contain.
    pub filter: String,
    /// Indices of all rows in order.
    sorted: Vec<u32>,
    /// Indices of the rows that the filter lets through, in order.
    pub shown: Vec<u32>,
    /// Row of `shown` under the cursor.
    pub cursor: Cursor,
    /// Whether the user has moved the cursor; until then it stays at the top.
    pub has_moved: bool,
}

impl Listing {
    /// A directory whose rows are still to come.
    pub fn loading(place: Place, path: Vec<u8>) -> Self {
        Self {
            place,
            path,
            entries: Vec::new(),
            is_loading: true,
            marked: Vec::new(),
            filter: String::new(),
            sorted: Vec::new(),
            shown: Vec::new(),
            cursor: Cursor::default(),
            has_moved: false,
        }
    }

    /// Takes the rows. Marks stay with their names; so does the cursor, at the same height.
    pub fn fill(&mut self, mut entries: Vec<Entry>, order: Order) {
        if !entries.is_sorted_by(|one, other| one.name <= other.name) {
            entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        }
        let selected = self.selected().filter(|_| self.has_moved);
        let name = selected.map(|entry| entry.name.clone());
        let marks = self.entries.iter().zip(&self.marked).filter(|&(_, &mark)| mark);
        let marks: HashSet<&[u8]> = marks.map(|(entry, _)| &*entry.name).collect();
        self.marked = entries.iter().map(|entry| marks.contains(&*entry.name)).collect();
        self.sorted = (0..entries.len() as u32).collect();
        self.shown.clear();
        self.entries = entries;
        self.is_loading = false;
        self.sort(order);
        match name {
            Some(name) => self.select(&name),
            None => self.cursor = Cursor::default(),
        }
    }

    /// Puts the cursor on the row with this name, if it is shown.
    pub fn select(&mut self, name: &[u8]) {
        let at = self.shown.iter().position(|&index| *self.entries[index as usize].name == *name);
        let above = self.cursor.at.saturating_sub(self.cursor.top);
        self.cursor.at = at.unwrap_or(self.cursor.at.min(self.shown.len().saturating_sub(1)));
        self.cursor.top = self.cursor.at.saturating_sub(above);
    }

    /// Orders the rows anew; the row under the cursor stays under it, at the same height.
    pub fn sort(&mut self, order: Order) {
        // Numbers are quick to compare. Rows are kept by name, so that an index orders what is equal.
        let key = |(index, entry): (usize, &Entry)| {
            let is_last = order.directories_first && !entry.kind.is_directory();
            let value = match (order.column, &entry.amounts) {
                // Names begin with the first, numbers with the largest.
                (Column::Name, _) => !(index as u64),
                (column, Some(amounts)) => column.value(amounts).saturating_add(1),
                (_, None) => 0,
            };
            let value = if order.is_reversed { value } else { !value };
            u128::from(is_last) << 96 | u128::from(value) << 32 | index as u128
        };
        let mut keys: Vec<u128> = self.entries.iter().enumerate().map(key).collect();
        keys.sort_unstable();
        self.sorted = keys.into_iter().map(|key| key as u32).collect();
        self.show();
    }

    /// Lets through what the filter says.
    pub fn show(&mut self) {
        let under_cursor = self.shown.get(self.cursor.at).copied();
        let above = self.cursor.at.saturating_sub(self.cursor.top);
        let needle = self.filter.to_lowercase();
        self.shown = if needle.is_empty() {
            self.sorted.clone()
        } else {
            let contains = |entry: &Entry| contains(&entry.name, &needle);
            let is_shown: Vec<bool> = self.entries.iter().map(contains).collect();
            self.sorted.iter().copied().filter(|&index| is_shown[index as usize]).collect()
        };
        let at = under_cursor.and_then(|row| self.shown.iter().position(|&shown| shown == row));
        self.cursor.at = at.unwrap_or(self.cursor.at.min(self.shown.len().saturating_sub(1)));
        self.cursor.top = self.cursor.at.saturating_sub(above);
    }

    /// The row under the cursor.
    pub fn selected(&self) -> Option<&Entry> {
        let &index = self.shown.get(self.cursor.at)?;
        self.entries.get(index as usize)
    }

    /// Marks the row under the cursor, or unmarks it.
    pub fn toggle(&mut self) {
        if let Some(&index) = self.shown.get(self.cursor.at) {
            let mark = &mut self.marked[index as usize];
            *mark = !*mark;
        }
    }

    /// Marks the shown rows that aren't, and unmarks those that are.
    pub fn invert(&mut self) {
        for &index in &self.shown {
            let mark = &mut self.marked[index as usize];
            *mark = !*mark;
        }
    }

    /// The marked rows, or the one under the cursor when none is.
    pub fn chosen(&self) -> Vec<&Entry> {
        let marks = self.entries.iter().zip(&self.marked);
        let marked: Vec<&Entry> =
            marks.filter_map(|(entry, &mark)| mark.then_some(entry)).collect();
        if marked.is_empty() { self.selected().into_iter().collect() } else { marked }
    }

    /// How many rows are marked, and what they cost together.
    pub fn marked_total(&self) -> (usize, Amounts) {
        let marks = self.entries.iter().zip(&self.marked);
        marks.filter(|&(_, &mark)| mark).fold(
            (0, Amounts::default()),
            |(count, sum), (entry, _)| {
                (count + 1, entry.amounts.as_ref().map_or(sum, |amounts| sum.plus(amounts)))
            },
        )
    }
}

/// Whether `name` contains `needle`, which is in lower case.
fn contains(name: &[u8], needle: &str) -> bool {
    if name.is_ascii() {
        let needle = needle.as_bytes();
        let Some(first) = needle.first() else { return true };
        let at = |start: usize| {
            let part = name.get(start..start + needle.len());
            part.is_some_and(|part| part.eq_ignore_ascii_case(needle))
        };
        let begins = |(start, byte): (usize, &u8)| byte.to_ascii_lowercase() == *first && at(start);
        return name.iter().enumerate().any(begins);
    }
    String::from_utf8_lossy(name).to_lowercase().contains(needle)
}
