//! The only place where the model changes. No I/O, no clock, no terminal.

mod browse;
mod mouse;
mod write;

use super::message::{Action, Effect, Message};
use super::model::{
    Amounts, Cursor, Filesystem, Findings, Inspection, Model, Notice, Place, Scan, Screen, Step,
    Subvolume, Table,
};
use super::view;

impl Model {
    /// Takes in what happened; what must be done about it elsewhere comes back.
    pub fn update(&mut self, message: Message) -> Option<Effect> {
        match message {
            Message::Act(action) => return self.act(action),
            Message::Type(char) => return self.typed(|text| text.push(char)),
            Message::Erase => {
                return self.typed(|text| {
                    text.pop();
                });
            }
            Message::Accept => return self.accept(),
            Message::Discard => return self.discard(),
            Message::Click(column, line) => return self.click(column, line),
            Message::Resized(columns, lines) => self.size = (columns, lines),
            Message::Tick(now) => self.tick(now),
            Message::Opened(filesystem, subvolumes) => return self.opened(*filesystem, subvolumes),
            Message::Failed(why) => self.failure = Some(why),
            Message::Scanning(done, total) => self.scan = Scan::Running { done, total },
            Message::SubvolumesCounted(counted) => return self.subvolumes_counted(&counted),
            Message::Counted(table, sharing) => self.counted(*table, sharing),
            Message::SubvolumeScanning(tree, done, total) => {
                self.counting = Some((tree, done, total));
            }
            Message::ScanFailed(why) => {
                self.scan = Scan::Failed;
                self.notice = Some(Notice::Failure(why));
            }
            Message::Listed(place, Ok(entries)) => self.listed(place, entries),
            Message::Listed(place, Err(why)) => self.not_listed(place, why),
            Message::Inspected(place, findings) => self.inspected(place, findings),
            Message::Surveyed(_) | Message::Predicted(_) | Message::PlanFailed(_) => {
                self.planned(message);
            }
            Message::Refused(_)
            | Message::Started
            | Message::Progressed(_)
            | Message::Finished(_)
            | Message::Recounted(_) => return self.ran(message),
            Message::Terminate => {
                self.is_leaving = true;
                return self.interrupt();
            }
            Message::Exported(Ok(path)) => {
                self.notice = Some(Notice::Info(format!("written to {path}")));
            }
            Message::Exported(Err(why)) => self.notice = Some(Notice::Failure(why)),
        }
        None
    }

    fn act(&mut self, action: Action) -> Option<Effect> {
        self.notice = None;
        if let Some(top) = self.help {
            match action {
                Action::Go(step) => self.help = Some(view::scrolled_help(self, top, step)),
                Action::Interrupt => return self.interrupt(),
                _ => self.help = None,
            }
            return None;
        }
        match action {
            Action::Go(step) => return self.go(step),
            Action::Enter => return self.enter(),
            Action::Leave => self.leave(),
            Action::Back => return self.back(),
            Action::Interrupt => return self.interrupt(),
            Action::Mark => self.mark(),
            Action::Invert => self.invert(),
            Action::Filter => self.is_filtering = self.listing().is_some(),
            Action::Sort(column) => self.sort_by(column),
            Action::NextMetric => self.sort_by_next(),
            Action::DirectoriesFirst => {
                self.order.directories_first = !self.order.directories_first;
                self.sort();
            }
            Action::Inspect => return self.inspect(),
            Action::Export => return self.export(),
            Action::Rescan => return self.rescan(),
            Action::Help => self.help = Some(0),
            Action::Recompress
            | Action::Defragment
            | Action::Level(_)
            | Action::OnlyUncompressed
            | Action::MinGain(_)
            | Action::Exclude
            | Action::Write
            | Action::Pause
            | Action::Stop => return self.act_on_plan(action),
        }
        None
    }

    fn go(&mut self, step: Step) -> Option<Effect> {
        let height = view::list_height(self);
        match self.screen() {
            Screen::Overview => self.cursor.step(step, self.subvolumes.len(), height),
            Screen::Browser => {
                if let Some(listing) = self.trail.last_mut() {
                    listing.has_moved = true;
                    listing.cursor.step(step, listing.shown.len(), height);
                }
            }
            Screen::Inspector => {
                let len = view::inspector_len(self);
                if let Some(inspection) = &mut self.inspection {
                    inspection.cursor.step(step, len, height);
                }
            }
            Screen::Plan => {
                if let Some(plan) = &mut self.plan {
                    plan.cursor.step(step, plan.choices.len(), height);
                    return self.predict();
                }
            }
            Screen::Confirm | Screen::Run => {}
        }
        None
    }

    fn back(&mut self) -> Option<Effect> {
        if self.screen() == Screen::Browser && self.clear_filter() {
            return None;
        }
        if self.screen() == Screen::Confirm && self.is_running() {
            // It has been confirmed; going back means not to begin.
            return self.act_on_plan(Action::Stop);
        }
        let left = self.screens.pop();
        match left {
            Some(Screen::Browser) => self.trail.clear(),
            Some(Screen::Inspector) => self.inspection = None,
            Some(Screen::Plan) => {
                self.plan = None;
                return Some(Effect::Forget);
            }
            Some(Screen::Confirm) => self.refusal = None,
            Some(Screen::Overview) | None => self.is_done = true,
            Some(Screen::Run) => {}
        }
        if self.screens.is_empty() {
            self.screens.push(Screen::Overview);
        }
        None
    }

    fn interrupt(&mut self) -> Option<Effect> {
        if self.is_running() {
            self.help = None;
            return self.act_on_plan(Action::Stop);
        }
        self.is_done = true;
        None
    }

    fn tick(&mut self, now: std::time::Duration) {
        self.now = now;
        if let Some(run) = &mut self.run {
            run.tick(now);
        }
    }

    fn opened(&mut self, filesystem: Filesystem, subvolumes: Vec<Subvolume>) -> Option<Effect> {
        let selected = self.subvolume().map(|subvolume| subvolume.id);
        self.filesystem = Some(filesystem);
        self.failure = None;
        self.scan = Scan::Running { done: 0, total: 0 };
        let known = |id: u64| subvolumes.iter().position(|subvolume| subvolume.id == id);
        self.cursor = Cursor { at: selected.and_then(known).unwrap_or(0), ..self.cursor };
        self.marked.retain(|&id| known(id).is_some());
        self.subvolumes = subvolumes;
        self.list_again()
    }

    fn counted(&mut self, table: Table, sharing: Vec<(Vec<u64>, u64)>) {
        self.scan = Scan::Done;
        let ended = self.run.as_mut().filter(|run| run.end.is_some());
        if let Some(run) = ended {
            run.whole.1.get_or_insert(table.total().disk);
        }
        self.table = Some(table);
        self.sharing = sharing;
    }

    fn subvolumes_counted(&mut self, counted: &[(u64, Amounts)]) -> Option<Effect> {
        for &(id, amounts) in counted {
            if self.counting.is_some_and(|(tree, ..)| tree == id) {
                self.counting = None;
            }
            let known = self.subvolumes.iter_mut().find(|known| known.id == id);
            if let Some(known) = known {
                known.amounts = Some(amounts);
            }
        }
        if self.trail.is_empty() { None } else { self.list_again() }
    }

    fn list_again(&self) -> Option<Effect> {
        let places: Vec<Place> = self.trail.iter().map(|listing| listing.place).collect();
        (!places.is_empty()).then_some(Effect::List(places))
    }

    fn rescan(&mut self) -> Option<Effect> {
        if self.is_running() {
            return None;
        }
        self.scan = Scan::Opening;
        Some(Effect::Rescan)
    }

    fn inspect(&mut self) -> Option<Effect> {
        let subject = self.subject()?;
        let cursor = Cursor::default();
        self.inspection = Some(Inspection { subject: subject.clone(), findings: None, cursor });
        self.screens.push(Screen::Inspector);
        Some(Effect::Inspect(subject))
    }

    fn inspected(&mut self, place: Place, findings: Result<Box<Findings>, String>) {
        let Some(inspection) = &mut self.inspection else { return };
        if inspection.subject.place != place {
            return;
        }
        match findings {
            Ok(findings) => inspection.findings = Some(*findings),
            Err(why) => self.notice = Some(Notice::Failure(why)),
        }
    }

    /// Changes the text of the field that is typed into.
    fn typed(&mut self, change: impl FnOnce(&mut String)) -> Option<Effect> {
        if self.is_filtering {
            if let Some(listing) = self.trail.last_mut() {
                change(&mut listing.filter);
                listing.show();
            }
        } else if let Some(text) = self.plan.as_mut().and_then(|plan| plan.typing.as_mut()) {
            change(text);
        }
        None
    }

    fn accept(&mut self) -> Option<Effect> {
        if self.is_filtering {
            self.is_filtering = false;
            return None;
        }
        let plan = self.plan.as_mut()?;
        match plan.typing.take()?.trim() {
            "" => plan.options.excludes.clear(),
            glob => plan.options.excludes.push(glob.to_owned()),
        }
        self.predict_anew()
    }

    fn discard(&mut self) -> Option<Effect> {
        if self.is_filtering {
            self.is_filtering = false;
            self.clear_filter();
        } else if let Some(plan) = &mut self.plan {
            plan.typing = None;
        }
        None
    }
}
