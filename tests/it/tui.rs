//! The terminal UI without a terminal: states and screens.

mod sample;
mod screens;
mod states;
