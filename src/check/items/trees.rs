//! Items about trees: root items, places of subvolumes, UUIDs and quotas.

use super::{Limits, require, sized};
use crate::error::Result;
use crate::format::{
    Damage, Key, KeyKind, LEVELS, QgroupInfo, QgroupStatus, RootFlags, RootItem, root_ref, tree_id,
};
use crate::fs::TOP_DIR;

/// Bytes of a reference to a subvolume before the name.
const PLACE_SIZE: usize = 18;

pub(super) fn root(limits: &Limits, key: Key, data: &[u8]) -> Result<(), Damage> {
    if data.len() != RootItem::LEGACY_SIZE {
        sized("root item", data, size_of::<RootItem>())?;
    }
    let item = RootItem::parse(data)?;
    let bytenr = item.bytenr.get();
    require(limits.is_aligned(bytenr), "bytenr of a tree", bytenr)?;
    require(item.level < LEVELS, "level of a tree", item.level.into())?;
    require(item.drop_level < LEVELS, "drop_level", item.drop_level.into())?;
    let snapshot = item.last_snapshot.get();
    require(snapshot <= limits.newest.saturating_add(1), "last_snapshot", snapshot)?;
    let flags = item.root_flags();
    require(RootFlags::all().contains(flags), "flags of a tree", flags.bits())?;
    let progress = item.drop_progress.objectid.get();
    require(progress == 0 || item.drop_level > 0, "drop_level", item.drop_level.into())?;
    let top = item.root_dirid.get();
    let is_subvolume = tree_id::is_subvolume(key.objectid);
    require(!is_subvolume || top == TOP_DIR, "top directory of a subvolume", top)
}

pub(super) fn place(data: &[u8]) -> Result<(), Damage> {
    let place = root_ref(data)?;
    let len = place.name.len();
    require((1..=255).contains(&len), "length of a subvolume's name", len as u64)?;
    sized("root reference", data, PLACE_SIZE.saturating_add(len))
}

pub(super) const fn uuid(data: &[u8]) -> Result<(), Damage> {
    let len = data.len() as u64;
    require(len > 0 && len.is_multiple_of(8), "length of a UUID's list of subvolumes", len)
}

pub(super) fn quota(key: Key, data: &[u8]) -> Result<(), Damage> {
    match key.kind {
        // Since 6.7 it ends with the generation in which simple quotas began.
        KeyKind::QGROUP_STATUS if data.len() == size_of::<QgroupStatus>().saturating_add(8) => {}
        KeyKind::QGROUP_STATUS => sized("quota status", data, size_of::<QgroupStatus>())?,
        _ => return sized("quota item", data, size_of::<QgroupInfo>()),
    }
    let (status, _) = QgroupStatus::view(data)?;
    require(status.version.get() == 1, "version of quotas", status.version.get())?;
    require(status.flags.get() < 16, "flags of quotas", status.flags.get())
}
