//! compsize's table.

use std::fmt::Write;

use super::{Units, size};
use crate::usage::{Amounts, Tally};

/// The whole table, with the line above it. [`nothing`] tells whether there is anything for it to say.
pub fn table(tally: &Tally, units: Units) -> String {
    let mut text = format!(
        "Processed {} file{}, {} regular extents ({} refs), {} inline, {} fragments.\n",
        tally.files,
        if tally.files > 1 { "s" } else { "" },
        tally.extents,
        tally.refs,
        tally.inline,
        tally.fragments,
    );
    line(&mut text, ["Type", "Perc", "Disk Usage", "Uncompressed", "Referenced"]);
    amounts(&mut text, "TOTAL", &tally.total(), units);
    for (storage, sums) in tally.kinds() {
        amounts(&mut text, storage.name(), sums, units);
    }
    text
}

fn amounts(text: &mut String, name: &str, sums: &Amounts, units: Units) {
    let percent = format!("{:3}%", sums.percent().unwrap_or_default());
    let [disk, uncompressed, referenced] =
        [sums.disk, sums.uncompressed, sums.referenced].map(|bytes| size(bytes, units));
    line(text, [name, &percent, &disk, &uncompressed, &referenced]);
}

fn line(text: &mut String, [name, percent, disk, uncompressed, referenced]: [&str; 5]) {
    writeln!(text, "{name:<10} {percent:<8} {disk:<12} {uncompressed:<12} {referenced:<12}")
        .expect("a string takes everything");
}

/// What is said in place of a table when there is nothing to show.
pub fn nothing(tally: &Tally) -> Option<&'static str> {
    if tally.total().uncompressed > 0 {
        None
    } else if tally.files == 0 {
        Some("No files.")
    } else {
        Some("All files are empty.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Storage;

    fn tally() -> Tally {
        let mut tally = Tally::default();
        (tally.files, tally.extents, tally.refs) = (2, 3, 5);
        (tally.inline, tally.fragments) = (1, 4);
        *tally.by_mut(Storage::Zstd) =
            Amounts { disk: 40_000, uncompressed: 131_072, referenced: 262_144 };
        *tally.by_mut(Storage::None) =
            Amounts { disk: 5_000_000, uncompressed: 5_000_000, referenced: 4_096 };
        tally
    }

    #[test]
    fn the_table_is_compsizes() {
        assert_eq!(
            table(&tally(), Units::Human),
            "Processed 2 files, 3 regular extents (5 refs), 1 inline, 4 fragments.\n\
             Type       Perc     Disk Usage   Uncompressed Referenced  \n\
             TOTAL       98%      4.8M         4.8M         260K       \n\
             none       100%      4.7M         4.7M         4.0K       \n\
             zstd        30%       39K         128K         256K       \n"
        );
        let bytes = "none       100%     5000000      5000000      4096        \n";
        assert!(table(&tally(), Units::Bytes).contains(bytes));
    }

    #[test]
    fn one_file_is_no_files() {
        let mut one = tally();
        one.files = 1;
        assert!(table(&one, Units::Human).starts_with("Processed 1 file, "));
        assert_eq!(nothing(&one), None);
        assert_eq!(nothing(&Tally::default()), Some("No files."));
    }
}
