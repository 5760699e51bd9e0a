//! A run: how far it is, how fast, what it has saved; in the end, before and after.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::confirm::wrapped;
use super::frame::chosen;
use super::paint::{Paint, line, split};
use super::plan::skips;
use crate::tui::model::{Amounts, End, Job, Model, Run};
use crate::tui::text::{count, duration, percent, plural, size};

/// Columns of the names of facts.
const LABELS: u16 = 12;

pub(super) fn draw(model: &Model, body: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let Some(run) = &model.run else { return };
    let what = chosen(&run.request.subjects);
    let title = match run.request.job {
        Job::Recompress => format!("Recompress {what} to {}", run.request.target),
        Job::Defragment => format!("Defragment {what}"),
    };
    paint.text(body.x, body.y, body.width, (&title, look.strong()));
    progress(model, run, line(body, 1), paint);
    let (_, below) = split(body, 2);
    match &run.end {
        Some(end) => ended(model, run, end, below, paint),
        None => going_on(model, run, below, paint),
    }
}

fn progress(model: &Model, run: &Run, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let progress = &run.progress;
    let is_done = run.end == Some(End::Done);
    let total = run.total().max(1);
    let done = if is_done { total } else { progress.done.min(total) };
    let share = percent(done, total, "");
    let (bar, style) = (Rect { width: area.width.saturating_sub(6), ..area }, look.accent());
    paint.track(bar);
    paint.bar(bar, done, total, style);
    paint.right(bar.right() + 1, area.y, 5, (&share, look.strong()));
}

fn going_on(model: &Model, run: &Run, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let (state, style) = match () {
        () if run.is_stopping => ("stopping after the current commit", look.warning()),
        () if run.is_paused() => ("paused, p goes on", look.warning()),
        () => ("", Style::new()),
    };
    let at = line(area, 0);
    if state.is_empty() {
        paint.text(at.x, at.y, at.width, (&run.progress.path, look.quiet()));
    } else {
        paint.text(at.x, at.y, at.width, (state, style));
    }
    let facts = facts(model, run);
    let air = u16::from(usize::from(area.height) >= facts.len() + 5);
    let (_, below) = split(area, 1 + air);
    let mut y = 0;
    for (name, text) in &facts {
        let at = line(below, y);
        if at.height == 0 {
            return;
        }
        paint.text(at.x, at.y, LABELS - 1, (name, look.quiet()));
        let width = at.width.saturating_sub(LABELS);
        paint.text(at.x + LABELS, at.y, width, (text, Style::new()));
        y += 1;
    }
    let (_, rest) = split(below, y + air);
    sparkline(run, Rect { height: rest.height.min(6), ..rest }, paint);
}

fn facts(model: &Model, run: &Run) -> Vec<(&'static str, String)> {
    let look = model.look;
    let progress = &run.progress;
    let dot = look.dot();
    let saved = match u64::try_from(progress.saved) {
        Ok(saved) => size(saved),
        Err(_) => format!("{}{}", look.sign("−", "-"), size(progress.saved.unsigned_abs())),
    };
    let left = run.remaining(model.now).map_or_else(|| look.dash().to_owned(), duration);
    let ratio = percent(progress.renewed, progress.replaced, look.dash());
    let foretold = run.prediction.map_or_else(String::new, |known| {
        let ratio = percent(known.after, run.before.disk(), look.dash());
        format!(", {ratio} foretold")
    });
    vec![
        ("saved", format!("{saved}{dot}{} rewritten", plural(progress.extents, "extent"))),
        ("ratio", format!("{ratio} of what was there{foretold}")),
        ("read", format!("{}{dot}{} written", size(progress.done), size(progress.written))),
        ("time", format!("{}{dot}{left} left", duration(run.worked(model.now)))),
        ("commits", commits(progress.commits, progress.pass)),
        ("left alone", skips(&progress.skips, dot)),
        ("speed", format!("{}/s", size(run.rate(model.now)))),
    ]
}

fn commits(commits: u64, pass: u32) -> String {
    if pass > 1 { format!("{}, pass {pass}", count(commits)) } else { count(commits) }
}

/// Throughput over time, the present at the right, as tall as there is room.
fn sparkline(run: &Run, area: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let heights = look.heights();
    let (top, steps) = (run.rates.iter().copied().max().unwrap_or(0), heights.len() as u64);
    if top == 0 {
        return;
    }
    let shown = run.rates.len().min(area.width.into());
    for (index, &rate) in run.rates[run.rates.len() - shown..].iter().enumerate() {
        let full = u64::from(area.height) * steps;
        let level = (u128::from(rate) * u128::from(full)).div_ceil(u128::from(top)) as u64;
        for row in 0..area.height {
            let above = level.saturating_sub(u64::from(row) * steps).min(steps);
            if above > 0 {
                let sign = heights[above as usize - 1];
                let y = area.bottom() - 1 - row;
                paint.text(area.x + index as u16, y, 1, (sign, look.accent()));
            }
        }
    }
}

fn ended(model: &Model, run: &Run, end: &End, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let time = duration(run.worked(model.now));
    let (words, style) = match end {
        End::Done => (format!("Done in {time}."), look.good()),
        End::Stopped => {
            (format!("Stopped after {time}; what was committed stays."), look.warning())
        }
        End::NoSpace => {
            ("No space left to work in; what was committed stays.".to_owned(), look.warning())
        }
        End::Failed(why) => (format!("Failed; the last commit holds. {why}"), look.bad()),
    };
    let used = wrapped(&words, area, paint);
    paint.overlay(Rect { height: used.min(area.height), ..area }, style);
    let air = u16::from(area.height >= used + 12);
    let (_, mut below) = split(area, used + air);
    let rows = [
        ("whole filesystem", run.whole.0, run.whole.1),
        ("chosen rows", Some(run.before.disk()), run.after.as_ref().map(Amounts::disk)),
    ];
    for (name, before, after) in rows {
        let Some(before) = before else { continue };
        compare(name, before, after, Rect { height: below.height.min(3), ..below }, paint);
        below = split(below, 3 + air).1;
    }
    let progress = &run.progress;
    let facts = [
        (
            "rewritten",
            format!(
                "{} in {}",
                plural(progress.extents, "extent"),
                plural(progress.commits, "commit")
            ),
        ),
        ("left alone", skips(&progress.skips, look.dot())),
    ];
    for (index, (name, text)) in facts.iter().enumerate() {
        let at = line(below, index as u16);
        if at.height > 0 {
            paint.text(at.x, at.y, LABELS - 1, (name, look.quiet()));
            let width = at.width.saturating_sub(LABELS);
            paint.text(at.x + LABELS, at.y, width, (text, Style::new()));
        }
    }
}

/// Two bars, one below the other.
fn compare(name: &str, before: u64, after: Option<u64>, area: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let title = line(area, 0);
    let change = match after {
        Some(after) if after < before => {
            let saved = before - after;
            let share = percent(saved, before, look.dash());
            format!("{name}: {} less, {share}", size(saved))
        }
        Some(after) if after > before => format!("{name}: {} more", size(after - before)),
        Some(_) => format!("{name}: as before"),
        None => format!("{name}: being counted"),
    };
    paint.text(title.x, title.y, title.width, (&change, look.strong()));
    let whole = before.max(after.unwrap_or(0));
    let rows = [("before", Some(before), look.quiet()), ("after", after, look.good())];
    for (index, (name, bytes, style)) in rows.into_iter().enumerate() {
        let row = line(area, index as u16 + 1);
        if row.height == 0 {
            return;
        }
        paint.text(row.x, row.y, 7, (name, look.quiet()));
        let Some(bytes) = bytes else { continue };
        paint.right(row.x + 7, row.y, 10, (&size(bytes), Style::new()));
        let bar = Rect { x: row.x + 19, width: row.width.saturating_sub(19).min(80), ..row };
        paint.bar(bar, bytes, whole, style);
    }
}
