//! What happened, and what is to be done about it outside of the model.

use std::time::Duration;

use crate::compress::Target;

use super::model::{
    Amounts, Column, End, Entry, Filesystem, Findings, Place, Prediction, Progress, Request, Step,
    Subject, Subvolume, Survey, Table,
};

/// What the user wants, as a key or the mouse says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Go in the list that is seen.
    Go(Step),
    /// Into what is under the cursor, or on with what is shown.
    Enter,
    /// Out to the parent.
    Leave,
    /// To the screen before, and out of the program from the first.
    Back,
    /// Out of the program, or stop the run that is going on.
    Interrupt,
    /// Mark the row under the cursor, and go to the next.
    Mark,
    /// Mark what isn't, unmark what is.
    Invert,
    /// Begin to type a filter.
    Filter,
    /// Order by a column; again reverses.
    Sort(Column),
    /// Order by the next number.
    NextMetric,
    /// Put directories before files, or mix them.
    DirectoriesFirst,
    /// Look closely.
    Inspect,
    /// Plan to recompress.
    Recompress,
    /// Plan to defragment.
    Defragment,
    /// Write what is shown or marked to a file.
    Export,
    /// Open and count anew.
    Rescan,
    /// Show or hide help.
    Help,
    /// Raise or lower the level that is picked.
    Level(i32),
    /// Leave compressed data alone, or don't.
    OnlyUncompressed,
    /// Raise or lower the least gain.
    MinGain(i8),
    /// Begin to type an exclusion.
    Exclude,
    /// Write.
    Write,
    /// Pause the run, or go on.
    Pause,
    /// Stop the run.
    Stop,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The user wants something.
    Act(Action),
    /// A character was typed into a field.
    Type(char),
    /// The last character of a field was taken back.
    Erase,
    /// What was typed into a field is meant.
    Accept,
    /// What was typed into a field isn't meant.
    Discard,
    /// The mouse was pressed at a column and a line.
    Click(u16, u16),
    /// The terminal has these many columns and lines.
    Resized(u16, u16),
    /// So much time has gone by since the start.
    Tick(Duration),
    /// The filesystem is open.
    Opened(Box<Filesystem>, Vec<Subvolume>),
    /// It could not be opened; says why.
    Failed(String),
    /// Counting has come so far: blocks done, blocks in all.
    Scanning(u64, u64),
    /// These subvolumes are counted.
    SubvolumesCounted(Vec<(u64, Amounts)>),
    /// All is counted.
    Counted(Box<Table>, Vec<(Vec<u64>, u64)>),
    /// Counting the rows of this subvolume has come so far: blocks done, blocks in all.
    SubvolumeScanning(u64, u64, u64),
    /// Counting has failed; says why.
    ScanFailed(String),
    /// A directory's rows.
    Listed(Place, Result<Vec<Entry>, String>),
    /// What was found about a place.
    Inspected(Place, Result<Box<Findings>, String>),
    /// What is known of the data that is planned for.
    Surveyed(Box<Survey>),
    /// What targets should make of the data that is planned for.
    Predicted(Vec<(Target, Prediction)>),
    /// Planning has failed; says why.
    PlanFailed(String),
    /// The program is asked to end.
    Terminate,
    /// The run may not write; says why and what to do.
    Refused(String),
    /// The run has begun to write.
    Started,
    /// The run has come so far.
    Progressed(Box<Progress>),
    /// The run has ended.
    Finished(End),
    /// The chosen rows are counted again after it.
    Recounted(Box<Amounts>),
    /// Rows were written to a file, or why not.
    Exported(Result<String, String>),
}

/// What the runtime must do for us; the model never does it itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Read these directories.
    List(Vec<Place>),
    /// Look closely at this.
    Inspect(Subject),
    /// Find out what each target would make of this, until another effect of this kind comes.
    Predict(Box<Request>, Vec<Target>),
    /// Predict no more.
    Forget,
    /// Open for writing, and do this.
    Run(Box<Request>),
    /// Pause the run, or go on.
    Pause(bool),
    /// Stop the run at its next commit.
    Stop,
    /// Write these rows to a file.
    Export(Vec<Subject>),
    /// Open and count anew.
    Rescan,
}
