//! `redrive index` is killed at every crash point it reaches, and its writes into the index fail: the index is the one of
//! an undisturbed run, and nothing is paid for that need not be.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::index::{Library, Provider, Rows, mixed, tell};
use crate::support::{Names, count, names};
use redrive_engine::crash::POINTS;

const FILES: usize = 12;

/// What indexing never comes to: it writes no results, takes nothing from an inbox, and no operator acts. The lease is renewed every few seconds.
const ELSEWHERE: [&str; 34] = [
    "answer.before_commit",
    "answer.after_commit",
    "relay.before_forget",
    "relay.after_forget",
    "bus.before_ack",
    "bus.after_bury",
    "requeue.before_ack",
    "inbox.begun",
    "inbox.before_submit",
    "inbox.after_submit",
    "inbox.closed",
    "admit.before_sweep",
    "edit.taken_over",
    "reconfigure.reading_begun",
    "heartbeat.after_renew",
    "results.before_rename",
    "redrive.before_page",
    "redrive.after_page",
    "retry.before_page",
    "retry.after_page",
    "rerun.before_page",
    "rerun.after_page",
    "purge.before_page",
    "purge.after_page",
    "cancel.before_page",
    "cancel.after_page",
    "import.before_page",
    "import.after_page",
    "prune.opened",
    "prune.after_page",
    "notify.decided",
    "notify.handed_over",
    "schedule.decided",
    "schedule.begun",
];
/// What only a process comes to that finds the work of a killed one.
const AFTER_A_KILL: [&str; 2] = ["reap.before_commit", "reap.after_commit"];

fn undisturbed() -> Rows {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::asking(&provider.base_url());
    library.write_all(&mixed(FILES));
    library.index(&[], 0);
    library.rows()
}

/// Dies at a point, and says the same command again. Tells whether it died.
fn dies(at: &str, expected: &Rows) -> bool {
    // What is known of a gate is saved four times a second.
    let latency = if at.starts_with("gates.") { 1_500 } else { 5 };
    let provider = Provider::start(Duration::from_millis(latency));
    let library = Library::asking(&provider.base_url());
    library.write_all(&mixed(FILES));
    let lease = ["--lease", "1h"];
    let mut held = Names::new();
    if AFTER_A_KILL.iter().any(|point| at.starts_with(point)) {
        let killed = library.run_with(&lease, &[("REDRIVE_CRASH_AT", "execute.after_call:4")]);
        assert_eq!(killed.killed_by(), Some(9), "{killed:?}");
        held.extend(library.in_flight().into_keys());
    }
    let ran = library.run_with(&lease, &[("REDRIVE_CRASH_AT", at)]);
    let died = ran.killed_by() == Some(9);
    assert!(died || ran.code() == Some(0), "{ran:?}");
    let is_made = |table: &str| {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name = ?1";
        let count: i64 = library.store().query_row(sql, [table], |row| row.get(0)).expect("read");
        count == 1
    };
    if died && library.place.path(".redrive/state.db").exists() && is_made("content") {
        held.extend(library.in_flight().into_keys());
    }
    let report = library.index(&lease, 0);
    assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&"completed".into(), 0), "{report:#}");
    library.rows().assert_same(expected);
    let again = provider.sent_again();
    assert!(again.is_subset(&held), "sent again without need: {:?}", again.difference(&held).next());
    assert_eq!(provider.texts(), library.texts());
    library.place.check();
    died
}

/// Dies at this visit of every point; returns where it did.
fn die_everywhere(visit: u32) -> Names {
    let expected = undisturbed();
    let points: Vec<&str> = POINTS.iter().copied().filter(|point| !ELSEWHERE.contains(point)).collect();
    let (next, met, broken) = (AtomicUsize::new(0), Mutex::new(Names::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::SeqCst)) {
                    // Whether a gate is saved in so short a run is a matter of milliseconds.
                    let tries = if visit == 1 { 5 } else { 1 };
                    let any = || (0..tries).any(|_| dies(&format!("{point}:{visit}"), &expected));
                    match catch_unwind(AssertUnwindSafe(any)) {
                        Ok(true) => drop(met.lock().expect("not poisoned").insert((*point).to_owned())),
                        Ok(false) => {}
                        Err(_) => broken.lock().expect("not poisoned").push(*point),
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().expect("not poisoned");
    assert!(broken.is_empty(), "not as it would be undisturbed after dying at visit {visit} of {broken:?}");
    met.into_inner().expect("not poisoned")
}

#[test]
fn dying_at_the_first_visit_of_any_crash_point_changes_nothing() {
    let met = die_everywhere(1);
    let reached: BTreeSet<&str> = POINTS.iter().copied().filter(|point| !ELSEWHERE.contains(point)).collect();
    assert_eq!(met, names(reached), "every point of indexing was met");
}

#[test]
fn dying_at_a_later_visit_of_a_crash_point_changes_nothing() {
    let met = die_everywhere(4);
    tell(&format!("died at the fourth visit of {met:?}"));
    let often = names(["claim.after", "execute.after_call", "record.after_commit", "sqlite.before_commit"]);
    assert!(met.is_superset(&often), "only {met:?} were visited four times");
}

#[test]
fn writes_into_the_index_that_fail_cost_no_call() {
    const FILES: usize = 120;
    let calm = Provider::start(Duration::from_millis(5));
    let expected = {
        let library = Library::asking(&calm.base_url());
        library.write_all(&mixed(FILES));
        library.index(&[], 0);
        library.rows()
    };
    let provider = Provider::start(Duration::from_millis(5));
    let library = Library::asking(&provider.base_url());
    library.write_all(&mixed(FILES));
    let ran = library.run_with(&[], &[("REDRIVE_FAIL_AT", "sqlite.index_write:0.2")]).expect(0);
    let report = ran.json();
    assert_eq!(report["status"], "completed", "{report:#}");
    library.rows().assert_same(&expected);
    let once = library.texts().into_iter().map(|text| (text, 1)).collect();
    assert_eq!(provider.ledger(), once, "each text is sent exactly once");
    let warned = ran.stderr.matches("made to fail").count();
    tell(&format!(
        "{warned} failed writes were told of; {} texts in {} calls",
        provider.texts().len(),
        provider.server.count()
    ));
    library.place.check();
}

/// The counterpart of the test above: where every write fails, nothing gets into the index.
#[test]
fn writes_into_the_index_do_fail_when_told_to() {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::asking(&provider.base_url());
    library.write_all(&mixed(3));
    let mut started =
        library.start_with(&["--max-wait", "0s"], &[("REDRIVE_FAIL_AT", "sqlite.index_write:1")]);
    provider.server.until_called(1);
    started.until_said("made to fail");
    assert!(!started.has_ended(), "it goes on trying");
    started.kill();
    assert_eq!(library.rows().vectors, BTreeSet::new());
}
