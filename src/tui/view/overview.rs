//! The start: the filesystem, its space, how it is stored, its subvolumes.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::paint::{Paint, line, split};
use super::{subvolumes, table};
use crate::tui::model::{Filesystem, Model, Scan};
use crate::tui::text::{brief_size, clip, size, width};
use crate::tui::theme::Part;

/// Columns of the names of facts.
const LABELS: u16 = 12;

/// How much of the screen the facts get.
enum Shape {
    /// A line each.
    Brief,
    /// Facts above the table.
    Stacked,
    /// Facts beside the table.
    Beside,
}

fn shape(body: Rect) -> Shape {
    match body {
        Rect { height: 0..19, .. } => Shape::Brief,
        Rect { width: 0..118, .. } => Shape::Stacked,
        _ => Shape::Beside,
    }
}

/// Lines of the facts, the table and the heading of the subvolumes.
fn above(model: &Model, body: Rect) -> u16 {
    let table = model.table.as_ref().map_or(3, table::height);
    match shape(body) {
        Shape::Brief => 6,
        Shape::Stacked => 5 + 1 + table + 1 + 1,
        Shape::Beside => table.max(5) + 2 + 1,
    }
}

/// Where the rows of the subvolumes are.
pub(super) fn rows_area(model: &Model, body: Rect) -> Rect {
    split(body, above(model, body)).1
}

pub(super) fn draw(model: &Model, body: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    if let Some(failure) = &model.failure {
        return super::confirm::words(&["It could not be opened.", "", failure], body, paint);
    }
    let Some(filesystem) = &model.filesystem else {
        paint.text(body.x, body.y, body.width, ("reading the superblock", look.quiet()));
        return;
    };
    let (top, rows) = split(body, above(model, body));
    match shape(body) {
        Shape::Brief => {
            identity(filesystem, line(top, 0), paint);
            space(filesystem, Rect { height: 2, ..line(top, 1) }, paint);
            let area = Rect { height: 2, ..line(top, 3) };
            match &model.table {
                Some(table) => table::brief(table, fact("stored", area, paint), paint),
                None => counting(model, fact("stored", area, paint), paint),
            }
        }
        Shape::Stacked => {
            facts(filesystem, Rect { height: 5, ..top }, paint);
            let area = Rect { y: top.y + 6, height: top.height - 8, ..top };
            stored(model, area, paint);
        }
        Shape::Beside => {
            let half = top.width / 2 - 2;
            facts(filesystem, Rect { height: 5, width: half, ..top }, paint);
            let area = Rect { x: top.x + half + 4, width: top.width - half - 4, ..top };
            stored(model, Rect { height: top.height - 3, ..area }, paint);
        }
    }
    let heading = line(top, top.height.saturating_sub(1));
    subvolumes::draw(model, heading, rows, paint);
}

fn stored(model: &Model, area: Rect, paint: &mut Paint<'_>) {
    match &model.table {
        Some(table) => table::draw(table, area, paint),
        None => counting(model, area, paint),
    }
}

fn counting(model: &Model, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    match model.scan {
        Scan::Running { done, total } if total > 0 => {
            let bar = Rect { width: area.width.min(40), ..line(area, 0) };
            paint.track(bar);
            paint.bar(bar, done, total, look.accent());
            let below = line(area, 1);
            paint.text(below.x, below.y, below.width, ("being counted", look.quiet()));
        }
        Scan::Failed => {
            paint.text(area.x, area.y, area.width, ("not counted", look.bad()));
        }
        _ => {
            paint.text(area.x, area.y, area.width, ("being counted", look.quiet()));
        }
    }
}

/// Names a fact; its value has the area that comes back.
fn fact(name: &str, area: Rect, paint: &mut Paint<'_>) -> Rect {
    let style = paint.look.quiet();
    paint.text(area.x, area.y, LABELS - 1, (name, style));
    Rect { x: area.x + LABELS, width: area.width.saturating_sub(LABELS), ..area }
}

fn identity(filesystem: &Filesystem, area: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let value = fact("filesystem", area, paint);
    let label = if filesystem.label.is_empty() { "no label" } else { &filesystem.label };
    let uuid_width = width(&filesystem.uuid) as u16;
    let label_width = value.width.saturating_sub(uuid_width + 2).max(8);
    let label = clip(label, label_width.into(), look.ellipsis());
    let spans = [(&*label, look.strong()), ("  ", Style::new()), (&filesystem.uuid, look.quiet())];
    paint.spans(value.x, value.y, value.width, &spans);
}

fn facts(filesystem: &Filesystem, area: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    identity(filesystem, line(area, 0), paint);
    let devices: Vec<String> = filesystem
        .devices
        .iter()
        .map(|device| format!("{} {}", device.name, size(device.bytes)))
        .collect();
    let value = fact("devices", line(area, 1), paint);
    paint.text(value.x, value.y, value.width, (&devices.join(look.dot()), Style::new()));
    let mut profiles = filesystem.profiles.clone();
    profiles.push(filesystem.format.clone());
    let value = fact("profiles", line(area, 2), paint);
    paint.text(value.x, value.y, value.width, (&profiles.join(look.dot()), Style::new()));
    space(filesystem, Rect { height: 2, ..line(area, 3) }, paint);
}

/// A bar of the space, and what its parts are.
fn space(filesystem: &Filesystem, area: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let space = filesystem.space;
    let parts = [
        (Part::Data, "data", space.data),
        (Part::Metadata, "metadata", space.metadata),
        (Part::Free, "free", space.free),
        (Part::Unallocated, "unallocated", space.unallocated),
    ];
    let whole = parts.iter().map(|(.., bytes)| bytes).sum();
    let value = fact("space", area, paint);
    let drawn = parts.map(|(part, _, bytes)| (bytes, look.space(part)));
    // What nothing is in is the bar's ground.
    paint.track(line(value, 0));
    paint.stacked(line(value, 0), &drawn[..3], whole);
    let legend = line(value, 1);
    let is_narrow = legend.width < 76;
    let mut x = legend.x;
    for (rank, (part, name, bytes)) in parts.into_iter().enumerate() {
        let name = match part {
            Part::Metadata if is_narrow => "meta",
            Part::Unallocated if is_narrow => "unalloc",
            _ => name,
        };
        let text = format!(" {name} {}", brief_size(bytes));
        let left = legend.right().saturating_sub(x);
        if usize::from(left) < text.len() + 1 {
            break;
        }
        let sign = if rank == 3 { look.sign("░", ".") } else { table::key(rank, paint) };
        x += paint.spans(x, legend.y, left, &[(sign, look.space(part)), (&text, Style::new())]) + 2;
    }
}
