//! The kernel as judge: filesystems made by it, changed by `btrpress`, and looked at by it again.

mod afterlife;
mod big_tree;
mod codecs;
mod compsize;
mod content;
mod damage;
mod figures;
mod image;
mod judge;
mod kinds;
mod layout;
mod manifest;
mod press;
mod refusals;
mod runs;
mod self_test;
mod workload;

/// No complaints, in a form that `assert_eq` shows the others against.
const NONE: [&str; 0] = [];
