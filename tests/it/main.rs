//! Integration tests.

mod compress;
mod fixture;
mod oracle;
mod read;
mod profiles;
mod tidy;
mod tool;
mod tui;
