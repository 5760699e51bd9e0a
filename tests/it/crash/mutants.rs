//! Whether the tests of this room can fail: recordings as engines with a mistake would have made them. Each mistake
//! must be seen.

use btrpress::device::{Event, Sampling};
use btrpress::format::SUPERBLOCK_OFFSETS;
use btrpress::plan::Request;

use super::recording::Recording;
use super::{images, recompress};

fn requests() -> [Request; 3] {
    ["zlib:1", "none", "zstd:3"].map(recompress)
}

fn is_flush(event: &Event) -> bool {
    matches!(event, Event::Flush { .. })
}

fn is_superblock(event: &Event) -> bool {
    matches!(event, Event::Write { byte, .. } if SUPERBLOCK_OFFSETS.contains(byte))
}

fn is_primary(event: &Event) -> bool {
    matches!(event, Event::Write { byte, .. } if *byte == SUPERBLOCK_OFFSETS[0])
}

/// Demands that a mistake shows on the fixture `name`.
#[track_caller]
fn assert_seen(name: &str, sampling: &Sampling, mistake: impl FnOnce(Vec<Event>) -> Vec<Event>) {
    let sound = Recording::of(images(name), &requests());
    let events = sound.tape.events();
    let changed = mistake(events.clone());
    assert!(changed != events, "the mistake changes nothing");
    let why = sound.with(changed).first_broken(sampling).expect("no state is broken");
    eprintln!("{name}: {why}");
}

/// The places in `events` before which the superblocks of a commit are written, and the flushes before them, if any.
fn before_superblocks(events: &[Event]) -> Vec<usize> {
    let is_first = |at: &usize| {
        is_primary(&events[*at]) && !at.checked_sub(1).is_some_and(|at| is_primary(&events[at]))
    };
    let places = (0..events.len()).filter(is_first);
    places
        .map(|at| events[..at].iter().rposition(|e| !is_flush(e)).map_or(0, |at| at + 1))
        .collect()
}

#[test]
fn a_device_that_never_flushes_is_seen() {
    assert_seen("zstd", &Sampling::default(), |mut events| {
        events.retain(|event| !is_flush(event));
        events
    });
}

#[test]
fn a_missing_flush_before_the_superblock_is_seen() {
    for name in ["zstd", "raid1"] {
        assert_seen(name, &Sampling::default(), |events| {
            let mut changed: Vec<Event> = Vec::new();
            for event in events {
                while is_primary(&event) && changed.last().is_some_and(is_flush) {
                    changed.pop();
                }
                changed.push(event);
            }
            changed
        });
    }
}

#[test]
fn a_superblock_written_before_the_flush_is_seen() {
    for name in ["zstd", "raid1"] {
        assert_seen(name, &Sampling::default(), |mut events| {
            for early in before_superblocks(&events) {
                let first = early + events[early..].iter().position(is_primary).expect("one");
                let count = events[first..].iter().take_while(|event| is_primary(event)).count();
                events[early..first + count].rotate_left(first - early);
            }
            events
        });
    }
}

/// What the next commit writes, and this one doesn't, is written while this one is prepared. That harms only where the
/// space is free because of this commit.
#[test]
fn data_in_space_that_the_same_commit_frees_is_seen() {
    assert_seen("zstd", &Sampling::default(), |events| {
        let places = before_superblocks(&events);
        let (this, next) = (places[0], places[1]);
        let touches = |one: &Event, other: &Event| match (one, other) {
            (
                Event::Write { byte: a, bytes: one, .. },
                Event::Write { byte: b, bytes: other, .. },
            ) => *a < b + other.len() as u64 && *b < a + one.len() as u64,
            _ => false,
        };
        let own: Vec<_> = events[..this].to_vec();
        let is_early = |event: &Event| {
            matches!(event, Event::Write { .. })
                && !is_superblock(event)
                && !own.iter().any(|known| touches(known, event))
        };
        let (early, late): (Vec<_>, Vec<_>) =
            events[this..next].iter().cloned().partition(is_early);
        assert!(!early.is_empty(), "the second commit writes where the first didn't");
        [own, early, late, events[next..].to_vec()].concat()
    });
}

#[test]
fn a_flush_that_one_of_several_devices_misses_is_seen() {
    for name in ["raid0", "raid1", "raid10"] {
        assert_seen(name, &Sampling::default(), |mut events| {
            events.retain(|event| *event != Event::Flush { device: 1 });
            events
        });
    }
}

/// The devices are committed one after the other: the superblock of the first is written when only its own part is safe.
#[test]
fn a_superblock_written_before_other_devices_are_flushed_is_seen() {
    for name in ["raid0", "raid1"] {
        assert_seen(name, &Sampling::default(), |mut events| {
            for early in before_superblocks(&events) {
                let first = early + events[early..].iter().position(is_primary).expect("one");
                events[early + 1..=first].rotate_right(1);
            }
            events
        });
    }
}
