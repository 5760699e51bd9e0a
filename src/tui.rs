//! The interactive terminal UI.
//!
//! State, message, update, view: [`Model::update`](model::Model::update) is the only place that changes state and
//! touches nothing else; views are pure functions of the state; long work runs on threads that send messages. Start
//! reading at `model`, then `update`.

pub mod keymap;
pub mod message;
pub mod model;
pub mod text;
pub mod theme;
mod update;
pub mod view;
