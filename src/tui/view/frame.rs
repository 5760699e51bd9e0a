//! What every screen has: header, status line, footer.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::paint::Paint;
use crate::tui::keymap::KEYS;
use crate::tui::model::{Model, Notice, Run, Scan, Screen, Subject, shown_path, sum};
use crate::tui::text::{count, percent, plural, size, width};

/// The parts of a screen.
pub(super) struct Areas {
    pub(super) header: Rect,
    pub(super) body: Rect,
    pub(super) status: Rect,
    pub(super) footer: Rect,
}

/// The parts of a screen; a tall one has air between them.
pub(super) fn areas(area: Rect) -> Areas {
    let air = u16::from(area.height >= 20);
    let inner = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let line = |y: u16| Rect { y: area.y + y, height: 1, ..inner };
    let body = Rect { y: area.y + 1 + air, height: area.height - 3 - air, ..inner };
    Areas { header: line(0), body, status: line(area.height - 2), footer: line(area.height - 1) }
}

/// The program, the filesystem, and how far counting is.
pub(super) fn header(model: &Model, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let (state, style) = state(model);
    let state_width = (width(&state) as u16).min(area.width / 2);
    paint.right(area.right() - state_width, area.y, state_width, (&state, style));
    let devices = model.devices.join(" ");
    let label = model.filesystem.as_ref().map_or("", |filesystem| filesystem.label.as_str());
    let gap = if label.is_empty() { "" } else { "  " };
    let spans = [
        ("btrpress", look.accent().patch(look.strong())),
        ("  ", Style::new()),
        (label, look.strong()),
        (gap, Style::new()),
        (&*devices, look.quiet()),
    ];
    paint.spans(area.x, area.y, area.width.saturating_sub(state_width + 2), &spans);
}

fn state(model: &Model) -> (String, Style) {
    let look = model.look;
    let turning = look.sign("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\");
    let turns = turning.chars().count();
    let turn = model.now.as_millis() as usize / 100 % turns;
    let sign = turning.chars().nth(turn).unwrap_or(' ');
    if model.failure.is_some() {
        return ("not opened".to_owned(), look.bad());
    }
    if model.is_running() {
        return (format!("writing {sign}"), look.warning());
    }
    match model.scan {
        Scan::Opening => (format!("opening {sign}"), look.accent()),
        Scan::Running { done, total: 0 } => {
            (format!("counting, {} blocks {sign}", count(done)), look.accent())
        }
        Scan::Running { done, total } => {
            (format!("counting {} {sign}", percent(done, total, "")), look.accent())
        }
        Scan::Failed => ("not fully counted".to_owned(), look.bad()),
        Scan::Done if model.counting.is_some_and(|(_, done, total)| done < total) => {
            let (_, done, total) = model.counting.unwrap_or_default();
            (format!("counting rows {} {sign}", percent(done, total, "")), look.accent())
        }
        Scan::Done => match &model.filesystem {
            Some(filesystem) if filesystem.refusal.is_some() => {
                ("read-only".to_owned(), look.warning())
            }
            Some(filesystem) => (format!("generation {}", filesystem.generation), look.quiet()),
            None => (String::new(), look.quiet()),
        },
    }
}

/// A notice, what is being typed, or what is marked.
pub(super) fn status(model: &Model, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    match &model.notice {
        Some(Notice::Failure(text)) => {
            paint.text(area.x, area.y, area.width, (text, look.bad()));
            return;
        }
        Some(Notice::Info(text)) => {
            paint.text(area.x, area.y, area.width, (text, look.accent()));
            return;
        }
        None if model.help.is_some() => return,
        None => {}
    }
    match model.screen() {
        Screen::Overview => overview_status(model, area, paint),
        Screen::Browser => browser_status(model, area, paint),
        Screen::Plan => {
            if let Some(text) = model.plan.as_ref().and_then(|plan| plan.typing.as_ref()) {
                let cursor = look.sign("▏", "_");
                let spans =
                    [("exclude ", look.strong()), (text, Style::new()), (cursor, look.accent())];
                paint.spans(area.x, area.y, area.width, &spans);
            }
        }
        Screen::Inspector => {
            let text = super::inspector::referrers(model);
            paint.text(area.x, area.y, area.width, (&text, look.quiet()));
        }
        Screen::Confirm | Screen::Run => {}
    }
}

fn overview_status(model: &Model, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    if model.marked.is_empty() {
        let refusal = model.filesystem.as_ref().and_then(|known| known.refusal.as_ref());
        if let Some(refusal) = refusal {
            let text = format!("can't be written: {refusal}");
            paint.text(area.x, area.y, area.width, (&text, look.warning()));
        }
        return;
    }
    let marked = format!("{} marked", count(model.marked.len() as u64));
    let freed = match model.freed_by_marked() {
        Some(bytes) => format!("{}dropping them together frees {}", look.dot(), size(bytes)),
        None => format!("{}what dropping them frees is being counted", look.dot()),
    };
    paint.spans(area.x, area.y, area.width, &[(&marked, look.accent()), (&freed, Style::new())]);
}

fn browser_status(model: &Model, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let Some(listing) = model.listing() else { return };
    let mut x = area.x;
    if model.is_filtering || !listing.filter.is_empty() {
        let cursor = if model.is_filtering { look.sign("▏", "_") } else { "" };
        let hits = format!("  {} of {}", listing.shown.len(), listing.entries.len());
        let filter = crate::tui::text::name(listing.filter.as_bytes());
        let spans = [
            ("/", look.accent()),
            (&*filter, look.strong()),
            (cursor, look.accent()),
            (&*hits, look.quiet()),
            ("  ", Style::new()),
        ];
        x += paint.spans(x, area.y, area.width, &spans);
    }
    let left = area.right().saturating_sub(x);
    let (marked, total) = listing.marked_total();
    if marked == 0 {
        if listing.filter.is_empty() && !model.is_filtering && !listing.is_loading {
            let rows = plural(listing.entries.len() as u64, "row");
            paint.text(x, area.y, left, (&rows, look.quiet()));
        }
        return;
    }
    let facts = format!(
        "{dot}{} on disk{dot}{} uncompressed{dot}{} exclusive",
        size(total.disk()),
        size(total.uncompressed),
        size(total.exclusive),
        dot = look.dot()
    );
    let marked = format!("{} marked", count(marked as u64));
    paint.spans(x, area.y, left, &[(&marked, look.accent()), (&facts, Style::new())]);
}

/// The keys that matter now, as many as fit.
pub(super) fn footer(model: &Model, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let hints: Vec<(String, &str)> = hints(model);
    let mut x = area.x;
    // Help and the way out are never left out.
    let always = hints.len().saturating_sub(2);
    let len = |(keys, hint): &(String, &str)| (width(keys) + 1 + width(hint) + 2) as u16;
    let mut reserved: u16 = hints[always..].iter().map(len).sum();
    for (index, hint) in hints.iter().enumerate() {
        if index >= always {
            reserved = reserved.saturating_sub(len(hint));
        } else if x + len(hint) + reserved > area.right() + 2 {
            continue;
        }
        let left = area.right().saturating_sub(x);
        let spans = [(&*hint.0, look.strong()), (" ", Style::new()), (hint.1, look.quiet())];
        x += paint.spans(x, area.y, left, &spans) + 2;
    }
}

fn hints(model: &Model) -> Vec<(String, &'static str)> {
    let of = |keys: &str, hint| (keys.to_owned(), hint);
    if model.help.is_some() {
        return vec![of("j k", "scroll"), of("any key", "close"), of("^c", "quit")];
    }
    if model.is_filtering {
        let (keep, all) = (of("Enter", "keep the filter"), of("Esc", "show all"));
        return vec![of("letters", "narrow"), keep, all];
    }
    if model.plan.as_ref().is_some_and(|plan| plan.typing.is_some()) {
        return vec![of("letters", "a glob"), of("Enter", "add"), of("Esc", "leave it")];
    }
    if model.failure.is_some() {
        return vec![of("r", "try again"), of("?", "help"), of("q", "quit")];
    }
    let screen = model.screen();
    let is_over = model.run.as_ref().is_some_and(|run| run.end.is_some());
    if screen == Screen::Run && is_over {
        return vec![of("q", "back"), of("?", "help"), of("^c", "quit")];
    }
    let can_write = model.filesystem.as_ref().is_some_and(|known| known.refusal.is_none());
    KEYS.iter()
        .filter(|binding| binding.is_on(screen))
        .filter(|binding| screen != Screen::Confirm || can_write || binding.label != "Y")
        .filter_map(|binding| {
            let hint = binding.hint?;
            let mut keys = binding.label.split(' ');
            let key = match hint {
                // Both directions belong together, though the table has a line for each.
                "level" => model.look.sign("← →", "h l"),
                _ => keys.next()?,
            };
            let is_paused = model.run.as_ref().is_some_and(Run::is_paused);
            Some((key.to_owned(), if hint == "pause" && is_paused { "go on" } else { hint }))
        })
        .collect()
}

/// The chosen rows in a few words: their number and kind, or the one row's path.
pub(super) fn chosen(subjects: &[Subject]) -> String {
    match subjects {
        [one] if one.path.is_empty() => "the whole filesystem".to_owned(),
        [one] => format!("{} {}", one.kind.name(), shown_path(&one.path)),
        many => format!("{} rows, {}", many.len(), size(sum(many).disk())),
    }
}
