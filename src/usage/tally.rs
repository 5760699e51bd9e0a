//! The figures of `compsize`.

use std::fmt;

use crate::format::{Compression, FileExtent, FileExtentKind};

/// How data is stored, as compsize sorts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    /// As it is.
    None,
    /// Compressed with zlib.
    Zlib,
    /// Compressed with LZO.
    Lzo,
    /// Compressed with Zstandard.
    Zstd,
    /// Encoded in a way that was never defined.
    Unknown,
    /// Reserved and not written.
    Prealloc,
}

impl Storage {
    /// Every kind, in the order of a table's rows.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Zlib, Self::Lzo, Self::Zstd, Self::Unknown, Self::Prealloc];

    /// How a file extent is stored.
    pub const fn of(extent: &FileExtent) -> Self {
        match (extent.kind, extent.compression) {
            (FileExtentKind::Prealloc, _) => Self::Prealloc,
            (_, Compression::NONE) => Self::None,
            (_, Compression::ZLIB) => Self::Zlib,
            (_, Compression::LZO) => Self::Lzo,
            (_, Compression::ZSTD) => Self::Zstd,
            _ => Self::Unknown,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zlib => "zlib",
            Self::Lzo => "lzo",
            Self::Zstd => "zstd",
            Self::Unknown => "unknown",
            Self::Prealloc => "prealloc",
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Bytes of one kind of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    /// What the extents take on disk, each counted once; inline data once for each time it is referred to.
    pub disk: u64,
    /// What the same extents hold once decoded.
    pub uncompressed: u64,
    /// What the files' pieces add up to.
    pub referenced: u64,
}

impl Amounts {
    /// Adds `other`, each of its figures `times` times.
    pub const fn add(&mut self, other: &Self, times: u64) {
        self.disk = self.disk.saturating_add(other.disk.saturating_mul(times));
        self.uncompressed =
            self.uncompressed.saturating_add(other.uncompressed.saturating_mul(times));
        self.referenced = self.referenced.saturating_add(other.referenced.saturating_mul(times));
    }

    /// Takes `other`, which is part of it, away.
    pub const fn subtract(&mut self, other: &Self) {
        self.disk = self.disk.saturating_sub(other.disk);
        self.uncompressed = self.uncompressed.saturating_sub(other.uncompressed);
        self.referenced = self.referenced.saturating_sub(other.referenced);
    }

    /// Disk usage as percentage of what is held, rounded down; none if nothing is held.
    pub fn percent(&self) -> Option<u64> {
        let percent = u128::from(self.disk) * 100;
        percent
            .checked_div(u128::from(self.uncompressed))
            .map(|percent| u64::try_from(percent).unwrap_or(u64::MAX))
    }
}

/// What compsize says about a set of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Regular files.
    pub files: u64,
    /// Data extents, each counted once.
    pub extents: u64,
    /// References of files to data extents.
    pub refs: u64,
    /// Files, or their first pieces, that are in the metadata.
    pub inline: u64,
    /// What these hold once decoded.
    pub inline_bytes: u64,
    /// Pieces that don't follow the one before them on disk.
    pub fragments: u64,
    by: [Amounts; Storage::ALL.len()],
}

impl Tally {
    /// Bytes of one kind of storage.
    pub const fn by(&self, storage: Storage) -> &Amounts {
        &self.by[storage as usize]
    }

    /// Bytes of one kind of storage, to be changed.
    pub const fn by_mut(&mut self, storage: Storage) -> &mut Amounts {
        &mut self.by[storage as usize]
    }

    /// Bytes of all kinds of storage together.
    pub fn total(&self) -> Amounts {
        self.by.iter().fold(Amounts::default(), |mut total, amounts| {
            total.add(amounts, 1);
            total
        })
    }

    /// The kinds of storage that hold anything, with their bytes.
    pub fn kinds(&self) -> impl Iterator<Item = (Storage, &Amounts)> {
        let all = Storage::ALL.iter().map(|storage| (*storage, self.by(*storage)));
        all.filter(|(_, amounts)| amounts.uncompressed > 0)
    }

    /// Adds `other`, each of its figures `times` times.
    pub fn add(&mut self, other: &Self, times: u64) {
        let add = |sum: &mut u64, figure: u64| {
            *sum = sum.saturating_add(figure.saturating_mul(times));
        };
        add(&mut self.files, other.files);
        add(&mut self.extents, other.extents);
        add(&mut self.refs, other.refs);
        add(&mut self.inline, other.inline);
        add(&mut self.inline_bytes, other.inline_bytes);
        add(&mut self.fragments, other.fragments);
        for (sum, amounts) in self.by.iter_mut().zip(&other.by) {
            sum.add(amounts, times);
        }
    }

    /// Takes `other`, which is part of it, away.
    pub fn subtract(&mut self, other: &Self) {
        let subtract = |sum: &mut u64, figure: u64| *sum = sum.saturating_sub(figure);
        subtract(&mut self.files, other.files);
        subtract(&mut self.extents, other.extents);
        subtract(&mut self.refs, other.refs);
        subtract(&mut self.inline, other.inline);
        subtract(&mut self.inline_bytes, other.inline_bytes);
        subtract(&mut self.fragments, other.fragments);
        for (sum, amounts) in self.by.iter_mut().zip(&other.by) {
            sum.subtract(amounts);
        }
    }

    /// Counts an inline piece of `payload` stored bytes.
    pub(super) fn add_inline(&mut self, extent: &FileExtent, payload: usize) {
        let amounts = self.by_mut(Storage::of(extent));
        let (disk, ram) = (payload as u64, extent.ram_bytes);
        amounts.add(&Amounts { disk, uncompressed: ram, referenced: ram }, 1);
        self.inline = self.inline.saturating_add(1);
        self.inline_bytes = self.inline_bytes.saturating_add(ram);
    }

    /// Counts a reference to a data extent.
    pub(super) fn add_ref(&mut self, extent: &FileExtent) {
        let amounts = self.by_mut(Storage::of(extent));
        amounts.referenced = amounts.referenced.saturating_add(extent.place.num_bytes);
        self.refs = self.refs.saturating_add(1);
    }

    /// Counts a data extent, whoever refers to it.
    pub(super) fn add_extent(&mut self, storage: Storage, disk: u64, uncompressed: u64) {
        self.by_mut(storage).add(&Amounts { disk, uncompressed, referenced: 0 }, 1);
        self.extents = self.extents.saturating_add(1);
    }
}

/// Counts the fragments of files whose pieces come in order, file by file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fragments {
    /// The first piece: its inode, and where on disk it starts, if it could continue something.
    first: Option<(u64, Option<u64>)>,
    /// The last piece: its inode, and where on disk it ends.
    last: Option<(u64, Option<u64>)>,
}

impl Fragments {
    /// Takes the next piece that is no hole. Tells how many fragments it starts: one or none.
    pub(super) fn next(&mut self, ino: u64, extent: &FileExtent) -> u64 {
        let place = &extent.place;
        let (start, end) = match extent.kind {
            FileExtentKind::Inline => (None, None),
            FileExtentKind::Regular | FileExtentKind::Prealloc => (
                Some(place.disk_bytenr),
                Some(place.disk_bytenr.saturating_add(place.disk_num_bytes)),
            ),
        };
        let piece = Self { first: Some((ino, start)), last: Some((ino, end)) };
        1 - self.then(&piece)
    }

    /// Appends the pieces of `after`. Tells how many fragments become one with the one before: one or none.
    pub(super) fn then(&mut self, after: &Self) -> u64 {
        let continues = match (self.last, after.first) {
            (Some((ino, Some(end))), Some((next, Some(start)))) => ino == next && end == start,
            _ => false,
        };
        self.first = self.first.or(after.first);
        self.last = after.last.or(self.last);
        u64::from(continues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Placement;

    fn extent(disk_bytenr: u64, disk_num_bytes: u64) -> FileExtent {
        FileExtent {
            generation: 1,
            ram_bytes: disk_num_bytes,
            compression: Compression::NONE,
            encryption: 0,
            other_encoding: 0,
            kind: FileExtentKind::Regular,
            place: Placement { disk_bytenr, disk_num_bytes, offset: 0, num_bytes: disk_num_bytes },
        }
    }

    #[test]
    fn pieces_that_lie_next_to_each_other_are_one_fragment_of_one_file() {
        let mut run = Fragments::default();
        assert_eq!(run.next(257, &extent(4096, 4096)), 1);
        assert_eq!(run.next(257, &extent(8192, 4096)), 0);
        assert_eq!(run.next(257, &extent(16384, 4096)), 1);
        assert_eq!(run.next(258, &extent(20480, 4096)), 1);
    }

    #[test]
    fn fragments_counted_apart_are_joined() {
        let (mut left, mut right) = (Fragments::default(), Fragments::default());
        left.next(257, &extent(4096, 4096));
        right.next(257, &extent(8192, 4096));
        right.next(258, &extent(65536, 4096));
        assert_eq!(left.then(&Fragments::default()), 0);
        assert_eq!(left.then(&right), 1);
        assert_eq!(left.next(258, &extent(69632, 4096)), 0);
    }

    #[test]
    fn percentages_round_down() {
        let amounts = |disk, uncompressed| Amounts { disk, uncompressed, referenced: 0 };
        assert_eq!(amounts(0, 0).percent(), None);
        assert_eq!(amounts(1999, 1000).percent(), Some(199));
        assert_eq!(amounts(u64::MAX, u64::MAX).percent(), Some(100));
    }
}
