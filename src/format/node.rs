//! Tree blocks: a header, then pointers to children or items of a leaf.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{BlockFlags, Damage, Key, RawKey};

/// Size of a tree block's header in bytes.
pub const HEADER_SIZE: usize = size_of::<Header>();
/// Size of an item's head in a leaf, in bytes, without its data.
pub const ITEM_SIZE: usize = size_of::<RawItem>();
/// Size of a pointer to a child, in bytes.
pub const KEY_PTR_SIZE: usize = size_of::<RawKeyPtr>();

/// Levels that a tree can have (`BTRFS_MAX_LEVEL`).
pub const LEVELS: u8 = 8;

/// `btrfs_header`: the first 101 bytes of a tree block.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Checksum of all that follows.
    pub csum: [u8; 32],
    /// The filesystem's (metadata) UUID.
    pub fsid: [u8; 16],
    /// Logical address of this block.
    pub bytenr: U64,
    /// [`BlockFlags`], and the backref revision in the top byte.
    pub flags: U64,
    /// UUID of the chunk tree.
    pub chunk_tree_uuid: [u8; 16],
    /// Transaction that wrote the block.
    pub generation: U64,
    /// Tree that allocated the block.
    pub owner: U64,
    /// Items of a leaf, or children of a node.
    pub nritems: U32,
    /// 0 for a leaf.
    pub level: u8,
}
const _: () = assert!(size_of::<Header>() == 101);

/// Backref revision of all blocks written since 2009.
const MIXED_BACKREF_REV: u64 = 1;

impl Header {
    /// The flags without the backref revision.
    pub fn block_flags(&self) -> BlockFlags {
        BlockFlags::from_bits_retain(self.flags.get() & (u64::MAX >> 8))
    }

    /// Whether references are kept as every filesystem since 2009 does.
    pub fn has_mixed_backrefs(&self) -> bool {
        self.flags.get() >> 56 == MIXED_BACKREF_REV
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawItem {
    key: RawKey,
    offset: U32,
    size: U32,
}
const _: () = assert!(size_of::<RawItem>() == 25);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawKeyPtr {
    key: RawKey,
    blockptr: U64,
    generation: U64,
}
const _: () = assert!(size_of::<RawKeyPtr>() == 33);

/// `btrfs_key_ptr`: a node's pointer to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPtr {
    /// The child's first key.
    pub key: Key,
    /// The child's logical address.
    pub bytenr: u64,
    /// The generation in the child's header.
    pub generation: u64,
}

/// A tree block whose inner structure has been checked: slots, key order and packing are sound.
#[derive(Debug)]
pub struct Node {
    bytes: Box<[u8]>,
    header: Header,
}

impl Node {
    /// Checks the structure of a block. Checksum and identity are the caller's to compare.
    pub fn parse(bytes: Box<[u8]>) -> Result<Self, Damage> {
        let Ok((&header, body)) = Header::ref_from_prefix(&bytes) else {
            let found = bytes.len();
            return Err(Damage::TooShort { what: "tree block", found, expected: HEADER_SIZE });
        };
        let (level, nritems) = (header.level, header.nritems.get());
        if level >= LEVELS {
            return Err(Damage::Value { what: "level", found: level.into() });
        }
        let entry = if level == 0 { ITEM_SIZE } else { KEY_PTR_SIZE };
        if (nritems as usize).saturating_mul(entry) > body.len() || (level > 0 && nritems == 0) {
            return Err(Damage::ItemCount { nritems, level });
        }
        let node = Self { bytes, header };
        node.check_slots()?;
        Ok(node)
    }

    fn check_slots(&self) -> Result<(), Damage> {
        for slot in 1..self.len() {
            if self.key(slot) <= self.key(slot.saturating_sub(1)) {
                return Err(Damage::KeyOrder { slot });
            }
        }
        if self.level() == 0 {
            let mut end = self.bytes.len().saturating_sub(HEADER_SIZE);
            let heads_end = self.len().saturating_mul(ITEM_SIZE);
            for slot in 0..self.len() {
                let (offset, size) = self.place(slot);
                if offset.checked_add(size) != Some(end) || offset < heads_end {
                    return Err(Damage::ItemPacking { slot });
                }
                end = offset;
            }
        }
        Ok(())
    }

    /// The block's header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The whole block.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Height above the leaves.
    pub const fn level(&self) -> u8 {
        self.header.level
    }

    /// Tree that allocated the block.
    pub fn owner(&self) -> u64 {
        self.header.owner.get()
    }

    /// Transaction that wrote the block.
    pub fn generation(&self) -> u64 {
        self.header.generation.get()
    }

    /// Logical address that the block claims.
    pub fn bytenr(&self) -> u64 {
        self.header.bytenr.get()
    }

    /// Number of items or children.
    pub fn len(&self) -> usize {
        self.header.nritems.get() as usize
    }

    /// Whether there are no items; only the root leaf of some trees may be so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn entries<T: FromBytes + Immutable + KnownLayout + Unaligned>(&self) -> &[T] {
        let body = self.bytes.get(HEADER_SIZE..).unwrap_or_default();
        <[T]>::ref_from_prefix_with_elems(body, self.len())
            .map(|(entries, _)| entries)
            .expect("the number of entries was checked when the block was parsed")
    }

    /// Key of item or child `slot`, which must be below [`len`](Self::len).
    pub fn key(&self, slot: usize) -> Key {
        if self.level() == 0 {
            self.entries::<RawItem>()[slot].key.into()
        } else {
            self.entries::<RawKeyPtr>()[slot].key.into()
        }
    }

    /// Key of item or child `slot`, if there are that many.
    pub fn find_key(&self, slot: usize) -> Option<Key> {
        (slot < self.len()).then(|| self.key(slot))
    }

    /// Key of the first item or child.
    pub fn first_key(&self) -> Option<Key> {
        (!self.is_empty()).then(|| self.key(0))
    }

    fn place(&self, slot: usize) -> (usize, usize) {
        let item = &self.entries::<RawItem>()[slot];
        (item.offset.get() as usize, item.size.get() as usize)
    }

    /// Data of item `slot` of a leaf.
    pub fn data(&self, slot: usize) -> &[u8] {
        let (offset, size) = self.place(slot);
        let start = offset.saturating_add(HEADER_SIZE);
        &self.bytes[start..start.saturating_add(size)]
    }

    /// Key and data of every item of a leaf.
    pub fn items(&self) -> impl ExactSizeIterator<Item = (Key, &[u8])> + DoubleEndedIterator {
        let len = if self.level() == 0 { self.len() } else { 0 };
        (0..len).map(|slot| (self.key(slot), self.data(slot)))
    }

    /// Pointer `slot` of a node.
    pub fn ptr(&self, slot: usize) -> KeyPtr {
        let ptr = &self.entries::<RawKeyPtr>()[slot];
        KeyPtr { key: ptr.key.into(), bytenr: ptr.blockptr.get(), generation: ptr.generation.get() }
    }

    /// Every pointer of a node; none for a leaf.
    pub fn ptrs(&self) -> impl ExactSizeIterator<Item = KeyPtr> + DoubleEndedIterator {
        let len = if self.level() == 0 { 0 } else { self.len() };
        (0..len).map(|slot| self.ptr(slot))
    }

    /// The slot of `key`, or where it would be inserted.
    pub fn search(&self, key: Key) -> Result<usize, usize> {
        if self.level() == 0 {
            self.entries::<RawItem>().binary_search_by_key(&key, |item| item.key.into())
        } else {
            self.entries::<RawKeyPtr>().binary_search_by_key(&key, |ptr| ptr.key.into())
        }
    }

    /// The slot of the child below which `key` is or would be: the last one that starts at or before it.
    pub fn child_slot(&self, key: Key) -> usize {
        self.search(key).unwrap_or_else(|slot| slot.saturating_sub(1))
    }
}

/// Lays out new tree blocks. The header given is kept but for `nritems`; the checksum is the writer's to fill in.
#[derive(Debug)]
pub struct NodeWriter {
    node_size: usize,
}

impl NodeWriter {
    /// For blocks of `node_size` bytes.
    pub const fn new(node_size: usize) -> Self {
        Self { node_size }
    }

    /// Bytes that heads and data of a leaf's items may take together, or a node's pointers.
    pub const fn capacity(&self) -> usize {
        self.node_size.saturating_sub(HEADER_SIZE)
    }

    /// Children that a node can have.
    pub const fn ptrs_max(&self) -> usize {
        self.capacity() / KEY_PTR_SIZE
    }

    /// A leaf of `items`, whose keys must ascend and which must fit.
    pub fn leaf<'a>(
        &self,
        header: &Header,
        items: impl ExactSizeIterator<Item = (Key, &'a [u8])>,
    ) -> Vec<u8> {
        let mut block = self.start(header, items.len());
        let (mut head, mut end) = (HEADER_SIZE, self.node_size);
        for (key, data) in items {
            end = end.checked_sub(data.len()).expect("the items fit");
            assert!(head.saturating_add(ITEM_SIZE) <= end, "the items fit");
            block[end..end.saturating_add(data.len())].copy_from_slice(data);
            let item = RawItem {
                key: key.into(),
                offset: U32::new(end.saturating_sub(HEADER_SIZE) as u32),
                size: U32::new(data.len() as u32),
            };
            block[head..head.saturating_add(ITEM_SIZE)].copy_from_slice(item.as_bytes());
            head = head.saturating_add(ITEM_SIZE);
        }
        block
    }

    /// A node of pointers, whose keys must ascend and which must fit.
    pub fn node(&self, header: &Header, ptrs: &[KeyPtr]) -> Vec<u8> {
        assert!(!ptrs.is_empty() && ptrs.len() <= self.ptrs_max(), "the pointers fit");
        let mut block = self.start(header, ptrs.len());
        for (place, ptr) in block[HEADER_SIZE..].chunks_exact_mut(KEY_PTR_SIZE).zip(ptrs) {
            let raw = RawKeyPtr {
                key: ptr.key.into(),
                blockptr: ptr.bytenr.into(),
                generation: ptr.generation.into(),
            };
            place.copy_from_slice(raw.as_bytes());
        }
        block
    }

    fn start(&self, header: &Header, nritems: usize) -> Vec<u8> {
        let mut block = vec![0; self.node_size];
        let header = Header { nritems: U32::new(nritems as u32), ..*header };
        block[..HEADER_SIZE].copy_from_slice(header.as_bytes());
        block
    }
}

/// A header for a new block that continues no old one.
impl Header {
    /// A header with the flags that every block has, to be filled in further.
    pub fn new(fsid: [u8; 16], chunk_tree_uuid: [u8; 16]) -> Self {
        Self {
            csum: [0; 32],
            fsid,
            bytenr: U64::ZERO,
            flags: U64::new(BlockFlags::WRITTEN.bits() | MIXED_BACKREF_REV << 56),
            chunk_tree_uuid,
            generation: U64::ZERO,
            owner: U64::ZERO,
            nritems: U32::ZERO,
            level: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeyKind;
    use super::*;

    fn key(objectid: u64) -> Key {
        Key::new(objectid, KeyKind::INODE_ITEM, 0)
    }

    fn leaf(items: &[(Key, &[u8])]) -> Vec<u8> {
        NodeWriter::new(4096).leaf(&Header::new([1; 16], [2; 16]), items.iter().copied())
    }

    #[test]
    fn a_leaf_reads_back_as_written() {
        let items: [(Key, &[u8]); 3] = [(key(1), b"one"), (key(2), b""), (key(5), b"five")];
        let node = Node::parse(leaf(&items).into()).unwrap();
        assert_eq!(node.items().collect::<Vec<_>>(), items);
        assert_eq!(node.search(key(2)), Ok(1));
        assert_eq!(node.search(key(3)), Err(2));
    }

    #[test]
    fn keys_out_of_order_are_refused() {
        let bytes = leaf(&[(key(2), b"x"), (key(1), b"y")]);
        assert_eq!(Node::parse(bytes.into()).unwrap_err(), Damage::KeyOrder { slot: 1 });
    }

    #[test]
    fn a_gap_between_items_is_refused() {
        let mut bytes = leaf(&[(key(1), b"xx"), (key(2), b"y")]);
        bytes[HEADER_SIZE + ITEM_SIZE + 17] -= 1;
        assert_eq!(Node::parse(bytes.into()).unwrap_err(), Damage::ItemPacking { slot: 1 });
    }

    #[test]
    fn more_items_than_fit_are_refused() {
        let mut bytes = leaf(&[]);
        bytes[96..100].copy_from_slice(&1000_u32.to_le_bytes());
        let found = Node::parse(bytes.into()).unwrap_err();
        assert_eq!(found, Damage::ItemCount { nritems: 1000, level: 0 });
    }
}
