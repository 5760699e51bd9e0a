//! The filesystem's own address space, over its devices.
//!
//! [`Volume`] knows the superblock and the chunks, and through them turns a logical address into bytes on devices: it
//! reads with every copy as a fallback, rebuilding from parity where that is all there is, and writes all copies. It
//! can't walk trees: the room above reads the chunk tree and hands over its chunks ([`Volume::add_chunk`]) and devices
//! ([`Volume::add_device`]). Reading and writing work from many threads at once.
#![warn(clippy::arithmetic_side_effects)]

mod chunk;
mod fault;
mod member;
mod parity;
mod read;
mod row;
mod scan;
mod superblocks;
mod write;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test may fail by overflow")]
mod tests;

pub use chunk::{Chunk, Profile, STRIPE_LEN};
pub use fault::{Fault, FaultKind};
pub use member::{Clash, Member};
pub use row::LookUp;
pub use scan::{Site, find_others};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use zerocopy::FromBytes;

use self::fault::FaultLog;
use crate::device::{Device, Latch};
use crate::error::{Error, Result};
use crate::format::{
    ChecksumKind, ChunkItem, Damage, DevItem, Key, KeyKind, Logical, RawKey, Stripe, Superblock,
};

/// An open filesystem's logical address space.
#[derive(Debug)]
pub struct Volume {
    superblock: Superblock,
    checksum_kind: ChecksumKind,
    /// By device number.
    members: Vec<Member>,
    clashes: Vec<Clash>,
    /// What the chunk tree says of devices, by number.
    dev_items: BTreeMap<u64, DevItem>,
    /// By logical address.
    chunks: Vec<Chunk>,
    faults: FaultLog,
    latch: Latch,
    /// Held while a stripe's parity is brought up to date, which needs its neighbours unchanged.
    parity: Mutex<()>,
}

impl Volume {
    /// Opens the filesystem that has these devices, in any order, as far as the superblocks tell of it.
    ///
    /// The superblock is that of the device with the highest generation. A device may be missing.
    pub fn open(devices: Vec<Arc<dyn Device>>) -> Result<Self> {
        let latch = Latch::default();
        let (superblock, members, clashes) = member::gather(devices, &latch)?;
        let checksum_kind = superblock.checksum_kind().map_err(Error::in_filesystem)?;
        let mut volume = Self {
            superblock,
            checksum_kind,
            members,
            clashes,
            dev_items: BTreeMap::new(),
            chunks: Vec::new(),
            faults: FaultLog::default(),
            latch,
            parity: Mutex::new(()),
        };
        volume.add_system_chunks()?;
        Ok(volume)
    }

    fn add_system_chunks(&mut self) -> Result<()> {
        let superblock = self.superblock;
        let mut array = superblock.sys_chunks();
        while !array.is_empty() {
            let (key, data) = system_chunk_key(array).map_err(Error::in_filesystem)?;
            let (chunk, stripes, rest) = ChunkItem::view(data).map_err(Error::in_filesystem)?;
            self.add_chunk(Logical(key.offset), chunk, stripes)?;
            array = rest;
        }
        Ok(())
    }

    /// The superblock of the last commit.
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The checksum of tree blocks and data.
    pub const fn checksum_kind(&self) -> ChecksumKind {
        self.checksum_kind
    }

    /// Size of a tree block in bytes.
    pub fn node_size(&self) -> u32 {
        self.superblock.nodesize.get()
    }

    /// The smallest unit of data in bytes.
    pub fn sector_size(&self) -> u32 {
        self.superblock.sectorsize.get()
    }

    /// Makes a chunk known. One that is known already, and the same, is left as it is.
    pub fn add_chunk(&mut self, at: Logical, item: &ChunkItem, stripes: &[Stripe]) -> Result<()> {
        let members = &self.members;
        let chunk = Chunk::new(at, item, stripes, self.superblock.sectorsize.get(), |stripe| {
            members.iter().position(|member| {
                member.devid() == stripe.devid.get() && member.dev_item().uuid == stripe.dev_uuid
            })
        })
        .map_err(|damage| Error::at(damage, at))?;
        let slot = self.chunks.partition_point(|known| known.logical < at);
        match self.chunks.get(slot) {
            Some(known) if known.is_same(&chunk) => return Ok(()),
            Some(known) if known.logical.0 < chunk.end() => {
                return Err(Error::at(Damage::ChunkOverlap { other: known.logical }, at));
            }
            _ => {}
        }
        if let Some(before) = slot.checked_sub(1).and_then(|slot| self.chunks.get(slot))
            && before.end() > at.0
        {
            return Err(Error::at(Damage::ChunkOverlap { other: before.logical }, at));
        }
        self.chunks.insert(slot, chunk);
        Ok(())
    }

    /// Every known chunk, by logical address.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &Chunk> + DoubleEndedIterator {
        self.chunks.iter()
    }

    /// The chunk that holds an address.
    pub fn chunk_at(&self, at: Logical) -> Result<&Chunk> {
        self.chunks
            .partition_point(|chunk| chunk.logical <= at)
            .checked_sub(1)
            .and_then(|slot| self.chunks.get(slot))
            .filter(|chunk| at.0 < chunk.end())
            .ok_or_else(|| Error::at(Damage::NoChunk { at }, at))
    }

    /// The chunk that holds all of a range, and where in it the range starts.
    fn chunk_of(&self, at: Logical, len: usize) -> Result<(&Chunk, u64)> {
        let chunk = self.chunk_at(at)?;
        let offset = at.0.saturating_sub(chunk.logical.0);
        let len = len as u64;
        if len > chunk.length.saturating_sub(offset) {
            return Err(Error::at(Damage::ChunkEnd { chunk: chunk.logical, len }, at));
        }
        Ok((chunk, offset))
    }

    /// In how many ways the bytes at an address can be read: copies, or ways to rebuild them from parity.
    pub fn copies(&self, at: Logical) -> Result<usize> {
        Ok(self.chunk_at(at)?.copies())
    }

    /// Bad reads so far whose bytes were then had from another copy, as far as they are remembered.
    pub fn faults(&self) -> Vec<Fault> {
        self.faults.list()
    }

    /// Number of bad reads so far, forgotten ones too.
    pub fn fault_count(&self) -> u64 {
        self.faults.count()
    }
}

/// The first key of a superblock's array of chunks, and what follows it.
fn system_chunk_key(array: &[u8]) -> Result<(Key, &[u8]), Damage> {
    let what = "system chunk array";
    let (raw, rest) = RawKey::ref_from_prefix(array).map_err(|_| Damage::TooShort {
        what,
        found: array.len(),
        expected: size_of::<RawKey>(),
    })?;
    let key = Key::from(*raw);
    if key.kind != KeyKind::CHUNK_ITEM {
        return Err(Damage::Value { what, found: key.kind.0.into() });
    }
    Ok((key, rest))
}
