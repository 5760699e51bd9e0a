#!/bin/bash
# Times btrpress against compsize and the kernel's defragmentation, on a filesystem in an image file with a copy of
# DIRECTORY and two read-only snapshots of it. Runs as root.
#
#     tests/bench/against-others.sh DIRECTORY [MEGABYTES]
set -eu
from=$1 size=${2:-20000}
cd "$(dirname "$0")/../.."
export PATH="$PATH:/usr/sbin:/sbin"
cargo build --release --quiet
btrpress=$PWD/target/release/btrpress

work=$(mktemp -d)
trap 'umount -q "$work/mount" || true; rm -rf "$work"' EXIT
mkdir "$work/mount"
truncate -s "${size}M" "$work/image"
mkfs.btrfs --quiet "$work/image"
mount -o loop,noatime "$work/image" "$work/mount"
btrfs --quiet subvolume create "$work/mount/live"
cp -a --reflink=never "$from" "$work/mount/live/"
for number in 1 2; do
    btrfs --quiet subvolume snapshot -r "$work/mount/live" "$work/mount/snapshot.$number"
done
umount "$work/mount"
cp --sparse=always "$work/image" "$work/image.kernel"

# What a command takes, with nothing cached.
seconds() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    local TIMEFORMAT=%R
    { time "$@" >/dev/null 2>&1; } 2>&1
}
used() {
    "$btrpress" report --json "$1" | sed -n 's/^  "disk": \([0-9]*\),/\1/p'
}
defragment() {
    btrfs filesystem defragment -r -czstd "$work/mount/live" && sync
}

printf '%-42s %10s %18s\n' command seconds 'bytes on disk'
row() { printf '%-42s %10s %18s\n' "$@"; }
row 'btrpress report' "$(seconds "$btrpress" report "$work/image")" "$(used "$work/image")"
mount -o loop,ro,noatime "$work/image.kernel" "$work/mount"
row 'compsize' "$(seconds compsize "$work/mount")" ''
umount "$work/mount"
mount -o loop,noatime "$work/image.kernel" "$work/mount"
took=$(seconds defragment)
umount "$work/mount"
row 'btrfs filesystem defragment -r -czstd live' "$took" "$(used "$work/image.kernel")"
for to in lzo zstd:3 zstd:15; do
    cp --sparse=always "$work/image" "$work/image.ours"
    took=$(seconds "$btrpress" --batch recompress "$work/image.ours" --to "$to")
    row "btrpress --batch recompress --to $to" "$took" "$(used "$work/image.ours")"
done
