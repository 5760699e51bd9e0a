//! Whether an image is a committed state: it opens, `check` finds nothing, and the files hold what they held.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use btrpress::check::{self, Finding, Options, Problem};
use btrpress::device::Device;
use btrpress::error::{Error, Place, Refusal, Result};
use btrpress::format::{FileExtent, FileExtentKind, InodeItem, KeyKind, Superblock};
use btrpress::fs::{Filesystem, data_csums};
use btrpress::usage::unwatched;
use btrpress::volume::Profile;

/// What a file holds, by what its items and checksums say. That the data is what the checksums say is for `check` to
/// find out.
#[derive(Default)]
pub(crate) struct Cache(Mutex<HashMap<u64, u64>>);

/// Everything that a user can see of an inode but its times, hashed; by subvolume and inode.
pub(crate) type Contents = BTreeMap<(u64, u64), [u64; 3]>;

struct Hashed(DefaultHasher);

impl std::io::Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The contents of all subvolumes.
pub(crate) fn contents(fs: &Filesystem, cache: &Cache) -> Result<Contents> {
    let mut found = Contents::new();
    let mut files: BTreeMap<(u64, u64), DefaultHasher> = BTreeMap::new();
    let mut names: BTreeMap<(u64, u64), DefaultHasher> = BTreeMap::new();
    for root in fs.forest().subvolumes() {
        for item in fs.forest().tree(root)?.items() {
            let item = item?;
            let (key, data) = (item.key(), item.data());
            let place = (root, key.objectid);
            match key.kind {
                KeyKind::INODE_ITEM => {
                    let inode = InodeItem::view(data).expect("an inode");
                    let mut hasher = DefaultHasher::new();
                    let fixed = [inode.nlink, inode.uid, inode.gid, inode.mode]
                        .map(zerocopy::little_endian::U32::get);
                    (inode.size.get(), fixed, inode.flags.get()).hash(&mut hasher);
                    found.entry(place).or_default()[0] = hasher.finish();
                    if inode.is_file() || inode.is_symlink() {
                        files.entry(place).or_default().write_u64(inode.size.get());
                    }
                }
                KeyKind::EXTENT_DATA => {
                    let hasher = files.entry(place).or_default();
                    (key.offset, data).hash(hasher);
                    let (extent, _) = FileExtent::parse(data).expect("a file extent");
                    if extent.kind == FileExtentKind::Regular && !extent.is_hole() {
                        let place = extent.place;
                        let sums =
                            data_csums(fs.forest(), place.disk_bytenr, place.disk_num_bytes)?;
                        sums.hash(hasher);
                    }
                }
                KeyKind::XATTR_ITEM
                | KeyKind::DIR_ITEM
                | KeyKind::DIR_INDEX
                | KeyKind::INODE_REF
                | KeyKind::INODE_EXTREF => {
                    (key, data).hash(names.entry(place).or_default());
                }
                _ => {}
            }
        }
    }
    for (place, hasher) in names {
        found.entry(place).or_default()[1] = hasher.finish();
    }
    for ((root, ino), hasher) in files {
        let by_items = hasher.finish();
        let known = cache.0.lock().unwrap().get(&by_items).copied();
        let digest = if let Some(known) = known {
            known
        } else {
            let mut hashed = Hashed(DefaultHasher::new());
            fs.write_contents(root, ino, &mut hashed)?;
            let digest = hashed.0.finish();
            cache.0.lock().unwrap().insert(by_items, digest);
            digest
        };
        found.entry((root, ino)).or_default()[2] = digest;
    }
    Ok(found)
}

/// Why devices do not hold a committed state with the contents expected.
pub(crate) fn verify(
    devices: Vec<Arc<dyn Device>>,
    expected: &Contents,
    cache: &Cache,
) -> Result<(), String> {
    let fs = open(devices)?;
    fs.writable().map_err(|error| format!("can't be written: {error}"))?;
    verify_open(&fs, expected, cache, |_| false)
}

/// As [`verify`], after a power cut, which may come between the superblocks of several devices, or tear one. Such a
/// filesystem must be whole as it is, be refused for writing unless the damage is only to a copy, and be as any other
/// once the refusal's advice is followed, or at the next commit.
pub(crate) fn verify_after_cut(
    devices: &[Arc<dyn Device>],
    expected: &Contents,
    cache: &Cache,
) -> Result<(), String> {
    let fs = open(devices.to_vec())?;
    let is_sound =
        |fs: &Filesystem| verify_open(fs, expected, cache, |finding| is_old_parity(fs, finding));
    match fs.writable() {
        Ok(()) if has_whole_superblocks(&fs) => return is_sound(&fs),
        // The next commit renews the copies.
        Ok(()) => check::require(&fs, &mut unwatched).map_err(|error| error.to_string())?,
        Err(Error::Refused(Refusal::Generations(one, other))) if one.abs_diff(other) == 1 => {}
        Err(Error::Refused(Refusal::Superblock { .. })) => {}
        Err(error) => return Err(format!("can't be written: {error}")),
    }
    verify_open(&fs, expected, cache, |finding| {
        matches!(finding.at, Place::Device { .. }) || is_old_parity(&fs, finding)
    })?;
    settle_superblocks(&fs);
    let fs = open(devices.to_vec())?;
    fs.writable().map_err(|error| format!("still can't be written: {error}"))?;
    is_sound(&fs)
}

/// Whether all copies of the superblock can be read.
fn has_whole_superblocks(fs: &Filesystem) -> bool {
    let volume = fs.forest().volume();
    let mut copies =
        volume.members().iter().flat_map(|member| volume.superblock_copies(member.devid()));
    copies.all(|(_, copy)| copy.is_ok())
}

/// What the kernel's next commit, or `btrfs rescue super-recover`, does about superblocks: all get the newest.
fn settle_superblocks(fs: &Filesystem) {
    let volume = fs.forest().volume();
    for member in volume.members() {
        let item = volume.dev_items().find(|item| item.devid.get() == member.devid());
        let superblock = Superblock {
            dev_item: *item.expect("the chunk tree knows the devices"),
            ..*fs.forest().superblock()
        };
        for (at, _) in volume.superblock_copies(member.devid()) {
            let bytes = superblock.to_bytes(at).expect("its checksum is of a known kind");
            member.device().write_at(at, &bytes).expect("memory can be written");
        }
    }
}

/// The write hole of RAID5 and RAID6: beside a write that was cut off, parity may not fit until the next scrub. The
/// bytes themselves are whole.
fn is_old_parity(fs: &Filesystem, finding: &Finding) -> bool {
    let (Place::Block(at), Problem::Copy { copy: 1.. }) = (&finding.at, &finding.problem) else {
        return false;
    };
    let chunk = fs.forest().volume().chunk_at(*at).expect("a block that was read is in a chunk");
    matches!(chunk.profile, Profile::Raid5 | Profile::Raid6)
}

fn open(devices: Vec<Arc<dyn Device>>) -> Result<Filesystem, String> {
    Filesystem::open(devices).map_err(|error| format!("does not open: {error}"))
}

/// Why an open filesystem is not sound, but for findings that are `expectable`, or has other contents than expected.
fn verify_open(
    fs: &Filesystem,
    expected: &Contents,
    cache: &Cache,
    expectable: impl Fn(&Finding) -> bool,
) -> Result<(), String> {
    let report = check::run(fs, Options { data: true }, &mut unwatched);
    let report = report.map_err(|error| format!("can't be checked: {error}"))?;
    if let Some(first) = report.findings.iter().find(|finding| !expectable(finding)) {
        return Err(format!("{} findings: {}: {}", report.count, first.at, first.problem));
    }
    if let Some(fault) = report.faults.first() {
        return Err(format!("bad copy: {fault:?}"));
    }
    let found = contents(fs, cache).map_err(|error| format!("can't be read: {error}"))?;
    match found.iter().find(|(place, what)| expected.get(place) != Some(what)) {
        Some((place, _)) => Err(format!("inode {place:?} is not what it was")),
        None if found.len() != expected.len() => Err("some inodes are gone".to_owned()),
        None => Ok(()),
    }
}
