//! The plan: what can be picked and what it should save, options, what will be left alone.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::frame::chosen;
use super::paint::{Paint, Wanted, fit, line, split};
use super::subvolumes::signs;
use crate::compress::{Algorithm, Target};
use crate::tui::model::{Choice, Job, Method, Model, Plan, Prediction, Skip};
use crate::tui::text::{duration, percent, plural, size};

/// Lines above the choices, and below them.
const ABOVE: u16 = 3;
const BELOW: u16 = 5;

/// What is above the choices, the choices, what is below them.
fn parts(plan: &Plan, body: Rect) -> (Rect, Rect, Rect) {
    let (above, rest) = split(body, ABOVE);
    let choices = (plan.choices.len() as u16).min(rest.height.saturating_sub(BELOW));
    let (choices, below) = split(rest, choices);
    (above, choices, below)
}

pub(super) fn rows_area(model: &Model, body: Rect) -> Rect {
    model.plan.as_ref().map_or(Rect { height: 0, ..body }, |plan| parts(plan, body).1)
}

pub(super) fn draw(model: &Model, body: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let Some(plan) = &model.plan else { return };
    let (above, rows, below) = parts(plan, body);
    let title = format!("{} ", plan.job.title());
    let what = chosen(&plan.subjects);
    paint.spans(above.x, above.y, above.width, &[(&title, look.strong()), (&what, look.strong())]);
    let amounts = plan.amounts();
    let files = plan.survey.as_ref().and_then(|survey| survey.files);
    let files =
        files.map_or_else(String::new, |files| [look.dot(), &plural(files, "file")].concat());
    let facts = format!(
        "now {} on disk, {} uncompressed, {}{files}",
        size(amounts.disk()),
        size(amounts.uncompressed),
        percent(amounts.disk(), amounts.uncompressed, look.dash()),
    );
    let at = line(above, 1);
    paint.text(at.x, at.y, at.width, (&facts, look.quiet()));
    draw_choices(plan, line(above, 2), rows, paint);
    let air = u16::from(below.height > BELOW);
    draw_options(plan, split(below, air).1, paint);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    After,
    Margin,
    Saving,
    Percent,
    Time,
}

use Column as C;

const COLUMNS: [(Column, &str, u16, u16); 5] = [
    (C::After, "After", 10, 0),
    (C::Margin, "", 10, 2),
    (C::Saving, "Saves", 10, 1),
    (C::Percent, "Perc", 5, 3),
    (C::Time, "Time", 13, 4),
];

fn draw_choices(plan: &Plan, heading: Rect, rows: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let wanted = COLUMNS.map(|(column, _, width, rank)| Wanted { column, width, rank });
    let (rest, columns) = fit(heading, 22, &wanted);
    let title = if plan.job == Job::Recompress { "To" } else { "" };
    paint.text(heading.x + 2, heading.y, 10, (title, look.quiet()));
    for placed in &columns {
        let name = COLUMNS.iter().find(|(column, ..)| *column == placed.column);
        let name = name.map_or("", |(_, name, ..)| name);
        paint.right(placed.x, heading.y, placed.width, (name, look.quiet()));
    }
    let window = plan.cursor.window(plan.choices.len(), rows.height.into());
    let now = plan.amounts();
    let predictions = plan.choices.iter().filter_map(|choice| choice.prediction);
    let whole = predictions.map(|known| known.after + known.margin).fold(now.disk(), u64::max);
    for (index, y) in window.zip(rows.y..rows.bottom()) {
        let row = Rect { y, height: 1, ..rows };
        let choice = plan.choices[index];
        signs(row, index == plan.cursor.at, false, paint);
        let name = match plan.job {
            Job::Recompress => choice.target.to_string(),
            Job::Defragment => "joined".to_owned(),
        };
        let style = if index == plan.cursor.at { look.strong() } else { Style::new() };
        paint.text(row.x + 2, y, 9, (&name, style));
        let bar = Rect { x: row.x + 11, width: rest.saturating_sub(11), ..row };
        draw_prediction_bar(choice, whole, bar, paint);
        for placed in &columns {
            let text = match choice.prediction {
                Some(known) => cell(placed.column, &known, now.disk(), now.uncompressed, paint),
                None if placed.column == C::After => look.ellipsis().to_owned(),
                None => String::new(),
            };
            let style = match choice.prediction {
                Some(known) if placed.column == C::Saving && known.after < now.disk() => {
                    look.good()
                }
                Some(known) if placed.column == C::Saving && known.after > now.disk() => look.bad(),
                _ if placed.column == C::Margin => look.quiet(),
                _ => style,
            };
            paint.right(placed.x, y, placed.width, (&text, style));
        }
    }
}

fn cell(
    column: Column,
    known: &Prediction,
    now: u64,
    uncompressed: u64,
    paint: &Paint<'_>,
) -> String {
    let look = paint.look;
    match column {
        C::After => size(known.after),
        C::Margin => format!("{}{}", look.sign("±", "+-"), short(known.margin)),
        C::Saving if known.after > now => format!("+{}", short(known.after - now)),
        C::Saving if known.after == now => look.dash().to_owned(),
        C::Saving => format!("{}{}", look.sign("−", "-"), short(now - known.after)),
        C::Percent => percent(known.after, uncompressed, look.dash()),
        C::Time => duration(known.time),
    }
}

/// A size with a sign before it has one column less.
fn short(bytes: u64) -> String {
    let text = size(bytes);
    if text.len() < 10 { text } else { text.replace(' ', "") }
}

/// The size afterwards; what it may be wrong by is the lighter end.
fn draw_prediction_bar(choice: Choice, whole: u64, bar: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let Some(known) = choice.prediction else { return };
    let method = match choice.target {
        Target::None => Method::Uncompressed,
        Target::Codec(codec) => Method::from(Some::<Algorithm>(codec.algorithm)),
    };
    let scale =
        |bytes: u64| (u128::from(bytes) * u128::from(bar.width) / u128::from(whole.max(1))) as u16;
    let least = known.after.saturating_sub(known.margin);
    let most = scale(known.after + known.margin).min(bar.width);
    let shade = look.sign("░", ".").repeat(most.into());
    paint.text(bar.x, bar.y, most, (&shade, look.method(method)));
    paint.bar(bar, least.max(1), whole, look.method(method));
}

fn draw_options(plan: &Plan, area: Rect, paint: &mut Paint<'_>) {
    let look = paint.look;
    let options = &plan.options;
    let only = if options.only_uncompressed { "yes" } else { "no" };
    let gain = format!("{} %", options.min_gain);
    let spans = [
        ("u", look.strong()),
        (" only uncompressed: ", look.quiet()),
        (only, Style::new()),
        ("   m M", look.strong()),
        (" least gain: ", look.quiet()),
        (&*gain, Style::new()),
    ];
    let at = line(area, 0);
    paint.spans(at.x, at.y, at.width, &spans);
    let excludes = match &options.excludes[..] {
        [] => "nothing".to_owned(),
        globs => crate::tui::text::name(globs.join("  ").as_bytes()),
    };
    let spans = [("e", look.strong()), (" exclude: ", look.quiet()), (&*excludes, Style::new())];
    let at = line(area, 1);
    paint.spans(at.x, at.y, at.width, &spans);
    let Some(survey) = &plan.survey else {
        let at = line(area, 2);
        paint.text(at.x, at.y, at.width, ("the data is being looked at", look.quiet()));
        return;
    };
    let skips = skips(&survey.skips, look.dot());
    let shared = match &survey.shared_with[..] {
        [] => "nothing else".to_owned(),
        [path] => path.clone(),
        paths => format!("{} subvolumes, {}", paths.len(), paths.join(", ")),
    };
    for (index, (name, text)) in
        [("left alone: ", skips), ("shared with: ", shared)].iter().enumerate()
    {
        let at = line(area, index as u16 + 2);
        paint.spans(at.x, at.y, at.width, &[(name, look.quiet()), (text, Style::new())]);
    }
    if let Some(known) = plan.choice().prediction {
        let at = line(area, 4);
        let text = match known.samples {
            0 => "nothing to sample: data inside of the trees is taken as it is".to_owned(),
            samples => format!("from {} of the data", plural(samples.into(), "sample")),
        };
        paint.text(at.x, at.y, at.width, (&text, look.quiet()));
    }
}

/// What is left alone, in a line.
pub(super) fn skips(skips: &[Skip], dot: &str) -> String {
    if skips.is_empty() {
        return "nothing".to_owned();
    }
    let parts: Vec<String> = skips
        .iter()
        .map(|skip| match skip.bytes {
            0 => format!("{} in {}", skip.reason, plural(skip.extents, "extent")),
            bytes => format!("{} {}", skip.reason, size(bytes)),
        })
        .collect();
    parts.join(dot)
}
