//! Reading, from whichever copy is good.

use super::chunk::Spot;
use super::fault::{Fault, FaultKind};
use super::{Chunk, Volume, parity};
use crate::error::{Error, Result};
use crate::format::{Damage, Header, Logical, Node, Physical};

impl Volume {
    /// Reads one of the [`copies`](Self::copies) of a range, which must lie in one chunk. For RAID5 and RAID6 the
    /// copies after the first are rebuilt from parity.
    pub fn read_copy(&self, at: Logical, copy: usize, into: &mut [u8]) -> Result<()> {
        let (chunk, offset) = self.chunk_of(at, into.len())?;
        self.read_chunk(chunk, offset, copy, into)
    }

    fn read_chunk(&self, chunk: &Chunk, offset: u64, copy: usize, into: &mut [u8]) -> Result<()> {
        for (spot, piece) in pieces(chunk, offset, into) {
            if copy < chunk.plain_copies() {
                self.read_stripe(chunk, spot.first.saturating_add(copy), spot.within, piece)?;
            } else {
                let way = copy.saturating_sub(chunk.plain_copies());
                self.rebuild(chunk, spot, way, piece)?;
            }
        }
        Ok(())
    }

    /// Reads from one stripe of a chunk, `within` bytes from its start.
    pub(super) fn read_stripe(
        &self,
        chunk: &Chunk,
        stripe: usize,
        within: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let (member, byte) = self.place(chunk, stripe, within)?;
        member.device.read_at(byte, into).map_err(|source| member.error(byte, source))
    }

    /// Rebuilds data from a row's parity: way 0 from P, way `n` from Q, as if the `n`th of the other places in the
    /// row (data in order, then P) couldn't be had either.
    fn rebuild(&self, chunk: &Chunk, spot: Spot, way: usize, into: &mut [u8]) -> Result<()> {
        let width = chunk.data_width();
        let lost = match way.checked_sub(1) {
            None => None,
            Some(nth) => (0..=width).filter(|place| *place != spot.column).nth(nth),
        };
        let mut buffer = vec![0; into.len()];
        let read = |place: usize, buffer: &mut [u8]| {
            self.read_stripe(chunk, chunk.stripe_in_row(spot.row, place), spot.within, buffer)
        };
        let others = (0..width).filter(|place| *place != spot.column && Some(*place) != lost);
        let Some(lost) = lost else {
            read(width, into)?;
            for place in others {
                read(place, &mut buffer)?;
                parity::add(into, &buffer);
            }
            return Ok(());
        };
        let mut q = vec![0; into.len()];
        read(width.saturating_add(1), &mut q)?;
        let with_p = lost < width;
        if with_p {
            read(width, into)?;
        }
        for place in others {
            read(place, &mut buffer)?;
            parity::add(into, &buffer);
            parity::add_to_q(&mut q, &buffer, place);
        }
        if with_p {
            parity::from_p_and_q(into, &q, spot.column, lost);
        } else {
            parity::from_q(&mut q, spot.column);
            into.copy_from_slice(&q);
        }
        Ok(())
    }

    /// Reads a range that has no checksum: the first copy that can be read at all.
    pub fn read_any(&self, at: Logical, into: &mut [u8]) -> Result<()> {
        self.first_good(at, into.len(), |copy| self.read_copy(at, copy, into))
    }

    /// Reads a tree block, from the first copy whose checksum, address, filesystem id and structure are right.
    pub fn read_node(&self, at: Logical) -> Result<Node> {
        self.read_node_if(at, |_| Ok(()))
    }

    /// Reads a tree block as [`read_node`](Self::read_node) does, from the first copy that `accept` likes as well: an
    /// old copy, that missed a write, can only be told by what its parent expects.
    pub fn read_node_if(
        &self,
        at: Logical,
        mut accept: impl FnMut(&Node) -> Result<(), Damage>,
    ) -> Result<Node> {
        let size = self.node_size() as usize;
        let mut buffer = Vec::new();
        self.first_good(at, size, |copy| {
            buffer.resize(size, 0);
            self.read_copy(at, copy, &mut buffer)?;
            let mut check = || {
                self.check_block(&buffer, at)?;
                let node = Node::parse(std::mem::take(&mut buffer).into())?;
                accept(&node)?;
                Ok(node)
            };
            check().map_err(|damage| Error::at(damage, at))
        })
    }

    /// Whether a tree block's checksum is right, and whether it is the one that belongs at its address.
    pub(super) fn check_block(&self, block: &[u8], at: Logical) -> Result<(), Damage> {
        use zerocopy::FromBytes;
        let Ok((header, _)) = Header::ref_from_prefix(block) else {
            return Err(Damage::Checksum);
        };
        let summed = block.get(header.csum.len()..).unwrap_or_default();
        if self.checksum_kind.of(summed) != header.csum {
            return Err(Damage::Checksum);
        }
        if header.bytenr.get() != at.0 {
            return Err(Damage::Bytenr { found: header.bytenr.get() });
        }
        if !self.knows_fsid(&header.fsid) {
            return Err(Damage::Fsid);
        }
        Ok(())
    }

    /// Tries every copy until `read` succeeds; then what was wrong with those before becomes a fault. Fails as the
    /// first bad bytes did, or else as the first device did.
    fn first_good<T>(
        &self,
        at: Logical,
        len: usize,
        mut read: impl FnMut(usize) -> Result<T>,
    ) -> Result<T> {
        let (chunk, offset) = self.chunk_of(at, len)?;
        let mut errors = Vec::new();
        for copy in 0..chunk.copies() {
            match read(copy) {
                Ok(good) => {
                    for (copy, error) in errors.iter().enumerate() {
                        self.note(chunk, offset, copy, error);
                    }
                    return Ok(good);
                }
                Err(error) => errors.push(error),
            }
        }
        let worst = errors.iter().position(Error::is_corrupt).unwrap_or(0);
        Err(errors.swap_remove(worst))
    }

    /// Notes a bad copy. What was rebuilt has no single place, and a missing device is no news.
    fn note(&self, chunk: &Chunk, offset: u64, copy: usize, error: &Error) {
        if copy >= chunk.plain_copies() {
            return;
        }
        let kind = match error {
            Error::Io { source, .. } => FaultKind::Io(source.to_string()),
            Error::Corrupt { damage, .. } => FaultKind::Damage(damage.clone()),
            _ => return,
        };
        let spot = chunk.spot(offset);
        let stripe = spot.first.saturating_add(copy);
        if let Ok((member, byte)) = self.place(chunk, stripe, spot.within) {
            self.faults.add(Fault {
                device: member.name(),
                physical: Physical { devid: member.devid(), byte },
                logical: Logical(chunk.logical.0.saturating_add(offset)),
                kind,
            });
        }
    }

    /// Reads data and checks it. `checksums` has one for each sector, end to end. A sector whose first copy is bad is
    /// taken from another one.
    ///
    /// # Errors
    /// [`Damage::Checksum`] at the address of the first sector of which no copy is good; what is in `into` then must
    /// not be used.
    ///
    /// # Panics
    /// If `into` isn't whole sectors with one checksum each.
    pub fn read_data(&self, at: Logical, checksums: &[u8], into: &mut [u8]) -> Result<()> {
        let (sector, sum) = (self.sector_size() as usize, self.checksum_kind.size());
        assert!(
            into.len().is_multiple_of(sector)
                && into.len().checked_div(sector) == checksums.len().checked_div(sum),
            "data is read in whole sectors, with a checksum for each"
        );
        let (chunk, offset) = self.chunk_of(at, into.len())?;
        let read = self.read_chunk(chunk, offset, 0, into).is_ok();
        let sectors = into.chunks_exact_mut(sector).zip(checksums.chunks_exact(sum));
        for (number, (bytes, expected)) in sectors.enumerate() {
            if read && self.is_right(bytes, expected) {
                continue;
            }
            let at = Logical(at.0.saturating_add((number as u64).saturating_mul(sector as u64)));
            self.first_good(at, sector, |copy| {
                self.read_copy(at, copy, bytes)?;
                if self.is_right(bytes, expected) {
                    Ok(())
                } else {
                    Err(Error::at(Damage::Checksum, at))
                }
            })?;
        }
        Ok(())
    }

    fn is_right(&self, bytes: &[u8], expected: &[u8]) -> bool {
        self.checksum_kind.of(bytes).starts_with(expected)
    }
}

/// Cuts a range of a chunk where it goes on elsewhere.
pub(super) fn pieces<'a>(
    chunk: &Chunk,
    offset: u64,
    mut rest: &'a mut [u8],
) -> impl Iterator<Item = (Spot, &'a mut [u8])> {
    let mut offset = offset;
    std::iter::from_fn(move || {
        let all = std::mem::take(&mut rest);
        if all.is_empty() {
            return None;
        }
        let spot = chunk.spot(offset);
        let len = spot.len.min(all.len() as u64);
        let (piece, after) = all.split_at_mut(len as usize);
        rest = after;
        offset = offset.saturating_add(len);
        Some((spot, piece))
    })
}
