//! Rules that an item keeps or breaks by itself, whatever the others say: those of the kernel, which refuses to read a
//! block that breaks one, and those of `btrfs check`.

mod files;
mod space;
mod trees;

use crate::check::finding::Findings;
use crate::error::{Error, Result};
use crate::format::{Damage, Incompat, Key, KeyKind, Node, Superblock, tree_id};

/// What the rules need to know of the filesystem.
pub(super) struct Limits {
    sector: u64,
    node: u64,
    /// No transaction is later.
    newest: u64,
    incompat: Incompat,
}

impl Limits {
    pub(super) fn new(superblock: &Superblock) -> Self {
        Self {
            sector: superblock.sectorsize.get().into(),
            node: superblock.nodesize.get().into(),
            newest: superblock.generation.get(),
            incompat: superblock.incompat(),
        }
    }

    /// For blocks of the log, which belong to the transaction after the last commit.
    pub(super) fn of_log(superblock: &Superblock) -> Self {
        let all = Self::new(superblock);
        Self { newest: all.newest.saturating_add(1), ..all }
    }

    /// Whether a file may have a gap between its extents.
    pub(super) const fn has_no_holes(&self) -> bool {
        self.incompat.contains(Incompat::NO_HOLES)
    }

    const fn is_aligned(&self, at: u64) -> bool {
        at.is_multiple_of(self.sector)
    }
}

/// Checks every item of a leaf that is found in `tree`.
pub(super) fn check(limits: &Limits, leaf: &Node, tree: u64, findings: &Findings) {
    for (key, data) in leaf.items() {
        if let Err(damage) = check_item(limits, tree, key, data) {
            findings.error(Error::in_item(damage, leaf.owner(), key));
        }
    }
}

fn check_item(limits: &Limits, tree: u64, key: Key, data: &[u8]) -> Result<(), Damage> {
    require(may_hold(tree, key), "kind of item in this tree", key.kind.0.into())?;
    match key.kind {
        KeyKind::INODE_ITEM => files::inode(limits, key, data),
        KeyKind::INODE_REF => files::names(key, data),
        KeyKind::INODE_EXTREF => files::more_names(key, data),
        KeyKind::XATTR_ITEM => files::attributes(key, data),
        KeyKind::DIR_ITEM | KeyKind::DIR_INDEX => files::entries(key, data),
        KeyKind::EXTENT_DATA => files::extent(limits, key, data),
        KeyKind::ORPHAN_ITEM => sized("orphan item", data, 0),
        KeyKind::ROOT_ITEM => trees::root(limits, key, data),
        KeyKind::ROOT_REF | KeyKind::ROOT_BACKREF => trees::place(data),
        KeyKind::UUID_SUBVOL | KeyKind::UUID_RECEIVED_SUBVOL => trees::uuid(data),
        KeyKind::QGROUP_STATUS | KeyKind::QGROUP_INFO | KeyKind::QGROUP_LIMIT => {
            trees::quota(key, data)
        }
        KeyKind::QGROUP_RELATION => sized("quota relation", data, 0),
        KeyKind::EXTENT_ITEM | KeyKind::METADATA_ITEM => space::extent(limits, key, data),
        KeyKind::EXTENT_DATA_REF
        | KeyKind::TREE_BLOCK_REF
        | KeyKind::SHARED_BLOCK_REF
        | KeyKind::SHARED_DATA_REF => space::reference(limits, key, data),
        KeyKind::BLOCK_GROUP_ITEM => space::group(limits, key, data),
        KeyKind::CHUNK_ITEM => space::chunk(limits, key, data),
        KeyKind::DEV_ITEM => space::device(key, data),
        KeyKind::DEV_EXTENT => space::device_extent(limits, key, data),
        KeyKind::FREE_SPACE_INFO | KeyKind::FREE_SPACE_EXTENT | KeyKind::FREE_SPACE_BITMAP => {
            space::free(limits, key, data)
        }
        _ => Ok(()),
    }
}

/// Whether a tree may have an item of this kind. The tree of trees may have many, and so may trees that a later kernel
/// adds.
fn may_hold(tree: u64, key: Key) -> bool {
    use KeyKind as K;
    let kinds: &[K] = match tree {
        tree_id::EXTENT => &[
            K::EXTENT_ITEM,
            K::METADATA_ITEM,
            K::EXTENT_OWNER_REF,
            K::TREE_BLOCK_REF,
            K::EXTENT_DATA_REF,
            K::SHARED_BLOCK_REF,
            K::SHARED_DATA_REF,
            K::BLOCK_GROUP_ITEM,
        ],
        tree_id::CHUNK => &[K::DEV_ITEM, K::CHUNK_ITEM],
        tree_id::CSUM => &[K::EXTENT_CSUM],
        tree_id::BLOCK_GROUP => &[K::BLOCK_GROUP_ITEM],
        tree if tree_id::is_subvolume(tree) => {
            // What old kernels kept of free inode numbers stands outside of the numbers that inodes can have.
            let is_inode = (tree_id::FIRST_FREE..=tree_id::LAST_FREE).contains(&key.objectid);
            let is_orphan = key.objectid == tree_id::ORPHAN;
            if !is_inode && !is_orphan {
                return true;
            }
            &[
                K::INODE_ITEM,
                K::INODE_REF,
                K::INODE_EXTREF,
                K::XATTR_ITEM,
                K::VERITY_DESC_ITEM,
                K::VERITY_MERKLE_ITEM,
                K::ORPHAN_ITEM,
                K::DIR_ITEM,
                K::DIR_INDEX,
                K::EXTENT_DATA,
            ]
        }
        _ => return true,
    };
    kinds.contains(&key.kind)
}

const fn require(good: bool, what: &'static str, found: u64) -> Result<(), Damage> {
    if good { Ok(()) } else { Err(Damage::Value { what, found }) }
}

const fn sized(what: &'static str, data: &[u8], expected: usize) -> Result<(), Damage> {
    let found = data.len();
    if found == expected { Ok(()) } else { Err(Damage::Size { what, found, expected }) }
}
