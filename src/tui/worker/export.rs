//! Rows as a JSON document, in a file of its own.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::tui::model::{Amounts, Method, Subject};

/// Names that are tried before giving up.
const NAMES_MAX: u32 = 1000;

#[derive(Serialize)]
struct Row {
    path: String,
    kind: &'static str,
    subvolume: u64,
    inode: u64,
    #[serde(flatten)]
    costs: Option<Costs>,
}

#[derive(Serialize)]
struct Costs {
    disk_usage: u64,
    uncompressed: u64,
    referenced: u64,
    exclusive: u64,
    waste: u64,
    fragments: u64,
    items: u64,
    disk_usage_by_type: serde_json::Map<String, serde_json::Value>,
}

impl From<&Amounts> for Costs {
    fn from(amounts: &Amounts) -> Self {
        let methods = Method::ALL.into_iter().zip(amounts.disk_by_method);
        let used = methods.filter(|(_, bytes)| *bytes > 0);
        Self {
            disk_usage: amounts.disk(),
            uncompressed: amounts.uncompressed,
            referenced: amounts.referenced,
            exclusive: amounts.exclusive,
            waste: amounts.waste,
            fragments: amounts.fragments,
            items: amounts.items,
            disk_usage_by_type: used
                .map(|(method, bytes)| (method.name().to_owned(), bytes.into()))
                .collect(),
        }
    }
}

/// Writes the rows to a new file in the current directory; tells its name.
pub(super) fn write(subjects: &[Subject]) -> io::Result<String> {
    let rows: Vec<Row> = subjects
        .iter()
        .map(|subject| Row {
            path: crate::tui::model::shown_path(&subject.path),
            kind: subject.kind.name(),
            subvolume: subject.place.tree,
            inode: subject.place.inode,
            costs: subject.amounts.as_ref().map(Costs::from),
        })
        .collect();
    for number in 1..NAMES_MAX {
        let name = match number {
            1 => "btrpress.json".to_owned(),
            _ => format!("btrpress-{number}.json"),
        };
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                let mut file = BufWriter::new(file);
                serde_json::to_writer_pretty(&mut file, &rows)?;
                file.write_all(b"\n")?;
                file.flush()?;
                return Ok(name);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
