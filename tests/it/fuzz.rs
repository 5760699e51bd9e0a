//! The bodies of the fuzz targets, over their seeds and over what small changes make of those.

#[path = "../fuzz/lib.rs"]
#[expect(unreachable_pub, reason = "cargo-fuzz builds it as a crate of its own")]
mod fuzz_targets;

use self::fuzz_targets::{TARGETS, seeds};

/// Changed copies of each seed to try.
const VARIANTS: u64 = 3;

/// splitmix64
fn mixed(seed: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

#[test]
fn every_target_stands_its_seeds_and_variants_of_them() {
    let mut count = 0_u64;
    for (name, bytes) in seeds() {
        let (_, target) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
        target(&bytes);
        for variant in 0..VARIANTS {
            count += 1;
            let mut bytes = bytes.clone();
            let random = mixed(count * VARIANTS + variant);
            let at = (random >> 8) as usize % bytes.len();
            bytes[at] = random as u8;
            bytes.truncate(1 + (random >> 40) as usize % (4 * bytes.len()));
            target(&bytes);
        }
    }
    assert!(count > 500, "{count} inputs are too few");
}

#[test]
fn every_target_stands_inputs_of_few_bytes() {
    for (name, target) in TARGETS {
        let lens = if name == "image" { 0..3 } else { 0..300 };
        for len in lens {
            target(&(0..len).map(|at| mixed(at * 7 + len) as u8).collect::<Vec<_>>());
        }
    }
}
