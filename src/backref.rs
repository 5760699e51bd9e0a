//! Who refers to a data extent, and who points to a tree block. All answers come from the extent tree and are checked
//! against the blocks that they name, so they cost memory and reads for what is asked, not for the filesystem.
//!
//! Start with [`ExtentRecord`], then [`data_uses`] for data and [`parents`] for tree blocks; [`Referrers`] goes up to the
//! subvolumes.

mod block;
mod data;
mod payer;
mod record;
mod referrers;

pub use block::{Parent, parents};
pub use data::{LeafUse, child_refs, data_ref_of, data_uses};
pub use payer::simple_quotas_since;
pub use record::{Allocation, ExtentRecord, record_keys};
pub use referrers::Referrers;
