//! Integration tests.

mod compress;
mod fixture;
mod tidy;
