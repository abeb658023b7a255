//! Ten thousand runs keep every law. They are split so that they can be played at the same time.

use redrive_sim::{Campaign, StoreKind, regressions};

/// Plays a range of seeds and asserts that nothing broke and every kind of fault was met.
fn ten_thousand_runs_keep_every_law(store: StoreKind, seed: u64, runs: u64) {
    let (score, failed) = Campaign { store, seed, runs, failures: 5 }.play();
    let told: Vec<String> = failed.iter().map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{}", told.join("\n"));
    assert_eq!(score.runs, runs);
    let missing: Vec<&str> = score.missing().into_iter().map(redrive_sim::met::Met::name).collect();
    assert!(missing.is_empty(), "no run met {missing:?}");
}

#[test]
fn seeds_that_once_failed_do_not_fail_again() {
    for (store, seed) in regressions() {
        let broken = store.play(seed, false).broken;
        assert_eq!(broken, None, "seed {seed} over {}", store.name());
    }
}

/// One test per range, named after it.
macro_rules! ranges {
    ($($name:ident: $store:ident, $seed:literal, $runs:literal;)*) => {
        $(
            #[test]
            fn $name() {
                ten_thousand_runs_keep_every_law(StoreKind::$store, $seed, $runs);
            }
        )*
    };
}

ranges! {
    memory_seeds_from_1: Memory, 1, 2_000;
    memory_seeds_from_10_000: Memory, 10_000, 2_000;
    memory_seeds_from_20_000: Memory, 20_000, 2_000;
    memory_seeds_from_30_000: Memory, 30_000, 2_000;
    sqlite_seeds_from_50_000: Sqlite, 50_000, 1_000;
    sqlite_seeds_from_64_000: Sqlite, 64_000, 1_000;
}
