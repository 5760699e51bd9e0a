//! Whether a filesystem may be written: every state that only the kernel, or a newer program, should go on from.

use super::{Filesystem, TOP_DIR};
use crate::error::{Refusal, Result};
use crate::format::{CompatRo, Incompat, Key, KeyKind, RootItem, SuperFlags, tree_id};
use crate::volume::Member;

/// Byte of a device replacement's item where its state is (`btrfs_dev_replace_item`).
const REPLACE_STATE: usize = 32;
/// The states in which a device replacement has still to go on.
const REPLACE_UNFINISHED: [u64; 2] = [1, 4];

impl Filesystem {
    /// Succeeds if the filesystem is in a state that may be written.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::error::Error::Refused) with the reason, which tells what to do.
    pub fn writable(&self) -> Result<()> {
        self.superblock_allows_writing()?;
        self.devices_allow_writing()?;
        self.nothing_is_unfinished()
    }

    fn superblock_allows_writing(&self) -> Result<()> {
        let superblock = self.forest.superblock();
        let flags = superblock.super_flags();
        let other = flags.difference(SuperFlags::WRITTEN);
        let (incompat, compat_ro) = (superblock.incompat(), superblock.compat_ro());
        let unknown = compat_ro.difference(CompatRo::all());
        if flags.contains(SuperFlags::ERROR) {
            return Err(Refusal::ErrorFlag.into());
        }
        if flags.contains(SuperFlags::SEEDING) {
            return Err(Refusal::Seed.into());
        }
        if !other.is_empty() {
            return Err(Refusal::SuperFlags(other.bits()).into());
        }
        if superblock.log_root.get() != 0 {
            return Err(Refusal::LogTree.into());
        }
        if incompat.contains(Incompat::ZONED) {
            return Err(Refusal::Zoned.into());
        }
        if incompat.contains(Incompat::RAID_STRIPE_TREE) {
            return Err(Refusal::Feature("raid-stripe-tree".to_owned()).into());
        }
        if !incompat.contains(Incompat::MIXED_BACKREF) {
            return Err(Refusal::OldBackrefs.into());
        }
        if !unknown.is_empty() {
            return Err(Refusal::UnknownCompatRo(unknown.bits()).into());
        }
        // With a block group tree the kernel does not mount without a valid free space tree, and nobody may clear the
        // flag; without one it rebuilds the free space tree.
        if compat_ro.contains(CompatRo::BLOCK_GROUP_TREE)
            && !compat_ro.contains(CompatRo::FREE_SPACE_TREE_VALID)
        {
            return Err(Refusal::FreeSpaceTree.into());
        }
        Ok(())
    }

    fn devices_allow_writing(&self) -> Result<()> {
        let volume = self.forest.volume();
        if let Some(clash) = volume.clashes().first() {
            return Err(Refusal::Clone {
                devid: clash.devid,
                first: clash.used.clone(),
                second: clash.unused.clone(),
            }
            .into());
        }
        if let Some(torn) = volume.members().iter().find(|torn| torn.superblock_damage().is_some())
        {
            return Err(Refusal::Superblock { device: torn.name() }.into());
        }
        if !volume.seed_devices().is_empty() {
            return Err(Refusal::Sprout.into());
        }
        if volume.members().iter().any(Member::is_seed) {
            return Err(Refusal::Seed.into());
        }
        if let Some(stranger) = volume.strangers().next() {
            return Err(Refusal::Stranger { path: stranger.name() }.into());
        }
        if let Some(&devid) = volume.missing_devices().first() {
            return Err(Refusal::MissingDevice { devid }.into());
        }
        let listed = volume.dev_items().count() as u64;
        let superblock = volume.superblock().num_devices.get();
        if listed != superblock {
            return Err(Refusal::DeviceCount { superblock, listed }.into());
        }
        let generation = volume.superblock().generation.get();
        for member in volume.members() {
            if member.generation() != generation {
                return Err(Refusal::Generations(member.generation(), generation).into());
            }
            if member.is_short() {
                let (have, need) = (member.len(), member.dev_item().total_bytes.get());
                return Err(Refusal::ShortDevice { path: member.name(), have, need }.into());
            }
        }
        Ok(())
    }

    fn nothing_is_unfinished(&self) -> Result<()> {
        let trees = self.forest.tree(tree_id::ROOT)?;
        let mut balance = trees.range(Key::all_of_kind(tree_id::BALANCE, KeyKind::TEMPORARY_ITEM));
        if balance.next().transpose()?.is_some() {
            return Err(Refusal::Balance.into());
        }
        if let Some(devices) = self.forest.find_tree(tree_id::DEV) {
            let replace = devices.find(Key::new(0, KeyKind::DEV_REPLACE, 0))?;
            let state = replace.as_ref().and_then(|item| {
                let bytes = item.data().get(REPLACE_STATE..)?.first_chunk()?;
                Some(u64::from_le_bytes(*bytes))
            });
            if state.is_some_and(|state| REPLACE_UNFINISHED.contains(&state)) {
                return Err(Refusal::DeviceReplace.into());
            }
        }
        for (id, entry) in self.forest.roots() {
            if tree_id::is_subvolume(*id) && is_half_deleted(&entry.item) {
                return Err(Refusal::SubvolumeDeletion(*id).into());
            }
        }
        self.nothing_is_being_moved()?;
        for id in self.forest.roots().keys() {
            if !self.forest.tree(*id)?.root_node()?.header().has_mixed_backrefs() {
                return Err(Refusal::OldBackrefs.into());
            }
        }
        Ok(())
    }

    /// A balance that stopped half way leaves trees, or data in a tree of its own, behind.
    fn nothing_is_being_moved(&self) -> Result<()> {
        if self.forest.roots().contains_key(&tree_id::TREE_RELOC) {
            return Err(Refusal::Relocation.into());
        }
        let Some(moved) = self.forest.find_tree(tree_id::DATA_RELOC) else { return Ok(()) };
        for item in moved.items() {
            let key = item?.key();
            if key.objectid != TOP_DIR || key.kind == KeyKind::EXTENT_DATA {
                return Err(Refusal::Relocation.into());
            }
        }
        Ok(())
    }
}

/// Whether a tree is being deleted and some of it is gone already. One whose deletion has not begun is as whole as any
/// other.
fn is_half_deleted(item: &RootItem) -> bool {
    item.refs.get() == 0 && (item.drop_progress.objectid.get() != 0 || item.drop_level != 0)
}
