//! Zstandard: one frame with its content size, without checksum.

use super::decode::Decoded;
use super::{Algorithm, DecodeError};
use zstd::bulk::Compressor;
use zstd::zstd_safe::{
    CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, compress_bound,
};

/// Largest window of a stream without content size for which the reader takes memory. The kernel
/// promises 17 and has been seen to manage 20.
const WINDOW_LOG_MAX: u32 = 20;

pub(super) struct Writer(Compressor<'static>);

impl Writer {
    pub(super) fn new(level: i32) -> Self {
        // A frame that knows its size makes no window larger than that: at most 128 KiB, at any
        // level. The kernel has no memory for more.
        let parameters = [
            CParameter::CompressionLevel(level),
            CParameter::ContentSizeFlag(true),
            CParameter::ChecksumFlag(false),
            CParameter::DictIdFlag(false),
        ];
        let mut compressor = Compressor::default();
        for parameter in parameters {
            compressor.set_parameter(parameter).expect("every level and flag is one of libzstd's");
        }
        Self(compressor)
    }

    /// Makes `into` the frame of `data`; none if that fails, and raw is then always right.
    pub(super) fn write(&mut self, data: &[u8], into: &mut Vec<u8>) -> Option<()> {
        into.clear();
        into.reserve(compress_bound(data.len()));
        self.0.compress_to_buffer(data, into).ok()?;
        Some(())
    }
}

pub(super) struct Reader(DCtx<'static>);

impl Default for Reader {
    fn default() -> Self {
        let mut context = DCtx::create();
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
            .expect("the window is one of libzstd's");
        Self(context)
    }
}

impl Reader {
    /// Fills `into` from the start as far as the frame goes. Like the kernel, it does not look at
    /// what follows the first frame, nor at anything once `into` is full.
    pub(super) fn read(&mut self, payload: &[u8], into: &mut [u8]) -> Result<Decoded, DecodeError> {
        const BROKEN: DecodeError = DecodeError::Stream(Algorithm::Zstd);

        self.0.reset(ResetDirective::SessionOnly).map_err(|_| BROKEN)?;
        let len_max = into.len();
        let mut from = InBuffer::around(payload);
        let mut to = OutBuffer::around(into);
        loop {
            let before = (from.pos(), to.pos());
            let hint = self.0.decompress_stream(&mut to, &mut from).map_err(|_| BROKEN)?;
            if hint == 0 || to.pos() == len_max {
                return Ok(Decoded { len: to.pos(), ended: hint == 0 });
            }
            if before == (from.pos(), to.pos()) {
                return Err(DecodeError::Truncated(Algorithm::Zstd));
            }
        }
    }
}
