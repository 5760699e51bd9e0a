//! What is known of a filesystem without reading all of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::format::{BlockGroupFlags, BlockGroupItem, Key, KeyKind, tree_id};
use crate::fs;
use crate::tree::Forest;
use crate::tui::model::{Device, Filesystem, Space, Subvolume};
use crate::tui::text;

/// The filesystem as a whole.
pub(super) fn filesystem(fs: &fs::Filesystem, names: &[String]) -> Result<Filesystem> {
    let volume = fs.forest().volume();
    let superblock = volume.superblock();
    let devices = volume
        .members()
        .iter()
        .map(|member| Device {
            id: member.devid(),
            name: match names {
                // What the user calls it is what it is called.
                [name] => name.clone(),
                _ => text::name(member.name().as_bytes()),
            },
            bytes: member.dev_item().total_bytes.get(),
        })
        .collect();
    Ok(Filesystem {
        label: text::name(superblock.label_bytes()),
        uuid: uuid(&superblock.fsid),
        generation: superblock.generation.get(),
        devices,
        profiles: profiles(fs.forest()),
        format: format!(
            "{}, {} KiB nodes",
            format!("{:?}", volume.checksum_kind()).to_lowercase(),
            volume.node_size() >> 10
        ),
        space: space(fs.forest())?,
        refusal: fs.writable().err().map(super::chain),
    })
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]];
    parts.map(<[String]>::concat).join("-")
}

/// What a block group is for.
fn purpose(flags: BlockGroupFlags) -> &'static str {
    let (data, metadata) = (BlockGroupFlags::DATA, BlockGroupFlags::METADATA);
    match () {
        () if flags.contains(data | metadata) => "mixed",
        () if flags.contains(data) => "data",
        () if flags.contains(metadata) => "metadata",
        () => "system",
    }
}

fn profiles(forest: &Forest) -> Vec<String> {
    let found: BTreeSet<(&str, String)> = forest
        .volume()
        .chunks()
        .map(|chunk| (purpose(chunk.flags), chunk.flags.profile_name().to_lowercase()))
        .collect();
    found.into_iter().map(|(purpose, profile)| format!("{purpose} {profile}")).collect()
}

/// How the space of all devices is used, every copy counted.
fn space(forest: &Forest) -> Result<Space> {
    let groups =
        forest.find_tree(tree_id::BLOCK_GROUP).map_or_else(|| forest.tree(tree_id::EXTENT), Ok)?;
    let mut space = Space::default();
    let mut allocated: u64 = 0;
    for chunk in forest.volume().chunks() {
        let key = Key::new(chunk.logical.0, KeyKind::BLOCK_GROUP_ITEM, chunk.length);
        let used = match groups.find(key)? {
            Some(item) => BlockGroupItem::view(item.data())
                .map_err(|damage| Error::in_item(damage, groups.id(), key))?
                .used
                .get(),
            None => 0,
        };
        let raw = chunk.stripe_size().saturating_mul(chunk.stripes.len() as u64);
        let used = u128::from(used) * u128::from(raw) / u128::from(chunk.length.max(1));
        let used = u64::try_from(used).unwrap_or(raw).min(raw);
        allocated = allocated.saturating_add(raw);
        space.free = space.free.saturating_add(raw - used);
        let part = if chunk.flags.contains(BlockGroupFlags::DATA) {
            &mut space.data
        } else {
            &mut space.metadata
        };
        *part = part.saturating_add(used);
    }
    let devices = forest.volume().dev_items().map(|device| device.total_bytes.get());
    let total = devices.fold(0, u64::saturating_add);
    space.unallocated = total.saturating_sub(allocated);
    Ok(space)
}

/// The subvolumes as a tree: each one below the one that holds its name.
pub(super) fn subvolumes(found: &[fs::Subvolume]) -> Vec<Subvolume> {
    let by_uuid: BTreeMap<[u8; 16], u64> =
        found.iter().filter_map(|subvolume| Some((subvolume.uuid?, subvolume.id))).collect();
    let mut children: BTreeMap<Option<u64>, Vec<&fs::Subvolume>> = BTreeMap::new();
    for subvolume in found {
        children.entry(subvolume.parent).or_default().push(subvolume);
    }
    for siblings in children.values_mut() {
        siblings.sort_by(|one, other| other.path.cmp(&one.path));
    }
    let mut tree = Vec::with_capacity(found.len());
    let mut waiting: Vec<(&fs::Subvolume, usize)> = Vec::new();
    let roots = children.remove(&None).unwrap_or_default();
    waiting.extend(roots.into_iter().map(|root| (root, 0)));
    loop {
        let Some((subvolume, depth)) = waiting.pop() else {
            // What hangs in a circle, or in what is gone, still is shown.
            let Some((_, lost)) = children.pop_first() else { break };
            waiting.extend(lost.into_iter().map(|subvolume| (subvolume, 0)));
            continue;
        };
        let parent =
            tree.iter().rev().find(|above: &&Subvolume| Some(above.id) == subvolume.parent);
        tree.push(row(subvolume, depth, parent, &by_uuid));
        let below = children.remove(&Some(subvolume.id)).unwrap_or_default();
        waiting.extend(below.into_iter().map(|child| (child, depth + 1)));
    }
    tree
}

fn row(
    subvolume: &fs::Subvolume,
    depth: usize,
    parent: Option<&Subvolume>,
    by_uuid: &BTreeMap<[u8; 16], u64>,
) -> Subvolume {
    let above = parent.map_or(&[][..], |parent| &parent.raw_path);
    let inside = subvolume.path.strip_prefix(above).unwrap_or(&subvolume.path);
    let inside = inside.strip_prefix(b"/").unwrap_or(inside);
    let name = match (inside, subvolume.is_deleted) {
        (_, true) => format!("deleted {}", subvolume.id),
        (b"", _) => "/".to_owned(),
        (name, _) => text::name(name),
    };
    let created = subvolume.otime.map(|time| time.sec.get()).filter(|&seconds| seconds != 0);
    Subvolume {
        id: subvolume.id,
        parent: subvolume.parent,
        depth,
        name,
        path: crate::tui::model::shown_path(&subvolume.path),
        raw_path: subvolume.path.clone(),
        is_read_only: subvolume.is_read_only,
        snapshot_of: subvolume.parent_uuid.and_then(|uuid| by_uuid.get(&uuid).copied()),
        created,
        amounts: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_usual_form() {
        let bytes = std::array::from_fn(|index| index as u8);
        assert_eq!(uuid(&bytes), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
