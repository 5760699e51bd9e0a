#!/bin/bash
# Makes demo.img.zst, the image behind --demo: a small server's home and system subvolumes with a
# few days of snapshots. The kernel writes all of it. Run as root; needs btrfs-progs, python3, zstd.
set -eu
export PATH="$PATH:/usr/sbin:/sbin"
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
mnt="$work/mnt"
trap 'umount "$mnt" 2>/dev/null || true; rm -rf "$work"' EXIT

py() { python3 "$here/make-demo.py" "$@"; }
freeze() { # SUBVOLUME NAME [-r]
    sync -f "$mnt"
    btrfs -q subvolume snapshot ${3:-} "$mnt/$1" "$mnt/snapshots/$1-$2"
}

mkdir "$mnt"
truncate -s 512M "$work/demo.img"
mkfs.btrfs -q -L demo "$work/demo.img"
mount -o loop,noatime "$work/demo.img" "$mnt"
for subvolume in home system snapshots home/mia/machines; do
    mkdir -p "$(dirname "$mnt/$subvolume")"
    btrfs -q subvolume create "$mnt/$subvolume"
done

# What is compressed already, as each option would have left it.
mkdir -p "$mnt/system/var/log/archive" "$mnt/system/usr/share/doc" "$mnt/home/mia/backup"
btrfs property set "$mnt/system/var/log/archive" compression zlib
btrfs property set "$mnt/system/usr/share/doc" compression zstd
btrfs property set "$mnt/home/mia/backup" compression lzo
mkdir "$mnt/system/var/lib"
chattr +C "$mnt/system/var/lib" # as databases are often kept
py first "$mnt"

fallocate -l 8M "$mnt/home/mia/machines/scratch.raw"
truncate -s 64M "$mnt/home/mia/machines/disk.raw"
cp -a --reflink=always "$mnt/home/mia/projects/tracker" "$mnt/home/mia/projects/tracker-before-rewrite"
cp --reflink=always "$mnt/home/mia/data/sensors-03.csv" "$mnt/home/mia/data/sensors-03 (copy).csv"
ln "$mnt/home/mia/data/orders-1.json" "$mnt/home/mia/orders.json"
ln -s ../data "$mnt/home/mia/projects/data"
freeze home day-1 -r
freeze system day-1 -r
for day in 2 3 4 5; do
    py day "$mnt" "$day"
    freeze home "day-$day" "$([ $((day % 2)) = 0 ] || echo -r)"
    freeze system "day-$day" -r
done
py day "$mnt" 6
btrfs -q subvolume delete --commit-after "$mnt/snapshots/system-day-2"
btrfs -q subvolume sync "$mnt"
sync -f "$mnt"
fstrim "$mnt"
compsize "$mnt" || true
umount "$mnt"
btrfs check --readonly "$work/demo.img"
zstd -q -f --ultra -22 --long=27 "$work/demo.img" -o "$here/demo.img.zst"
ls -l "$here/demo.img.zst"
