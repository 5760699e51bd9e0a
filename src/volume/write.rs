//! Writing, to every copy.

use std::io;

use super::{Chunk, LookUp, Member, STRIPE_LEN, Volume};
use crate::error::{Error, Refusal, Result};
use crate::format::{BlockGroupFlags, Logical};

impl Volume {
    /// Writes a range, which must lie in one chunk, to all its copies, and brings parity up to date.
    ///
    /// Durable after [`flush`](Self::flush). After an error any part of it may have been written.
    pub fn write(&self, at: Logical, from: &[u8]) -> Result<()> {
        self.write_beside(at, from, &|_| None)
    }

    /// Writes as [`write`](Self::write) does, and knows the checksums of the data around: writing beside damaged data
    /// in a row with parity then doesn't take away the means to rebuild it. For tree blocks this is always so.
    pub fn write_beside(&self, at: Logical, from: &[u8], look_up: LookUp<'_>) -> Result<()> {
        let (chunk, offset) = self.chunk_of(at, from.len())?;
        let mut parts = chunk.stripes.iter().zip(&chunk.members);
        if let Some((stripe, _)) = parts.find(|(_, member)| member.is_none()) {
            return Err(Refusal::MissingDevice { devid: stripe.devid.get() }.into());
        }
        let (mut offset, mut rest) = (offset, from);
        while !rest.is_empty() {
            let spot = chunk.spot(offset);
            let whole = if chunk.profile.parities() > 0 {
                // The rest of the row.
                let columns = chunk.data_width().saturating_sub(spot.column).saturating_sub(1);
                spot.len.saturating_add(STRIPE_LEN.saturating_mul(columns as u64))
            } else {
                spot.len
            };
            let len = whole.min(rest.len() as u64);
            let (piece, after) = rest.split_at(len as usize);
            if chunk.profile.parities() > 0 {
                self.write_row(chunk, spot, piece, look_up)?;
            } else {
                for copy in 0..chunk.plain_copies() {
                    self.write_stripe(chunk, spot.first.saturating_add(copy), spot.within, piece)?;
                }
            }
            offset = offset.saturating_add(len);
            rest = after;
        }
        Ok(())
    }

    /// Gives free space back to what is below the devices; its bytes are then unspecified. Where there is parity
    /// nothing is given back, since it would no longer fit.
    pub fn discard(&self, at: Logical, len: u64) -> Result<()> {
        let (chunk, start) = self.chunk_of(at, len as usize)?;
        let end = start.saturating_add(len);
        let mut offset = start;
        while offset < end && chunk.profile.parities() == 0 {
            let spot = chunk.spot(offset);
            let len = spot.len.min(end.saturating_sub(offset));
            for copy in 0..chunk.plain_copies() {
                let stripe = spot.first.saturating_add(copy);
                let (member, byte) = self.place(chunk, stripe, spot.within)?;
                member.device.discard(byte, len).map_err(|source| member.error(byte, source))?;
            }
            offset = offset.saturating_add(len);
        }
        Ok(())
    }

    /// Bytes that go to all devices when `bytes` of one of these kinds are written in long pieces: with all copies and
    /// parity.
    pub fn device_bytes(&self, kinds: BlockGroupFlags, bytes: u64) -> u64 {
        let of_kind = self.chunks.iter().filter(|chunk| chunk.flags.intersects(kinds));
        let on_devices = of_kind.map(|chunk| {
            let stripes = chunk.stripes.len() as u64;
            bytes.saturating_mul(stripes).div_ceil(chunk.data_width().max(1) as u64)
        });
        on_devices.max().unwrap_or(bytes)
    }

    /// Bytes written so far to all devices: data, tree blocks and superblocks, with all copies and parity.
    pub fn bytes_written(&self) -> u64 {
        self.latch.bytes_written()
    }

    /// Returns once every earlier write is durable on every device.
    pub fn flush(&self) -> Result<()> {
        for member in &self.members {
            member.device.flush().map_err(|source| flush_error(member, source))?;
        }
        Ok(())
    }

    /// Which device a stripe is on, and where on it the byte `within` bytes from the stripe's start is.
    pub(super) fn place(
        &self,
        chunk: &Chunk,
        stripe: usize,
        within: u64,
    ) -> Result<(&Member, u64)> {
        let parts = chunk.stripes.get(stripe).zip(chunk.members.get(stripe));
        let (part, member) = parts.expect("a spot's stripes are stripes of its chunk");
        let member = member
            .and_then(|member| self.members.get(member))
            .ok_or(Error::MissingDevice { devid: part.devid.get() })?;
        Ok((member, part.offset.get().saturating_add(within)))
    }

    pub(super) fn write_stripe(
        &self,
        chunk: &Chunk,
        stripe: usize,
        within: u64,
        from: &[u8],
    ) -> Result<()> {
        let (member, byte) = self.place(chunk, stripe, within)?;
        member.device.write_at(byte, from).map_err(|source| member.error(byte, source))
    }
}

fn flush_error(member: &Member, source: io::Error) -> Error {
    match member.error(0, source) {
        Error::Io { source, .. } => {
            Error::Io { device: format!("{} at a flush", member.name()), source }
        }
        other => other,
    }
}
