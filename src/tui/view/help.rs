//! Help for the screen that is seen: the same table that keys are looked up in.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::paint::{Paint, line};
use crate::tui::keymap::{Binding, KEYS};
use crate::tui::model::{Model, Screen, Step};

/// What the words of a screen mean.
fn words(screen: Screen) -> &'static [(&'static str, &'static str)] {
    match screen {
        Screen::Overview | Screen::Browser | Screen::Inspector => &[
            ("Disk", "on disk, each extent counted once"),
            ("Uncompressed", "what the same extents hold"),
            ("Referenced", "sum of all pieces; snapshots count again"),
            ("Exclusive", "what deleting this alone would free"),
            ("Waste", "parts of extents that nothing refers to any more"),
            ("Perc", "disk usage as a share of uncompressed"),
            ("Fragments", "pieces that are not neighbours on disk"),
        ],
        Screen::Plan => &[
            ("After", "foretold from samples, with its margin"),
            ("Saves", "against what is on disk now"),
        ],
        Screen::Confirm => &[("Y", "a capital one; nothing is written before")],
        Screen::Run => &[("stopping", "what is committed stays, none half done")],
    }
}

fn bindings(screen: Screen) -> impl Iterator<Item = &'static Binding> {
    KEYS.iter().filter(move |binding| binding.is_on(screen))
}

fn len(screen: Screen) -> usize {
    bindings(screen).count() + 1 + words(screen).len()
}

pub(super) fn scrolled(model: &Model, body: Rect, top: usize, step: Step) -> usize {
    let height = usize::from(body.height.saturating_sub(1));
    let last = len(model.screen()).saturating_sub(height);
    match step {
        Step::By(lines) => top.saturating_add_signed(lines),
        Step::Halves(halves) => top.saturating_add_signed(halves * (height / 2) as isize),
        Step::First => 0,
        Step::Last => last,
    }
    .min(last)
}

pub(super) fn draw(model: &Model, top: usize, body: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let screen = model.screen();
    let title = match screen {
        Screen::Overview => "Keys of the overview",
        Screen::Browser => "Keys of the browser",
        Screen::Inspector => "Keys of the inspector",
        Screen::Plan => "Keys of the plan",
        Screen::Confirm => "Keys of the confirmation",
        Screen::Run => "Keys of the run",
    };
    paint.heading(line(body, 0), title);
    let keys = bindings(screen).map(|binding| (binding.label, binding.help, look.strong()));
    let words = words(screen).iter().map(|&(word, meaning)| (word, meaning, look.accent()));
    let lines: Vec<(&str, &str, Style)> =
        keys.chain(std::iter::once(("", "", Style::new()))).chain(words).collect();
    let height = body.height.saturating_sub(1);
    let top = top.min(lines.len().saturating_sub(height.into()));
    for (index, &(name, text, style)) in lines.iter().skip(top).take(height.into()).enumerate() {
        let at = line(body, index as u16 + 1);
        let plain = look.sign("", "ascii") == "ascii";
        let name = if plain { ascii(name) } else { name.to_owned() };
        paint.text(at.x + 1, at.y, 13, (&name, style));
        paint.text(at.x + 15, at.y, at.width.saturating_sub(15), (text, Style::new()));
    }
}

/// Names of keys without their signs.
fn ascii(name: &str) -> String {
    let words = [("→", "Right"), ("←", "Left"), ("↓", "Down"), ("↑", "Up"), ("⌫", "BkSp")];
    words.iter().fold(name.to_owned(), |name, (sign, word)| name.replace(sign, word))
}
