//! `kill -9` ten times while a directory is indexed: the index is the one of an undisturbed run, row by row, and no text
//! is sent again that was not under way at a kill.

use std::time::Duration;

use crate::support::index::{Library, Provider, Rows, dice, mixed, tell};
use crate::support::{Names, count, wait};

const FILES: usize = 150;
const KILLS: usize = 10;
/// Longer than the test: who waited for the lease of a killed process would hang.
const LEASE: [&str; 2] = ["--lease", "1h"];

/// What was found out while a library was indexed and killed.
#[derive(Debug, Default)]
struct Disturbed {
    kills: usize,
    in_flight: Names,
    /// Items that were being embedded, one for each kill it happened at.
    held: u64,
    /// Attempts to embed that were recorded as crashed.
    crashes: u64,
}

/// Kills `redrive index` at random times, each within `most` of its start, and then lets it finish.
fn disturb(library: &Library, seed: u64, most: Duration) -> Disturbed {
    let mut found = Disturbed::default();
    for luck in dice(seed).take(KILLS) {
        let mut started = library.start(&LEASE);
        let span = most.mul_f64(0.2 + luck * 0.8);
        let begun = wait::now();
        wait::until("its time has come", || begun.elapsed() >= span || started.has_ended());
        if started.kill().killed_by() == Some(9) && library.place.path(".redrive/state.db").exists() {
            let held = library.in_flight();
            found.kills += 1;
            found.held += held.values().sum::<u64>();
            found.in_flight.extend(held.into_keys());
        }
    }
    let ran = library.run_with(&LEASE, &[]);
    assert!(ran.code().is_some(), "{ran:?}");
    // A kill may come before the next process took back what the last one held: that is held at both.
    found.crashes = u64::from(library.embed_crashes());
    assert!(found.crashes <= found.held, "{} crashes of {} held", found.crashes, found.held);
    found
}

/// Fails unless the index is complete, and as it would have been without kills.
fn assert_whole(library: &Library, expected: &Rows) {
    let buried = library.place.dead();
    assert!(buried.is_empty(), "{} innocent items are dead, the first: {:#}", buried.len(), buried[0]);
    library.rows().assert_same(expected);
    assert_eq!(library.index(&LEASE, 0)["status"], "completed");
    library.place.check();
}

fn undisturbed(library: &Library, files: usize) -> (Rows, Duration) {
    library.write_all(&mixed(files));
    let ran = library.run_with(&[], &[]).expect(0);
    assert_eq!(count(&ran.json()["index"]["size"]["documents"]), files as u64);
    (library.rows(), ran.took)
}

#[test]
fn ten_kills_leave_the_index_of_an_undisturbed_run_and_pay_again_only_for_what_was_under_way() {
    let latency = Duration::from_millis(150);
    let calm = Provider::start(latency);
    let (expected, whole) = undisturbed(&Library::asking(&calm.base_url()), FILES);
    assert_eq!(calm.sent_again(), Names::new(), "undisturbed, every text is sent once");

    let provider = Provider::start(latency);
    let library = Library::asking(&provider.base_url());
    library.write_all(&mixed(FILES));
    let found = disturb(&library, 7, whole.mul_f64(0.3));
    let again = provider.sent_again();
    let repeats: u64 = provider.ledger().values().map(|times| *times as u64 - 1).sum();
    tell(&format!(
        "{} of {KILLS} kills hit, undisturbed {whole:?}; {} texts, {} under way at kills, \
         {} sent twice, {repeats} repeats, {} attempts crashed",
        found.kills,
        provider.texts().len(),
        found.in_flight.len(),
        again.len(),
        found.crashes
    ));
    assert!(found.kills >= 5 && !found.in_flight.is_empty(), "{} kills met nothing", found.kills);
    let strangers: Vec<&String> = again.difference(&found.in_flight).take(3).collect();
    assert!(strangers.is_empty(), "sent again though not under way at a kill: {strangers:?}");
    assert!(repeats <= found.crashes, "{repeats} repeats, {} attempts crashed", found.crashes);
    assert_whole(&library, &expected);
    assert_eq!(provider.texts(), library.texts(), "what was sent is what is in the index");
}

#[test]
fn ten_kills_leave_the_index_of_an_undisturbed_run_with_the_built_in_model() {
    // It is quick, so it gets more to do.
    let (expected, whole) = undisturbed(&Library::builtin(), 3 * FILES);
    let library = Library::builtin();
    library.write_all(&mixed(3 * FILES));
    let found = disturb(&library, 11, whole.mul_f64(0.15));
    tell(&format!("{} of {KILLS} kills hit, undisturbed {whole:?}; built in", found.kills));
    assert!(found.kills >= 5, "{} kills met nothing", found.kills);
    assert_whole(&library, &expected);
}

/// A process that is killed again and again before a slow provider answers: its texts have done nothing wrong.
#[test]
fn texts_that_are_under_way_at_three_kills_are_indexed_all_the_same() {
    const FILES: usize = 6;
    let provider = Provider::start(Duration::ZERO);
    let library = Library::asking(&provider.base_url());
    (0..FILES).for_each(|n| library.write(&format!("{n}.md"), format!("# Paper {n}\n\nIts only words.\n")));
    provider.server.hold();
    for kill in 1..=3 {
        let started = library.start(&LEASE);
        let is_under_way = || provider.ledger().values().filter(|times| **times >= kill).count() == FILES;
        wait::until("every text is under way", is_under_way);
        assert_eq!(started.kill().killed_by(), Some(9));
        assert_eq!(library.in_flight().len(), FILES);
    }
    provider.server.release();
    let ran = library.run_with(&LEASE, &[]);
    assert_eq!(library.place.dead(), Vec::<serde_json::Value>::new(), "nothing is dead: {}", ran.stderr);
    assert_eq!((ran.code(), ran.json()["status"].as_str()), (Some(0), Some("completed")));
    assert_eq!(provider.texts(), library.texts());
    library.place.check();
}
