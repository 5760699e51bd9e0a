//! The same figures as JSON.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::usage::{Amounts, Tally};

/// A file or directory in a [`Document`].
#[derive(Debug, Serialize)]
pub struct JsonRow {
    /// Path as seen from the top level. What isn't text in it is shown as escapes.
    pub path: String,
    /// `file` or `directory`.
    pub kind: &'static str,
    /// See [`figures`].
    #[serde(flatten)]
    pub figures: Map<String, Value>,
}

/// A report.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The filesystem's UUID.
    pub uuid: String,
    /// Its label.
    pub label: String,
    /// The paths that were asked for; none for the whole filesystem.
    pub paths: Vec<String>,
    /// See [`figures`].
    #[serde(flatten)]
    pub figures: Map<String, Value>,
    /// A row for each file or directory, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<JsonRow>>,
}

/// The figures of a tally: counts, bytes, and bytes for each kind of storage.
pub fn figures(tally: &Tally) -> Map<String, Value> {
    let mut figures = Map::from_iter([
        ("files".to_owned(), tally.files.into()),
        ("extents".to_owned(), tally.extents.into()),
        ("refs".to_owned(), tally.refs.into()),
        ("inline".to_owned(), tally.inline.into()),
        ("fragments".to_owned(), tally.fragments.into()),
    ]);
    figures.extend(amounts(&tally.total()));
    let types: Map<String, Value> = tally
        .kinds()
        .map(|(storage, sums)| (storage.name().to_owned(), amounts(sums).into()))
        .collect();
    figures.insert("types".to_owned(), types.into());
    figures
}

fn amounts(sums: &Amounts) -> Map<String, Value> {
    Map::from_iter([
        ("disk".to_owned(), sums.disk.into()),
        ("uncompressed".to_owned(), sums.uncompressed.into()),
        ("referenced".to_owned(), sums.referenced.into()),
        ("percent".to_owned(), json!(sums.percent())),
    ])
}
