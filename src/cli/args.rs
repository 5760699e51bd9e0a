//! The words that can be typed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use btrpress::compress::Target;
use btrpress::report::Units;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::limits;
use super::open::Place;

const EXAMPLES: &str = "\
Examples:
  btrpress /dev/sdb1                                    look around in the interactive UI
  btrpress --demo                                       the same on a built-in image
  btrpress report /dev/sdb1                             what compsize would say of all of it
  btrpress ls disk.img home/mia                         a directory, with what each file takes
  btrpress cat disk.img home/mia/notes.txt > notes      a file's contents
  btrpress recompress disk.img --to zstd:15 --dry-run   what recompressing would do
  btrpress --batch recompress disk.img --to zstd:15     do it, and ask nothing

Exit status:
  0  done
  1  failed, or stopped by a signal or limit; the filesystem is as of the last commit
  2  wrong usage
  3  refused: in use, or in a state that must not be written; the filesystem is as of the last commit
  4  done, but some extents were skipped because their data is damaged
  5  stopped for lack of space; what was done stays done";

const REPORT_EXAMPLES: &str = "\
Examples:
  btrpress report disk.img                              everything, every snapshot included
  btrpress report disk.img --path home --path srv -b    two subvolumes together, in bytes
  btrpress report disk.img --path home --depth 2        a line for each directory, two levels deep
  btrpress report disk.img --per-file --json            all there is to know, for a program";

const RECOMPRESS_EXAMPLES: &str = "\
Examples:
  btrpress recompress disk.img --to zstd:15 --dry-run
  btrpress --batch recompress /dev/sdb1 --to zstd:15
  btrpress --batch recompress disk.img --to lzo --path home --exclude '*.iso' --only-uncompressed
  btrpress --batch recompress disk.img --to none
  btrpress --batch recompress /dev/sdb1 --to zstd:19 --max-time 8h   # as far as it gets tonight";

const DEFRAG_EXAMPLES: &str = "\
Examples:
  btrpress defrag disk.img --dry-run
  btrpress --batch defrag disk.img --path system";

/// Shows what an unmounted Btrfs filesystem really costs on disk, and recompresses it with sharing kept.
///
/// Without a command the interactive UI opens. A DEVICE is a block device or an image file; DEVICE:N is partition N
/// inside it. The other devices of a filesystem that has several are found by themselves.
#[derive(Debug, Parser)]
#[command(
    name = "btrpress",
    version,
    after_help = EXAMPLES,
    subcommand_precedence_over_arg = true,
    args_conflicts_with_subcommands = false,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Block devices or image files to look at in the interactive UI.
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,

    /// Use a private copy of the built-in demo image in place of a DEVICE.
    #[arg(long, global = true)]
    pub(crate) demo: bool,

    /// The filesystem is in partition N of DEVICE [default: the only one with a Btrfs filesystem].
    #[arg(long, global = true, value_name = "N", conflicts_with = "offset")]
    pub(crate) partition: Option<u32>,

    /// The filesystem starts so many bytes from the start of DEVICE.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(crate) offset: Option<u64>,

    /// Ask nothing.
    #[arg(long, global = true)]
    pub(crate) batch: bool,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

impl Cli {
    /// Where on the devices the filesystem is.
    pub(crate) const fn place(&self) -> Place {
        match (self.demo, self.partition, self.offset) {
            (true, ..) => Place::Demo,
            (_, Some(number), _) => Place::Partition(number),
            (_, _, Some(start)) => Place::Offset(start),
            _ => Place::Whole,
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what is stored and what it takes, as compsize does.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// List a directory with what each file takes on disk.
    #[command(override_usage = "btrpress ls [OPTIONS] DEVICE... [PATH]")]
    Ls(PathArgs),
    /// Write a file's contents, verified, to standard output.
    #[command(override_usage = "btrpress cat DEVICE... PATH")]
    Cat(PathArgs),
    /// Encode data anew, at a chosen algorithm and level.
    #[command(after_help = RECOMPRESS_EXAMPLES)]
    Recompress(RecompressArgs),
    /// Join fragmented extents; each keeps its algorithm.
    #[command(after_help = DEFRAG_EXAMPLES)]
    Defrag(DefragArgs),
    /// Compare everything that must agree, and change nothing.
    Check(CheckArgs),
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page.
    Man,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Block devices or image files of one filesystem.
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,

    /// A subvolume, directory or file to count, as seen from the top-level subvolume [default: everything].
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Sizes in bytes.
    #[arg(short, long)]
    pub(crate) bytes: bool,

    /// One JSON document with sizes in bytes.
    #[arg(long)]
    pub(crate) json: bool,

    /// A line for each file.
    #[arg(long, conflicts_with = "depth")]
    pub(crate) per_file: bool,

    /// A line for each directory that is at most N levels below the top or a PATH.
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
}

impl ReportArgs {
    pub(crate) const fn units(&self) -> Units {
        if self.bytes { Units::Bytes } else { Units::Human }
    }
}

/// Arguments of all commands that write.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct RunArgs {
    /// Block devices or image files of one filesystem.
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,

    /// A subvolume, directory or file to rewrite, as seen from the top-level subvolume [default: everything].
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Leave out what matches: names, or whole paths if there is a slash in it.
    #[arg(long = "exclude", value_name = "GLOB")]
    pub(crate) excludes: Vec<String>,

    /// Stop at a commit after so long: seconds, or 90s, 10m, 2h, 1d. Counts from the start, the check included.
    #[arg(long, value_name = "DURATION", value_parser = limits::duration)]
    pub(crate) max_time: Option<Duration>,

    /// Stop at a commit before more than this is written: bytes, or 500K, 10M, 2G, 1T. Counts what goes to all devices,
    /// with every copy; only metadata of the last commit may come on top.
    #[arg(long, value_name = "BYTES", value_parser = limits::bytes)]
    pub(crate) max_write: Option<u64>,

    /// Do everything but write.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Skip the check of all metadata before the first write.
    #[arg(long)]
    pub(crate) no_check: bool,

    /// Progress and summary as JSON lines, sizes in bytes.
    #[arg(long)]
    pub(crate) json: bool,

    /// Tell of each commit.
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Arguments of `recompress`.
#[derive(Debug, Args)]
pub(crate) struct RecompressArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// none, zlib[:1..12], lzo[:1..13] or zstd[:-15..22].
    #[arg(long, value_name = "ALGO[:LEVEL]")]
    pub(crate) to: Target,

    /// Leave compressed extents alone.
    #[arg(long)]
    pub(crate) only_uncompressed: bool,

    /// Rewrite only what gets smaller by so many percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) min_gain: Option<f64>,

    /// Rewrite also what does not get smaller.
    #[arg(long)]
    pub(crate) force: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("give a number from 0 to 100".to_owned()),
    }
}

/// Arguments of `defrag`.
#[derive(Debug, Args)]
pub(crate) struct DefragArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Block devices or image files of one filesystem.
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,

    /// Also read every copy of all data and metadata.
    #[arg(long)]
    pub(crate) data: bool,

    /// One JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of commands about one path.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// The devices of a filesystem, then the path of a directory or file as seen from the top-level subvolume.
    #[arg(value_names = ["DEVICE", "PATH"], num_args = 0.., required = false)]
    words: Vec<OsString>,

    /// Sizes in bytes.
    #[arg(short, long)]
    bytes: bool,
}

impl PathArgs {
    pub(crate) const fn units(&self) -> Units {
        if self.bytes { Units::Bytes } else { Units::Human }
    }

    /// The devices and the path. A single word is a device, unless the demo stands in its place.
    pub(crate) fn split(&self, is_demo: bool) -> (Vec<PathBuf>, Vec<u8>) {
        match self.words.split_last() {
            Some((path, devices)) if is_demo || !devices.is_empty() => {
                (devices.iter().map(PathBuf::from).collect(), path.clone().into_vec())
            }
            Some((device, _)) => (vec![PathBuf::from(device)], Vec::new()),
            None => (Vec::new(), Vec::new()),
        }
    }
}
