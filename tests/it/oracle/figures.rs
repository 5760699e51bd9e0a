//! The figures that the README states: the large tree recompressed here, and by the kernel.

use super::image::{Image, Mount};
use super::{NONE, big_tree, press, workload};
use crate::tool;

const TO: [&str; 2] = ["zstd:3", "zstd:15"];

#[test]
#[ignore = "prints what the README states, and demands nothing"]
fn the_figures_of_the_readme() {
    if !tool::kernel_can_judge("the README's figures") {
        return;
    }
    let image = Image::mkfs(3 << 30, &[]);
    let mount = image.mount("rw");
    workload::grow(&mount, big_tree::MEGABYTES);
    mount.sync();
    show("before", &mount);
    assert_eq!(mount.unmount(), NONE);

    let by_kernel = image.copy();
    let mount = by_kernel.mount("rw");
    let subvolumes = workload::SUBVOLUMES.map(|name| mount.at(name));
    let mut command = vec!["filesystem", "defragment", "-r", "-czstd"];
    command.extend(subvolumes.iter().map(String::as_str));
    tool::run("btrfs", &command);
    mount.sync();
    show("btrfs filesystem defragment -r -czstd", &mount);
    mount.unmount();

    for to in TO {
        let by_us = image.copy();
        press::recompress(&by_us, to);
        let mount = by_us.mount("ro");
        show(&format!("btrpress --batch recompress --to {to}"), &mount);
        mount.unmount();
    }
}

/// Prints the space that data and metadata take, and what compsize counts.
fn show(what: &str, mount: &Mount) {
    let usage = tool::run("btrfs", &["filesystem", "df", "-b", &mount.at("")]);
    let table = tool::run("compsize", &["-b", &mount.at("")]);
    println!("{what}\n{usage}{table}");
}
