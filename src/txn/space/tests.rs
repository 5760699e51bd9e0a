//! Finding free space.

use super::*;

const GROUP: u64 = 1 << 30;

/// One block group for data, with holes of 8 KiB, 8 KiB apart, in its first `holes * 16` KiB, and free behind them.
fn fragmented(holes: u64) -> Space {
    let mut space = Space {
        groups: BTreeMap::new(),
        by_length: BTreeSet::new(),
        data_cursor: 0,
        block_cursor: 0,
        node_size: 16384,
        taken: Vec::new(),
        changed: BTreeSet::new(),
    };
    let mut allocatable: RangeSet =
        (0..holes).map(|hole| GROUP + hole * 16384..GROUP + hole * 16384 + 8192).collect();
    let start = GROUP + holes * 16384;
    allocatable.insert(start..2 * GROUP);
    space.add(Group {
        range: GROUP..2 * GROUP,
        flags: BlockGroupFlags::DATA,
        used: GROUP - allocatable.total(),
        allocatable,
        masked: Vec::new(),
        pinned: RangeSet::default(),
    });
    space
}

#[test]
fn long_data_is_put_in_a_row_and_what_is_undone_is_free_again() {
    let mut space = fragmented(1000);
    let before: Vec<_> = space.by_length.iter().copied().collect();
    let free = space.available(SpaceKind::Data);
    let mark = space.mark();
    let start = GROUP + 1000 * 16384;
    for number in 0..100 {
        assert_eq!(space.take_data(65536), Some(start + number * 65536));
    }
    assert_eq!(space.take_data(GROUP), None);
    assert_eq!(free - space.available(SpaceKind::Data), 100 * 65536);
    space.undo_to(mark);
    assert_eq!(space.by_length.iter().copied().collect::<Vec<_>>(), before);
    assert_eq!(space.available(SpaceKind::Data), free);
}

#[test]
fn free_space_in_pieces_is_used_up_to_the_last() {
    let mut space = fragmented(1000);
    let mut taken = RangeSet::default();
    while let Some(range) = space.take_data_up_to(4096, 1 << 20) {
        assert!(!taken.contains(&range));
        taken.insert(range);
    }
    assert_eq!(taken.total(), GROUP - 1000 * 8192);
    assert_eq!((space.available(SpaceKind::Data), space.by_length.len()), (0, 0));
}

#[test]
fn the_kind_of_hole_that_fits_is_found_among_many() {
    let mut space = fragmented(60_000);
    // Behind the holes is room for these, and then only holes are left.
    while space.take_data(65536).is_some() {}
    for _ in 0..20_000 {
        assert_eq!(space.take_data(12288), None);
        assert_eq!(
            space.take_data_up_to(4096, 128 << 20).map(|free| free.end - free.start),
            Some(8192)
        );
    }
}
