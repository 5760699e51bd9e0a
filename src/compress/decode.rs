//! Payloads to data.

use super::{Algorithm, COMPRESSED_MAX, lzo, zlib, zstd};

/// What is wrong with a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The item claims more data than such an item may have.
    #[error("{found} bytes of data are claimed, at most {max} are possible")]
    RamBytes {
        /// Bytes the item claims.
        found: usize,
        /// Bytes an item of this kind can have.
        max: usize,
    },
    /// The bytes are no stream of this algorithm.
    #[error("broken {0} stream")]
    Stream(Algorithm),
    /// The payload ends before its stream does.
    #[error("{0} stream is cut off")]
    Truncated(Algorithm),
    /// The length at the start of an LZO payload does not fit the payload.
    #[error("lzo length is {found}, the payload has {payload} bytes")]
    LzoLength {
        /// Length that the payload states.
        found: usize,
        /// Length that the payload has.
        payload: usize,
    },
    /// An LZO segment is longer than a segment can be, or than what is left.
    #[error("lzo segment at {at} has {found} bytes, at most {max} are possible")]
    LzoSegment {
        /// Where in the payload its data begins.
        at: usize,
        /// Length that it states.
        found: usize,
        /// Bytes that a segment at this place can have.
        max: usize,
    },
    /// Inline data decodes to less than the item claims.
    #[error("inline data has {found} bytes, {expected} are claimed")]
    InlineShort {
        /// Bytes it decodes to.
        found: usize,
        /// Bytes the item claims.
        expected: usize,
    },
}

/// Reusable decompression contexts for every algorithm; each thread has its own.
#[derive(Default)]
pub struct Decoder {
    zlib: zlib::Reader,
    zstd: zstd::Reader,
}

/// How far a reader came.
pub(super) struct Decoded {
    /// Bytes at the start of the output that are data.
    pub(super) len: usize,
    /// Whether the stream ended there, rather than the room for it.
    pub(super) ended: bool,
}

impl Decoder {
    /// All `ram_bytes` bytes of an extent whose sectors on disk are `payload`.
    ///
    /// As in the kernel, zeros follow when the payload holds less, and what it holds beyond that
    /// many bytes is cut off.
    pub fn decode(
        &mut self,
        algorithm: Algorithm,
        payload: &[u8],
        ram_bytes: usize,
        sector_size: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        if ram_bytes > COMPRESSED_MAX {
            return Err(DecodeError::RamBytes { found: ram_bytes, max: COMPRESSED_MAX });
        }
        let mut data = vec![0; ram_bytes];
        let decoded = match algorithm {
            Algorithm::Zlib => self.zlib.read(payload, &mut data)?,
            Algorithm::Lzo => lzo::read(payload, &mut data, sector_size)?,
            Algorithm::Zstd => self.zstd.read(payload, &mut data)?,
        };
        data[decoded.len..].fill(0);
        Ok(data)
    }

    /// All `ram_bytes` bytes of an inline item whose bytes after its head are `payload`.
    ///
    /// As in the kernel, it is an error when the payload holds less.
    pub fn decode_inline(
        &mut self,
        algorithm: Algorithm,
        payload: &[u8],
        ram_bytes: usize,
        sector_size: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        let max = sector_size.min(COMPRESSED_MAX);
        if ram_bytes > max {
            return Err(DecodeError::RamBytes { found: ram_bytes, max });
        }
        let mut data = vec![0; max];
        let decoded = match algorithm {
            Algorithm::Zlib => self.zlib.read(payload, &mut data)?,
            Algorithm::Lzo => lzo::read_inline(payload, &mut data)?,
            Algorithm::Zstd => self.zstd.read(payload, &mut data)?,
        };
        // The kernel wants to see the end of a zlib stream here, though not of a zstd frame.
        if algorithm == Algorithm::Zlib && !decoded.ended {
            return Err(DecodeError::Stream(algorithm));
        }
        if decoded.len < ram_bytes {
            return Err(DecodeError::InlineShort { found: decoded.len, expected: ram_bytes });
        }
        data.truncate(ram_bytes);
        Ok(data)
    }
}

/// [`Decoder::decode`] with contexts of its own, for one extent.
pub fn decode(
    algorithm: Algorithm,
    payload: &[u8],
    ram_bytes: usize,
    sector_size: usize,
) -> Result<Vec<u8>, DecodeError> {
    Decoder::default().decode(algorithm, payload, ram_bytes, sector_size)
}

/// [`Decoder::decode_inline`] with contexts of its own, for one item.
pub fn decode_inline(
    algorithm: Algorithm,
    payload: &[u8],
    ram_bytes: usize,
    sector_size: usize,
) -> Result<Vec<u8>, DecodeError> {
    Decoder::default().decode_inline(algorithm, payload, ram_bytes, sector_size)
}
