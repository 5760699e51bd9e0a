//! The subvolumes as a tree, a row each.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::paint::{Paint, Placed, Wanted, fit};
use super::table;
use crate::tui::model::{Amounts, Model, Subvolume};
use crate::tui::text::{clip, date, percent, size};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Id,
    Parent,
    ReadOnly,
    SnapshotOf,
    Created,
    Referenced,
    Exclusive,
    Disk,
    Percent,
    Bar,
}

use Column as C;

/// In the order of the screen: heading, width, and which get their place first.
const COLUMNS: [(Column, &str, u16, u16); 10] = [
    (C::Id, "Id", 5, 4),
    (C::Parent, "Parent", 6, 8),
    (C::ReadOnly, "", 2, 3),
    (C::SnapshotOf, "Snapshot of", 20, 9),
    (C::Created, "Created", 16, 6),
    (C::Referenced, "Referenced", 10, 5),
    (C::Exclusive, "Exclusive", 10, 1),
    (C::Disk, "Disk", 10, 0),
    (C::Percent, "Perc", 5, 2),
    (C::Bar, "", 10, 7),
];

/// Columns before the name: the cursor, the mark, a space.
const SIGNS: u16 = 3;

pub(super) fn draw(model: &Model, heading: Rect, rows: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let wanted = COLUMNS.map(|(column, _, width, rank)| Wanted { column, width, rank });
    let (rest, columns) = fit(heading, 23, &wanted);
    let title = ("Subvolumes", look.strong());
    paint.text(heading.x + SIGNS, heading.y, rest.saturating_sub(SIGNS), title);
    for placed in &columns {
        let name = COLUMNS.iter().find(|(column, ..)| *column == placed.column);
        let name = name.map_or("", |(_, name, ..)| name);
        let span = (name, look.quiet());
        match placed.column {
            C::SnapshotOf | C::Created => {
                paint.text(placed.x, heading.y, placed.width, span);
            }
            _ => paint.right(placed.x, heading.y, placed.width, span),
        }
    }
    let window = model.cursor.window(model.subvolumes.len(), rows.height.into());
    for (index, y) in window.zip(rows.y..rows.bottom()) {
        let row = Rect { y, height: 1, ..rows };
        let subvolume = &model.subvolumes[index];
        let is_marked = model.marked.contains(&subvolume.id);
        signs(row, index == model.cursor.at, is_marked, paint);
        let room = rest.saturating_sub(SIGNS + 1);
        let lines = lines(&model.subvolumes, index, paint);
        let used = paint.text(row.x + SIGNS, y, room, (&lines, look.quiet()));
        let name = clip(&subvolume.name, usize::from(room - used), look.ellipsis());
        paint.text(row.x + SIGNS + used, y, room - used, (&name, look.strong()));
        if index == model.cursor.at {
            paint.overlay(row, look.cursor());
        }
        for &placed in &columns {
            cell(model, subvolume, row, placed, paint);
        }
        if index == model.cursor.at {
            let numbers = columns.iter().filter(|placed| placed.column != C::Bar);
            for placed in numbers {
                let area = Rect { x: placed.x, width: placed.width, ..row };
                paint.overlay(area, look.cursor());
            }
        }
    }
}

/// The signs of the cursor and of a mark.
pub(super) fn signs(row: Rect, is_under_cursor: bool, is_marked: bool, paint: &mut Paint<'_>) {
    let look = paint.look;
    if is_under_cursor {
        paint.text(row.x, row.y, 1, (look.sign("▸", ">"), look.accent()));
    }
    if is_marked {
        paint.text(row.x + 1, row.y, 1, (look.sign("●", "*"), look.accent()));
    }
}

/// The tree's lines before a name.
fn lines(subvolumes: &[Subvolume], index: usize, paint: &Paint<'_>) -> String {
    let look = paint.look;
    let later = &subvolumes[index + 1..];
    // Whether there is another one at this depth before the tree goes back up above it.
    let goes_on = |depth: usize| {
        later.iter().find(|later| later.depth <= depth).is_some_and(|later| later.depth == depth)
    };
    let own = subvolumes[index].depth;
    let mut lines = String::new();
    for depth in 1..own {
        lines.push_str(if goes_on(depth) { look.sign("│ ", "| ") } else { "  " });
    }
    if own > 0 {
        lines.push_str(if goes_on(own) {
            look.sign("├ ", "|-")
        } else {
            look.sign("└ ", "`-")
        });
    }
    lines
}

fn cell(
    model: &Model,
    subvolume: &Subvolume,
    row: Rect,
    at: Placed<Column>,
    paint: &mut Paint<'_>,
) {
    let look = model.look;
    let amounts = subvolume.amounts.as_ref();
    let number = |value: Option<u64>| value.map_or_else(|| look.dash().to_owned(), size);
    let text = match at.column {
        C::Id => subvolume.id.to_string(),
        C::Parent => subvolume.parent.map_or_else(String::new, |id| id.to_string()),
        C::ReadOnly if subvolume.is_read_only => "ro".to_owned(),
        C::ReadOnly => String::new(),
        C::SnapshotOf => subvolume.snapshot_of.map_or_else(String::new, |id| model.path_of(id)),
        C::Created => subvolume.created.map_or_else(String::new, date),
        C::Referenced => number(amounts.map(|amounts| amounts.referenced)),
        C::Exclusive => number(amounts.map(|amounts| amounts.exclusive)),
        C::Disk => number(amounts.map(Amounts::disk)),
        C::Percent => amounts.map_or_else(
            || look.dash().to_owned(),
            |amounts| percent(amounts.disk(), amounts.uncompressed, look.dash()),
        ),
        C::Bar => {
            if let Some(amounts) = amounts {
                let bar = Rect { x: at.x, width: at.width, ..row };
                let whole = amounts.uncompressed.max(amounts.disk());
                table::methods(&amounts.disk_by_method, whole, bar, paint);
            }
            return;
        }
    };
    match at.column {
        C::SnapshotOf | C::Created => {
            paint.text(at.x, row.y, at.width, (&text, look.quiet()));
        }
        C::Id | C::Parent | C::ReadOnly => {
            paint.right(at.x, row.y, at.width, (&text, look.quiet()));
        }
        _ => paint.right(at.x, row.y, at.width, (&text, Style::new())),
    }
}
