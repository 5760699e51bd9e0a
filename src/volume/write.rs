//! Writing, to every copy.

use super::chunk::Spot;
use super::{Chunk, Member, STRIPE_LEN, Volume, parity};
use crate::error::{Error, Refusal, Result};
use crate::format::Logical;

impl Volume {
    /// Writes a range, which must lie in one chunk, to all its copies, and brings parity up to date.
    ///
    /// Durable after [`flush`](Self::flush). After an error any part of it may have been written.
    pub fn write(&self, at: Logical, from: &[u8]) -> Result<()> {
        let (chunk, offset) = self.chunk_of(at, from.len())?;
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
                self.write_row(chunk, spot, piece)?;
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

    /// Returns once every earlier write is durable on every device.
    pub fn flush(&self) -> Result<()> {
        for member in &self.members {
            member.device.flush().map_err(|source| Error::Io {
                device: format!("{} (flush)", member.name()),
                source,
            })?;
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
            .ok_or(Refusal::MissingDevice { devid: part.devid.get() })?;
        Ok((member, part.offset.get().saturating_add(within)))
    }

    fn write_stripe(&self, chunk: &Chunk, stripe: usize, within: u64, from: &[u8]) -> Result<()> {
        let (member, byte) = self.place(chunk, stripe, within)?;
        member.device.write_at(byte, from).map_err(|source| member.error(byte, source))
    }
}

/// Rows of RAID5 and RAID6.
impl Volume {
    /// Writes a part of one row, which starts at `spot` and goes on through the row's columns in order.
    fn write_row(&self, chunk: &Chunk, spot: Spot, from: &[u8]) -> Result<()> {
        let _alone = self.parity.lock().expect("no thread panics while it holds this lock");
        let in_element = spot.within % STRIPE_LEN;
        let row_start = spot.within.saturating_sub(in_element);
        let end = in_element.saturating_add(from.len() as u64);
        let mut cuts = [0, in_element, end.min(STRIPE_LEN), end % STRIPE_LEN, STRIPE_LEN];
        cuts.sort_unstable();
        // Between two cuts the same columns are written.
        for (start, stop) in cuts.into_iter().zip(cuts.into_iter().skip(1)) {
            let written = |place: usize| {
                let column = (place.checked_sub(spot.column)? as u64).saturating_mul(STRIPE_LEN);
                let first = column.saturating_add(start).checked_sub(in_element)?;
                let last = column.saturating_add(stop).checked_sub(in_element)?;
                from.get(first as usize..last as usize)
            };
            if start < stop && (0..chunk.data_width()).any(|place| written(place).is_some()) {
                let within = row_start.saturating_add(start);
                let len = stop.saturating_sub(start) as usize;
                self.write_columns(chunk, spot.row, within, len, written)?;
            }
        }
        Ok(())
    }

    /// Writes the same bytes of several stripes of a row: new data where there is some, and parity over all.
    fn write_columns<'a>(
        &self,
        chunk: &Chunk,
        row: u64,
        within: u64,
        len: usize,
        written: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Result<()> {
        let width = chunk.data_width();
        let (mut p, mut q, mut old) = (vec![0; len], vec![0; len], vec![0; len]);
        for place in 0..width {
            let data = if let Some(new) = written(place) {
                new
            } else {
                self.read_stripe(chunk, chunk.stripe_in_row(row, place), within, &mut old)?;
                &old
            };
            parity::add(&mut p, data);
            parity::add_to_q(&mut q, data, place);
        }
        for place in 0..width {
            if let Some(new) = written(place) {
                self.write_stripe(chunk, chunk.stripe_in_row(row, place), within, new)?;
            }
        }
        for (number, parity) in [p, q].iter().enumerate().take(chunk.profile.parities()) {
            let stripe = chunk.stripe_in_row(row, width.saturating_add(number));
            self.write_stripe(chunk, stripe, within, parity)?;
        }
        Ok(())
    }
}
