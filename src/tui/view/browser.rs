//! A directory: only the rows that are seen are drawn, however many there are.

use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use super::paint::{Paint, Placed, Wanted, fit, line, split};
use super::subvolumes::signs;
use super::table;
use crate::tui::model::{Amounts, Column, Entry, Kind, Listing, Method, Model, Order};
use crate::tui::text::{self, clip, count, percent, size};

/// Columns before the name: the cursor, the mark, a space.
const SIGNS: u16 = 3;
/// The least width of the names and the signs before them.
const NAMES: u16 = 27;
const BAR: u16 = 10;

/// In the order of the screen: heading, width, and which get their place first.
const COLUMNS: [(Column, &str, u16, u16); 9] = [
    (Column::Disk, "Disk", 10, 1),
    (Column::Uncompressed, "Uncompr.", 10, 7),
    (Column::Referenced, "Referenced", 10, 8),
    (Column::Exclusive, "Exclusive", 10, 4),
    (Column::Waste, "Waste", 10, 6),
    (Column::Percent, "Perc", 5 + 1 + BAR, 2),
    (Column::Methods, "Stored", 9, 3),
    (Column::Fragments, "Fragments", 9, 9),
    (Column::Items, "Items", 7, 5),
];

/// The columns that fit; the one that orders the rows is always among them.
fn columns(area: Rect, order: Order) -> (u16, Vec<Placed<Column>>) {
    let wanted = COLUMNS.map(|(column, _, width, rank)| {
        let rank = if column == order.column { 0 } else { rank };
        Wanted { column, width, rank }
    });
    fit(area, NAMES, &wanted)
}

/// Path, headings, rows.
fn parts(body: Rect) -> (Rect, Rect, Rect) {
    let (path, below) = split(body, 1);
    let (headings, rows) = split(below, 1);
    (path, headings, rows)
}

pub(super) fn rows_area(body: Rect) -> Rect {
    parts(body).2
}

pub(super) fn column_at(model: &Model, body: Rect, at: Position) -> Option<Column> {
    let (_, headings, _) = parts(body);
    if !headings.contains(at) {
        return None;
    }
    let (rest, columns) = columns(headings, model.order);
    if at.x < headings.x + rest {
        return Some(Column::Name);
    }
    let hit = |placed: &&Placed<Column>| (placed.x..placed.x + placed.width).contains(&at.x);
    columns.iter().find(hit).map(|placed| placed.column)
}

pub(super) fn draw(model: &Model, body: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let Some(listing) = model.listing() else { return };
    let (path, headings, rows) = parts(body);
    breadcrumb(model, listing, path, paint);
    let (rest, columns) = columns(headings, model.order);
    draw_headings(model.order, headings, rest, &columns, paint);
    if listing.shown.is_empty() {
        let words = match () {
            () if listing.is_loading => "reading the directory".to_owned(),
            () if listing.entries.is_empty() => "nothing in here".to_owned(),
            () => format!("no name contains {}", text::name(listing.filter.as_bytes())),
        };
        let below = line(rows, 0);
        let width = below.width.saturating_sub(SIGNS);
        paint.text(below.x + SIGNS, below.y, width, (&words, look.quiet()));
        return;
    }
    let window = listing.cursor.window(listing.shown.len(), rows.height.into());
    for (at, y) in window.zip(rows.y..rows.bottom()) {
        let index = listing.shown[at] as usize;
        let row = Rect { y, height: 1, ..rows };
        let is_under_cursor = at == listing.cursor.at;
        signs(row, is_under_cursor, listing.marked[index], paint);
        let entry = &listing.entries[index];
        draw_name(entry, row, rest, paint);
        for placed in &columns {
            cell(entry, row, *placed, paint);
        }
        if is_under_cursor {
            // Bars keep their colours.
            let bar = columns.iter().find(|placed| placed.column == Column::Percent);
            let bar = bar.map_or(row.right(), |placed| placed.x + 6);
            paint.overlay(Rect { width: bar - row.x, ..row }, look.cursor());
            let end = (bar + BAR).min(row.right());
            paint.overlay(Rect { x: end, width: row.right() - end, ..row }, look.cursor());
        }
    }
}

fn breadcrumb(model: &Model, listing: &Listing, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let order = model.order;
    let falls = (order.column == Column::Name) == order.is_reversed;
    let direction =
        if falls { look.sign("↓", "largest first") } else { look.sign("↑", "smallest first") };
    let folders = if order.directories_first { ", directories first" } else { "" };
    let by = format!("by {} {direction}{folders}", name_of(order.column));
    let by_width = text::width(&by) as u16;
    let room = area.width.saturating_sub(by_width + 2);
    // A path is known by its end.
    let between = look.sign(" › ", " > ");
    let names = listing.path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    let mut crumbs: Vec<String> =
        std::iter::once("/".to_owned()).chain(names.map(text::name)).collect();
    let name = crumbs.pop().unwrap_or_default();
    let name = clip(&name, usize::from(room).saturating_sub(8), look.ellipsis());
    let between_width = if crumbs.is_empty() { 0 } else { text::width(between) };
    let left = usize::from(room).saturating_sub(text::width(&name) + between_width);
    let parents = crumbs.join(between);
    let parents = clip(&parents, left, look.ellipsis());
    let between = if crumbs.is_empty() { "" } else { between };
    let spans = [(&*parents, look.quiet()), (between, look.quiet()), (&*name, look.strong())];
    paint.spans(area.x, area.y, room, &spans);
    paint.right(area.right() - by_width.min(area.width), area.y, by_width, (&by, look.quiet()));
}

fn name_of(column: Column) -> &'static str {
    match column {
        Column::Name => "name",
        Column::Disk => "disk usage",
        Column::Uncompressed => "uncompressed",
        Column::Referenced => "referenced",
        Column::Exclusive => "exclusive",
        Column::Waste => "waste",
        Column::Percent => "ratio",
        Column::Methods => "algorithm",
        Column::Fragments => "fragments",
        Column::Items => "items",
    }
}

fn draw_headings(
    order: Order,
    area: Rect,
    rest: u16,
    columns: &[Placed<Column>],
    paint: &mut Paint<'_>,
) {
    let look = paint.look;
    let style = |column| if column == order.column { look.strong() } else { look.quiet() };
    let width = rest.saturating_sub(SIGNS);
    paint.text(area.x + SIGNS, area.y, width, ("Name", style(Column::Name)));
    for placed in columns {
        let name = COLUMNS.iter().find(|(column, ..)| *column == placed.column);
        let span = (name.map_or("", |(_, name, ..)| name), style(placed.column));
        match placed.column {
            Column::Percent => paint.right(placed.x, area.y, 5, span),
            Column::Methods => {
                paint.text(placed.x, area.y, placed.width, span);
            }
            _ => paint.right(placed.x, area.y, placed.width, span),
        }
    }
}

fn draw_name(entry: &Entry, row: Rect, rest: u16, paint: &mut Paint<'_>) {
    let look = paint.look;
    // Enough of a long name is looked at to fill any terminal.
    let beginning = &entry.name[..entry.name.len().min(4 * 255)];
    let name = text::name(beginning);
    let (sign, style) = match entry.kind {
        Kind::Subvolume => ("/", look.strong().patch(look.accent())),
        Kind::Directory => ("/", look.strong()),
        Kind::File => ("", Style::new()),
        Kind::Link => ("@", look.quiet()),
        Kind::Other => ("=", look.quiet()),
    };
    let room = rest.saturating_sub(SIGNS + 1);
    let name = clip(&name, usize::from(room).saturating_sub(sign.len()), look.ellipsis());
    paint.spans(row.x + SIGNS, row.y, room, &[(&name, style), (sign, look.quiet())]);
}

fn cell(entry: &Entry, row: Rect, at: Placed<Column>, paint: &mut Paint<'_>) {
    let look = paint.look;
    let Some(amounts) = &entry.amounts else {
        let width = if at.column == Column::Percent { 5 } else { at.width };
        if at.column == Column::Methods {
            return;
        }
        paint.right(at.x, row.y, width, (look.dash(), look.quiet()));
        return;
    };
    let text = match at.column {
        Column::Disk => size(amounts.disk()),
        Column::Uncompressed => size(amounts.uncompressed),
        Column::Referenced => size(amounts.referenced),
        Column::Exclusive => size(amounts.exclusive),
        Column::Waste => size(amounts.waste),
        Column::Fragments => count(amounts.fragments),
        Column::Items => count(amounts.items),
        Column::Name => String::new(),
        Column::Methods => {
            let text = mix(amounts);
            paint.text(at.x, row.y, at.width, (&text, Style::new()));
            return;
        }
        Column::Percent => {
            let text = percent(amounts.disk(), amounts.uncompressed, look.dash());
            paint.right(at.x, row.y, 5, (&text, Style::new()));
            let bar = Rect { x: at.x + 6, width: BAR, ..row };
            let whole = amounts.uncompressed.max(amounts.disk());
            table::methods(&amounts.disk_by_method, whole, bar, paint);
            return;
        }
    };
    let is_nothing = text == "0 B" || text == "0";
    let style = if is_nothing { look.quiet() } else { Style::new() };
    paint.right(at.x, row.y, at.width, (&text, style));
}

/// The method that takes most, and its share if there are others.
fn mix(amounts: &Amounts) -> String {
    let disk = amounts.disk();
    let parts = Method::ALL.into_iter().zip(amounts.disk_by_method);
    match parts.max_by_key(|&(_, bytes)| bytes) {
        Some((_, 0)) | None => String::new(),
        Some((method, bytes)) if bytes == disk => method.name().to_owned(),
        Some((method, bytes)) => {
            // Below all of it, even when rounding says otherwise.
            let share = (u128::from(bytes) * 100 / u128::from(disk)).clamp(1, 99);
            format!("{} {share}%", &method.name()[..method.name().len().min(5)])
        }
    }
}
