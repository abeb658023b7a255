//! A seed stands for one course of events, on every store that behaves as it should.

use redrive_sim::StoreKind;

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..=25 {
        let [first, again] = [(); 2].map(|()| StoreKind::Memory.play(seed, true));
        assert_eq!(first.hash, again.hash, "seed {seed}");
        assert_eq!(first.log, again.log, "seed {seed}");
        assert!(first.log.len() > 20, "something happened");
        let [first, again] = [(); 2].map(|()| StoreKind::Sqlite.play(seed, false));
        assert_eq!(first.hash, again.hash, "seed {seed} over SQLite");
    }
}

#[test]
fn both_stores_take_the_same_course() {
    let differ: Vec<u64> = (1..=60)
        .filter(|seed| StoreKind::Memory.play(*seed, false).hash != StoreKind::Sqlite.play(*seed, false).hash)
        .collect();
    assert!(differ.is_empty(), "the stores part ways for the seeds {differ:?}");
}
