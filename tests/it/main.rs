//! Integration tests.

mod busy;
mod check;
mod cli;
mod compress;
mod corrupt;
mod crash;
mod faults;
mod fixture;
mod fuzz;
mod kinds;
mod oracle;
mod profiles;
mod read;
mod report;
mod stop;
mod tidy;
mod tool;
mod tui;
mod usage;
