//! Subvolumes and snapshots.

use std::collections::BTreeMap;

use super::{Filesystem, TOP_DIR};
use crate::error::{Error, Result};
use crate::format::{
    Damage, Key, KeyKind, RootFlags, RootItem, Timespec, inode_extrefs, inode_refs, root_ref,
    tree_id,
};

/// Directories below each other that a path can have before it is taken for a circle.
const DEPTH_MAX: usize = 4096;

/// A subvolume or snapshot, or the top level.
#[derive(Debug, Clone)]
pub struct Subvolume {
    /// Its number.
    pub id: u64,
    /// The subvolume that it hangs in; none for the top level and for one that is deleted.
    pub parent: Option<u64>,
    /// The directory of `parent` that it hangs in.
    pub dirid: u64,
    /// Its name there; empty for the top level.
    pub name: Vec<u8>,
    /// Its path as seen from the top level, without a slash at the start.
    pub path: Vec<u8>,
    /// Whether it is a read-only snapshot or was made read-only.
    pub is_read_only: bool,
    /// Whether it was deleted, and its space only waits to be given back.
    pub is_deleted: bool,
    /// Its UUID, if it has one.
    pub uuid: Option<[u8; 16]>,
    /// UUID of the subvolume that it is a snapshot of.
    pub parent_uuid: Option<[u8; 16]>,
    /// When it was made, if that is known.
    pub otime: Option<Timespec>,
    /// Transaction that last changed it.
    pub generation: u64,
    /// All that the tree of trees says of it.
    pub item: RootItem,
}

/// Where a subvolume hangs.
struct Place {
    parent: u64,
    dirid: u64,
    name: Vec<u8>,
}

impl Filesystem {
    /// The top level, then every subvolume and snapshot, by number.
    pub fn subvolumes(&self) -> Result<Vec<Subvolume>> {
        let places = self.places()?;
        let mut paths: BTreeMap<u64, Vec<u8>> = BTreeMap::from([(tree_id::FS, Vec::new())]);
        let mut subvolumes = Vec::new();
        for id in self.forest.subvolumes() {
            let Some(entry) = self.forest.roots().get(&id) else { continue };
            let path = self.path_of(id, &places, &mut paths, 0)?;
            let place = places.get(&id);
            let item = entry.item;
            // What an old kernel doesn't know of it can't have kept up to date.
            let is_whole = item.generation_v2 == item.generation;
            let known = |uuid: [u8; 16]| (is_whole && uuid != [0; 16]).then_some(uuid);
            subvolumes.push(Subvolume {
                id,
                parent: place.map(|place| place.parent),
                dirid: place.map_or(0, |place| place.dirid),
                name: place.map_or_else(Vec::new, |place| place.name.clone()),
                path: path.unwrap_or_default(),
                is_read_only: item.root_flags().contains(RootFlags::RDONLY),
                is_deleted: item.refs.get() == 0,
                uuid: known(item.uuid),
                parent_uuid: known(item.parent_uuid),
                otime: (is_whole && item.otime.sec.get() != 0).then_some(item.otime),
                generation: item.generation.get(),
                item,
            });
        }
        Ok(subvolumes)
    }

    /// Where every subvolume hangs.
    fn places(&self) -> Result<BTreeMap<u64, Place>> {
        let mut places = BTreeMap::new();
        for item in self.forest.tree(tree_id::ROOT)?.items() {
            let item = item?;
            let key = item.key();
            if key.kind == KeyKind::ROOT_BACKREF {
                let place = root_ref(item.data())
                    .map_err(|damage| Error::in_item(damage, tree_id::ROOT, key))?;
                let name = place.name.to_vec();
                places.insert(key.objectid, Place { parent: key.offset, dirid: place.dirid, name });
            }
        }
        Ok(places)
    }

    /// A subvolume's path; none when it, or one that it hangs in, hangs nowhere.
    fn path_of(
        &self,
        id: u64,
        places: &BTreeMap<u64, Place>,
        known: &mut BTreeMap<u64, Vec<u8>>,
        depth: usize,
    ) -> Result<Option<Vec<u8>>> {
        if let Some(path) = known.get(&id) {
            return Ok(Some(path.clone()));
        }
        let Some(place) = places.get(&id).filter(|_| depth < DEPTH_MAX) else { return Ok(None) };
        let Some(mut path) = self.path_of(place.parent, places, known, depth + 1)? else {
            return Ok(None);
        };
        let inside = self.directory_path(place.parent, place.dirid)?;
        for part in inside.iter().chain([&place.name]) {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
        known.insert(id, path.clone());
        Ok(Some(path))
    }

    /// One path of an inode, as seen from the top level.
    pub fn path_of_inode(&self, root: u64, ino: u64) -> Result<Vec<u8>> {
        let subvolumes = self.subvolumes()?;
        let top = subvolumes.into_iter().find(|subvolume| subvolume.id == root);
        let mut path = top.map(|subvolume| subvolume.path).unwrap_or_default();
        for name in self.directory_path(root, ino)? {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
        }
        Ok(path)
    }

    /// Names of the directories from the top of a subvolume down to `dir`.
    pub fn directory_path(&self, root: u64, dir: u64) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let mut here = dir;
        while here != TOP_DIR {
            let Some((parent, name)) = self.first_name(root, here)? else {
                let key = Key::new(here, KeyKind::INODE_REF, 0);
                return Err(Error::in_item(Damage::NoItem { key }, root, key));
            };
            if names.len() == DEPTH_MAX {
                return Err(Error::in_item(
                    Damage::TooDeep,
                    root,
                    Key::new(dir, KeyKind::INODE_ITEM, 0),
                ));
            }
            names.push(name);
            here = parent;
        }
        names.reverse();
        Ok(names)
    }

    /// The first name that an inode has, and the directory that has it.
    pub fn first_name(&self, root: u64, ino: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let keys =
            Key::new(ino, KeyKind::INODE_REF, 0)..=Key::new(ino, KeyKind::INODE_EXTREF, u64::MAX);
        let Some(item) = self.forest.tree(root)?.range(keys).next().transpose()? else {
            return Ok(None);
        };
        let key = item.key();
        let name = if key.kind == KeyKind::INODE_REF {
            inode_refs(key.offset, item.data()).next()
        } else {
            inode_extrefs(item.data()).next()
        };
        let name = name.transpose().map_err(|damage| Error::in_item(damage, root, key))?;
        Ok(name.map(|name| (name.parent, name.name.to_vec())))
    }
}
