//! The mouse: a click selects a row or orders by a column, a second one on the row opens it.

use ratatui::layout::Position;

use crate::tui::message::Effect;
use crate::tui::model::{Model, Screen, Step};
use crate::tui::view;

impl Model {
    pub(super) fn click(&mut self, column: u16, line: u16) -> Option<Effect> {
        self.notice = None;
        if self.help.take().is_some() {
            return None;
        }
        let at = Position::new(column, line);
        let heading = view::column_at(self, at).filter(|_| self.screen() == Screen::Browser);
        if let Some(column) = heading {
            self.sort_by(column);
            return None;
        }
        let rows = view::list_area(self);
        if !rows.contains(at) {
            return None;
        }
        let row = self.row_at(usize::from(line - rows.y))?;
        let current = match self.screen() {
            Screen::Overview => self.cursor.at,
            Screen::Browser => self.listing()?.cursor.at,
            Screen::Inspector => self.inspection.as_ref()?.cursor.at,
            Screen::Plan => self.plan.as_ref()?.cursor.at,
            Screen::Confirm | Screen::Run => return None,
        };
        if row == current && matches!(self.screen(), Screen::Overview | Screen::Browser) {
            return self.enter();
        }
        self.go(Step::By(row as isize - current as isize))
    }
}
