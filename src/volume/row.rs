//! Writing to RAID5 and RAID6: rows of stripes with parity.

use super::chunk::Spot;
use super::{Chunk, STRIPE_LEN, Volume, parity};
use crate::error::Result;
use crate::format::{BlockGroupFlags, Logical};

/// Looks up the checksum of a sector of committed data; `None` if there is none.
pub type LookUp<'a> = &'a dyn Fn(Logical) -> Option<Box<[u8]>>;

/// The same bytes of every stripe of a row.
#[derive(Clone, Copy)]
struct Columns {
    row: u64,
    /// Where the bytes start, from the start of each stripe.
    within: u64,
    len: usize,
}

impl Volume {
    /// Writes a part of one row, which starts at `spot` and goes on through the row's columns in order.
    pub(super) fn write_row(
        &self,
        chunk: &Chunk,
        spot: Spot,
        from: &[u8],
        look_up: LookUp<'_>,
    ) -> Result<()> {
        // A whole row needs nothing of what was there before, and nobody else writes the same bytes.
        let is_whole = from.len() as u64 == STRIPE_LEN.saturating_mul(chunk.data_width() as u64);
        let lock = || self.parity.lock().expect("no thread panics while it holds this lock");
        let _alone = (!is_whole).then(lock);
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
                let columns = Columns { row: spot.row, within, len };
                self.write_columns(chunk, columns, look_up, written)?;
            }
        }
        Ok(())
    }

    /// Writes new data where there is some, and parity over all.
    fn write_columns<'a>(
        &self,
        chunk: &Chunk,
        columns: Columns,
        look_up: LookUp<'_>,
        written: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Result<()> {
        let Columns { row, within, len } = columns;
        let width = chunk.data_width();
        let kept = self.read_kept(chunk, columns, look_up, |place| written(place).is_none())?;
        let (mut p, mut q) = (vec![0; len], vec![0; len]);
        for (place, kept) in kept.iter().enumerate() {
            let data = written(place).unwrap_or(kept);
            parity::add(&mut p, data);
            if chunk.profile.parities() > 1 {
                parity::add_to_q(&mut q, data, place);
            }
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

    /// Reads what of a row is kept, by place; what is not kept is empty.
    ///
    /// New parity over damaged data would seal the damage. So when the parity that is there doesn't fit the data, or
    /// data can't be read, what is known to be damaged is replaced by what the old parity makes of it.
    fn read_kept(
        &self,
        chunk: &Chunk,
        columns: Columns,
        look_up: LookUp<'_>,
        is_kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<Vec<u8>>> {
        let width = chunk.data_width();
        if !(0..width).any(&is_kept) {
            return Ok(vec![Vec::new(); width]);
        }
        let Columns { row, within, len } = columns;
        let mut data = vec![vec![0; len]; width];
        let mut failed = vec![false; width];
        for (place, (buffer, failed)) in data.iter_mut().zip(&mut failed).enumerate() {
            let stripe = chunk.stripe_in_row(row, place);
            *failed = self.read_stripe(chunk, stripe, within, buffer).is_err();
        }
        let in_doubt = failed.contains(&true) || !self.fits(chunk, columns, &data);
        for place in (0..width).filter(|place| in_doubt && is_kept(*place)) {
            let at = chunk.address_in_row(row, place, within);
            if let (Some(buffer), Some(failed)) = (data.get_mut(place), failed.get(place)) {
                self.mend(chunk, at, (*failed, buffer), look_up)?;
            }
        }
        for (place, buffer) in data.iter_mut().enumerate().filter(|(place, _)| !is_kept(*place)) {
            debug_assert!(place < width, "one buffer for each place");
            buffer.clear();
        }
        Ok(data)
    }

    /// Whether a row's parity fits its data.
    fn fits(&self, chunk: &Chunk, columns: Columns, data: &[Vec<u8>]) -> bool {
        let Columns { row, within, len } = columns;
        let mut sum = vec![0; len];
        (0..chunk.profile.parities()).all(|number| {
            let stripe = chunk.stripe_in_row(row, data.len().saturating_add(number));
            if self.read_stripe(chunk, stripe, within, &mut sum).is_err() {
                return false;
            }
            for (place, data) in data.iter().enumerate() {
                if number == 0 {
                    parity::add(&mut sum, data);
                } else {
                    parity::add_to_q(&mut sum, data, place);
                }
            }
            sum.iter().all(|byte| *byte == 0)
        })
    }

    /// Replaces those parts of `data`, which is at `at` and `failed` to be read or not, that are damaged and that parity can rebuild.
    fn mend(
        &self,
        chunk: &Chunk,
        at: Logical,
        (failed, data): (bool, &mut [u8]),
        look_up: LookUp<'_>,
    ) -> Result<()> {
        let unit = if chunk.flags.contains(BlockGroupFlags::DATA) {
            self.sector_size()
        } else {
            self.node_size()
        };
        let mut rebuilt = vec![0; unit as usize];
        let units = (at.0..).step_by(unit as usize).map(Logical);
        for (at, part) in units.zip(data.chunks_exact_mut(unit as usize)) {
            let looks_good = |bytes: &[u8]| self.is_known_good(chunk, at, look_up, bytes);
            if !failed && looks_good(part) != Some(false) {
                continue;
            }
            let found = (1..chunk.copies()).any(|copy| {
                self.read_copy(at, copy, &mut rebuilt).is_ok() && looks_good(&rebuilt) == Some(true)
            });
            if found {
                part.copy_from_slice(&rebuilt);
            } else if failed {
                // Nothing says what is right; what can be read at all will do.
                self.read_any(at, part)?;
            }
        }
        Ok(())
    }

    /// Whether bytes at an address are what belongs there, as far as it can be known.
    fn is_known_good(
        &self,
        chunk: &Chunk,
        at: Logical,
        look_up: LookUp<'_>,
        bytes: &[u8],
    ) -> Option<bool> {
        let by_checksum = || {
            let expected = look_up(at)?;
            Some(self.checksum_kind.of(bytes).starts_with(&expected))
        };
        let by_block = || Some(self.check_block(bytes, at).is_ok());
        let meta = BlockGroupFlags::METADATA | BlockGroupFlags::SYSTEM;
        let data = chunk.flags.contains(BlockGroupFlags::DATA).then(by_checksum).flatten();
        data.or_else(|| chunk.flags.intersects(meta).then(by_block).flatten())
    }
}
