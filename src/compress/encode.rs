//! Data to payloads.

use super::{Algorithm, COMPRESSED_MAX, Codec, lzo, zlib, zstd};

/// Reusable compression contexts for one codec and sector size; each thread has its own.
pub struct Encoder {
    sector_size: usize,
    writer: Writer,
    scratch: Vec<u8>,
}

enum Writer {
    Zlib(zlib::Writer),
    Lzo(lzo::Writer),
    Zstd(zstd::Writer),
}

impl Encoder {
    /// Sets up the contexts.
    ///
    /// # Panics
    ///
    /// If the algorithm has no such level, or no filesystem has such sectors.
    pub fn new(codec: Codec, sector_size: usize) -> Self {
        let Codec { algorithm, level } = codec;
        assert!(algorithm.levels().contains(&level), "{algorithm} has no level {level}");
        assert!(
            sector_size.is_power_of_two() && (512..=64 * 1024).contains(&sector_size),
            "no filesystem has sectors of {sector_size} bytes"
        );
        let writer = match algorithm {
            Algorithm::Zlib => Writer::Zlib(zlib::Writer::new(level)),
            Algorithm::Lzo => Writer::Lzo(lzo::Writer::new(level)),
            Algorithm::Zstd => Writer::Zstd(zstd::Writer::new(level)),
        };
        Self { sector_size, writer, scratch: Vec::new() }
    }

    /// Payload of one extent, zero-padded to whole sectors, or none when it does not save at least
    /// one sector against `data` rounded up.
    ///
    /// # Panics
    ///
    /// If `data` is empty or longer than [`COMPRESSED_MAX`].
    pub fn encode(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        assert!((1..=COMPRESSED_MAX).contains(&data.len()), "an extent has 1 byte to 128 KiB");
        let len_max = data.len().next_multiple_of(self.sector_size) - self.sector_size;
        if len_max == 0 {
            return None;
        }
        let scratch = &mut self.scratch;
        match &mut self.writer {
            Writer::Zlib(writer) => writer.write(data, scratch)?,
            Writer::Lzo(writer) => writer.write(data, self.sector_size, len_max, scratch)?,
            Writer::Zstd(writer) => writer.write(data, scratch)?,
        }
        if scratch.len() > len_max {
            return None;
        }
        let mut payload = Vec::with_capacity(scratch.len().next_multiple_of(self.sector_size));
        payload.extend_from_slice(scratch);
        payload.resize(scratch.len().next_multiple_of(self.sector_size), 0);
        Some(payload)
    }

    /// Payload of one inline item, unpadded, or none when it is not smaller than `data`.
    ///
    /// # Panics
    ///
    /// If `data` is empty or longer than a sector: no inline item holds as much.
    pub fn encode_inline(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        assert!(
            (1..=self.sector_size).contains(&data.len()),
            "an inline item has 1 byte to 1 sector"
        );
        let scratch = &mut self.scratch;
        match &mut self.writer {
            Writer::Zlib(writer) => writer.write(data, scratch)?,
            Writer::Lzo(writer) => writer.write_inline(data, scratch)?,
            Writer::Zstd(writer) => writer.write(data, scratch)?,
        }
        (scratch.len() < data.len()).then(|| scratch.clone())
    }
}
