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
    /// has changed the filesystem meanwhile. The primaries, which alone count, are durable before the
    /// copies are touched, so that at every moment each device has a whole superblock.
    ///
    /// [`set_dev_item`]: Self::set_dev_item
    pub fn write_superblock(&mut self, superblock: &Superblock) -> Result<()> {
        if let Some(&devid) = self.missing_devices().first() {
            return Err(Refusal::MissingDevice { devid }.into());
        }
        self.recheck()?; // the flush before may have taken long
        let [primary, ..] = SUPERBLOCK_OFFSETS;
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
