//! The devices of a filesystem.

use std::io;
use std::sync::Arc;

use super::Volume;
use crate::device::{AlreadyFailed, Device, Latch, Latched};
use crate::error::{Error, Place, Result};
use crate::format::{Damage, DevItem, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, SuperFlags, Superblock};

/// A device of the filesystem that is there.
#[derive(Debug)]
pub struct Member {
    pub(super) device: Arc<dyn Device>,
    pub(super) dev_item: DevItem,
    /// Its primary superblock as last read or written, or the best copy if that is damaged.
    pub(super) superblock: Superblock,
    superblock_damage: Option<Damage>,
}

/// Two devices with one number: one is a clone of the other, or both are ways to the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// The number.
    pub devid: u64,
    /// The device that is used.
    pub used: String,
    /// The device that isn't.
    pub unused: String,
}

impl Member {
    /// The device's number.
    pub fn devid(&self) -> u64 {
        self.dev_item.devid.get()
    }

    /// What its superblock says of it.
    pub const fn dev_item(&self) -> &DevItem {
        &self.dev_item
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        self.device.name()
    }

    /// The device itself.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Its size in bytes.
    pub fn len(&self) -> u64 {
        self.device.len()
    }

    /// Whether it holds no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.device.is_empty()
    }

    /// Whether it is smaller than its superblock says.
    pub fn is_short(&self) -> bool {
        self.len() < self.dev_item.total_bytes.get()
    }

    /// Generation of its superblock.
    pub fn generation(&self) -> u64 {
        self.superblock.generation.get()
    }

    /// What is wrong with its primary superblock, in whose place a copy was read. The kernel reads no copies.
    pub const fn superblock_damage(&self) -> Option<&Damage> {
        self.superblock_damage.as_ref()
    }

    /// Whether other filesystems may have sprouted from it.
    pub fn is_seed(&self) -> bool {
        self.superblock.super_flags().contains(SuperFlags::SEEDING)
    }

    /// Where its superblocks are; the first one is the primary.
    pub(super) fn superblock_places(&self) -> impl Iterator<Item = u64> {
        let total = self.dev_item.total_bytes.get().min(self.len());
        SUPERBLOCK_OFFSETS
            .into_iter()
            .filter(move |at| at.saturating_add(SUPERBLOCK_SIZE as u64) < total)
    }

    pub(super) fn error(&self, byte: u64, source: io::Error) -> Error {
        io_error(&*self.device, byte, source)
    }
}

pub(super) fn io_error(device: &dyn Device, byte: u64, source: io::Error) -> Error {
    let inner = source.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(AlreadyFailed { device }) = inner {
        return Error::Latched { device: device.clone() };
    }
    Error::Io { device: format!("{} at byte {byte}", device.name()), source }
}

/// Reads one copy of a device's superblock.
pub(super) fn read_superblock(device: &dyn Device, at: u64) -> Result<Superblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read_at(at, &mut bytes).map_err(|source| io_error(device, at, source))?;
    Superblock::parse(&bytes, at).map_err(|damage| Error::Corrupt {
        at: Place::Device { device: device.name(), byte: at },
        damage,
    })
}

/// Reads the superblock that counts; when it is damaged, the error says which copies aren't.
fn read_primary(device: &dyn Device) -> Result<Superblock> {
    let [primary, mirrors @ ..] = SUPERBLOCK_OFFSETS;
    if device.len() < primary.saturating_add(SUPERBLOCK_SIZE as u64) {
        let at = Place::Device { device: device.name(), byte: primary };
        return Err(Error::Corrupt { at, damage: Damage::Magic });
    }
    match read_superblock(device, primary) {
        Err(Error::Corrupt { at, damage }) => {
            let good: Vec<u64> =
                mirrors.into_iter().filter(|at| read_superblock(device, *at).is_ok()).collect();
            let damage = match damage {
                Damage::Magic if good.is_empty() => Damage::Magic,
                why => Damage::PrimarySuperblock { why: Box::new(why), mirrors: good },
            };
            Err(Error::Corrupt { at, damage })
        }
        other => other,
    }
}

/// Reads a device's superblock: the one that counts or, if that is damaged, the newest copy of it, and what the damage
/// is. A power cut that tears the primary leaves such a device; the trees that the copy points to are whole, since the
/// copies are written last.
///
/// Where there is no sign of a superblock, or one of another filesystem, copies are only what an earlier use has left
/// behind.
pub(super) fn read_best_superblock(device: &dyn Device) -> Result<(Superblock, Option<Damage>)> {
    let [primary, mirrors @ ..] = SUPERBLOCK_OFFSETS;
    let error = match read_primary(device) {
        Ok(superblock) => return Ok((superblock, None)),
        Err(error) => error,
    };
    let Error::Corrupt { damage: Damage::PrimarySuperblock { why, .. }, .. } = &error else {
        return Err(error);
    };
    if **why == Damage::Magic {
        return Err(error);
    }
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read_at(primary, &mut bytes).map_err(|source| io_error(device, primary, source))?;
    let damaged: Superblock = zerocopy::transmute!(bytes);
    let copies = mirrors.into_iter().filter_map(|at| read_superblock(device, at).ok());
    let own = copies.filter(|copy| copy.fsid == damaged.fsid);
    match (own.max_by_key(|copy| copy.generation.get()), error) {
        (Some(best), Error::Corrupt { damage, .. }) => Ok((best, Some(damage))),
        (_, error) => Err(error),
    }
}

/// Reads the superblocks of `devices` and sorts them out.
pub(super) fn gather(
    devices: Vec<Arc<dyn Device>>,
    latch: &Latch,
) -> Result<(Superblock, Vec<Member>, Vec<Clash>)> {
    let mut found = Vec::with_capacity(devices.len());
    for device in devices {
        let device: Arc<dyn Device> = Arc::new(Latched::over(device, latch.clone()));
        let (superblock, superblock_damage) = read_best_superblock(&*device)?;
        let dev_item = superblock.dev_item;
        found.push(Member { device, dev_item, superblock, superblock_damage });
    }
    // A sprout lives on its seed's devices too, and is the one that is meant.
    found.sort_by_key(|member| (!member.is_seed(), member.generation()));
    found.reverse();
    let Some(first) = found.first() else {
        return Err(Error::Unsupported("no device was given".to_owned()));
    };
    let (superblock, name) = (first.superblock, first.name());
    let mut members: Vec<Member> = Vec::with_capacity(found.len());
    let mut clashes = Vec::new();
    for member in found {
        if member.superblock.fsid != superblock.fsid && !member.is_seed() {
            let other = member.name();
            return Err(Error::Unsupported(format!(
                "{name} and {other} are of different filesystems"
            )));
        }
        match members.iter().find(|known| known.devid() == member.devid()) {
            Some(known) => clashes.push(Clash {
                devid: member.devid(),
                used: known.name(),
                unused: member.name(),
            }),
            None => members.push(member),
        }
    }
    members.sort_by_key(Member::devid);
    Ok((superblock, members, clashes))
}

impl Volume {
    /// The devices that are there, by number.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Devices that were given but have the number of another one.
    pub fn clashes(&self) -> &[Clash] {
        &self.clashes
    }

    /// Makes known what the chunk tree says of a device.
    pub fn add_device(&mut self, item: &DevItem) {
        self.dev_items.insert(item.devid.get(), *item);
    }

    /// What the chunk tree says of devices, by number, as far as it was made known.
    pub fn dev_items(&self) -> impl Iterator<Item = &DevItem> {
        self.dev_items.values()
    }

    /// Sets what a device's superblock will say of it from the next commit on.
    pub fn set_dev_item(&mut self, item: &DevItem) {
        for member in self.members.iter_mut().filter(|member| member.devid() == item.devid.get()) {
            member.dev_item = *item;
        }
    }

    /// Numbers of the devices that chunks or the chunk tree name but that aren't there.
    pub fn missing_devices(&self) -> Vec<u64> {
        let named = self.dev_items.values().map(|item| (item.devid.get(), item.uuid));
        let used = self.chunks.iter().flat_map(|chunk| {
            chunk.stripes.iter().map(|stripe| (stripe.devid.get(), stripe.dev_uuid))
        });
        let mut missing: Vec<u64> = named
            .chain(used)
            .filter(|(devid, uuid)| {
                !self
                    .members
                    .iter()
                    .any(|member| member.devid() == *devid && member.dev_item.uuid == *uuid)
            })
            .map(|(devid, _)| devid)
            .collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Devices that are there but that the chunk tree doesn't name: removed or replaced, and not wiped.
    pub fn strangers(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| {
            let item = self.dev_items.get(&member.devid());
            item.is_none_or(|item| item.uuid != member.dev_item.uuid)
        })
    }

    /// Numbers of the seed devices that the filesystem has sprouted from.
    pub fn seed_devices(&self) -> Vec<u64> {
        let own = self.superblock.metadata_fsid();
        self.dev_items
            .values()
            .filter(|item| item.fsid != own)
            .map(|item| item.devid.get())
            .collect()
    }

    /// Whether a tree block may carry this filesystem id: the own one, or that of a seed.
    pub(super) fn knows_fsid(&self, fsid: &[u8; 16]) -> bool {
        *fsid == self.superblock.metadata_fsid()
            || self.members.iter().any(|member| *fsid == member.superblock.metadata_fsid())
    }
}
