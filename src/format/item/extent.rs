//! Records of the extent tree: what is allocated, and who refers to it.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::{Damage, ExtentFlags, Key, KeyKind, RawKey, extent_data_ref_hash};
use super::view;

/// `btrfs_extent_item`: a data extent or a tree block; inline references follow.
///
/// * Tree: extent tree.
/// * Key: `(bytenr EXTENT_ITEM length)`, or `(bytenr METADATA_ITEM level)` for tree blocks with skinny metadata.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtentItem {
    /// Sum of the counts of all references, inline and keyed.
    pub refs: U64,
    /// Transaction that allocated it.
    pub generation: U64,
    /// [`ExtentFlags`].
    pub flags: U64,
}
const _: () = assert!(size_of::<ExtentItem>() == 24);

impl ExtentItem {
    /// Views the head of an item's data; also gives what follows it.
    pub fn view(data: &[u8]) -> Result<(&Self, &[u8]), Damage> {
        view("extent item", data)
    }

    /// Its flags.
    pub fn extent_flags(&self) -> ExtentFlags {
        ExtentFlags::from_bits_retain(self.flags.get())
    }
}

/// `btrfs_tree_block_info`: follows the [`ExtentItem`] of a tree block whose key is an `EXTENT_ITEM`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TreeBlockInfo {
    /// First key of the block.
    pub key: RawKey,
    /// Its level.
    pub level: u8,
}
const _: () = assert!(size_of::<TreeBlockInfo>() == 18);

impl TreeBlockInfo {
    /// Views it at the start of `data`; also gives what follows it.
    pub fn view(data: &[u8]) -> Result<(&Self, &[u8]), Damage> {
        view("tree block info", data)
    }
}

/// A reference to an extent, without its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ref {
    /// A tree's block points to this tree block, or it is the tree's root.
    TreeBlock {
        /// The tree.
        root: u64,
    },
    /// File extent items in leaves that belong to `root` refer to this data extent.
    Data {
        /// The tree.
        root: u64,
        /// The inode.
        objectid: u64,
        /// The item's file offset less its offset in the extent; may wrap below zero.
        offset: u64,
    },
    /// The tree block at `parent` points to this tree block.
    SharedBlock {
        /// Logical address.
        parent: u64,
    },
    /// File extent items in the leaf at `parent` refer to this data extent.
    SharedData {
        /// Logical address.
        parent: u64,
    },
}

impl Ref {
    /// The kind under which the reference is stored.
    pub const fn kind(self) -> KeyKind {
        match self {
            Self::TreeBlock { .. } => KeyKind::TREE_BLOCK_REF,
            Self::Data { .. } => KeyKind::EXTENT_DATA_REF,
            Self::SharedBlock { .. } => KeyKind::SHARED_BLOCK_REF,
            Self::SharedData { .. } => KeyKind::SHARED_DATA_REF,
        }
    }

    /// Key offset of a keyed reference (before probing); inline ones of a kind descend by it.
    pub fn sequence(self) -> u64 {
        match self {
            Self::TreeBlock { root } => root,
            Self::Data { root, objectid, offset } => extent_data_ref_hash(root, objectid, offset),
            Self::SharedBlock { parent } | Self::SharedData { parent } => parent,
        }
    }

    /// Whether it is a reference to data, which has a count.
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Data { .. } | Self::SharedData { .. })
    }

    /// Bytes that it takes inline.
    pub const fn inline_size(self) -> usize {
        match self {
            Self::TreeBlock { .. } | Self::SharedBlock { .. } => 9,
            Self::Data { .. } => 29,
            Self::SharedData { .. } => 13,
        }
    }

    /// Appends it as an inline reference.
    pub fn write_inline(self, count: u32, into: &mut Vec<u8>) {
        into.push(self.kind().0);
        match self {
            Self::Data { .. } => into.extend(self.keyed_data(count)),
            Self::SharedData { parent } => {
                into.extend(parent.to_le_bytes());
                into.extend(count.to_le_bytes());
            }
            Self::TreeBlock { .. } | Self::SharedBlock { .. } => {
                into.extend(self.sequence().to_le_bytes());
            }
        }
    }

    /// Data of its own item, for a reference that isn't inline.
    pub fn keyed_data(self, count: u32) -> Vec<u8> {
        match self {
            Self::Data { root, objectid, offset } => RawDataRef {
                root: root.into(),
                objectid: objectid.into(),
                offset: offset.into(),
                count: count.into(),
            }
            .as_bytes()
            .to_vec(),
            Self::SharedData { .. } => count.to_le_bytes().to_vec(),
            Self::TreeBlock { .. } | Self::SharedBlock { .. } => Vec::new(),
        }
    }

    /// Reads a keyed reference and its count.
    pub fn parse_keyed(key: Key, data: &[u8]) -> Result<(Self, u32), Damage> {
        match key.kind {
            KeyKind::TREE_BLOCK_REF => Ok((Self::TreeBlock { root: key.offset }, 1)),
            KeyKind::SHARED_BLOCK_REF => Ok((Self::SharedBlock { parent: key.offset }, 1)),
            KeyKind::EXTENT_DATA_REF => {
                view::<RawDataRef>("data reference", data).map(|(raw, _)| raw.parse())
            }
            KeyKind::SHARED_DATA_REF => view::<U32>("shared data reference", data)
                .map(|(count, _)| (Self::SharedData { parent: key.offset }, count.get())),
            KeyKind(found) => Err(Damage::Value { what: "reference kind", found: found.into() }),
        }
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDataRef {
    root: U64,
    objectid: U64,
    offset: U64,
    count: U32,
}
const _: () = assert!(size_of::<RawDataRef>() == 28);

impl RawDataRef {
    fn parse(&self) -> (Ref, u32) {
        let reference = Ref::Data {
            root: self.root.get(),
            objectid: self.objectid.get(),
            offset: self.offset.get(),
        };
        (reference, self.count.get())
    }
}

/// What stands inline in an extent item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InlineRef {
    /// The tree that pays for the extent under simple quotas; no reference.
    Owner {
        /// The tree.
        root: u64,
    },
    /// A reference and its count.
    Ref(Ref, u32),
}

/// The inline references in what follows the head of an extent item.
pub fn inline_refs(mut data: &[u8]) -> impl Iterator<Item = Result<InlineRef, Damage>> {
    std::iter::from_fn(move || {
        if data.is_empty() {
            return None;
        }
        let found = parse_inline(data);
        data = found.as_ref().map_or(&[], |(_, rest)| rest);
        Some(found.map(|(found, _)| found))
    })
}

fn parse_inline(data: &[u8]) -> Result<(InlineRef, &[u8]), Damage> {
    let (&kind, rest) = view::<u8>("inline reference", data)?;
    if KeyKind(kind) == KeyKind::EXTENT_DATA_REF {
        let (raw, rest) = view::<RawDataRef>("inline data reference", rest)?;
        let (reference, count) = raw.parse();
        return Ok((InlineRef::Ref(reference, count), rest));
    }
    let (offset, rest) = view::<U64>("inline reference", rest)?;
    let offset = offset.get();
    let one = |reference| Ok((InlineRef::Ref(reference, 1), rest));
    match KeyKind(kind) {
        KeyKind::EXTENT_OWNER_REF => Ok((InlineRef::Owner { root: offset }, rest)),
        KeyKind::TREE_BLOCK_REF => one(Ref::TreeBlock { root: offset }),
        KeyKind::SHARED_BLOCK_REF => one(Ref::SharedBlock { parent: offset }),
        KeyKind::SHARED_DATA_REF => {
            let (count, rest) = view::<U32>("inline reference", rest)?;
            Ok((InlineRef::Ref(Ref::SharedData { parent: offset }, count.get()), rest))
        }
        KeyKind(found) => Err(Damage::Value { what: "reference kind", found: found.into() }),
    }
}
