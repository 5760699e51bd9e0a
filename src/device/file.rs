//! Image files and block devices.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, fcntl_lock, flock};
use rustix::io::Errno;

use super::{Access, Device, busy, check_range};
use crate::error::{Error, Result};

/// An image file or a block device.
#[derive(Debug)]
pub struct FileDevice {
    path: PathBuf,
    file: File,
    kind: Kind,
    len: u64,
}

/// What was opened; it decides what must be checked before each commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An image file that is written, and locked.
    Image,
    /// A block device that is written. As long as it is open, the kernel lets no other exclusive user in.
    Block,
    /// Either of them, only read.
    ReadOnly,
}

impl FileDevice {
    /// Opens the file or block device at `path`.
    ///
    /// # Errors
    /// [`Error::InUse`] if it is to be written and somebody else uses it.
    pub fn open(path: impl Into<PathBuf>, access: Access) -> Result<Self> {
        let path = path.into();
        let io = |source| Error::Io { device: path.display().to_string(), source };
        let kind = std::fs::metadata(&path).map_err(io)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let path = path.display().to_string();
            return Err(Error::WrongType {
                path,
                what: "is neither a block device nor an image file",
            });
        }
        let (file, kind) = match access {
            Access::Read => (File::open(&path).map_err(io)?, Kind::ReadOnly),
            Access::Write if kind.is_block_device() => (open_device(&path)?, Kind::Block),
            Access::Write => (open_image(&path)?, Kind::Image),
        };
        let len = (&file).seek(SeekFrom::End(0)).map_err(io)?;
        Ok(Self { path, file, kind, len })
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens a block device for writing, with nobody else using it.
fn open_device(path: &Path) -> Result<File> {
    // The kernel knows exclusive users of block devices: mounts, swap, device mapper, MD.
    let exclusive = OFlags::EXCL.bits().cast_signed();
    let opened = OpenOptions::new().read(true).write(true).custom_flags(exclusive).open(path);
    let file = opened.map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => {
            Error::InUse { path: path.to_owned(), by: busy::user_of_device(path) }
        }
        _ => Error::Io { device: path.display().to_string(), source },
    })?;
    no_loop_device_is_over(path, &file)?;
    Ok(file)
}

/// Opens an image file for writing, with nobody else using it.
fn open_image(path: &Path) -> Result<File> {
    let io = |source| Error::Io { device: path.display().to_string(), source };
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
    lock_image(path, &file)?;
    no_loop_device_is_over(path, &file)?;
    Ok(file)
}

/// Locks an image file, or makes sure that it still is: closing any other handle of it gives up the second lock.
fn lock_image(path: &Path, file: &File) -> Result<()> {
    let io = |source| Error::Io { device: path.display().to_string(), source };
    // The first lock keeps other runs of this program out, the second notices virtual machines, which use such locks.
    let alone = FlockOperation::NonBlockingLockExclusive;
    for locked in [flock(file, alone), fcntl_lock(file, alone)] {
        match locked {
            // Some network filesystems have no locks.
            Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                let by = "another program has locked it; wait until that is done".to_owned();
                return Err(Error::InUse { path: path.to_owned(), by });
            }
            Err(other) => return Err(io(other.into())),
        }
    }
    Ok(())
}

/// Fails if a loop device is over an image file or block device, mounted or not.
fn no_loop_device_is_over(path: &Path, file: &File) -> Result<()> {
    let io = |source| Error::Io { device: path.display().to_string(), source };
    match busy::user_through_loop(&file.metadata().map_err(io)?) {
        Some(by) => Err(Error::InUse { path: path.to_owned(), by }),
        None => Ok(()),
    }
}

impl Device for FileDevice {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, byte: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, byte)
    }

    fn write_at(&self, byte: u64, from: &[u8]) -> io::Result<()> {
        // A write past the end would let an image file grow.
        check_range(byte, from.len(), self.len)?;
        self.file.write_all_at(from, byte)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn discard(&self, byte: u64, len: u64) -> io::Result<()> {
        match fallocate(
            &self.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            byte,
            len,
        ) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn recheck(&self) -> Result<()> {
        if self.kind == Kind::ReadOnly {
            return Ok(());
        }
        if self.kind == Kind::Image {
            lock_image(&self.path, &self.file)?;
        }
        no_loop_device_is_over(&self.path, &self.file)
    }
}
