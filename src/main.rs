//! btrpress.
fn main() {}
