//! Zlib: libdeflate writes, zlib-rs reads, since only the latter reads a stream piece by piece and
//! so can stop where the kernel does.

use super::decode::Decoded;
use super::{Algorithm, DecodeError};
use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor};

pub(super) struct Writer(Compressor);

impl Writer {
    pub(super) fn new(level: i32) -> Self {
        let level = CompressionLvl::new(level).expect("the caller checks the level");
        Self(Compressor::new(level))
    }

    /// Makes `into` the stream of `data`; none if that fails, and raw is then always right.
    pub(super) fn write(&mut self, data: &[u8], into: &mut Vec<u8>) -> Option<()> {
        into.resize(self.0.zlib_compress_bound(data.len()), 0);
        let len = self.0.zlib_compress(data, into).ok()?;
        into.truncate(len);
        Some(())
    }
}

pub(super) struct Reader(Decompress);

impl Default for Reader {
    fn default() -> Self {
        Self(Decompress::new(false))
    }
}

impl Reader {
    /// Fills `into` from the start as far as the stream goes.
    pub(super) fn read(&mut self, payload: &[u8], into: &mut [u8]) -> Result<Decoded, DecodeError> {
        const BROKEN: DecodeError = DecodeError::Stream(Algorithm::Zlib);
        const CUT: DecodeError = DecodeError::Truncated(Algorithm::Zlib);

        let [cmf, flags, deflate @ ..] = payload else { return Err(CUT) };
        if !is_header(*cmf, *flags) {
            return Err(BROKEN);
        }
        // The kernel takes the header off and so never sees the checksum behind the data
        // (fs/btrfs/zlib.c); with it, data that the kernel reads would be lost.
        self.0.reset(false);
        loop {
            let (read, len) = (self.0.total_in() as usize, self.0.total_out() as usize);
            if len == into.len() {
                return Ok(Decoded { len, ended: false });
            }
            let status = self
                .0
                .decompress(&deflate[read..], &mut into[len..], FlushDecompress::None)
                .map_err(|_| BROKEN)?;
            let (read_now, len_now) = (self.0.total_in() as usize, self.0.total_out() as usize);
            if status == Status::StreamEnd {
                return Ok(Decoded { len: len_now, ended: true });
            }
            if (read, len) == (read_now, len_now) {
                return Err(CUT);
            }
        }
    }
}

/// Deflate, a window of at most 32 KiB, no preset dictionary, check bits right.
fn is_header(cmf: u8, flags: u8) -> bool {
    let check = u16::from(cmf) << 8 | u16::from(flags);
    cmf & 0x0f == 8 && cmf >> 4 <= 7 && flags & 0x20 == 0 && check % 31 == 0
}
