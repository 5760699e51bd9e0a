//! One large tree through every algorithm, one after the other on the same image.

use super::image::Image;
use super::judge::Truth;
use super::{NONE, afterlife, compsize, press, workload};
use crate::tool;

/// In this order: compress, change the algorithm three times, decompress.
const TARGETS: [&str; 5] = ["zstd:3", "lzo", "zlib:9", "zstd:19", "none"];
pub(super) const MEGABYTES: u64 = 70;
const AT_LEAST_BYTES: u64 = 150 << 20;
/// Paths that are reported on their own.
const PATHS: [&str; 9] = [
    "home",
    "snaps",
    "snaps/srv.2-ro",
    "home/big/text",
    "home/big/noise",
    "home/clones",
    "srv/sizes",
    "srv/links",
    "srv/deep-moved",
];

#[test]
fn a_large_tree_survives_every_change_of_algorithm_and_lives_on() {
    if !tool::kernel_can_judge("the large tree of every shape of file") {
        return;
    }
    let image = Image::mkfs(2 << 30, &[]);
    let mount = image.mount("rw");
    workload::grow(&mount, MEGABYTES);
    assert_eq!(mount.unmount(), NONE);
    let truth = Truth::of(&image);
    assert!(truth.layout.disk_bytes() >= AT_LEAST_BYTES, "{}", truth.layout.summary());
    assert_eq!(truth.layout.extents_by_compression()[1..], [0; 3], "made uncompressed");

    for target in TARGETS {
        let summary = press::recompress(&image, target);
        assert!(summary.extents_rewritten > 0 && summary.commits > 0, "{target}: {summary:?}");
        let rewritten = image.digest();
        let again = press::recompress(&image, target);
        let written = (again.extents_rewritten, again.bytes_written, again.commits);
        assert_eq!(written, (0, 0, 0), "{target} once more: {again:?}");
        assert_eq!(again.disk_before, again.disk_after, "{target} once more");
        assert_eq!(again.disk_before, summary.disk_after, "{target} once more");
        assert_eq!(image.digest(), rewritten, "{target} once more: the image has changed");

        assert_eq!(truth.complaints(&image), NONE, "after {target}");
        assert_eq!(compsize::differences(&image, &PATHS), NONE, "after {target}");
        let copy = image.copy();
        assert_eq!(afterlife::complaints(&truth, &copy), NONE, "in the afterlife of {target}");
    }
}
