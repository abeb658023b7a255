//! Proof that the checks can fail: every mistake planted in a store or a worker is found.

use redrive_sim::{Plant, Planted, Slip, StoreKind, play, play_with};

/// Seeds within which a planted mistake has to be found.
const SEEDS: u64 = 200;
/// Seeds within which a worker's mistake has to be found; fewer than a third of them have gates, a fourth damaged reads.
const GATED_SEEDS: u64 = 400;

#[test]
fn a_planted_bug_is_found() {
    for plant in Plant::ALL {
        let found = (1..=SEEDS).find_map(|seed| play(seed, Planted::new(plant), false).broken);
        assert!(found.is_some(), "{plant:?} was not found in {SEEDS} seeds");
    }
}

#[test]
fn a_worker_that_slips_is_found_by_the_rule_it_breaks() {
    for slip in Slip::ALL {
        let law = |seed| {
            play_with(seed, StoreKind::Memory.make(), false, Some(slip)).broken.map(|broken| broken.law)
        };
        let found = (1..=GATED_SEEDS).find(|seed| law(*seed).as_deref() == Some(slip.breaks()));
        assert!(found.is_some(), "{slip:?} was not found by {} in {GATED_SEEDS} seeds", slip.breaks());
    }
}
