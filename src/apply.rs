//! Carries out a request: read, decode, encode, verify, write, remap, commit. The only room that changes files.
//!
//! [`run`] walks the selected files in windows. The chunks of a window are encoded on all cores while the extents of the
//! window before are written; what is accepted joins a batch, and each batch ends in one commit. After each commit the
//! filesystem is valid and smaller, so a run can stop there at any time; [`Limits`] say when. Passes follow until one
//! finds nothing to do.

mod batch;
mod encode;
mod job;
mod limits;
mod progress;
mod remap;
mod work;

pub use batch::Lack;
pub use encode::{Encoded, Workers};
pub use job::run;
pub use limits::{Limits, StopReason};
pub use progress::{Observer, Outcome, Progress, Shortage, Silent};
