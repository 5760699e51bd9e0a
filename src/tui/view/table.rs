//! compsize's table with bars, and the one-line form of it.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::paint::{Paint, Wanted, fit, line};
use crate::tui::model::{Line, Method, Table};
use crate::tui::text::{brief_size, percent, size};

/// Lines that the table takes: a heading, the total, and the methods that are used.
pub(super) fn height(table: &Table) -> u16 {
    2 + rows(table).count() as u16
}

fn rows(table: &Table) -> impl Iterator<Item = (Method, Line)> {
    Method::ALL.into_iter().zip(table.lines).filter(|(_, line)| *line != Line::default())
}

/// The table. A bar's full part is what is on disk, its empty part what that saves.
pub(super) fn draw(table: &Table, area: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let wanted = [("Perc", 5), ("Disk usage", 10), ("Uncompressed", 12), ("Referenced", 10)];
    let wanted = wanted.map(|(column, width)| Wanted { column, width, rank: 0 });
    let (rest, columns) = fit(area, 9, &wanted);
    let bar_width = rest.saturating_sub(10).min(60);
    let heading = line(area, 0);
    paint.text(area.x, heading.y, 9, ("Type", look.quiet()));
    for column in &columns {
        paint.right(column.x, heading.y, column.width, (column.column, look.quiet()));
    }
    let total = table.total();
    let whole = total.uncompressed.max(total.disk);
    let lines = std::iter::once((None, total)).chain(rows(table).map(|(m, line)| (Some(m), line)));
    for (index, (method, amounts)) in lines.enumerate() {
        let row = line(area, index as u16 + 1);
        if row.height == 0 {
            break;
        }
        let style = if method.is_none() { look.strong() } else { Style::new() };
        paint.text(row.x, row.y, 9, (method.map_or("Total", Method::name), style));
        let bar = Rect { x: row.x + 10, width: bar_width, ..row };
        let length = |bytes: u64| {
            let columns = u128::from(bytes) * u128::from(bar_width) / u128::from(whole.max(1));
            columns.min(bar_width.into()) as u16
        };
        paint.track(Rect { width: length(amounts.uncompressed.max(amounts.disk)), ..bar });
        match method {
            Some(method) => paint.bar(bar, amounts.disk, whole, look.method(method)),
            None => methods(&table.disk_by_method(), whole, bar, paint),
        }
        let texts = [
            percent(amounts.disk, amounts.uncompressed, look.dash()),
            size(amounts.disk),
            size(amounts.uncompressed),
            size(amounts.referenced),
        ];
        for column in &columns {
            let at = wanted.iter().position(|wanted| wanted.column == column.column);
            let text = at.map_or("", |at| &texts[at]);
            paint.right(column.x, row.y, column.width, (text, style));
        }
    }
}

/// A bar with a part for each method.
pub(super) fn methods(
    disk_by_method: &[u64; Method::ALL.len()],
    whole: u64,
    area: Rect,
    paint: &mut Paint<'_>,
) {
    let look = paint.look;
    let parts: Vec<(u64, Style)> = Method::ALL
        .into_iter()
        .zip(disk_by_method)
        .map(|(method, &bytes)| (bytes, look.method(method)))
        .collect();
    paint.stacked(area, &parts, whole);
}

/// The table in two lines: a bar, and what its parts are.
pub(super) fn brief(table: &Table, area: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let total = table.total();
    let whole = total.uncompressed.max(total.disk);
    paint.track(line(area, 0));
    methods(&table.disk_by_method(), whole, line(area, 0), paint);
    let used = table.disk_by_method();
    let mut parts: Vec<(usize, &str, u64)> = Method::ALL
        .into_iter()
        .zip(used)
        .enumerate()
        .filter(|(_, (_, bytes))| *bytes > 0)
        .map(|(rank, (method, bytes))| (rank, method.name(), bytes))
        .collect();
    parts.sort_by_key(|&(.., bytes)| std::cmp::Reverse(bytes));
    let share = percent(total.disk, total.uncompressed, look.dash());
    let legend = line(area, 1);
    let mut x = legend.x;
    x += paint.text(x, legend.y, legend.width, (&share, look.strong()));
    for (rank, name, bytes) in parts {
        let style = look.method(Method::ALL[rank]);
        let text = format!(" {name} {}", brief_size(bytes));
        let left = legend.right().saturating_sub(x);
        if usize::from(left) < text.len() + 3 {
            break;
        }
        x += paint.spans(x, legend.y, left, &[("  ", style), (key(rank, paint), style)]);
        x += paint.text(x, legend.y, left, (&text, Style::new()));
    }
}

/// The sign that stands for a bar's part in a legend.
pub(super) fn key(rank: usize, paint: &Paint<'_>) -> &'static str {
    use crate::tui::theme::{Palette, Signs};
    let look = paint.look;
    if look.palette == Palette::Plain || look.signs == Signs::Ascii {
        look.fill(rank)
    } else {
        "■"
    }
}
