//! What the fuzz targets do with their bytes. The integration tests include this file and run all of it over the seeds,
//! so that it can't rot where `cargo fuzz` is not at hand.
//!
//! ```console
//! $ cd tests/fuzz
//! $ cargo run --release --example seeds -- corpus
//! $ cargo +nightly fuzz run --fuzz-dir . --sanitizer none block
//! ```

mod format;
mod image;

pub use format::{block, item, lzo, round_trip, superblock, zlib, zstd};
pub use image::image;

/// A target: its name, and what it does with some bytes.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 8] = [
    ("superblock", superblock),
    ("block", block),
    ("item", item),
    ("zlib", zlib),
    ("lzo", lzo),
    ("zstd", zstd),
    ("round_trip", round_trip),
    ("image", image),
];

/// Inputs to begin with, each for the target of that name: what stands in an image of the tests.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = image::seeds();
    seeds.extend(format::seeds());
    seeds
}
