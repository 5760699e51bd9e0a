//! Integration tests.

mod fixture;
mod tidy;
