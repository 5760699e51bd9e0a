//! Drawing: pure functions of the model into a buffer, one screen a file.
//!
//! A screen is a header, a body, a line for what is to be told, and the keys that matter now. Where
//! things are is told by the functions here, which `update` asks too: the view decides what a line of
//! the terminal is, `update` what a click on it means.

mod browser;
mod confirm;
mod frame;
mod help;
mod inspector;
mod overview;
mod paint;
mod plan;
mod run;
mod subvolumes;
mod table;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;

use super::model::{Column, Model, Screen, Step};
use paint::Paint;

/// What a screen needs at least.
const SMALLEST: (u16, u16) = (40, 10);

impl Widget for &Model {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let paint = &mut Paint { buf, look: self.look };
        if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
            paint.text(area.x, area.y, area.width, ("too small", self.look.strong()));
            return;
        }
        let areas = frame::areas(area);
        frame::header(self, areas.header, paint);
        if let Some(top) = self.help {
            help::draw(self, top, areas.body, paint);
        } else {
            match self.screen() {
                Screen::Overview => overview::draw(self, areas.body, paint),
                Screen::Browser => browser::draw(self, areas.body, paint),
                Screen::Inspector => inspector::draw(self, areas.body, paint),
                Screen::Plan => plan::draw(self, areas.body, paint),
                Screen::Confirm => confirm::draw(self, areas.body, paint),
                Screen::Run => run::draw(self, areas.body, paint),
            }
        }
        frame::status(self, areas.status, paint);
        frame::footer(self, areas.footer, paint);
    }
}

/// The body of the screen in the terminal's present size.
fn body(model: &Model) -> Rect {
    let (width, height) = model.size;
    frame::areas(Rect::new(0, 0, width.max(SMALLEST.0), height.max(SMALLEST.1))).body
}

/// Where the rows of the list that is seen are.
pub fn list_area(model: &Model) -> Rect {
    let body = body(model);
    match model.screen() {
        Screen::Overview => overview::rows_area(model, body),
        Screen::Browser => browser::rows_area(body),
        Screen::Inspector => inspector::rows_area(model, body),
        Screen::Plan => plan::rows_area(model, body),
        Screen::Confirm | Screen::Run => Rect { height: 0, ..body },
    }
}

/// How many rows of that list are seen.
pub fn list_height(model: &Model) -> usize {
    list_area(model).height.into()
}

/// The browser's column whose heading is at this place.
pub fn column_at(model: &Model, at: Position) -> Option<Column> {
    browser::column_at(model, body(model), at)
}

/// How many rows the inspector's list has.
pub fn inspector_len(model: &Model) -> usize {
    inspector::len(model, body(model))
}

/// From which line on help is seen after a step.
pub fn scrolled_help(model: &Model, top: usize, step: Step) -> usize {
    help::scrolled(model, body(model), top, step)
}
