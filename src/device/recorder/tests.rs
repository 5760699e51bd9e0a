//! What the crash model allows, and what not.

use super::super::{Memory, Overlay};
use super::*;

const SECTOR: usize = 4096;

/// A device of four sectors, and what is recorded of it.
fn recorded() -> (Recorder<Memory>, Arc<Tape>) {
    let tape = Arc::new(Tape::default());
    (Recorder::over(Memory::new(4 * SECTOR as u64), 0, Arc::clone(&tape)), tape)
}

fn base() -> Vec<Arc<dyn Device>> {
    vec![Arc::new(Memory::new(4 * SECTOR as u64))]
}

fn put(device: &dyn Device, sector: u64, value: u8) {
    device.write_at(sector * SECTOR as u64, &[value; SECTOR]).unwrap();
}

/// First bytes of the sectors of every state, sorted, each once.
fn states(tape: &Tape, sampling: Sampling) -> Vec<[u8; 4]> {
    let mut found: Vec<_> = tape
        .crashes(base(), sampling)
        .map(|crash| {
            let [device] = <[_; 1]>::try_from(crash.devices()).unwrap();
            std::array::from_fn(|sector| {
                let mut byte = [0];
                device.read_at((sector * SECTOR) as u64, &mut byte).unwrap();
                byte[0]
            })
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn a_flush_is_a_barrier() {
    let (device, tape) = recorded();
    put(&device, 0, 1);
    device.flush().unwrap();
    put(&device, 1, 2);
    let expected = [[0, 0, 0, 0], [1, 0, 0, 0], [1, 2, 0, 0]];
    assert_eq!(states(&tape, Sampling::default()), expected);
}

#[test]
fn without_a_flush_any_subset_lands() {
    let (device, tape) = recorded();
    put(&device, 0, 1);
    put(&device, 1, 2);
    let expected = [[0, 0, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [1, 2, 0, 0]];
    assert_eq!(states(&tape, Sampling::default()), expected);
}

#[test]
fn of_many_writes_every_prefix_and_single_loss_is_tried() {
    let (device, tape) = recorded();
    for sector in 0..4 {
        put(&device, sector, 1);
    }
    let sampling = Sampling { exhaustive_max: 3, subsets: 0, ..Sampling::default() };
    let found = states(&tape, sampling);
    for state in [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]] {
        assert!(found.contains(&state));
    }
    for state in [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1]] {
        assert!(found.contains(&state));
    }
    assert_eq!(found.len(), 8);
    let drawn = Sampling { exhaustive_max: 3, subsets: 200, ..Sampling::default() };
    assert_eq!(states(&tape, drawn).len(), 16);
}

#[test]
fn a_long_write_may_be_torn() {
    let (device, tape) = recorded();
    device.write_at(0, &[1; 2 * SECTOR]).unwrap();
    let found: Vec<_> =
        (0..20).flat_map(|seed| states(&tape, Sampling { seed, ..Sampling::default() })).collect();
    assert!(found.contains(&[1, 0, 0, 0]) && found.contains(&[0, 1, 0, 0]));
}

#[test]
fn several_writes_may_be_torn_at_once() {
    let (device, tape) = recorded();
    device.write_at(0, &[1; 2 * SECTOR]).unwrap();
    device.write_at(2 * SECTOR as u64, &[2; 2 * SECTOR]).unwrap();
    let found: Vec<_> =
        (0..20).flat_map(|seed| states(&tape, Sampling { seed, ..Sampling::default() })).collect();
    assert!(found.contains(&[1, 0, 0, 2]) && found.contains(&[0, 1, 2, 0]));
}

#[test]
fn a_sector_is_torn_only_when_sectors_are_smaller() {
    let (device, tape) = recorded();
    device.write_at(0, &[1; SECTOR]).unwrap();
    let torn = |sector| {
        let sampling = Sampling { sector, ..Sampling::default() };
        tape.crashes(base(), sampling).filter(Crash::is_torn).count()
    };
    assert_eq!(torn(SECTOR), 0);
    assert_eq!(torn(512), 2);
}

#[test]
fn the_older_of_two_writes_may_land_last() {
    let (device, tape) = recorded();
    put(&device, 0, 1);
    put(&device, 0, 2);
    let last: Vec<_> = tape
        .crashes(base(), Sampling::default())
        .map(|crash| crash.landed())
        .filter(|landed| landed.len() == 2)
        .map(|landed| landed[1].event)
        .collect();
    assert_eq!(last, [1, 0]);
}

#[test]
fn a_cut_hits_all_devices_at_once() {
    let tape = Arc::new(Tape::default());
    let [one, two] = [0, 1]
        .map(|number| Recorder::over(Memory::new(4 * SECTOR as u64), number, Arc::clone(&tape)));
    put(&one, 0, 1);
    one.flush().unwrap();
    put(&two, 0, 2);
    let bases = [base(), base()].concat();
    let mut found: Vec<_> = tape
        .crashes(bases, Sampling::default())
        .map(|crash| {
            let mut bytes = [[0]; 2];
            for (device, byte) in crash.devices().iter().zip(&mut bytes) {
                device.read_at(0, byte).unwrap();
            }
            bytes.as_flattened().to_vec()
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [vec![0, 0], vec![1, 0], vec![1, 2]]);
}

#[test]
fn a_crash_says_what_landed() {
    let (device, tape) = recorded();
    for sector in 0..4 {
        put(&device, sector, 1);
    }
    device.write_at(0, &[2; 2 * SECTOR]).unwrap();
    let sampling = Sampling { exhaustive_max: 0, subsets: 0, ..Sampling::default() };
    let said: Vec<_> = tape.crashes(base(), sampling).map(|crash| crash.to_string()).collect();
    let start = "after 5 events, 4 of 5 writes landed:";
    assert!(said.contains(&format!("{start} 0-3")));
    assert!(said.contains(&format!("{start} 0 2-4")));
    assert!(said.contains(&"after 5 events, 5 of 5 writes landed: 0-3 4 (torn)".to_owned()));
}

#[test]
fn the_state_of_an_overlay_can_be_copied_out() {
    let below = Memory::of(&[7; 3 * SECTOR + 100]);
    let overlay = Overlay::over(below.clone());
    overlay.write_at(SECTOR as u64 + 5, &[1; 10]).unwrap();
    overlay.write_at(3 * SECTOR as u64 + 50, &[2; 50]).unwrap();
    overlay.copy_to(&below).unwrap();
    let mut copied = vec![0; 3 * SECTOR + 100];
    let mut own = copied.clone();
    below.read_at(0, &mut copied).unwrap();
    overlay.read_at(0, &mut own).unwrap();
    assert_eq!(copied, own);
    assert_eq!((copied[SECTOR + 4], copied[SECTOR + 5], copied[3 * SECTOR + 99]), (7, 1, 2));
}
