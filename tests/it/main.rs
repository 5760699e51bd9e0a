//! Integration tests.

mod compress;
mod fixture;
mod oracle;
mod read;
mod tidy;
mod tool;
