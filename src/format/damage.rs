//! Every rule of the format that bytes can break.

use super::{Key, Logical};

/// A broken rule, with the numbers that break it. It doesn't know where it is; see `error::Error::Corrupt`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what the fields are")]
pub enum Damage {
    #[error("no Btrfs superblock (the magic number is missing)")]
    Magic,
    #[error("superblock field {field} has the impossible value {found}")]
    SuperblockField { field: &'static str, found: u64 },
    #[error("unknown checksum type {found}")]
    ChecksumKind { found: u16 },
    #[error("the checksum doesn't match")]
    Checksum,
    #[error("{found} bytes are too short for {expected} bytes of {what}")]
    TooShort { what: &'static str, found: usize, expected: usize },
    #[error("{what} has {found} bytes, not {expected}")]
    Size { what: &'static str, found: usize, expected: usize },
    #[error("{what} has the impossible value {found}")]
    Value { what: &'static str, found: u64 },
    #[error("block says that it is at {found}")]
    Bytenr { found: u64 },
    #[error("block belongs to another filesystem")]
    Fsid,
    #[error("level is {found}, its parent says {expected}")]
    Level { found: u8, expected: u8 },
    #[error("generation is {found}, its parent says {expected}")]
    Generation { found: u64, expected: u64 },
    #[error("first key is {found}, its parent says {expected}")]
    FirstKey { found: Key, expected: Key },
    #[error("block belongs to tree {found}, found in tree {expected}")]
    Owner { found: u64, expected: u64 },
    #[error("{nritems} items do not fit in a block of level {level}")]
    ItemCount { nritems: u32, level: u8 },
    #[error("key {slot} is not above the one before it")]
    KeyOrder { slot: usize },
    #[error("data of item {slot} is not where the one before it ends")]
    ItemPacking { slot: usize },
    #[error("address {at} is in no chunk")]
    NoChunk { at: Logical },
    #[error("chunk overlaps the one at {other}")]
    ChunkOverlap { other: Logical },
    #[error("a range of {len} bytes reaches out of the chunk at {chunk}")]
    ChunkEnd { chunk: Logical, len: u64 },
    #[error("the superblock that counts is damaged ({why}); {}", good_mirrors(.mirrors))]
    PrimarySuperblock { why: Box<Self>, mirrors: Vec<u64> },
    #[error("{tree} tree is missing")]
    NoTree { tree: &'static str },
    #[error("item {key} is missing")]
    NoItem { key: Key },
    #[error("tree is deeper than it can be")]
    TooDeep,
    #[error("extent {bytenr}: {what}")]
    Extent { bytenr: u64, what: &'static str },
    #[error("no good checksum is recorded for data at {at}")]
    NoDataChecksum { at: Logical },
    #[error("free space of block group {start}: {what}")]
    FreeSpace { start: u64, what: &'static str },
}

fn good_mirrors(mirrors: &[u64]) -> String {
    if mirrors.is_empty() {
        return "no copy of it is good".to_owned();
    }
    let at = mirrors.iter().map(u64::to_string).collect::<Vec<_>>().join(" and ");
    format!("its copy at byte {at} is good, and `btrfs rescue super-recover` restores it")
}
