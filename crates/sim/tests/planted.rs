//! Proof that the checks can fail: every mistake planted in a store or a worker is found.

use redrive_sim::{Plant, Planted, Slip, StoreKind, play, play_with};

/// Seeds within which a planted mistake has to be found.
const SEEDS: u64 = 1_000;
/// Seeds within which a worker's mistake has to be found; fewer than a third of them have gates, a fourth damaged reads.
const GATED_SEEDS: u64 = 2_000;

#[test]
fn a_planted_bug_is_found() {
    let found = |plant| (1..=SEEDS).find_map(|seed| play(seed, Planted::new(plant), false).broken).is_some();
    let missed: Vec<Plant> = Plant::ALL.into_iter().filter(|plant| !found(*plant)).collect();
    assert!(missed.is_empty(), "{missed:?} were not found in {SEEDS} seeds");
}

#[test]
fn a_worker_that_slips_is_found_by_the_rule_it_breaks() {
    let found = |slip: Slip| {
        let law = |seed| {
            play_with(seed, StoreKind::Memory.make(), false, Some(slip)).broken.map(|broken| broken.law)
        };
        (1..=GATED_SEEDS).any(|seed| law(seed).as_deref() == Some(slip.breaks()))
    };
    let missed: Vec<Slip> = Slip::ALL.into_iter().filter(|slip| !found(*slip)).collect();
    assert!(missed.is_empty(), "{missed:?} were not found in {GATED_SEEDS} seeds");
}
