//! btrpress.
