//! Filesystem images and kernel mounts of them, undone also when a test panics.

use std::fs::{self, File};
use std::hash::Hasher as _;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;
use twox_hash::XxHash64;

use crate::fixture::Fixture;
use crate::tool;

/// How often a loop device or mount that another test is using is asked for again.
const ATTEMPT_COUNT: u32 = 50;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(100);
const DIGEST_BLOCK_BYTES: u64 = 64 << 10;
/// Marks of lines in the kernel's log that are no complaint.
const HARMLESS: [&str; 2] = ["BTRFS info", "space cache v1 is being deprecated"];

/// A filesystem in a sparse image file, or in one for each of its devices, that goes when it is dropped.
pub(crate) struct Image {
    dir: TempDir,
    /// Never empty.
    paths: Vec<PathBuf>,
}

impl Image {
    /// A new filesystem of `size_bytes` with these `mkfs.btrfs` options.
    pub(crate) fn mkfs(size_bytes: u64, options: &[&str]) -> Self {
        Self::mkfs_on(&[size_bytes], options)
    }

    /// A new filesystem on a device of each of these sizes.
    pub(crate) fn mkfs_on(sizes_bytes: &[u64], options: &[&str]) -> Self {
        let image = Self::empty(sizes_bytes.len());
        for (path, size_bytes) in image.paths.iter().zip(sizes_bytes) {
            File::create(path).and_then(|file| file.set_len(*size_bytes)).expect("image file");
        }
        let paths =
            image.paths.iter().map(|path| path.to_str().expect("temporary paths are UTF-8"));
        let paths: Vec<_> = paths.collect();
        tool::run("mkfs.btrfs", &[&["-q"], options, &paths].concat());
        image
    }

    /// The filesystem of a fixture on one device, in a file of `size_bytes`.
    pub(crate) fn of(fixture: &Fixture, size_bytes: u64) -> Self {
        let image = Self::empty(1);
        fs::rename(fixture.path(), image.path()).expect("both are temporary files");
        let file = File::options().write(true).open(image.path()).expect("image file");
        file.set_len(size_bytes).expect("image file");
        image
    }

    /// Zeros.
    pub(crate) fn blank(size_bytes: u64) -> Self {
        let image = Self::empty(1);
        File::create(image.path()).and_then(|file| file.set_len(size_bytes)).expect("image file");
        image
    }

    /// Second files with the same bytes and the same holes.
    pub(crate) fn copy(&self) -> Self {
        Self::copy_of(&self.paths)
    }

    /// Files with the same bytes and the same holes as these, which are the devices of one filesystem.
    pub(crate) fn copy_of(paths: &[PathBuf]) -> Self {
        let copy = Self::empty(paths.len());
        for (from, to) in paths.iter().zip(&copy.paths) {
            tool::run("cp", &["--sparse=always".as_ref(), from.as_os_str(), to.as_os_str()]);
        }
        copy
    }

    /// It without some of its devices, which are counted from 0.
    pub(crate) fn without(mut self, numbers: &[usize]) -> Self {
        let all = self.paths.drain(..).enumerate();
        let (gone, kept): (Vec<_>, _) = all.partition(|(number, _)| numbers.contains(number));
        for (_, path) in &gone {
            fs::remove_file(path).expect("remove");
        }
        self.paths = kept.into_iter().map(|(_, path)| path).collect();
        self
    }

    /// It with one more device, as yet empty.
    pub(crate) fn with_room(mut self, size_bytes: u64) -> Self {
        let path = self.dir.path().join(format!("image.{}", self.paths.len()));
        File::create(&path).and_then(|file| file.set_len(size_bytes)).expect("image file");
        self.paths.push(path);
        self
    }

    fn empty(count: usize) -> Self {
        let dir = tempfile::Builder::new().prefix("btrpress-oracle-").tempdir().expect("tempdir");
        let paths = (0..count).map(|number| match number {
            0 => dir.path().join("image"),
            _ => dir.path().join(format!("image.{number}")),
        });
        let paths = paths.collect();
        Self { dir, paths }
    }

    /// The image of the first device.
    pub(crate) fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// The images of all devices.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Lets programs look at it that find a filesystem's devices only among block devices; gives what to name to
    /// them.
    pub(crate) fn attach(&self) -> Attached {
        if self.paths.len() == 1 {
            return Attached { path: self.paths[0].clone(), _still: None, devices: Vec::new() };
        }
        let devices = self.paths.iter().map(|path| Loop::attach(path));
        let devices: Vec<_> = devices.collect::<Result<_, _>>().expect("loop devices");
        let still = Some(LOOPS.read().unwrap_or_else(PoisonError::into_inner));
        Attached { path: devices[0].device.clone().into(), _still: still, devices }
    }

    /// Mounts it, with `noatime` always, so that looking changes nothing.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub(crate) fn mount(&self, options: &str) -> Mount {
        self.try_mount(options).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    /// Mounts it, or says what the kernel has against that.
    pub(crate) fn try_mount(&self, options: &str) -> Result<Mount, String> {
        Mount::try_new(&self.paths, options)
    }

    /// Mounts it as it is without some of its devices, which are counted from 0.
    pub(crate) fn try_mount_without(
        &self,
        numbers: &[usize],
        options: &str,
    ) -> Result<Mount, String> {
        let all = self.paths.iter().enumerate();
        let there = all.filter(|(number, _)| !numbers.contains(number));
        let there: Vec<PathBuf> = there.map(|(_, path)| path.clone()).collect();
        Mount::try_new(&there, &format!("{options},degraded"))
    }

    /// A number that tells two images apart exactly when a byte differs.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = XxHash64::with_seed(0);
        self.paths.iter().for_each(|path| Self::add_digest(path, &mut hasher));
        hasher.finish()
    }

    fn add_digest(path: &Path, hasher: &mut XxHash64) {
        let file = File::open(path).expect("image file");
        let mut block = vec![0; DIGEST_BLOCK_BYTES as usize];
        let mut next_bytes = 0;
        // A hole and written zeros are the same bytes: holes are jumped over, zeros left out.
        while let Ok(data_bytes) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(next_bytes)) {
            let at_bytes = data_bytes / DIGEST_BLOCK_BYTES * DIGEST_BLOCK_BYTES;
            let count = file.read_at(&mut block, at_bytes).expect("image file");
            if block[..count].iter().any(|byte| *byte != 0) {
                hasher.write(&at_bytes.to_le_bytes());
                hasher.write(&block[..count]);
            }
            next_bytes = at_bytes + DIGEST_BLOCK_BYTES;
        }
    }

    /// Flips one bit of the first place where `needle` stands in the image.
    ///
    /// # Panics
    /// When it stands nowhere.
    pub(crate) fn flip_bit_in(&self, needle: &[u8]) {
        let bytes = fs::read(self.path()).expect("image file");
        let at_bytes = bytes
            .windows(needle.len())
            .position(|window| window == needle)
            .expect("the needle is in the image");
        let file = File::options().write(true).open(self.path()).expect("image file");
        file.write_all_at(&[bytes[at_bytes] ^ 1], at_bytes as u64).expect("image file");
    }
}

/// An image whose devices programs can find for as long as this lives.
pub(crate) struct Attached {
    path: PathBuf,
    // Given up before the devices go.
    _still: Option<RwLockReadGuard<'static, ()>>,
    devices: Vec<Loop>,
}

impl Attached {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What to name each device to them, where that takes a device at all.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        if self.devices.is_empty() {
            return vec![self.path.clone()];
        }
        self.devices.iter().map(|device| PathBuf::from(&device.device)).collect()
    }
}

/// Held while loop devices come and go: programs that look through all block devices fail when one of them does.
static LOOPS: RwLock<()> = RwLock::new(());

/// A loop device over an image file.
pub(crate) struct Loop {
    pub(crate) device: String,
    file: PathBuf,
}

impl Loop {
    pub(crate) fn attach(file: &Path) -> Result<Self, String> {
        let args = ["--find".as_ref(), "--show".as_ref(), file.as_os_str()];
        let _changing = LOOPS.write().unwrap_or_else(PoisonError::into_inner);
        // Two processes may be handed the same free device; the loser asks again.
        let device = patiently(|| {
            let output = tool::output("losetup", &args);
            if output.status.success() {
                return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
            }
            Err(tool::failure("losetup", &args, &output))
        })?;
        Ok(Self { device, file: file.to_owned() })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _changing = LOOPS.write().unwrap_or_else(PoisonError::into_inner);
        // The kernel remembers filesystems by uuid; a copy of this image must not meet its ghost.
        tool::output("btrfs", &["device", "scan", "--forget", &self.device]);
        let detached = patiently(|| {
            tool::output("losetup", &["--detach", &self.device]);
            let backing = format!("/sys/block/{}/loop/backing_file", &self.device["/dev/".len()..]);
            let file = fs::read_to_string(backing).unwrap_or_default();
            let file = file.trim_end_matches('\n').trim_end_matches(" (deleted)");
            // By now it may be another program's.
            if Path::new(file) == self.file { Err(file.to_owned()) } else { Ok(()) }
        });
        if let Err(backing) = detached {
            eprintln!("{} stays attached: {backing}", self.device);
        }
    }
}

/// A kernel mount of an image.
pub(crate) struct Mount {
    // Dropped in this order: the loop devices go after `drop` has unmounted them.
    devices: Vec<Loop>,
    at: TempDir,
    log_marker: String,
    mounted: bool,
}

impl Mount {
    fn try_new(files: &[PathBuf], options: &str) -> Result<Self, String> {
        let at = tempfile::Builder::new().prefix("btrpress-mount-").tempdir().expect("tempdir");
        let devices = files.iter().map(|file| Loop::attach(file)).collect::<Result<Vec<_>, _>>()?;
        let log_marker = mark_kernel_log();
        let mut mount = Self { devices, at, log_marker, mounted: false };
        let mut options = format!("noatime,subvolid=5,{options}");
        for device in &mount.devices[1..] {
            options.push_str(",device=");
            options.push_str(&device.device);
        }
        let at = mount.at.path().to_str().expect("temporary paths are UTF-8");
        let args = ["-t", "btrfs", "-o", &options, &mount.devices[0].device, at];
        let output = tool::output("mount", &args);
        if !output.status.success() {
            let log = mount.kernel_complaints().join("\n");
            return Err(format!("{}{log}", tool::failure("mount", &args, &output)));
        }
        mount.mounted = true;
        Ok(mount)
    }

    /// Where the top-level subvolume is mounted.
    pub(crate) fn root(&self) -> &Path {
        self.at.path()
    }

    /// `path` below the mount, as text for a command.
    pub(crate) fn at(&self, path: &str) -> String {
        self.root().join(path).to_str().expect("paths given as text").to_owned()
    }

    /// Has everything written so far reach the image.
    pub(crate) fn sync(&self) {
        tool::run("btrfs", &["filesystem", "sync", &self.at("")]);
    }

    /// What the kernel has logged against this filesystem since it was mounted.
    pub(crate) fn kernel_complaints(&self) -> Vec<String> {
        let log = tool::run("dmesg", &[] as &[&str]);
        let since = log.rfind(&self.log_marker).map_or("", |at| &log[at..]);
        let names = self.devices.iter().map(|device| &device.device["/dev/".len()..]);
        let devices: Vec<_> = names.map(|name| format!("(device {name}")).collect();
        since
            .lines()
            .filter(|line| {
                devices.iter().any(|device| line.contains(device))
                    && !HARMLESS.iter().any(|mark| line.contains(mark))
            })
            .map(|line| format!("kernel log: {line}"))
            .collect()
    }

    /// Unmounts it; what the kernel said against it until the end.
    pub(crate) fn unmount(mut self) -> Vec<String> {
        self.release();
        self.kernel_complaints()
    }

    fn release(&mut self) {
        if !self.mounted {
            return;
        }
        self.mounted = false;
        let at = self.at.path().as_os_str();
        let unmounted = patiently(|| {
            let output = tool::output("umount", &[at]);
            if output.status.success() {
                return Ok(());
            }
            Err(tool::failure("umount", &[at], &output))
        });
        if let Err(refusal) = unmounted {
            eprintln!("{refusal}");
            tool::output("umount", &["--lazy".as_ref(), at]);
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.release();
    }
}

/// Tries again for some seconds what fails only while someone else is busy.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    for _ in 1..ATTEMPT_COUNT {
        if let Ok(done) = attempt() {
            return Ok(done);
        }
        sleep(ATTEMPT_PAUSE);
    }
    attempt()
}

/// Writes a line into the kernel's log that later lines can be told from.
fn mark_kernel_log() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let marker = format!("btrpress oracle {}.{count} begins", std::process::id());
    File::options()
        .write(true)
        .open("/dev/kmsg")
        .and_then(|mut log| log.write_all(marker.as_bytes()))
        .expect("root can write to the kernel log");
    marker
}
