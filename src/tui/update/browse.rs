//! Going through directories, marking and ordering their rows.

use crate::tui::message::Effect;
use crate::tui::model::{
    Column, Entry, Kind, Listing, Model, Notice, Place, Scan, Screen, Subject, join,
};
use crate::tui::model::{Order, Step};
use crate::tui::view;

impl Model {
    pub(super) fn enter(&mut self) -> Option<Effect> {
        match self.screen() {
            Screen::Overview => {
                let subvolume = self.subvolume()?;
                let (place, path) = (Place::root_of(subvolume.id), subvolume.raw_path.clone());
                self.screens.push(Screen::Browser);
                self.trail = vec![Listing::loading(place, path)];
                Some(Effect::List(vec![place]))
            }
            Screen::Browser => {
                let listing = self.listing()?;
                let entry = listing.selected()?;
                if !entry.kind.is_directory() {
                    return self.inspect();
                }
                let (place, path) = (entry.place, join(&listing.path, &entry.name));
                self.trail.push(Listing::loading(place, path));
                Some(Effect::List(vec![place]))
            }
            Screen::Plan => {
                self.plan.as_ref()?;
                self.screens.push(Screen::Confirm);
                None
            }
            Screen::Inspector | Screen::Confirm | Screen::Run => None,
        }
    }

    pub(super) fn leave(&mut self) {
        self.trail.pop();
        if self.trail.is_empty() {
            self.screens.pop();
        }
        self.is_filtering = false;
    }

    pub(super) fn listed(&mut self, place: Place, entries: Vec<Entry>) {
        let order = self.order;
        let mut waiting = self.trail.iter_mut().filter(|listing| listing.place == place);
        if let Some(listing) = waiting.next() {
            listing.fill(entries, order);
        }
    }

    pub(super) fn not_listed(&mut self, place: Place, why: String) {
        let listing = self.trail.iter_mut().find(|listing| listing.place == place);
        if let Some(listing) = listing {
            listing.is_loading = false;
            self.notice = Some(Notice::Failure(why));
        }
    }

    pub(super) fn mark(&mut self) {
        match self.screen() {
            Screen::Overview => {
                let Some(id) = self.subvolume().map(|subvolume| subvolume.id) else { return };
                if !self.marked.remove(&id) {
                    self.marked.insert(id);
                }
            }
            Screen::Browser => {
                if let Some(listing) = self.trail.last_mut() {
                    listing.toggle();
                }
            }
            _ => return,
        }
        self.go(Step::By(1));
    }

    pub(super) fn invert(&mut self) {
        match self.screen() {
            Screen::Overview => {
                let ids = self.subvolumes.iter().map(|subvolume| subvolume.id);
                self.marked = ids.filter(|id| !self.marked.contains(id)).collect();
            }
            Screen::Browser => {
                if let Some(listing) = self.trail.last_mut() {
                    listing.invert();
                }
            }
            _ => {}
        }
    }

    pub(super) fn sort_by(&mut self, column: Column) {
        let is_reversed = self.order.column == column && !self.order.is_reversed;
        self.order = Order { column, is_reversed, ..self.order };
        self.sort();
    }

    pub(super) fn sort_by_next(&mut self) {
        let metrics = Column::METRICS;
        let at = metrics.iter().position(|&metric| metric == self.order.column);
        let column = at.map_or(metrics[0], |at| metrics[(at + 1) % metrics.len()]);
        self.order = Order { column, is_reversed: false, ..self.order };
        self.sort();
    }

    /// Orders the rows of every directory that is open.
    pub(super) fn sort(&mut self) {
        for listing in &mut self.trail {
            listing.sort(self.order);
        }
    }

    /// Shows every row again; false when nothing was hidden.
    pub(super) fn clear_filter(&mut self) -> bool {
        let Some(listing) = self.trail.last_mut() else { return false };
        if listing.filter.is_empty() {
            return false;
        }
        listing.filter.clear();
        listing.show();
        true
    }

    pub(super) fn export(&mut self) -> Option<Effect> {
        let subjects = match self.screen() {
            Screen::Browser => {
                let listing = self.listing()?;
                let is_marked = listing.marked.contains(&true);
                let shown = || {
                    let entries = listing.shown.iter();
                    entries.map(|&index| &listing.entries[index as usize]).collect()
                };
                let entries = if is_marked { listing.chosen() } else { shown() };
                let subject = |entry: &Entry| Subject {
                    place: entry.place,
                    kind: entry.kind,
                    path: join(&listing.path, &entry.name),
                    amounts: entry.amounts,
                };
                entries.into_iter().map(subject).collect()
            }
            Screen::Overview if self.marked.is_empty() => self
                .subvolumes
                .iter()
                .map(|subvolume| Subject {
                    place: Place::root_of(subvolume.id),
                    kind: Kind::Subvolume,
                    path: subvolume.raw_path.clone(),
                    amounts: subvolume.amounts,
                })
                .collect(),
            _ => self.subjects(),
        };
        if self.scan != Scan::Done {
            self.notice = Some(Notice::Info("not all is counted yet".to_owned()));
        }
        Some(Effect::Export(subjects))
    }

    /// The row at this line of the list that is seen, if there is one.
    pub(super) fn row_at(&self, line: usize) -> Option<usize> {
        let height = view::list_height(self);
        let (cursor, len) = match self.screen() {
            Screen::Overview => (self.cursor, self.subvolumes.len()),
            Screen::Browser => self.listing().map(|l| (l.cursor, l.shown.len()))?,
            Screen::Inspector => (self.inspection.as_ref()?.cursor, view::inspector_len(self)),
            Screen::Plan => self.plan.as_ref().map(|plan| (plan.cursor, plan.choices.len()))?,
            Screen::Confirm | Screen::Run => return None,
        };
        let window = cursor.window(len, height);
        Some(window.start + line).filter(|row| window.contains(row))
    }
}
