//! The terminal UI: without a terminal, its states and screens; in one, whole journeys.

mod journey;
mod sample;
mod screens;
mod states;
mod terminal;
