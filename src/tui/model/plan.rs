//! A plan in the making: what to do with which rows, and what it should save.

use std::time::Duration;

use crate::compress::{Algorithm, Codec, Target};

use super::{Amounts, Cursor, Skip, Subject};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Store anew with another algorithm or level.
    Recompress,
    /// Join what is fragmented; each extent keeps its algorithm.
    Defragment,
}

impl Job {
    /// What is done, as a title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Recompress => "Recompress",
            Self::Defragment => "Defragment",
        }
    }
}

/// What can be chosen beside the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Leave alone what is compressed already.
    pub only_uncompressed: bool,
    /// Percent that a part of a file must get smaller to be rewritten.
    pub min_gain: u8,
    /// Paths to leave alone, as globs.
    pub excludes: Vec<String>,
}

/// All that a run needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub job: Job,
    /// With which target; of no meaning when defragmenting.
    pub target: Target,
    /// With which rows.
    pub subjects: Vec<Subject>,
    /// How.
    pub options: Options,
}

/// What a target should make of the rows, from samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prediction {
    /// Bytes on disk afterwards.
    pub after: u64,
    /// By how much that may be wrong, either way.
    pub margin: u64,
    /// How long encoding should take.
    pub time: Duration,
    /// How many samples it rests on.
    pub samples: u32,
}

/// A target that can be picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The target.
    pub target: Target,
    /// What it should do, once there is a sample.
    pub prediction: Option<Prediction>,
}

/// What is known of the rows' data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// What the rows cost, shared data counted once.
    pub amounts: Amounts,
    /// How many files there are; none when whole subvolumes are meant.
    pub files: Option<u64>,
    /// What will be left alone.
    pub skips: Vec<Skip>,
    /// Paths of the other subvolumes that share the data, made harmless.
    pub shared_with: Vec<String>,
}

/// The plan screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What to do.
    pub job: Job,
    /// With which rows.
    pub subjects: Vec<Subject>,
    /// What can be picked.
    pub choices: Vec<Choice>,
    /// What is picked.
    pub cursor: Cursor,
    /// How.
    pub options: Options,
    /// An exclusion that is being typed.
    pub typing: Option<String>,
    /// What is known of the rows' data.
    pub survey: Option<Survey>,
}

impl Plan {
    /// A plan for some rows, with nothing known yet.
    pub fn new(job: Job, subjects: Vec<Subject>) -> Self {
        let codec = |algorithm, level| Target::Codec(Codec { algorithm, level });
        let targets = match job {
            Job::Recompress => vec![
                Target::None,
                codec(Algorithm::Lzo, 1),
                codec(Algorithm::Lzo, 13),
                codec(Algorithm::Zlib, 3),
                codec(Algorithm::Zlib, 12),
                codec(Algorithm::Zstd, 1),
                codec(Algorithm::Zstd, 3),
                codec(Algorithm::Zstd, 9),
                codec(Algorithm::Zstd, 15),
                codec(Algorithm::Zstd, 19),
            ],
            Job::Defragment => vec![Target::None],
        };
        let choices: Vec<Choice> =
            targets.into_iter().map(|target| Choice { target, prediction: None }).collect();
        let usual = codec(Algorithm::Zstd, 9);
        let at = choices.iter().position(|choice| choice.target == usual).unwrap_or(0);
        Self {
            job,
            subjects,
            choices,
            cursor: Cursor { at, top: 0 },
            options: Options::default(),
            typing: None,
            survey: None,
        }
    }

    /// What is picked.
    pub fn choice(&self) -> Choice {
        self.choices[self.cursor.at.min(self.choices.len() - 1)]
    }

    /// The targets that can be picked, the picked one first: it is what is looked at.
    pub fn targets(&self) -> Vec<Target> {
        let picked = self.choice().target;
        let others = self.choices.iter().map(|choice| choice.target);
        let mut targets = vec![picked];
        targets.extend(others.filter(|&target| target != picked));
        targets
    }

    /// Raises or lowers the level of what is picked; true if that made another target of it.
    pub fn change_level(&mut self, by: i32) -> bool {
        let choice = &mut self.choices[self.cursor.at];
        let Target::Codec(Codec { algorithm, level }) = choice.target else { return false };
        let levels = algorithm.levels();
        let step = |level: i32| (level + by).clamp(*levels.start(), *levels.end());
        // Zstandard has no level 0.
        let next = if step(level) == 0 { step(0) } else { step(level) };
        if next == level {
            return false;
        }
        *choice =
            Choice { target: Target::Codec(Codec { algorithm, level: next }), prediction: None };
        true
    }

    /// What the rows cost: what the survey says, until then the sum of the rows.
    pub fn amounts(&self) -> Amounts {
        match &self.survey {
            Some(survey) => survey.amounts,
            None => sum(&self.subjects),
        }
    }

    /// What would be run.
    pub fn request(&self) -> Request {
        Request {
            job: self.job,
            target: self.choice().target,
            subjects: self.subjects.clone(),
            options: self.options.clone(),
        }
    }
}

/// What some rows cost together, as far as sums can tell.
pub fn sum(subjects: &[Subject]) -> Amounts {
    let amounts = subjects.iter().filter_map(|subject| subject.amounts.as_ref());
    amounts.fold(Amounts::default(), Amounts::plus)
}
