//! LZO1X, cut into segments of one sector of data each.
//!
//! A payload is its length, then the segments, each a length and that many bytes; lengths are
//! 32-bit little-endian. A segment's length never crosses a sector border of the payload: when
//! fewer than four bytes are left before one, zeros fill them.

use super::decode::Decoded;
use super::{Algorithm, DecodeError};
use lzo1x::{CompressLevel, DecompressError};

const LENGTH: usize = 4;

/// A stream with this first byte has a version, as LZO-RLE does, to a kernel's decoder.
const VERSION_MARK: u8 = 17;

const BROKEN: DecodeError = DecodeError::Stream(Algorithm::Lzo);
const CUT: DecodeError = DecodeError::Truncated(Algorithm::Lzo);

pub(super) struct Writer(CompressLevel);

impl Writer {
    pub(super) fn new(level: i32) -> Self {
        Self(CompressLevel::new(u8::try_from(level).expect("the caller checks the level")))
    }

    /// Makes `into` the payload of `data`; none once that is longer than `len_max`.
    pub(super) fn write(
        &self,
        data: &[u8],
        sector_size: usize,
        len_max: usize,
        into: &mut Vec<u8>,
    ) -> Option<()> {
        into.clear();
        into.resize(LENGTH, 0);
        for data in data.chunks(sector_size) {
            self.append_segment(data, into)?;
            // The kernel pads behind the last segment, too, and counts that.
            into.resize(into.len() + gap(into.len(), sector_size), 0);
            if into.len() > len_max {
                return None;
            }
        }
        set_length(into)
    }

    /// Makes `into` the payload of an inline item: one segment and nothing behind it.
    pub(super) fn write_inline(&self, data: &[u8], into: &mut Vec<u8>) -> Option<()> {
        into.clear();
        into.resize(LENGTH, 0);
        self.append_segment(data, into)?;
        set_length(into)
    }

    fn append_segment(&self, data: &[u8], into: &mut Vec<u8>) -> Option<()> {
        let segment = [self.0, CompressLevel::MIN]
            .into_iter()
            .map(|level| lzo1x::compress(data, level))
            .find(|segment| segment.first().is_some_and(|first| *first != VERSION_MARK))?;
        into.extend_from_slice(&u32::try_from(segment.len()).ok()?.to_le_bytes());
        into.extend_from_slice(&segment);
        Some(())
    }
}

fn set_length(payload: &mut [u8]) -> Option<()> {
    let length = u32::try_from(payload.len()).ok()?.to_le_bytes();
    payload.first_chunk_mut().map(|first| *first = length)
}

/// Zeros between `at` and the next length.
const fn gap(at: usize, sector_size: usize) -> usize {
    let left = sector_size - at % sector_size;
    if left < LENGTH { left } else { 0 }
}

/// Most bytes that `len` bytes can become, by the bound of every LZO1X encoder.
const fn worst(len: usize) -> usize {
    len + len / 16 + 64 + 3
}

/// Fills `into` from the start as far as the segments go.
pub(super) fn read(
    payload: &[u8],
    into: &mut [u8],
    sector_size: usize,
) -> Result<Decoded, DecodeError> {
    let end = length_at(payload, 0)?;
    // A sector too many or too few, and the kernel refuses the extent (fs/btrfs/lzo.c).
    if end.next_multiple_of(sector_size) != payload.len() {
        return Err(DecodeError::LzoLength { found: end, payload: payload.len() });
    }
    let (mut at, mut len) = (LENGTH, 0);
    while at < end {
        if len == into.len() {
            return Ok(Decoded { len, ended: false });
        }
        let found = length_at(payload, at)?;
        at += LENGTH;
        let max = worst(sector_size).min(payload.len() - at);
        if found > max {
            return Err(DecodeError::LzoSegment { at, found, max });
        }
        len += read_segment(&payload[at..at + found], &mut into[len..], sector_size)?;
        at += found;
        at += gap(at, sector_size);
    }
    Ok(Decoded { len, ended: true })
}

/// Fills `into` from the start with the only segment of an inline item.
pub(super) fn read_inline(payload: &[u8], into: &mut [u8]) -> Result<Decoded, DecodeError> {
    let end = length_at(payload, 0)?;
    if end != payload.len() {
        return Err(DecodeError::LzoLength { found: end, payload: payload.len() });
    }
    let found = length_at(payload, LENGTH)?;
    let at = 2 * LENGTH;
    let max = payload.len() - at;
    if found != max {
        return Err(DecodeError::LzoSegment { at, found, max });
    }
    let segment = &payload[at..];
    if !has_end_mark(segment) {
        return Err(BROKEN);
    }
    let len = decoded_len(segment).ok_or(BROKEN)?;
    lzo1x::decompress(segment, into.get_mut(..len).ok_or(BROKEN)?).map_err(|_| BROKEN)?;
    Ok(Decoded { len, ended: true })
}

fn length_at(payload: &[u8], at: usize) -> Result<usize, DecodeError> {
    let length = payload.get(at..).and_then(|rest| rest.first_chunk()).ok_or(CUT)?;
    Ok(u32::from_le_bytes(*length) as usize)
}

/// Whether a segment ends as the kernel wants it; `lzo1x` takes any match length in the mark.
fn has_end_mark(segment: &[u8]) -> bool {
    matches!(segment, [.., 0x11, 0..=3, 0])
}

/// Fills `into` from the start with a segment, which may hold more or less than that, or than a
/// sector; says how much.
fn read_segment(segment: &[u8], into: &mut [u8], sector_size: usize) -> Result<usize, DecodeError> {
    if !has_end_mark(segment) {
        return Err(BROKEN);
    }
    let likely = into.len().min(sector_size);
    match lzo1x::decompress(segment, &mut into[..likely]) {
        Ok(()) => return Ok(likely),
        Err(DecompressError::OutputLength) => {}
        Err(DecompressError::InvalidInput) => return Err(BROKEN),
    }
    let len = decoded_len(segment).filter(|len| *len <= worst(sector_size)).ok_or(BROKEN)?;
    if let Some(exact) = into.get_mut(..len) {
        lzo1x::decompress(segment, exact).map_err(|_| BROKEN)?;
        return Ok(len);
    }
    let mut all = vec![0; len];
    lzo1x::decompress(segment, &mut all).map_err(|_| BROKEN)?;
    into.copy_from_slice(&all[..into.len()]);
    Ok(into.len())
}

/// How much a segment holds, by its instructions alone, as `lzo1x` has to be told.
/// They are described in the kernel's `Documentation/staging/lzo.rst`.
fn decoded_len(segment: &[u8]) -> Option<usize> {
    let mut input = Instructions(segment);
    let mut len = 0;
    // Literals that the instruction before brought: what a small opcode means depends on them.
    let mut literals = 0;
    if let Some(first @ 18..) = segment.first() {
        input.byte()?;
        literals = usize::from(*first) - 17;
        input.skip(literals)?;
        len += literals;
    }
    loop {
        let opcode = input.byte()?;
        let low = usize::from(opcode);
        let (copied, trailer) = match opcode {
            0..=15 if literals == 0 => {
                literals = if low == 0 { input.long_length(18)? } else { low + 3 };
                input.skip(literals)?;
                len += literals;
                continue;
            }
            0..=15 => {
                input.byte()?;
                (if literals < 4 { 2 } else { 3 }, opcode)
            }
            16..=31 => {
                let copied = input.length(low & 7, 9)?;
                let distance = [input.byte()?, input.byte()?];
                if opcode & 8 == 0 && distance[0] < 4 && distance[1] == 0 {
                    return input.0.is_empty().then_some(len);
                }
                (copied, distance[0])
            }
            32..=63 => {
                let copied = input.length(low & 31, 33)?;
                let distance = [input.byte()?, input.byte()?];
                (copied, distance[0])
            }
            64..=127 => {
                input.byte()?;
                (3 + (low >> 5 & 1), opcode)
            }
            128.. => {
                input.byte()?;
                (5 + (low >> 5 & 3), opcode)
            }
        };
        literals = usize::from(trailer & 3);
        input.skip(literals)?;
        len += copied + literals;
    }
}

/// What is left of a segment.
struct Instructions<'a>(&'a [u8]);

impl Instructions<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    /// Length of a match: `short` and two more, or a long one.
    fn length(&mut self, short: usize, base: usize) -> Option<usize> {
        if short == 0 { self.long_length(base) } else { Some(short + 2) }
    }

    /// A length above `base`: each zero byte stands for 255 more, the first other byte for itself.
    fn long_length(&mut self, base: usize) -> Option<usize> {
        let mut length = base;
        loop {
            match self.byte()? {
                0 => length += 255,
                last => return Some(length + usize::from(last)),
            }
        }
    }
}
