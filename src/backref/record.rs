//! One extent of the extent tree with all its references, as a value that can be changed and written back.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use zerocopy::IntoBytes;

use crate::error::{Error, Result};
use crate::format::{
    Damage, ExtentFlags, ExtentItem, InlineRef, Key, KeyKind, LEVELS, RawKey, Ref, TreeBlockInfo,
    inline_refs, tree_id,
};
use crate::tree::Tree;

/// What an extent item stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// A data extent of so many bytes.
    Data {
        /// Length on disk.
        length: u64,
    },
    /// A tree block whose item is keyed by its level.
    Block {
        /// The level.
        level: u8,
    },
    /// A tree block whose item has the older form, keyed by its size.
    OldBlock {
        /// The level.
        level: u8,
        /// First key of the block.
        first_key: Key,
        /// The node size.
        length: u64,
    },
}

/// An extent or tree block, and who refers to it how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentRecord {
    /// Logical address.
    pub bytenr: u64,
    /// What is allocated.
    pub allocation: Allocation,
    /// Transaction that allocated it.
    pub generation: u64,
    /// Whether references from a tree block name the block's address instead of its tree.
    pub is_full_backref: bool,
    /// The tree that pays for it under simple quotas.
    pub owner: Option<u64>,
    /// All references with their counts, none of them 0.
    pub refs: BTreeMap<Ref, u32>,
}

/// The keys of all items about the extent at `bytenr`. A block group may have the same objectid, but a higher kind.
pub const fn record_keys(bytenr: u64) -> RangeInclusive<Key> {
    Key::new(bytenr, KeyKind::EXTENT_ITEM, 0)..=Key::new(bytenr, KeyKind::SHARED_DATA_REF, u64::MAX)
}

impl ExtentRecord {
    /// Reads the record of the extent at `bytenr` from the extent tree, if there is one.
    pub fn find(extents: &Tree<'_>, bytenr: u64) -> Result<Option<Self>> {
        let items: Vec<_> = extents.range(record_keys(bytenr)).collect::<Result<_>>()?;
        Self::parse(items.iter().map(|item| (item.key(), item.data())))
            .map_err(|(key, damage)| Error::in_item(damage, tree_id::EXTENT, key))
    }

    /// Reads the record of an extent that is referred to and so must exist.
    pub fn load(extents: &Tree<'_>, bytenr: u64) -> Result<Self> {
        let key = Key::new(bytenr, KeyKind::EXTENT_ITEM, 0);
        Self::find(extents, bytenr)?
            .ok_or_else(|| Error::in_item(Damage::NoItem { key }, tree_id::EXTENT, key))
    }

    /// Puts the items of one extent together; an error names the item.
    pub fn parse<'a>(
        mut items: impl Iterator<Item = (Key, &'a [u8])>,
    ) -> Result<Option<Self>, (Key, Damage)> {
        let Some((key, data)) = items.next() else { return Ok(None) };
        let (mut record, total) = Self::parse_head(key, data).map_err(|damage| (key, damage))?;
        for (key, data) in items {
            let (reference, count) = Ref::parse_keyed(key, data).map_err(|damage| (key, damage))?;
            record.add_parsed(reference, count).map_err(|damage| (key, damage))?;
        }
        if record.total() != total {
            let what = "the references found do not add up to the count recorded";
            return Err((key, Damage::Extent { bytenr: record.bytenr, what }));
        }
        Ok(Some(record))
    }

    fn parse_head(key: Key, data: &[u8]) -> Result<(Self, u64), Damage> {
        let (item, mut rest) = ExtentItem::view(data)?;
        let flags = item.extent_flags();
        let is_block = flags.contains(ExtentFlags::TREE_BLOCK);
        let allocation = match key.kind {
            KeyKind::METADATA_ITEM => {
                let level = u8::try_from(key.offset).ok().filter(|level| *level < LEVELS);
                let found = key.offset;
                let level = level.ok_or(Damage::Value { what: "level of a tree block", found })?;
                Allocation::Block { level }
            }
            KeyKind::EXTENT_ITEM if is_block => {
                let (info, after) = TreeBlockInfo::view(rest)?;
                rest = after;
                Allocation::OldBlock {
                    level: info.level,
                    first_key: info.key.into(),
                    length: key.offset,
                }
            }
            KeyKind::EXTENT_ITEM => Allocation::Data { length: key.offset },
            _ => {
                return Err(Damage::Extent {
                    bytenr: key.objectid,
                    what: "a reference without an extent item",
                });
            }
        };
        let mut record = Self {
            bytenr: key.objectid,
            allocation,
            generation: item.generation.get(),
            is_full_backref: flags.contains(ExtentFlags::FULL_BACKREF),
            owner: None,
            refs: BTreeMap::new(),
        };
        for found in inline_refs(rest) {
            match found? {
                InlineRef::Owner { root } => record.owner = Some(root),
                InlineRef::Ref(reference, count) => record.add_parsed(reference, count)?,
            }
        }
        Ok((record, item.refs.get()))
    }

    fn add_parsed(&mut self, reference: Ref, count: u32) -> Result<(), Damage> {
        let damage = |what| Err(Damage::Extent { bytenr: self.bytenr, what });
        if count == 0 {
            return damage("a reference with count 0");
        }
        if reference.is_data() != matches!(self.allocation, Allocation::Data { .. }) {
            return damage("a reference of the wrong kind");
        }
        match self.refs.insert(reference, count) {
            None => Ok(()),
            Some(_) => damage("the same reference twice"),
        }
    }

    /// How many references there are.
    pub fn total(&self) -> u64 {
        self.refs.values().map(|count| u64::from(*count)).sum()
    }

    /// Adds `delta` to the count of a reference.
    pub fn change(&mut self, reference: Ref, delta: i64) -> Result<(), Damage> {
        let before = self.refs.get(&reference).copied().unwrap_or(0);
        let after = i64::from(before).checked_add(delta).and_then(|sum| u32::try_from(sum).ok());
        match after {
            Some(0) => drop(self.refs.remove(&reference)),
            Some(count) => drop(self.refs.insert(reference, count)),
            None => {
                let what = "a reference that its blocks hold is not recorded";
                return Err(Damage::Extent { bytenr: self.bytenr, what });
            }
        }
        Ok(())
    }

    /// Its items, in key order. As the kernel does, references stand inline as long as the item stays below a
    /// sixteenth of a leaf's `leaf_capacity` bytes, the rest have items of their own.
    pub fn items(&self, leaf_capacity: usize) -> Vec<(Key, Vec<u8>)> {
        let mut refs: Vec<_> =
            self.refs.iter().map(|(reference, count)| (*reference, *count)).collect();
        refs.sort_by_key(|(reference, _)| {
            (reference.kind(), std::cmp::Reverse(reference.sequence()), *reference)
        });
        let (key, mut data) = self.head();
        let inline_max = (leaf_capacity >> 4).saturating_sub(25);
        let inline_count = refs
            .iter()
            .scan(data.len(), |size, (reference, _)| {
                *size = size.saturating_add(reference.inline_size());
                (*size < inline_max).then_some(())
            })
            .count();
        let (inline, keyed) = refs.split_at(inline_count);
        for (reference, count) in inline {
            reference.write_inline(*count, &mut data);
        }
        let mut items: BTreeMap<Key, Vec<u8>> = BTreeMap::from([(key, data)]);
        for (reference, count) in keyed {
            let mut key = Key::new(self.bytenr, reference.kind(), reference.sequence());
            // Different references can have one hash; the kernel then takes the next free number.
            while items.contains_key(&key) {
                key.offset = key.offset.wrapping_add(1);
            }
            items.insert(key, reference.keyed_data(*count));
        }
        items.into_iter().collect()
    }

    fn head(&self) -> (Key, Vec<u8>) {
        let (key, mut flags) = match self.allocation {
            Allocation::Data { length } => {
                (Key::new(self.bytenr, KeyKind::EXTENT_ITEM, length), ExtentFlags::DATA)
            }
            Allocation::Block { level } => (
                Key::new(self.bytenr, KeyKind::METADATA_ITEM, level.into()),
                ExtentFlags::TREE_BLOCK,
            ),
            Allocation::OldBlock { length, .. } => {
                (Key::new(self.bytenr, KeyKind::EXTENT_ITEM, length), ExtentFlags::TREE_BLOCK)
            }
        };
        flags.set(ExtentFlags::FULL_BACKREF, self.is_full_backref);
        let item = ExtentItem {
            refs: self.total().into(),
            generation: self.generation.into(),
            flags: flags.bits().into(),
        };
        let mut data = item.as_bytes().to_vec();
        if let Allocation::OldBlock { level, first_key, .. } = self.allocation {
            data.extend_from_slice(
                TreeBlockInfo { key: RawKey::from(first_key), level }.as_bytes(),
            );
        }
        if let Some(root) = self.owner {
            data.push(KeyKind::EXTENT_OWNER_REF.0);
            data.extend(root.to_le_bytes());
        }
        (key, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(refs: &[(Ref, u32)]) -> ExtentRecord {
        ExtentRecord {
            bytenr: 1 << 20,
            allocation: Allocation::Data { length: 4096 },
            generation: 7,
            is_full_backref: false,
            owner: None,
            refs: refs.iter().copied().collect(),
        }
    }

    #[test]
    fn a_record_reads_back_as_written() {
        let many: Vec<_> = (0..200)
            .map(|i| (Ref::Data { root: 5, objectid: 256 + i, offset: 0 }, 1 + i as u32))
            .chain((1..50).map(|i| (Ref::SharedData { parent: i << 14 }, 2)))
            .collect();
        for count in [0, 1, 5, 40, many.len()] {
            let record = record(&many[..count]);
            let items = record.items(16283);
            let read = ExtentRecord::parse(items.iter().map(|(key, data)| (*key, data.as_slice())));
            assert_eq!(read, Ok(Some(record)));
        }
    }

    #[test]
    fn inline_references_descend_by_hash() {
        let refs = [(256, 317, 0), (256, 318, 65536), (256, 318, 65536_u64.wrapping_neg())];
        let refs: Vec<_> = refs
            .into_iter()
            .map(|(root, objectid, offset)| (Ref::Data { root, objectid, offset }, 1))
            .collect();
        let (_, data) = &record(&refs).items(16283)[0];
        let hashes: Vec<_> = inline_refs(&data[24..])
            .map(|found| match found.unwrap() {
                InlineRef::Ref(reference, _) => reference.sequence(),
                InlineRef::Owner { .. } => panic!("no owner was written"),
            })
            .collect();
        assert!(hashes.is_sorted_by(|a, b| a > b), "{hashes:x?}");
    }

    #[test]
    fn a_count_cannot_fall_below_zero() {
        let mut record = record(&[(Ref::SharedData { parent: 16384 }, 1)]);
        assert!(record.change(Ref::SharedData { parent: 16384 }, -2).is_err());
        assert!(record.change(Ref::SharedData { parent: 16384 }, -1).is_ok());
        assert!(record.refs.is_empty());
    }
}
