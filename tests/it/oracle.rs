//! The kernel as judge: filesystems made by it, changed by `btrpress`, and looked at by it again.

mod afterlife;
mod big_tree;
mod codecs;
mod compsize;
pub(crate) mod content;
mod damage;
mod figures;
pub(crate) mod image;
pub(crate) mod judge;
mod kinds;
mod layout;
pub(crate) mod manifest;
mod press;
mod refusals;
mod runs;
mod self_test;
pub(crate) mod workload;

/// No complaints, in a form that `assert_eq` shows the others against.
pub(crate) const NONE: [&str; 0] = [];
