//! Integration tests.

mod compress;
mod fixture;
mod oracle;
mod tidy;
mod tool;
