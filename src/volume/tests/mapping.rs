//! Where bytes are, and that they come back.

use super::*;

/// Fills a chunk with noise, then overwrites ranges of many lengths and alignments. Gives what it then holds.
fn fill(volume: &Volume) -> Vec<u8> {
    let chunk = volume.chunk_at(Logical(START)).unwrap();
    let mut model = noise(1, chunk.length as usize);
    volume.write(Logical(START), &model).unwrap();
    let sectors = model.len() / 4096;
    for seed in 2..30 {
        let random = noise(seed, 4);
        let start = usize::from(u16::from_le_bytes([random[0], random[1]])) % sectors;
        let len = (usize::from(random[2]) % 40 + 1).min(sectors - start);
        let bytes = noise(seed + 100, len * 4096);
        let at = start * 4096;
        volume.write(Logical(START + at as u64), &bytes).unwrap();
        model[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    model
}

#[test]
fn what_is_written_is_read_in_every_way() {
    for (flags, count) in PROFILES {
        let devices = devices(count);
        let volume = volume(&devices, &[], BlockGroupFlags::DATA | flags, 6);
        let model = fill(&volume);
        let mut read = vec![0; model.len()];
        for copy in 0..volume.copies(Logical(START)).unwrap() {
            read.fill(0);
            volume.read_copy(Logical(START), copy, &mut read).unwrap();
            assert!(read == model, "{flags:?} of {count}, copy {copy}");
        }
    }
}

#[test]
fn what_is_redundant_is_read_with_devices_missing() {
    for (flags, count) in PROFILES {
        let flags = BlockGroupFlags::DATA | flags;
        let devices = devices(count);
        let model = fill(&volume(&devices, &[], flags, 6));
        let mut read = vec![0; model.len()];
        for one in 1..=count {
            for two in 1..=count {
                let missing = [one, two];
                let lost = if one == two { 1 } else { 2 };
                let can_lose = match Profile::of(flags).unwrap() {
                    Profile::Single | Profile::Dup | Profile::Raid0 => 0,
                    Profile::Raid1 | Profile::Raid5 => 1,
                    // Two of one pair are too many.
                    Profile::Raid10 => 1 + u64::from((one - 1) / 2 != (two - 1) / 2),
                    Profile::Raid1c3 | Profile::Raid6 => 2,
                    Profile::Raid1c4 => 3,
                };
                if lost == count {
                    continue;
                }
                let volume = volume(&devices, &missing, flags, 6);
                read.fill(0);
                let good = (0..model.len()).step_by(4096).all(|at| {
                    let sector = &mut read[at..at + 4096];
                    volume.read_any(Logical(START + at as u64), sector).is_ok()
                });
                assert_eq!(good, lost <= can_lose, "{flags:?} of {count} without {missing:?}");
                assert!(!good || read == model, "{flags:?} of {count} without {missing:?}");
                assert!(matches!(
                    volume.write(Logical(START), &[0; 4096]),
                    Err(Error::Refused(crate::error::Refusal::MissingDevice { .. }))
                ));
            }
        }
    }
}

/// The kernel's layout, written out.
#[test]
fn stripes_are_where_the_kernel_puts_them() {
    let place = |flags, count, element: u64| {
        let devices = devices(count);
        let volume = volume(&devices, &[], BlockGroupFlags::DATA | flags, 6);
        volume.write(Logical(START + element * STRIPE_LEN + 8192), &[0xab; 4096]).unwrap();
        // Device and element within its stripe.
        let mut found = Vec::new();
        for (number, device) in devices.iter().enumerate() {
            let start = STRIPE_START + (number as u64 + 1) * STRIPE_LEN;
            let mut byte = [0];
            for row in 0..6 {
                device.read_at(start + row * STRIPE_LEN + 8192, &mut byte).unwrap();
                if byte[0] != 0 {
                    found.push((number, row));
                }
            }
        }
        found
    };
    assert_eq!(place(BlockGroupFlags::RAID0, 3, 4), [(1, 1)]);
    assert_eq!(place(BlockGroupFlags::RAID10, 6, 4), [(2, 1), (3, 1)]);
    // Data 1 of row 2 of 2 columns: on stripe 0, its P on stripe 1.
    assert_eq!(place(BlockGroupFlags::RAID5, 3, 5), [(0, 2), (1, 2)]);
    // Data 1 of row 3 of 2 columns: on stripe 0, P on 1, Q on 2.
    assert_eq!(place(BlockGroupFlags::RAID6, 4, 7), [(0, 3), (1, 3), (2, 3)]);
}

#[test]
fn superblock_ranges_are_all_that_touch_a_superblock() {
    for (flags, count) in PROFILES {
        let devices = devices(count);
        let mut volume = volume(&devices, &[], BlockGroupFlags::DATA | flags, 1);
        // Stripes over the superblock at 64 MiB, at different distances.
        let mib = 1 << 20;
        let stripes: Vec<_> = if flags == BlockGroupFlags::DUP {
            vec![(1, 62 * mib), (1, 70 * mib)]
        } else {
            (1..=count).map(|devid| (devid, (64 - devid) * mib + devid * 4096)).collect()
        };
        let width = volume.chunk_at(Logical(START)).unwrap().data_width() as u64;
        let flags = BlockGroupFlags::DATA | flags;
        let (item, stripes) = chunk_item(flags, 8 * mib * width, &stripes);
        let logical = 8 << 30;
        volume.add_chunk(Logical(logical), &item, &stripes).unwrap();
        let chunk = volume.chunk_at(Logical(logical)).unwrap();
        let ranges = chunk.superblock_ranges();
        let superblock = SUPERBLOCK_OFFSETS[1]..SUPERBLOCK_OFFSETS[1] + STRIPE_LEN;
        for sector in (0..chunk.length).step_by(4096) {
            let spot = chunk.spot(sector);
            let used = if chunk.profile.parities() > 0 {
                (0..stripes.len()).collect()
            } else {
                (spot.first..spot.first + chunk.plain_copies()).collect::<Vec<_>>()
            };
            let touches = used
                .into_iter()
                .any(|stripe| superblock.contains(&(stripes[stripe].offset.get() + spot.within)));
            let masked = ranges.iter().any(|range| range.contains(&(logical + sector)));
            // With parity, whole rows are masked: more than what touches.
            let more = chunk.profile.parities() > 0;
            assert!(masked == touches || (more && masked), "{flags:?} of {count} at {sector}");
        }
    }
}

/// What is wrong, the address, flags, length and stripes of a chunk.
type Case<'a> = (&'a str, u64, BlockGroupFlags, u64, &'a [(u64, u64)]);

#[test]
fn impossible_chunks_are_refused() {
    let devices = devices(1);
    let mut volume = volume(&devices, &[], BlockGroupFlags::DATA, 4);
    let data = BlockGroupFlags::DATA;
    let mib = 1 << 20;
    let at = 4 << 30;
    let cases: [Case; 15] = [
        ("no stripes", at, data, mib, &[]),
        ("too many stripes", at, data, mib, &[(1, 0), (2, 0)]),
        ("too few for raid1", at, data | BlockGroupFlags::RAID1, mib, &[(1, 0)]),
        ("odd raid10", at, data | BlockGroupFlags::RAID10, mib, &[(1, 0), (2, 0), (3, 0)]),
        ("raid6 of two", at, data | BlockGroupFlags::RAID6, mib, &[(1, 0), (2, 0)]),
        ("two profiles", at, BlockGroupFlags::DUP | BlockGroupFlags::RAID1 | data, mib, &[(1, 0)]),
        ("one device twice", at, data | BlockGroupFlags::RAID1, mib, &[(1, 0), (1, mib)]),
        ("no type", at, BlockGroupFlags::empty(), mib, &[(1, 0)]),
        ("unknown flag", at, BlockGroupFlags::from_bits_retain(1 << 40 | 1), mib, &[(1, 0)]),
        ("no length", at, data, 0, &[(1, 0)]),
        ("odd length", at, data, 4097, &[(1, 0)]),
        ("uneven rows", at, data | BlockGroupFlags::RAID0, 3 << 16, &[(1, 0), (2, 0)]),
        ("end above all", u64::MAX - 4095, data, mib, &[(1, 0)]),
        ("stripe above all", at, data, mib, &[(1, u64::MAX - 4095)]),
        ("overlap", START + 4096, data, mib, &[(1, 0)]),
    ];
    for (what, at, flags, length, stripes) in cases {
        let (item, stripes) = chunk_item(flags, length, stripes);
        let error = volume.add_chunk(Logical(at), &item, &stripes).expect_err(what);
        assert!(error.is_corrupt(), "{what}: {error}");
    }
    assert_eq!(volume.chunks().len(), 2);
}

#[test]
fn a_chunk_may_be_made_known_twice() {
    let devices = devices(1);
    let mut volume = volume(&devices, &[], BlockGroupFlags::DATA, 4);
    let stripes = [(1, STRIPE_START + STRIPE_LEN)];
    let (item, same) = chunk_item(BlockGroupFlags::DATA, 4 * STRIPE_LEN, &stripes);
    volume.add_chunk(Logical(START), &item, &same).unwrap();
    let (item, other) = chunk_item(BlockGroupFlags::DATA, 4 * STRIPE_LEN, &[(1, 0)]);
    assert!(volume.add_chunk(Logical(START), &item, &other).is_err());
}

#[test]
fn ranges_that_leave_a_chunk_are_refused() {
    let devices = devices(1);
    let volume = volume(&devices, &[], BlockGroupFlags::DATA, 1);
    let last = Logical(START + STRIPE_LEN - 4096);
    let damage = |result: Result<()>| match result {
        Err(Error::Corrupt { damage, .. }) => damage,
        other => panic!("{other:?}"),
    };
    volume.read_any(last, &mut [0; 4096]).unwrap();
    let chunk = Logical(START);
    assert_eq!(
        damage(volume.read_any(last, &mut [0; 8192])),
        Damage::ChunkEnd { chunk, len: 8192 }
    );
    assert_eq!(damage(volume.write(last, &[0; 8192])), Damage::ChunkEnd { chunk, len: 8192 });
    let at = Logical(START + STRIPE_LEN);
    assert_eq!(damage(volume.read_any(at, &mut [0])), Damage::NoChunk { at });
}

#[test]
fn free_space_is_given_back_where_no_parity_is() {
    let devices = devices(2);
    let volume = volume(&devices, &[], BlockGroupFlags::DATA | BlockGroupFlags::RAID0, 2);
    volume.discard(Logical(START + 4096), 3 * STRIPE_LEN).unwrap();
    volume.discard(Logical(START + 4096), 4 * STRIPE_LEN).unwrap_err();
}
