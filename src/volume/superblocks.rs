//! Writing superblocks.

use zerocopy::IntoBytes;

use super::member::read_superblock;
use super::{Member, Volume};
use crate::error::{Error, Refusal, Result};
use crate::format::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};

impl Volume {
    /// Makes `superblock` the filesystem's, on every device, each with its own device item ([`set_dev_item`]); the
    /// one in `superblock` is not looked at.
    ///
    /// Everything that it points to must have been flushed. Nothing is written when somebody else uses the devices or
    /// has changed the filesystem meanwhile. The primaries, which alone count, are durable before the copies are
    /// touched, and copies that an earlier power cut has left old or torn are renewed before that. So at every moment
    /// each device with room for a copy has a whole superblock of the last commit or the one before, even if a power cut
    /// tears the one that is being written.
    ///
    /// [`set_dev_item`]: Self::set_dev_item
    pub fn write_superblock(&mut self, superblock: &Superblock) -> Result<()> {
        if let Some(&devid) = self.missing_devices().first() {
            return Err(Refusal::MissingDevice { devid }.into());
        }
        self.recheck()?; // the flush before may have taken long
        let [primary, ..] = SUPERBLOCK_OFFSETS;
        self.renew_copies()?;
        for member in &self.members {
            member.write_superblock(superblock, primary)?;
        }
        self.flush()?;
        for member in &self.members {
            for at in member.superblock_places().filter(|at| *at != primary) {
                member.write_superblock(superblock, at)?;
            }
        }
        self.flush()?;
        let own = self.superblock.dev_item.devid;
        for member in &mut self.members {
            member.superblock = member.copy_of(superblock, primary)?;
            if member.dev_item.devid == own {
                self.superblock = member.superblock;
            }
        }
        Ok(())
    }

    /// Makes the copies what the primaries are as of the last commit, where they aren't.
    fn renew_copies(&self) -> Result<()> {
        let [primary, ..] = SUPERBLOCK_OFFSETS;
        let mut is_changed = false;
        for member in &self.members {
            for at in member.superblock_places().filter(|at| *at != primary) {
                let bytes = member.superblock.to_bytes(at).map_err(Error::in_filesystem)?;
                let there = read_superblock(&*member.device, at);
                if there.is_err() || there.is_ok_and(|copy| copy.as_bytes() != bytes) {
                    member
                        .device
                        .write_at(at, &bytes)
                        .map_err(|source| member.error(at, source))?;
                    is_changed = true;
                }
            }
        }
        if is_changed {
            self.flush()?;
            self.recheck()?; // that may have taken long, too
        }
        Ok(())
    }

    /// Looks again whether somebody else uses the devices or has changed the filesystem; to be called before data or
    /// tree blocks are written.
    pub fn recheck(&self) -> Result<()> {
        let [primary, ..] = SUPERBLOCK_OFFSETS;
        for member in &self.members {
            member.device.recheck()?;
            let mut now = [0; SUPERBLOCK_SIZE];
            let read = member.device.read_at(primary, &mut now);
            read.map_err(|source| member.error(primary, source))?;
            if now != member.superblock.as_bytes() {
                return Err(Refusal::Changed { device: member.name() }.into());
            }
        }
        Ok(())
    }

    /// Reads a device's copies of the superblock as they are now: where, and what is there.
    pub fn superblock_copies(&self, devid: u64) -> Vec<(u64, Result<Superblock>)> {
        self.members
            .iter()
            .filter(|member| member.devid() == devid)
            .flat_map(|member| {
                member.superblock_places().map(|at| (at, read_superblock(&*member.device, at)))
            })
            .collect()
    }
}

impl Member {
    /// This device's copy of a superblock for byte `at`.
    fn copy_of(&self, superblock: &Superblock, at: u64) -> Result<Superblock> {
        let copy = Superblock { dev_item: self.dev_item, ..*superblock };
        let bytes = copy.to_bytes(at).map_err(Error::in_filesystem)?;
        Ok(zerocopy::transmute!(bytes))
    }

    fn write_superblock(&self, superblock: &Superblock, at: u64) -> Result<()> {
        let copy = self.copy_of(superblock, at)?;
        self.device.write_at(at, copy.as_bytes()).map_err(|source| self.error(at, source))
    }
}
