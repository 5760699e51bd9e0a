//! From the plan over the confirmation to the run.

use crate::tui::message::{Action, Effect, Message};
use crate::tui::model::{End, Job, Model, Notice, Plan, Run, Screen};

impl Model {
    pub(super) fn act_on_plan(&mut self, action: Action) -> Option<Effect> {
        match action {
            Action::Recompress => return self.plan_to(Job::Recompress),
            Action::Defragment => return self.plan_to(Job::Defragment),
            Action::Level(by) => {
                let is_changed = self.plan.as_mut()?.change_level(by);
                return if is_changed { self.predict() } else { None };
            }
            Action::OnlyUncompressed => {
                let options = &mut self.plan.as_mut()?.options;
                options.only_uncompressed = !options.only_uncompressed;
                return self.predict_anew();
            }
            Action::MinGain(by) => {
                let options = &mut self.plan.as_mut()?.options;
                options.min_gain = options.min_gain.saturating_add_signed(by).min(99);
                return self.predict_anew();
            }
            Action::Exclude => self.plan.as_mut()?.typing = Some(String::new()),
            Action::Write => return self.write(),
            Action::Pause => {
                let now = self.now;
                let run = self.run.as_mut().filter(|run| run.end.is_none())?;
                run.pause(now);
                return Some(Effect::Pause(run.is_paused()));
            }
            Action::Stop => return self.stop(),
            _ => {}
        }
        None
    }

    fn plan_to(&mut self, job: Job) -> Option<Effect> {
        let subjects = self.subjects();
        if subjects.is_empty() {
            return None;
        }
        if self.is_running() {
            self.notice = Some(Notice::Info("a run is going on".to_owned()));
            return None;
        }
        self.plan = Some(Plan::new(job, subjects));
        self.refusal = None;
        self.screens.push(Screen::Plan);
        self.predict()
    }

    /// Has the picked target looked at next.
    pub(super) fn predict(&self) -> Option<Effect> {
        let plan = self.plan.as_ref()?;
        Some(Effect::Predict(Box::new(plan.request()), plan.targets()))
    }

    /// Forgets the predictions, for what they were made from has changed.
    pub(super) fn predict_anew(&mut self) -> Option<Effect> {
        let plan = self.plan.as_mut()?;
        for choice in &mut plan.choices {
            choice.prediction = None;
        }
        plan.survey = None;
        self.predict()
    }

    pub(super) fn planned(&mut self, message: Message) {
        let Some(plan) = &mut self.plan else { return };
        match message {
            Message::Surveyed(survey) => plan.survey = Some(*survey),
            Message::Predicted(predictions) => {
                for (target, prediction) in predictions {
                    let same = plan.choices.iter_mut().filter(|choice| choice.target == target);
                    for choice in same {
                        choice.prediction = Some(prediction);
                    }
                }
            }
            Message::PlanFailed(why) => self.notice = Some(Notice::Failure(why)),
            _ => {}
        }
    }

    /// The one way to writing.
    fn write(&mut self) -> Option<Effect> {
        let plan = self.plan.as_ref()?;
        let refusal = self.filesystem.as_ref()?.refusal.as_ref();
        if self.screen() != Screen::Confirm || self.is_running() || refusal.is_some() {
            return None;
        }
        self.refusal = None;
        let request = plan.request();
        let prediction = plan.choice().prediction;
        let mut run = Run::new(request.clone(), plan.amounts(), prediction, self.now);
        run.whole.0 = self.table.as_ref().map(|table| table.total().disk);
        self.run = Some(run);
        Some(Effect::Run(Box::new(request)))
    }

    fn stop(&mut self) -> Option<Effect> {
        let run = self.run.as_mut()?;
        if run.end.is_some() {
            self.screens.pop();
            return None;
        }
        let is_new = !run.is_stopping;
        run.is_stopping = true;
        is_new.then_some(Effect::Stop)
    }

    pub(super) fn ran(&mut self, message: Message) -> Option<Effect> {
        match message {
            Message::Refused(why) => {
                self.run = None;
                self.refusal = Some(why);
                self.is_done |= self.is_leaving;
            }
            Message::Started => {
                // Back from the run is where the rows were chosen.
                self.screens.retain(|screen| {
                    !matches!(screen, Screen::Plan | Screen::Confirm | Screen::Run)
                });
                self.screens.push(Screen::Run);
                self.plan = None;
                return Some(Effect::Forget);
            }
            Message::Progressed(progress) => self.run.as_mut()?.progress = *progress,
            Message::Finished(end) => self.finished(end),
            Message::Recounted(amounts) => self.run.as_mut()?.after = Some(*amounts),
            _ => {}
        }
        None
    }

    fn finished(&mut self, end: End) {
        let now = self.now;
        let Some(run) = &mut self.run else { return };
        if run.is_paused() {
            run.pause(now);
        }
        run.time.1.get_or_insert(now);
        run.end = Some(end);
        self.is_done |= self.is_leaving;
        for listing in &mut self.trail {
            listing.marked.fill(false);
        }
        self.marked.clear();
    }
}
