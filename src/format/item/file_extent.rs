//! File extents: where a file's bytes are.

use std::fmt;
use std::ops::Range;

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::super::Damage;
use super::view;

/// Bytes before the payload of an inline extent.
pub const FILE_EXTENT_INLINE_HEAD: usize = size_of::<RawHead>();

/// How an extent's bytes are encoded. Open: an unknown number is kept and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Compression(pub u8);

#[expect(missing_docs, reason = "the names are the kernel's")]
impl Compression {
    pub const NONE: Self = Self(0);
    pub const ZLIB: Self = Self(1);
    pub const LZO: Self = Self(2);
    pub const ZSTD: Self = Self(3);
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.pad("none"),
            Self::ZLIB => f.pad("zlib"),
            Self::LZO => f.pad("lzo"),
            Self::ZSTD => f.pad("zstd"),
            Self(unknown) => f.pad(&format!("#{unknown}")),
        }
    }
}

/// The three kinds of file extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileExtentKind {
    /// The bytes are in the item itself.
    Inline,
    /// The bytes are in a data extent, or the item is a hole.
    Regular,
    /// Space is reserved; it reads as zeros.
    Prealloc,
}

/// Which part of which data extent a file extent refers to, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Placement {
    /// Logical address of the data extent; 0 for a hole.
    pub disk_bytenr: u64,
    /// Length of the whole data extent on disk.
    pub disk_num_bytes: u64,
    /// Where the part starts in the decoded extent.
    pub offset: u64,
    /// Length of the part, which is what the file sees.
    pub num_bytes: u64,
}

/// `btrfs_file_extent_item`: a piece of a file.
///
/// * Tree: any subvolume tree.
/// * Key: `(inode EXTENT_DATA file_offset)`.
/// * Surprise: may refer to the middle of an extent that others use too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileExtent {
    /// Transaction that made this reference.
    pub generation: u64,
    /// Bytes of the whole extent once decoded; of an inline one exactly, else whole sectors.
    pub ram_bytes: u64,
    /// How the extent's bytes are encoded.
    pub compression: Compression,
    /// 0; nothing else was ever defined.
    pub encryption: u8,
    /// 0; nothing else was ever defined.
    pub other_encoding: u16,
    /// What kind of extent it is.
    pub kind: FileExtentKind,
    /// Where the bytes are; all zero for an inline extent.
    pub place: Placement,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    generation: U64,
    ram_bytes: U64,
    compression: u8,
    encryption: u8,
    other_encoding: U16,
    kind: u8,
}
const _: () = assert!(size_of::<RawHead>() == 21);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPlacement {
    disk_bytenr: U64,
    disk_num_bytes: U64,
    offset: U64,
    num_bytes: U64,
}
const _: () = assert!(size_of::<RawHead>() + size_of::<RawPlacement>() == 53);

impl FileExtent {
    /// Reads an item's data; also gives the payload of an inline extent (empty for others).
    pub fn parse(data: &[u8]) -> Result<(Self, &[u8]), Damage> {
        let (head, rest) = view::<RawHead>("file extent item", data)?;
        let kind = match head.kind {
            0 => FileExtentKind::Inline,
            1 => FileExtentKind::Regular,
            2 => FileExtentKind::Prealloc,
            found => return Err(Damage::Value { what: "file extent type", found: found.into() }),
        };
        let mut extent = Self {
            generation: head.generation.get(),
            ram_bytes: head.ram_bytes.get(),
            compression: Compression(head.compression),
            encryption: head.encryption,
            other_encoding: head.other_encoding.get(),
            kind,
            place: Placement::default(),
        };
        if kind == FileExtentKind::Inline {
            return Ok((extent, rest));
        }
        let (place, _) = view::<RawPlacement>("file extent item", rest)?;
        extent.place = Placement {
            disk_bytenr: place.disk_bytenr.get(),
            disk_num_bytes: place.disk_num_bytes.get(),
            offset: place.offset.get(),
            num_bytes: place.num_bytes.get(),
        };
        extent.check_lengths()?;
        Ok((extent, &[]))
    }

    /// No sum of lengths or addresses may overflow, so that nobody else needs to look.
    fn check_lengths(&self) -> Result<(), Damage> {
        let place = self.place;
        let bad = |what, found| Err(Damage::Value { what, found });
        if place.disk_bytenr.checked_add(place.disk_num_bytes).is_none() {
            return bad("disk_num_bytes", place.disk_num_bytes);
        }
        match place.offset.checked_add(place.num_bytes) {
            None => bad("num_bytes", place.num_bytes),
            Some(_) if place.num_bytes == 0 => bad("num_bytes", 0),
            Some(end)
                if place.disk_bytenr != 0
                    && self.compression != Compression::NONE
                    && end > self.ram_bytes =>
            {
                bad("end of file extent", end)
            }
            Some(end)
                if place.disk_bytenr != 0
                    && self.compression == Compression::NONE
                    && end > place.disk_num_bytes =>
            {
                bad("end of file extent", end)
            }
            Some(_) => Ok(()),
        }
    }

    /// Whether it stands for zeros that are nowhere.
    pub const fn is_hole(&self) -> bool {
        matches!(self.kind, FileExtentKind::Regular | FileExtentKind::Prealloc)
            && self.place.disk_bytenr == 0
    }

    /// The bytes on disk that must have checksums for it to be read: a compressed extent is read in whole, another one
    /// may have parts that were never written.
    pub const fn summed_range(&self) -> Range<u64> {
        let place = &self.place;
        let (start, len) = match self.compression {
            Compression::NONE => (place.disk_bytenr.saturating_add(place.offset), place.num_bytes),
            _ => (place.disk_bytenr, place.disk_num_bytes),
        };
        start..start.saturating_add(len)
    }

    /// Bytes of the whole extent once decoded. Old kernels recorded less for uncompressed extents.
    pub const fn data_bytes(&self) -> u64 {
        match (self.kind, self.compression) {
            (FileExtentKind::Regular | FileExtentKind::Prealloc, Compression::NONE) => {
                self.place.disk_num_bytes
            }
            _ => self.ram_bytes,
        }
    }

    /// Its bytes on disk; of an inline extent the head, which the payload follows.
    pub fn to_bytes(&self) -> Vec<u8> {
        let kind = match self.kind {
            FileExtentKind::Inline => 0,
            FileExtentKind::Regular => 1,
            FileExtentKind::Prealloc => 2,
        };
        let head = RawHead {
            generation: self.generation.into(),
            ram_bytes: self.ram_bytes.into(),
            compression: self.compression.0,
            encryption: self.encryption,
            other_encoding: self.other_encoding.into(),
            kind,
        };
        let mut bytes = head.as_bytes().to_vec();
        if self.kind != FileExtentKind::Inline {
            let place = RawPlacement {
                disk_bytenr: self.place.disk_bytenr.into(),
                disk_num_bytes: self.place.disk_num_bytes.into(),
                offset: self.place.offset.into(),
                num_bytes: self.place.num_bytes.into(),
            };
            bytes.extend_from_slice(place.as_bytes());
        }
        bytes
    }
}
