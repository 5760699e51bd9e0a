//! A line for each file or directory.

use std::fmt::Write;

use super::{Units, size};
use crate::usage::Tally;

/// A column of figures; the name comes after all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Bytes on disk.
    Disk,
    /// Bytes once decoded.
    Uncompressed,
    /// Bytes that the pieces of files add up to.
    Referenced,
    /// Bytes on disk per bytes decoded.
    Percent,
    /// Pieces that don't follow each other on disk.
    Fragments,
    /// How the data is stored.
    Types,
}

impl Column {
    const fn title(self) -> &'static str {
        match self {
            Self::Disk => "Disk Usage",
            Self::Uncompressed => "Uncompressed",
            Self::Referenced => "Referenced",
            Self::Percent => "Perc",
            Self::Fragments => "Frags",
            Self::Types => "Types",
        }
    }

    const fn width(self) -> usize {
        match self {
            Self::Disk | Self::Uncompressed | Self::Referenced => 12,
            Self::Percent => 5,
            Self::Fragments => 6,
            Self::Types => 14,
        }
    }

    fn figure(self, tally: &Tally, units: Units) -> String {
        let total = tally.total();
        match self {
            Self::Disk => size(total.disk, units),
            Self::Uncompressed => size(total.uncompressed, units),
            Self::Referenced => size(total.referenced, units),
            Self::Percent => total.percent().map_or_else(|| "-".to_owned(), |p| format!("{p:3}%")),
            Self::Fragments => tally.fragments.to_string(),
            Self::Types => {
                let names: Vec<_> = tally.kinds().map(|(storage, _)| storage.name()).collect();
                if names.is_empty() { "-".to_owned() } else { names.join(",") }
            }
        }
    }
}

/// Writes lines of chosen columns.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    columns: &'a [Column],
    units: Units,
}

impl Rows<'static> {
    /// What `report` shows.
    pub const fn of_report(units: Units) -> Self {
        Self {
            columns: &[
                Column::Disk,
                Column::Uncompressed,
                Column::Referenced,
                Column::Percent,
                Column::Fragments,
                Column::Types,
            ],
            units,
        }
    }

    /// What `ls` shows.
    pub const fn of_listing(units: Units) -> Self {
        Self {
            columns: &[Column::Disk, Column::Uncompressed, Column::Percent, Column::Types],
            units,
        }
    }
}

impl Rows<'_> {
    /// The line above all others.
    pub fn head(&self) -> String {
        self.line(|column| column.title().to_owned(), "Name")
    }

    /// A line for what is called `name`.
    pub fn row(&self, tally: &Tally, name: &str) -> String {
        self.line(|column| column.figure(tally, self.units), name)
    }

    /// A line without figures.
    pub fn blank(&self, name: &str) -> String {
        self.line(|_| "-".to_owned(), name)
    }

    fn line(&self, cell: impl Fn(Column) -> String, name: &str) -> String {
        let cells = self.columns.iter().map(|column| (cell(*column), column.width()));
        let mut text = String::new();
        for (cell, width) in cells {
            write!(text, "{cell:<width$} ").expect("a string takes everything");
        }
        text + name
    }
}
