//! The kernel as judge: filesystems made by it, changed by `btrpress`, and looked at by it again.

mod afterlife;
mod big_tree;
mod codecs;
mod compsize;
pub(crate) mod content;
mod damage;
mod discovery;
mod figures;
mod full;
pub(crate) mod image;
mod intruder;
pub(crate) mod judge;
mod kept;
mod kinds;
mod layout;
pub(crate) mod manifest;
mod many_extents;
mod partitions;
mod press;
mod rare;
mod refusals;
mod runs;
mod self_test;
mod surgery;
pub(crate) mod workload;

/// No complaints, in a form that `assert_eq` shows the others against.
pub(crate) const NONE: [&str; 0] = [];
