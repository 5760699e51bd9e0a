//! Encoding of chunks and of inline extents, on all cores.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::compress::{Algorithm, Codec, Decoder, Encoder};
use crate::error::{Error, Result};
use crate::format::{
    Compression, Damage, FILE_EXTENT_INLINE_HEAD, FileExtent, HEADER_SIZE, ITEM_SIZE, Logical,
};
use crate::fs::{DataExtent, decode_inline, read_extent};
use crate::plan::{Chunk, InlineItem, Request, Run};
use crate::tree::Forest;

/// Contents of one new extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Length once decoded.
    pub data_bytes: u64,
    /// How it is encoded.
    pub compression: Compression,
    /// Its bytes on disk, whole sectors.
    pub payload: Vec<u8>,
    /// The checksums of the payload, one a sector.
    pub csums: Vec<u8>,
}

/// What one thread needs to encode, kept from one chunk to the next.
#[derive(Default)]
struct Worker {
    decoder: Decoder,
    encoders: BTreeMap<(Algorithm, i32), Encoder>,
    /// The compressed extent that was decoded last: the next chunk often begins in it.
    decoded: Option<(DataExtent, Vec<u8>)>,
}

/// The threads' workers, idle ones.
#[derive(Default)]
pub struct Workers {
    idle: Mutex<Vec<Worker>>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    fn with<T>(&self, work: impl FnOnce(&mut Worker) -> T) -> T {
        let lock = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = lock().pop();
        let mut worker = idle.unwrap_or_default();
        let result = work(&mut worker);
        lock().push(worker);
        result
    }

    /// Reads, encodes and verifies one chunk of `run`.
    ///
    /// # Errors
    /// If the data can't be read or is damaged.
    pub fn encode_chunk(
        &self,
        forest: &Forest,
        request: &Request,
        run: &Run,
        chunk: &Chunk,
    ) -> Result<Encoded> {
        self.with(|worker| {
            let data = worker.read_chunk(forest, run, chunk)?;
            let first = &run.extents[chunk.pieces[0].extent];
            worker.encode(forest, request.codec_for(first.data.compression), data)
        })
    }

    /// New data of the item of an inline extent, or `None` when it is better left as it is.
    ///
    /// # Errors
    /// If the data is damaged.
    pub fn encode_inline(
        &self,
        forest: &Forest,
        request: &Request,
        item: &InlineItem,
    ) -> Result<Option<Vec<u8>>> {
        let slot = item.leaf.search(item.key).expect("the item was found in this leaf");
        let (old, payload) = FileExtent::parse(item.leaf.data(slot))
            .map_err(|damage| Error::in_item(damage, item.leaf.owner(), item.key))?;
        if request.only_uncompressed && old.compression != Compression::NONE {
            return Ok(None);
        }
        self.with(|worker| worker.encode_inline(forest, request, &old, payload))
    }
}

impl Worker {
    fn read_chunk(&mut self, forest: &Forest, run: &Run, chunk: &Chunk) -> Result<Vec<u8>> {
        let mut data = Vec::with_capacity(chunk.len() as usize);
        for piece in &chunk.pieces {
            let extent = run.extents[piece.extent].data;
            if extent.compression == Compression::NONE {
                data.extend(read_extent(forest, &mut self.decoder, &extent, piece.range.clone())?);
                continue;
            }
            if self.decoded.as_ref().is_none_or(|(decoded, _)| *decoded != extent) {
                let all = read_extent(forest, &mut self.decoder, &extent, 0..extent.data_bytes)?;
                self.decoded = Some((extent, all));
            }
            if let Some((_, all)) = &self.decoded {
                data.extend_from_slice(&all[piece.range.start as usize..piece.range.end as usize]);
            }
        }
        Ok(data)
    }

    fn encoder(&mut self, codec: Codec, sector: usize) -> &mut Encoder {
        self.encoders
            .entry((codec.algorithm, codec.level))
            .or_insert_with(|| Encoder::new(codec, sector))
    }

    fn encode(&mut self, forest: &Forest, codec: Option<Codec>, data: Vec<u8>) -> Result<Encoded> {
        let volume = forest.volume();
        let sector = volume.sector_size() as usize;
        let encoded =
            codec.and_then(|codec| Some((codec, self.encoder(codec, sector).encode(&data)?)));
        let data_bytes = data.len() as u64;
        let (compression, payload) = match encoded {
            Some((codec, payload)) => {
                self.verify(codec.algorithm, &payload, &data, sector)?;
                (Compression(codec.algorithm.disk_id()), payload)
            }
            None => (Compression::NONE, data),
        };
        let kind = volume.checksum_kind();
        let csums = payload
            .chunks(sector)
            .flat_map(|sector| kind.of(sector).into_iter().take(kind.size()))
            .collect();
        Ok(Encoded { data_bytes, compression, payload, csums })
    }

    /// What was encoded must decode to what was read, or it is not written.
    fn verify(
        &mut self,
        algorithm: Algorithm,
        payload: &[u8],
        data: &[u8],
        sector: usize,
    ) -> Result<()> {
        let decoded = self.decoder.decode(algorithm, payload, data.len(), sector);
        if decoded.is_ok_and(|decoded| decoded == data) {
            return Ok(());
        }
        let what = "a new encoding does not decode to the data";
        Err(Error::at(Damage::Extent { bytenr: 0, what }, Logical(0)))
    }

    fn encode_inline(
        &mut self,
        forest: &Forest,
        request: &Request,
        old: &FileExtent,
        payload: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let sector = forest.volume().sector_size() as usize;
        let data = decode_inline(forest, &mut self.decoder, old, payload)?;
        if data.is_empty() || data.len() as u64 != old.ram_bytes {
            return Ok(None);
        }
        let codec = request.codec_for(old.compression);
        let encoded = codec
            .and_then(|codec| Some((codec, self.encoder(codec, sector).encode_inline(&data)?)));
        let (compression, new) = match encoded {
            Some((codec, new)) => {
                let decoded = self.decoder.decode_inline(codec.algorithm, &new, data.len(), sector);
                if !decoded.is_ok_and(|decoded| decoded == data) {
                    return Ok(None);
                }
                (Compression(codec.algorithm.disk_id()), new)
            }
            None => (Compression::NONE, data),
        };
        // Uncompressed, it must stay below a sector and fit into a leaf.
        let leaf_max = forest.volume().node_size() as usize
            - HEADER_SIZE
            - ITEM_SIZE
            - FILE_EXTENT_INLINE_HEAD;
        let fits = compression != Compression::NONE || new.len() <= (sector - 1).min(leaf_max);
        let is_wanted = if request.must_change(old.compression) {
            compression != old.compression
        } else {
            new.len() < payload.len()
        };
        if !fits || !is_wanted {
            return Ok(None);
        }
        let mut item = FileExtent { compression, ..*old }.to_bytes();
        item.extend_from_slice(&new);
        Ok(Some(item))
    }
}
