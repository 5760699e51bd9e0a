//! A file's figures in little memory, since there are millions of them.

use super::Figures;
use crate::usage::{Amounts, Storage, Tally};

/// The figures of one file.
#[derive(Debug, Clone)]
pub(super) struct FileFigures {
    by: ByStorage,
    extents: u32,
    pub(super) refs: u32,
    inline: u32,
    inline_bytes: u32,
    pub(super) fragments: u32,
    pub(super) exclusive: u64,
    pub(super) waste: u64,
}

/// Most files are stored in one way.
#[derive(Debug, Clone)]
enum ByStorage {
    One(Storage, Amounts),
    Many(Box<[Amounts; Storage::ALL.len()]>),
}

impl FileFigures {
    pub(super) const fn new() -> Self {
        Self {
            by: ByStorage::One(Storage::None, Amounts { disk: 0, uncompressed: 0, referenced: 0 }),
            extents: 0,
            refs: 0,
            inline: 0,
            inline_bytes: 0,
            fragments: 0,
            exclusive: 0,
            waste: 0,
        }
    }

    pub(super) fn add(&mut self, storage: Storage, amounts: &Amounts) {
        match &mut self.by {
            ByStorage::One(one, sum) if *one == storage => sum.add(amounts, 1),
            ByStorage::One(one, sum) if *sum == Amounts::default() => {
                (*one, *sum) = (storage, *amounts);
            }
            ByStorage::One(one, sum) => {
                let mut many = Box::new([Amounts::default(); Storage::ALL.len()]);
                many[*one as usize] = *sum;
                many[storage as usize].add(amounts, 1);
                self.by = ByStorage::Many(many);
            }
            ByStorage::Many(many) => many[storage as usize].add(amounts, 1),
        }
    }

    pub(super) fn add_extent(&mut self, storage: Storage, amounts: &Amounts) {
        self.add(storage, amounts);
        self.extents = self.extents.saturating_add(1);
    }

    /// Counts an inline piece of `disk` stored bytes that hold `ram`.
    pub(super) fn add_inline(&mut self, storage: Storage, disk: u64, ram: u64) {
        self.add(storage, &Amounts { disk, uncompressed: ram, referenced: ram });
        self.inline = self.inline.saturating_add(1);
        let ram = u32::try_from(ram).unwrap_or(u32::MAX);
        self.inline_bytes = self.inline_bytes.saturating_add(ram);
    }

    /// All that is known of it.
    pub(super) fn figures(&self) -> Figures {
        let mut tally = Tally::default();
        tally.files = 1;
        tally.extents = self.extents.into();
        tally.refs = self.refs.into();
        tally.inline = self.inline.into();
        tally.inline_bytes = self.inline_bytes.into();
        tally.fragments = self.fragments.into();
        match &self.by {
            ByStorage::One(storage, amounts) => *tally.by_mut(*storage) = *amounts,
            ByStorage::Many(many) => {
                for (storage, amounts) in Storage::ALL.into_iter().zip(many.iter()) {
                    *tally.by_mut(storage) = *amounts;
                }
            }
        }
        Figures { tally, exclusive: self.exclusive, waste: self.waste, items: 0 }
    }
}
