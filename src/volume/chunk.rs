//! Chunks: which bytes of which devices a range of logical addresses is.

use std::num::NonZero;
use std::ops::Range;

use crate::format::{BlockGroupFlags, ChunkItem, Damage, Logical, SUPERBLOCK_OFFSETS, Stripe};

/// Bytes that go to one device before the next one's turn comes, in the profiles that stripe.
pub const STRIPE_LEN: u64 = 64 << 10;

/// How a chunk uses its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are Btrfs' own")]
pub enum Profile {
    Single,
    Dup,
    Raid0,
    Raid1,
    Raid1c3,
    Raid1c4,
    Raid10,
    Raid5,
    Raid6,
}

impl Profile {
    /// The profile that a chunk's flags name; single when they name none.
    pub fn of(flags: BlockGroupFlags) -> Result<Self, Damage> {
        let profile = flags & BlockGroupFlags::PROFILES;
        Ok(match profile {
            BlockGroupFlags::RAID0 => Self::Raid0,
            BlockGroupFlags::RAID1 => Self::Raid1,
            BlockGroupFlags::DUP => Self::Dup,
            BlockGroupFlags::RAID10 => Self::Raid10,
            BlockGroupFlags::RAID5 => Self::Raid5,
            BlockGroupFlags::RAID6 => Self::Raid6,
            BlockGroupFlags::RAID1C3 => Self::Raid1c3,
            BlockGroupFlags::RAID1C4 => Self::Raid1c4,
            _ if profile.is_empty() => Self::Single,
            _ => return Err(Damage::Value { what: "chunk profile", found: flags.bits() }),
        })
    }

    /// Plain copies of each byte.
    const fn plain_copies(self) -> usize {
        match self {
            Self::Single | Self::Raid0 | Self::Raid5 | Self::Raid6 => 1,
            Self::Dup | Self::Raid1 | Self::Raid10 => 2,
            Self::Raid1c3 => 3,
            Self::Raid1c4 => 4,
        }
    }

    /// Stripes of each row that hold parity.
    pub(super) const fn parities(self) -> usize {
        match self {
            Self::Raid5 => 1,
            Self::Raid6 => 2,
            _ => 0,
        }
    }

    /// Whether consecutive elements of [`STRIPE_LEN`] go to different devices.
    pub(super) const fn is_striped(self) -> bool {
        matches!(self, Self::Raid0 | Self::Raid10 | Self::Raid5 | Self::Raid6)
    }

    /// Whether a chunk can have `count` stripes.
    const fn allows(self, count: usize) -> bool {
        match self {
            Self::Single => count == 1,
            Self::Dup | Self::Raid1 => count == 2,
            Self::Raid1c3 => count == 3,
            Self::Raid1c4 => count == 4,
            Self::Raid0 => count >= 1,
            Self::Raid10 => count >= 2 && count.is_multiple_of(2),
            Self::Raid5 => count >= 2,
            Self::Raid6 => count >= 3,
        }
    }
}

/// A range of logical addresses with one layout.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Where it starts.
    pub logical: Logical,
    /// Its bytes of logical space.
    pub length: u64,
    /// What it may hold, and how.
    pub flags: BlockGroupFlags,
    /// How it uses its devices.
    pub profile: Profile,
    /// The parts of devices that it consists of.
    pub stripes: Box<[Stripe]>,
    /// For each stripe, which member of the volume its device is; `None` if that is missing.
    pub(super) members: Box<[Option<usize>]>,
    /// Bytes of each stripe.
    stripe_size: u64,
    /// Stripes.
    count: NonZero<u64>,
    /// Stripes of each row that hold different data.
    width: NonZero<u64>,
}

/// Where a byte and those that follow it are. All stripes of a row are used at the same distance from their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// Bytes from the start of each stripe.
    pub(super) within: u64,
    /// Bytes that follow in one piece.
    pub(super) len: u64,
    /// The stripe with the first copy; further copies are on those that follow.
    pub(super) first: usize,
    /// Number of the row, from the start of the chunk, for profiles with parity.
    pub(super) row: u64,
    /// Place in the row among those that hold data.
    pub(super) column: usize,
}

impl Chunk {
    /// Checks a chunk item; `find` says which member a stripe is on.
    pub(super) fn new(
        logical: Logical,
        item: &ChunkItem,
        stripes: &[Stripe],
        sector_size: u32,
        find: impl Fn(&Stripe) -> Option<usize>,
    ) -> Result<Self, Damage> {
        let flags = item.group_flags();
        let profile = Profile::of(flags)?;
        let (length, sector) = (item.length.get(), u64::from(sector_size));
        let check = |good: bool, what, found| {
            if good { Ok(()) } else { Err(Damage::Value { what, found }) }
        };
        let kinds = BlockGroupFlags::DATA | BlockGroupFlags::METADATA | BlockGroupFlags::SYSTEM;
        check(flags.intersects(kinds), "chunk type", flags.bits())?;
        check(kinds.union(BlockGroupFlags::PROFILES).contains(flags), "chunk type", flags.bits())?;
        check(profile.allows(stripes.len()), "number of stripes", stripes.len() as u64)?;
        if let Some(devid) = twice(stripes).filter(|_| profile != Profile::Dup) {
            return Err(Damage::Value { what: "device of two stripes", found: devid });
        }
        check(item.stripe_len.get() == STRIPE_LEN, "stripe length", item.stripe_len.get())?;
        let sub_stripes = item.sub_stripes.get();
        check(profile != Profile::Raid10 || sub_stripes == 2, "sub stripes", sub_stripes.into())?;
        check(logical.0.is_multiple_of(sector), "chunk start", logical.0)?;
        let ends = length > 0 && logical.0.checked_add(length).is_some();
        check(ends && length.is_multiple_of(sector), "chunk length", length)?;
        let found = stripes.len() as u64;
        let count = NonZero::new(found);
        let width = NonZero::new(data_width(profile, stripes.len()));
        let (count, width) =
            count.zip(width).ok_or(Damage::Value { what: "number of stripes", found })?;
        let striped_evenly =
            !profile.is_striped() || length.is_multiple_of(STRIPE_LEN.saturating_mul(width.get()));
        check(striped_evenly, "chunk length", length)?;
        let stripe_size = length / width;
        for stripe in stripes {
            let start = stripe.offset.get();
            check(start.checked_add(stripe_size).is_some(), "stripe offset", start)?;
        }
        let members = stripes.iter().map(find).collect();
        let stripes = stripes.into();
        Ok(Self { logical, length, flags, profile, stripes, members, stripe_size, count, width })
    }

    /// Where it ends: the first address after it.
    pub const fn end(&self) -> u64 {
        self.logical.0.saturating_add(self.length)
    }

    /// Bytes that it takes on each of its devices.
    pub const fn stripe_size(&self) -> u64 {
        self.stripe_size
    }

    /// In how many ways its bytes can be read.
    pub fn copies(&self) -> usize {
        match self.profile {
            Profile::Raid5 => 2,
            // Itself, from P, and for each other stripe of data and P as if that were bad too.
            Profile::Raid6 => self.stripes.len(),
            other => other.plain_copies(),
        }
    }

    /// Stripes of each row that hold different data.
    pub(super) fn data_width(&self) -> usize {
        self.width.get() as usize
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.logical == other.logical
            && self.length == other.length
            && self.flags == other.flags
            && self.stripes.len() == other.stripes.len()
            && self.stripes.iter().zip(&other.stripes).all(|(one, two)| {
                one.devid == two.devid && one.offset == two.offset && one.dev_uuid == two.dev_uuid
            })
    }

    /// Where the byte `offset` bytes into the chunk is. The offset must be inside it.
    pub(super) fn spot(&self, offset: u64) -> Spot {
        if !self.profile.is_striped() {
            let len = self.length.saturating_sub(offset);
            return Spot { within: offset, len, first: 0, row: 0, column: 0 };
        }
        let element = offset / STRIPE_LEN;
        let in_element = offset % STRIPE_LEN;
        let (row, column) = (element / self.width, element % self.width);
        let first = match self.profile {
            Profile::Raid10 => column.saturating_mul(2),
            Profile::Raid5 | Profile::Raid6 => {
                (row % self.count).saturating_add(column) % self.count
            }
            _ => column,
        };
        Spot {
            within: row.saturating_mul(STRIPE_LEN).saturating_add(in_element),
            len: STRIPE_LEN.saturating_sub(in_element),
            first: first as usize,
            row,
            column: column as usize,
        }
    }

    /// The logical address at a place of a row, `within` bytes from the start of the stripes.
    pub(super) fn address_in_row(&self, row: u64, column: usize, within: u64) -> Logical {
        let element = row.saturating_mul(self.width.get()).saturating_add(column as u64);
        let offset = element.saturating_mul(STRIPE_LEN).saturating_add(within % STRIPE_LEN);
        Logical(self.logical.0.saturating_add(offset))
    }

    /// Plain copies of each byte, which are on the stripes from a spot's first one on.
    pub(super) const fn plain_copies(&self) -> usize {
        self.profile.plain_copies()
    }

    /// Which stripe has place `place` in a row: first the data in order, then P, then Q.
    pub(super) fn stripe_in_row(&self, row: u64, place: usize) -> usize {
        ((row % self.count).saturating_add(place as u64) % self.count) as usize
    }

    /// The ranges of logical addresses that must never be allocated, because they are where devices keep superblocks;
    /// sorted, without overlaps, and with all of the first 64 KiB of logical space.
    pub fn superblock_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        if self.logical.0 < STRIPE_LEN {
            ranges.push(self.logical.0..self.end().min(STRIPE_LEN));
        }
        for (number, stripe) in self.stripes.iter().enumerate() {
            let start = stripe.offset.get();
            for at in SUPERBLOCK_OFFSETS {
                let from = at.max(start);
                let to = at.saturating_add(STRIPE_LEN).min(start.saturating_add(self.stripe_size));
                if from < to {
                    let within = from.saturating_sub(start)..to.saturating_sub(start);
                    self.push_logical(number, within, &mut ranges);
                }
            }
        }
        merge(ranges)
    }

    /// Adds the logical ranges that use a range of bytes of stripe `number`.
    fn push_logical(&self, number: usize, within: Range<u64>, ranges: &mut Vec<Range<u64>>) {
        let mut push = |start: u64, len: u64| {
            let start = self.logical.0.saturating_add(start);
            ranges.push(start..start.saturating_add(len).min(self.end()));
        };
        if !self.profile.is_striped() {
            return push(within.start, within.end.saturating_sub(within.start));
        }
        let width = self.width.get();
        let mut at = within.start;
        while at < within.end {
            let row = at / STRIPE_LEN;
            let next = row.saturating_add(1).saturating_mul(STRIPE_LEN).min(within.end);
            let row_start = row.saturating_mul(width);
            if self.profile.parities() > 0 {
                // Whatever of the row is written also writes parity to this stripe.
                let row_len = width.saturating_mul(STRIPE_LEN);
                push(row_start.saturating_mul(STRIPE_LEN), row_len);
            } else {
                let column =
                    if self.profile == Profile::Raid10 { number / 2 } else { number } as u64;
                let element = row_start.saturating_add(column).saturating_mul(STRIPE_LEN);
                push(element.saturating_add(at % STRIPE_LEN), next.saturating_sub(at));
            }
            at = next;
        }
    }
}

/// A device that more than one stripe is on.
fn twice(stripes: &[Stripe]) -> Option<u64> {
    let mut devids: Vec<u64> = stripes.iter().map(|stripe| stripe.devid.get()).collect();
    devids.sort_unstable();
    devids.windows(2).find(|pair| pair.first() == pair.last())?.first().copied()
}

/// Stripes of each row that hold different data.
fn data_width(profile: Profile, count: usize) -> u64 {
    let width = match profile {
        Profile::Raid0 => count,
        Profile::Raid10 => count / 2,
        Profile::Raid5 | Profile::Raid6 => count.saturating_sub(profile.parities()),
        _ => 1,
    };
    width as u64
}

/// Sorts ranges and joins those that touch.
fn merge(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
