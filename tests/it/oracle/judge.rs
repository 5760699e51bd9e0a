//! Whether the kernel and its tools still find everything in a filesystem as it was.

use std::collections::BTreeSet;
use std::path::Path;

use super::image::Image;
use super::layout::Layout;
use super::manifest::Manifest;
use super::press;
use crate::tool;

/// Images above this size are spared the slow second mode of `btrfs check`.
const LOWMEM_BYTES: u64 = 1 << 30;

/// What `btrfs check` says about a filesystem that it has nothing against.
const CONTENT_WITH: [&str; 15] = [
    "Opening filesystem to check...",
    "Checking filesystem on ",
    "UUID: ",
    "[",
    "found ",
    "total csum bytes: ",
    "total tree bytes: ",
    "total fs tree bytes: ",
    "total extent tree bytes: ",
    "btree space waste bytes: ",
    "file data blocks allocated: ",
    " referenced ",
    OTHERS_GONE,
    // Quotas are counted anew by the kernel at the next mount.
    "Qgroup rescan is running, qgroups will not be printed",
    // Free space caches of the first kind are rebuilt at the next mount, as after any tool's write.
    "cache and super generation don't match, space cache will be invalidated",
];

/// `btrfs check` looks through all block devices for members, and those of other tests come and go: then it may fail
/// before it has begun.
const OTHERS_GONE: &str = "ERROR: cannot scan /dev/loop";
/// What `btrfs check` says of a feature that its version does not know.
const UNKNOWN: &str = "unsupported option features";
/// Times to begin anew when that happens.
const TRIES: usize = 20;

/// A filesystem as it was before a run.
pub(crate) struct Truth {
    pub(crate) manifest: Manifest,
    pub(crate) layout: Layout,
}

impl Truth {
    pub(crate) fn of(image: &Image) -> Self {
        let mount = image.mount("ro");
        let manifest = Manifest::read(mount.root());
        assert_eq!(mount.unmount(), [""; 0]);
        let truth = Self { manifest, layout: Layout::read(image.attach().path()) };
        eprintln!("before: {}", truth.layout.summary());
        truth
    }

    /// Everything that is wrong with `image` now; nothing when it is the same filesystem as
    /// before, with what was shared still shared.
    pub(crate) fn complaints(&self, image: &Image) -> Vec<String> {
        let mut complaints = check(image);
        complaints.extend(self.complaints_about_contents(image));
        let layout = Layout::read(image.attach().path());
        eprintln!("now: {}", layout.summary());
        complaints.extend(self.layout.lost_sharing(&layout));
        complaints.extend(scrub(image));
        complaints
    }

    /// What a user would find changed, in the files or in what they are counted as.
    pub(crate) fn complaints_about_contents(&self, image: &Image) -> Vec<String> {
        let mount = match image.try_mount("ro") {
            Ok(mount) => mount,
            Err(refusal) => return vec![refusal],
        };
        let mut complaints = self.manifest.differences(&Manifest::read(mount.root()));
        complaints.extend(self.complaints_about_usage(mount.root()));
        complaints.extend(mount.unmount());
        complaints
    }

    /// `btrfs filesystem du` may count no byte as exclusive that was shared before.
    fn complaints_about_usage(&self, root: &Path) -> Vec<String> {
        let shared = self.layout.shared_bytes();
        let list = tool::run("btrfs", &["subvolume".as_ref(), "list".as_ref(), root.as_os_str()]);
        let mut complaints = Vec::new();
        for line in list.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(tree), Some((_, path))) = (words.get(1), line.split_once(" path ")) else {
                continue;
            };
            let tree: u64 = tree.parse().expect("a subvolume has a number");
            let shared_bytes = shared.get(&tree).copied().unwrap_or_default();
            let (total_bytes, exclusive_bytes) = usage(&root.join(path));
            if total_bytes - exclusive_bytes < shared_bytes {
                complaints.push(format!(
                    "{path}: {shared_bytes} bytes were shared, now `btrfs filesystem du` has \
                     {total_bytes} bytes of which {exclusive_bytes} are exclusive"
                ));
            }
        }
        complaints
    }
}

/// Total and exclusive bytes of a subvolume.
fn usage(path: &Path) -> (u64, u64) {
    let args = ["filesystem", "du", "--raw", "-s"];
    let args: Vec<_> = args.iter().map(AsRef::as_ref).chain([path.as_os_str()]).collect();
    let table = tool::run("btrfs", &args);
    let row = table.lines().last().expect("a row for the path");
    let mut numbers = row.split_whitespace().map(|word| word.parse().expect("a byte count"));
    (numbers.next().expect("total"), numbers.next().expect("exclusive"))
}

/// What `btrfs check` has against an unmounted image, in both of its modes, and against the copies
/// of its superblock, which `btrfs check` does not look at. Where its version does not know a feature of the image, our
/// own check, which knows what the kernel makes of it, takes its place.
pub(crate) fn check(image: &Image) -> Vec<String> {
    let attached = image.attach();
    let mut complaints = check_in_mode(attached.path(), "original");
    image.paths().iter().for_each(|path| complaints.extend(check_superblocks(path)));
    if image.path().metadata().expect("image file").len() <= LOWMEM_BYTES {
        complaints.extend(check_in_mode(attached.path(), "lowmem"));
    }
    complaints
}

/// Every copy must carry a right checksum and the same generation.
fn check_superblocks(image: &Path) -> Vec<String> {
    let args = ["inspect-internal".as_ref(), "dump-super".as_ref(), "--all".as_ref()];
    let dump = tool::run("btrfs", &[&args[..], &[image.as_os_str()]].concat());
    let lines_with = |start| dump.lines().filter(move |line: &&str| line.starts_with(start));
    let mut complaints = Vec::new();
    let wrong = lines_with("csum\t").filter(|line| !line.contains("[match]"));
    complaints.extend(wrong.map(|line| format!("superblock: {line}")));
    let generations: BTreeSet<&str> = lines_with("generation\t").collect();
    if generations.len() != 1 {
        complaints.push(format!("superblocks differ: {generations:?}"));
    }
    complaints
}

/// What `btrfs check` has against an unmounted image, in one of its modes.
pub(crate) fn check_in_mode(image: &Path, mode: &str) -> Vec<String> {
    let mode = format!("--mode={mode}");
    let args = ["check".as_ref(), "--readonly".as_ref(), mode.as_ref(), image.as_os_str()];
    let (status, said) = (0..TRIES)
        .map(|_| {
            let output = tool::output("btrfs", &args);
            let said = [output.stdout, output.stderr].concat();
            (output.status, String::from_utf8_lossy(&said).into_owned())
        })
        .find(|(status, said)| status.success() || !said.contains(OTHERS_GONE))
        .expect("other loop devices rest at times");
    if said.contains(UNKNOWN) {
        return press::check(image);
    }
    let mut complaints: Vec<String> = said
        .lines()
        .filter(|line| !CONTENT_WITH.iter().any(|known| line.starts_with(known)))
        .map(|line| format!("btrfs check {mode}: {line}"))
        .collect();
    if !status.success() || !said.contains("no error found") {
        complaints.push(format!("btrfs check {mode} ended with {status}"));
    }
    complaints
}

/// What `btrfs scrub`, on a mount that may write, has against an image.
fn scrub(image: &Image) -> Vec<String> {
    let mount = match image.try_mount("rw") {
        Ok(mount) => mount,
        Err(refusal) => return vec![refusal],
    };
    let mut complaints = Vec::new();
    let args = ["scrub", "start", "-B", &mount.at("")];
    let output = tool::output("btrfs", &args);
    let clean = String::from_utf8_lossy(&output.stdout).contains("no errors found");
    if !output.status.success() || !clean {
        complaints.push(tool::failure("btrfs", &args, &output));
    }
    complaints.extend(mount.unmount());
    complaints
}
