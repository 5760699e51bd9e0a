//! Integration tests.

mod busy;
mod compress;
mod fixture;
mod oracle;
mod profiles;
mod read;
mod tidy;
mod tool;
mod tui;
