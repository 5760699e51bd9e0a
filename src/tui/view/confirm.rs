//! The last question. Its words come from the plan.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::frame::chosen;
use super::paint::{Paint, line};
use super::plan::skips;
use crate::tui::model::{Job, Model};
use crate::tui::text::{duration, size, width};

pub(super) fn draw(model: &Model, body: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    let (Some(plan), Some(filesystem)) = (&model.plan, &model.filesystem) else { return };
    let amounts = plan.amounts();
    let devices: Vec<&str> = filesystem.devices.iter().map(|device| &*device.name).collect();
    let mut facts: Vec<(&str, String)> = vec![
        ("device", devices.join(" ")),
        ("state", format!("generation {}", filesystem.generation)),
        ("what", chosen(&plan.subjects)),
        (
            "data",
            format!(
                "{} on disk, {} uncompressed",
                size(amounts.disk()),
                size(amounts.uncompressed)
            ),
        ),
    ];
    if plan.job == Job::Recompress {
        facts.push(("to", plan.choice().target.to_string()));
    }
    if let Some(known) = plan.choice().prediction {
        let (sign, margin) = (look.sign("±", "+-"), size(known.margin));
        let time = duration(known.time);
        facts
            .push(("should be", format!("{} {sign} {margin}, in about {time}", size(known.after))));
    }
    if let Some(survey) = &plan.survey {
        facts.push(("left alone", skips(&survey.skips, look.dot())));
        if !survey.shared_with.is_empty() {
            let count = survey.shared_with.len();
            facts.push(("also in", format!("{count} other subvolumes, which stay shared")));
        }
    }
    let title = format!("{}: write to the device?", plan.job.title());
    paint.text(body.x, body.y, body.width, (&title, look.strong()));
    let air = u16::from(body.height > facts.len() as u16 + 5);
    let mut y = 1 + air;
    for (name, text) in &facts {
        let at = line(body, y);
        if at.height == 0 {
            return;
        }
        paint.text(at.x, at.y, 11, (name, look.quiet()));
        paint.text(at.x + 12, at.y, at.width.saturating_sub(12), (text, Style::new()));
        y += 1;
    }
    y += air;
    let refusal = model.refusal.as_ref().or(filesystem.refusal.as_ref());
    let below =
        Rect { y: (body.y + y).min(body.bottom()), height: body.height.saturating_sub(y), ..body };
    if let Some(refusal) = refusal {
        paint.text(below.x, below.y, below.width, ("It can't be written.", look.bad()));
        let below = Rect { y: below.y + 1, height: below.height.saturating_sub(1), ..below };
        wrapped(refusal, below, paint);
        return;
    }
    question(model, below, paint);
}

/// What a key would do, or what the last one does.
fn question(model: &Model, area: Rect, paint: &mut Paint<'_>) {
    let look = model.look;
    if model.is_running() {
        let is_stopping = model.run.as_ref().is_some_and(|run| run.is_stopping);
        let words = if is_stopping {
            "stopping before anything is written"
        } else {
            "opening for writing and checking the metadata; q stops"
        };
        paint.text(area.x, area.y, area.width, (words, look.accent()));
        return;
    }
    let spans = [
        ("Nothing has been written yet. ", Style::new()),
        ("Y", look.strong().patch(look.warning())),
        (" begins, q goes back.", Style::new()),
    ];
    paint.spans(area.x, area.y, area.width, &spans);
}

/// Text in as many lines as it takes; tells how many that were.
pub(super) fn wrapped(text: &str, area: Rect, paint: &mut Paint<'_>) -> u16 {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one from the beginning");
        let space = usize::from(!last.is_empty());
        if !last.is_empty() && width(last) + space + width(word) > area.width.into() {
            lines.push(word.to_owned());
        } else {
            last.push_str(&" "[..space]);
            last.push_str(word);
        }
    }
    for (index, text) in lines.iter().enumerate() {
        let at = line(area, index as u16);
        if at.height > 0 {
            paint.text(at.x, at.y, at.width, (text, Style::new()));
        }
    }
    lines.len() as u16
}

/// Paragraphs, the first one a title.
pub(super) fn words(paragraphs: &[&str], area: Rect, paint: &mut Paint<'_>) {
    let mut area = area;
    for (index, paragraph) in paragraphs.iter().enumerate() {
        let used = wrapped(paragraph, area, paint);
        if index == 0 {
            let style = paint.look.bad();
            paint.overlay(line(area, 0), style);
        }
        area = Rect {
            y: (area.y + used).min(area.bottom()),
            height: area.height.saturating_sub(used),
            ..area
        };
    }
}
