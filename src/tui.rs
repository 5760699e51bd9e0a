//! The interactive terminal UI.
//!
//! State, message, update, view: [`Model::update`](model::Model::update) is the only place that changes state and
//! touches nothing else; views are pure functions of the state; long work runs on threads that send messages. Start
//! reading at `model`, then `update`.

pub mod keymap;
pub mod message;
pub mod model;
mod runtime;
pub mod text;
pub mod theme;
mod update;
pub mod view;
mod worker;

pub use runtime::run;

use std::fmt;
use std::sync::Arc;

use anyhow::Result;

use crate::device::{Access, Device};
use crate::fs::Filesystem;

/// Opens the devices of the filesystem.
pub type Open = dyn Fn(Access) -> Result<Vec<Arc<dyn Device>>> + Send + Sync;

/// What to show.
#[derive(Clone)]
pub struct Options {
    /// Names of the devices, as the user knows them.
    pub names: Vec<String>,
    /// Opens them, for reading at the start and for writing when a run is confirmed.
    pub open: Arc<Open>,
}

impl Options {
    /// Opens the devices and what is on them.
    fn open_fs(&self, access: Access) -> Result<Filesystem> {
        Ok(Filesystem::open((self.open)(access)?)?)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("names", &self.names).finish_non_exhaustive()
    }
}
