//! Shows what a Btrfs filesystem really costs on disk, and recompresses it offline with sharing kept.
pub mod apply;
pub mod backref;
pub mod batch;
pub mod check;
pub mod compress;
pub mod device;
pub mod error;
pub mod format;
pub mod fs;
pub mod plan;
pub mod report;
pub mod tree;
pub mod tui;
pub mod txn;
pub mod usage;
pub mod volume;
