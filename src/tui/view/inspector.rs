//! One thing closely: a file's extents and their layout, or a tree's table and its ratios.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::paint::{Paint, Placed, Wanted, fit, line, split};
use super::subvolumes::signs;
use super::table;
use crate::tui::model::{Extent, Findings, Inspection, Kind, Method, Model, Stored, shown_path};
use crate::tui::text::{clip, count, percent, plural, size};

/// Lines above a file's extents: path, facts, layout, borders, headings.
const FILE_LINES: u16 = 5;

fn is_file(model: &Model) -> bool {
    model.inspection.as_ref().is_some_and(|inspection| !inspection.subject.kind.is_directory())
}

pub(super) fn rows_area(model: &Model, body: Rect) -> Rect {
    if is_file(model) { split(body, FILE_LINES).1 } else { split(body, 1).1 }
}

/// Rows of the extents, or positions from which a tree's findings can be seen.
pub(super) fn len(model: &Model, body: Rect) -> usize {
    let Some(inspection) = &model.inspection else { return 0 };
    let Some(findings) = &inspection.findings else { return 0 };
    if is_file(model) {
        return findings.extents.len();
    }
    let (_, seen) = split(body, 1);
    usize::from(tree_height(findings, seen.width).saturating_sub(seen.height)) + 1
}

pub(super) fn draw(model: &Model, body: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let Some(inspection) = &model.inspection else { return };
    let subject = &inspection.subject;
    let kind = format!("{}  ", subject.kind.name());
    let room = body.width.saturating_sub(kind.len() as u16);
    let path = shown_path(&subject.path);
    let path = clip(&path, room.into(), look.ellipsis());
    paint.spans(body.x, body.y, body.width, &[(&kind, look.quiet()), (&path, look.strong())]);
    let Some(findings) = &inspection.findings else {
        let below = line(body, 1);
        paint.text(below.x, below.y, below.width, ("looking", look.quiet()));
        return;
    };
    if is_file(model) {
        draw_file(model, inspection, findings, body, paint);
    } else {
        draw_tree(inspection, findings, split(body, 1).1, paint);
    }
}

fn draw_file(
    model: &Model,
    inspection: &Inspection,
    findings: &Findings,
    body: Rect,
    paint: &mut Paint<'_>,
) {
    let look = model.look;
    let total = findings.table.total();
    let pairs = findings.extents.windows(2);
    let breaks = pairs.filter(|pair| !pair[1].continues(&pair[0])).count() as u64;
    let mut facts = format!(
        "{}{dot}{} on disk, {}{dot}{}{dot}{}",
        size(findings.size),
        size(total.disk),
        percent(total.disk, total.uncompressed, look.dash()),
        plural(findings.extents.len() as u64, "extent"),
        plural(if findings.extents.is_empty() { 0 } else { breaks + 1 }, "fragment"),
        dot = look.dot()
    );
    for skip in &findings.skips {
        facts.push_str(look.dot());
        facts.push_str("left alone: ");
        facts.push_str(&skip.reason);
    }
    let at = line(body, 1);
    paint.text(at.x, at.y, at.width, (&facts, Style::new()));
    layout(findings, line(body, 2), line(body, 3), paint);
    let headings = line(body, 4);
    let (rest, columns) = fit(headings, 14, &extent_columns(headings.width));
    let offset = rest.saturating_sub(2);
    paint.right(headings.x + 2, headings.y, offset, ("Offset", look.quiet()));
    for placed in &columns {
        let span = (placed.column, look.quiet());
        match placed.column {
            "Stored" | "From" => {
                paint.text(placed.x, headings.y, placed.width, span);
            }
            _ => paint.right(placed.x, headings.y, placed.width, span),
        }
    }
    let rows = split(body, FILE_LINES).1;
    if findings.extents.is_empty() {
        let words = if findings.size == 0 { "no data" } else { "nothing but a hole" };
        paint.text(rows.x + 2, rows.y, rows.width, (words, look.quiet()));
    }
    let window = inspection.cursor.window(findings.extents.len(), rows.height.into());
    for (index, y) in window.zip(rows.y..rows.bottom()) {
        let row = Rect { y, height: 1, ..rows };
        let is_under_cursor = index == inspection.cursor.at;
        signs(row, is_under_cursor, false, paint);
        let extent = &findings.extents[index];
        let text = extent.file_offset.to_string();
        paint.right(row.x + 2, y, offset, (&text, Style::new()));
        for &placed in &columns {
            extent_cell(model, extent, row, placed, paint);
        }
        if is_under_cursor {
            paint.overlay(row, look.cursor());
        }
    }
}

const fn wanted(column: &'static str, width: u16, rank: u16) -> Wanted<&'static str> {
    Wanted { column, width, rank }
}

const fn extent_columns(width: u16) -> [Wanted<&'static str>; 7] {
    // What the other columns leave.
    let from = width.saturating_sub(80);
    [
        wanted("Length", 10, 0),
        wanted("Bytenr", 15, 4),
        wanted("On disk", 10, 1),
        wanted("Stored", 8, 2),
        wanted("Perc", 5, 3),
        wanted("Refs", 5, 5),
        wanted("From", if from < 12 { u16::MAX - 1 } else { from }, 6),
    ]
}

/// Who refers to the extent under the cursor.
pub(super) fn referrers(model: &Model) -> String {
    let Some(inspection) = &model.inspection else { return String::new() };
    let findings = inspection.findings.as_ref();
    let extent = findings.and_then(|known| known.extents.get(inspection.cursor.at));
    match extent.map(|extent| &extent.stored) {
        Some(Stored::Extent { references, subvolumes, .. }) if *references > 0 => {
            let names: Vec<String> = subvolumes.iter().map(|&id| model.path_of(id)).collect();
            format!("{} in {}", plural(*references, "reference"), names.join(", "))
        }
        _ => String::new(),
    }
}

fn extent_cell(
    model: &Model,
    extent: &Extent,
    row: Rect,
    at: Placed<&'static str>,
    paint: &mut Paint<'_>,
) {
    let look = model.look;
    let (disk, whole) = match &extent.stored {
        Stored::Hole => (None, 0),
        Stored::Inline { bytes, .. } => (Some(*bytes), extent.length),
        Stored::Extent { bytes, uncompressed, .. } => (Some(*bytes), *uncompressed),
    };
    let text = match (at.column, &extent.stored) {
        ("Length", _) => size(extent.length),
        ("Bytenr", Stored::Extent { bytenr, .. }) => bytenr.to_string(),
        ("Bytenr", Stored::Inline { .. }) => "inline".to_owned(),
        ("Bytenr", Stored::Hole) => "hole".to_owned(),
        ("On disk", _) => disk.map_or_else(|| look.dash().to_owned(), size),
        ("Stored", _) => {
            let Some(method) = extent.method() else { return };
            paint.text(at.x, row.y, at.width, (method.name(), look.method(method)));
            return;
        }
        ("Perc", _) => disk.map_or_else(String::new, |disk| percent(disk, whole, look.dash())),
        ("Refs", Stored::Extent { references, .. }) => count(*references),
        ("From", Stored::Extent { subvolumes, .. }) => {
            let names: Vec<String> = subvolumes.iter().map(|&id| model.path_of(id)).collect();
            paint.text(at.x, row.y, at.width, (&names.join(", "), look.quiet()));
            return;
        }
        _ => return,
    };
    paint.right(at.x, row.y, at.width, (&text, Style::new()));
}

/// A picture of the file: how each part of it is stored, and below it where it jumps on disk.
fn layout(findings: &Findings, picture: Rect, jumps: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let end = findings.extents.last().map_or(0, |extent| extent.file_offset + extent.length);
    let size = findings.size.max(end);
    if size == 0 || picture.height == 0 {
        return;
    }
    let width = u64::from(picture.width);
    let column_of =
        |offset: u64| (u128::from(offset) * u128::from(width) / u128::from(size)) as u64;
    let mut before: Option<&Extent> = None;
    for extent in &findings.extents {
        let from = column_of(extent.file_offset);
        let to = column_of(extent.file_offset + extent.length).max(from + 1).min(width);
        let (fill, style) = match extent.method() {
            Some(method) => (look.fill(rank(method)), look.method(method)),
            None => (" ", Style::new()),
        };
        for column in from..to {
            paint.text(picture.x + column as u16, picture.y, 1, (fill, style));
        }
        if before.is_some_and(|before| !extent.continues(before)) && jumps.height > 0 {
            let sign = look.sign("╵", "'");
            let x = jumps.x + from.min(width - 1) as u16;
            paint.text(x, jumps.y, 1, (sign, look.quiet()));
        }
        before = Some(extent);
    }
}

/// Shades differ too, the densest for what is not compressed.
const fn rank(method: Method) -> usize {
    match method {
        Method::Uncompressed => 0,
        Method::Zstd => 1,
        Method::Zlib => 2,
        Method::Lzo => 3,
        Method::Preallocated | Method::Unknown => 4,
    }
}

/// Whether table and ratios stand side by side.
const fn is_wide(width: u16) -> bool {
    width >= 118
}

fn tree_height(findings: &Findings, width: u16) -> u16 {
    let table = table::height(&findings.table);
    let ratios = findings.ratios.len() as u16 + 1;
    let skips = if findings.skips.is_empty() { 0 } else { findings.skips.len() as u16 + 2 };
    let upper = if is_wide(width) { table.max(ratios) } else { table + 1 + ratios };
    1 + upper + skips
}

/// All of it is drawn aside, and the part that is seen taken from there.
fn draw_tree(inspection: &Inspection, findings: &Findings, area: Rect, paint: &mut Paint<'_>) {
    let whole = Rect::new(0, 0, area.width, tree_height(findings, area.width).max(area.height));
    let mut aside = Buffer::empty(whole);
    draw_whole_tree(inspection, findings, whole, &mut Paint { buf: &mut aside, look: paint.look });
    let top = inspection.cursor.at.min(usize::from(whole.height - area.height)) as u16;
    for y in 0..area.height {
        for x in 0..area.width {
            if let (Some(from), Some(to)) =
                (aside.cell((x, y + top)), paint.buf.cell_mut((area.x + x, area.y + y)))
            {
                *to = from.clone();
            }
        }
    }
}

fn draw_whole_tree(
    inspection: &Inspection,
    findings: &Findings,
    area: Rect,
    paint: &mut Paint<'_>,
) {
    let look = paint.look;
    let (_, area) = split(area, 1);
    let table_height = table::height(&findings.table);
    let ratios_height = findings.ratios.len() as u16 + 1;
    let below = if is_wide(area.width) {
        let half = area.width / 2 - 2;
        table::draw(&findings.table, Rect { width: half, ..area }, paint);
        let right = Rect { x: area.x + half + 4, width: area.width - half - 4, ..area };
        ratios(findings, right, paint);
        split(area, table_height.max(ratios_height)).1
    } else {
        table::draw(&findings.table, area, paint);
        let (_, lower) = split(area, table_height + 1);
        ratios(findings, lower, paint);
        split(lower, ratios_height).1
    };
    if findings.skips.is_empty() {
        return;
    }
    let (_, below) = split(below, 1);
    let title = match inspection.subject.kind {
        Kind::File => "What would be left alone",
        _ => "What would be left alone in here",
    };
    paint.text(below.x, below.y, below.width, (title, look.quiet()));
    for (index, skip) in findings.skips.iter().enumerate() {
        let row = line(below, index as u16 + 1);
        paint.right(row.x, row.y, 10, (&size(skip.bytes), Style::new()));
        let text = format!("{}, {}", skip.reason, plural(skip.extents, "extent"));
        paint.text(row.x + 12, row.y, row.width.saturating_sub(12), (&text, Style::new()));
    }
}

/// A bar for each tenth of the ratio: how much of the disk usage is compressed how far.
fn ratios(findings: &Findings, area: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    paint.text(area.x, area.y, area.width, ("Disk usage by ratio", look.quiet()));
    let largest = findings.ratios.iter().copied().max().unwrap_or(0);
    for (index, &bytes) in findings.ratios.iter().enumerate() {
        let row = line(area, index as u16 + 1);
        if row.height == 0 {
            break;
        }
        let label = match index {
            9 => "91 % and more".to_owned(),
            _ => format!("{:>2} to {:>2} %", index * 10 + usize::from(index > 0), index * 10 + 10),
        };
        paint.right(row.x, row.y, 13, (&label, look.quiet()));
        let bar = Rect { x: row.x + 15, width: row.width.saturating_sub(27).min(60), ..row };
        paint.bar(bar, bytes, largest, look.accent());
        let style = if bytes == 0 { look.quiet() } else { Style::new() };
        paint.right(bar.right() + 1, row.y, 10, (&size(bytes), style));
    }
}
