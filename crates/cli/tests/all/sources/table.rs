//! Edits × moments × kinds of lines.

use super::world::{EDITS, KINDS, Kind, accounted, pipeline, rows, service, twice};
use crate::support::{Place, count, wait};

#[test]
fn an_edit_after_the_end_costs_what_is_new_and_changed_only() {
    for kind in KINDS {
        for (name, edit) in EDITS {
            let what = format!("{kind:?}, {name}");
            let (server, ledger) = service(None);
            let place = Place::new();
            place.write("p.toml", pipeline(kind, &server, "batch = 20"));
            let mut rows = rows(60);
            kind.write(&place, &rows);
            place.run_pipeline(0);
            accounted(&what, &place, &rows);
            let before = rows.clone();
            edit(&mut rows);
            kind.write(&place, &rows);
            let report = place.run_pipeline(0);
            accounted(&what, &place, &rows);
            assert_eq!(twice(&ledger), [], "{what}");
            let fresh = rows.iter().filter(|row| !before.contains(row)).count() as u64;
            let read = &report["read"];
            assert_eq!(count(&read["new"]) + count(&read["changed"]), fresh, "{what}: {read}");
            assert_eq!(count(&read["left_alone"]), rows.len() as u64 - fresh, "{what}: {read}");
            // Once more without an edit: nothing at all is done.
            let calls = server.count();
            let report = place.run_pipeline(0);
            assert_eq!(
                (server.count(), count(&report["read"]["left_alone"])),
                (calls, rows.len() as u64),
                "{what}"
            );
        }
    }
}

#[test]
fn an_edit_after_a_kill_during_admission_loses_no_line() {
    for kind in KINDS {
        for (name, edit) in EDITS {
            let what = format!("{kind:?}, {name}");
            let (server, ledger) = service(None);
            let place = Place::new();
            place.write("p.toml", pipeline(kind, &server, "batch = 500"));
            let mut rows = rows(2_600);
            kind.write(&place, &rows);
            server.hold();
            let run = ["run", "p.toml", "--results", "out.jsonl", "--json"];
            // The first piece of the source is admitted, the others are not.
            let killed = place.run_with(&run, &[("REDRIVE_CRASH_AT", "admit.after_submit")]);
            assert_eq!(killed.killed_by(), Some(9), "{what}");
            server.release();
            wait::until("the calls of the dead process end", || server.open() == 0);
            let in_flight = ledger.lock().expect("not poisoned").clone();
            edit(&mut rows);
            kind.write(&place, &rows);
            place.run_pipeline(0);
            accounted(&what, &place, &rows);
            let repeated = twice(&ledger);
            assert!(repeated.iter().all(|row| in_flight.contains_key(row)), "{what}: {repeated:?}");
        }
    }
}

#[test]
fn an_edit_after_admission_is_read_by_the_same_command() {
    for kind in KINDS {
        for (name, edit) in EDITS {
            let what = format!("{kind:?}, {name}");
            let (server, ledger) = service(None);
            let place = Place::new();
            place.write("p.toml", pipeline(kind, &server, "batch = 5"));
            let mut rows = rows(60);
            kind.write(&place, &rows);
            server.hold();
            let started = place.start(&["run", "p.toml"]);
            place.until_json(&["show"], |run| run["admitted_all"] == true);
            server.until_open(4);
            started.kill();
            server.release();
            wait::until("the calls of the dead process end", || server.open() == 0);
            let in_flight = ledger.lock().expect("not poisoned").clone();
            edit(&mut rows);
            kind.write(&place, &rows);
            place.run_pipeline(0);
            accounted(&what, &place, &rows);
            let repeated = twice(&ledger);
            assert!(repeated.iter().all(|row| in_flight.contains_key(row)), "{what}: {repeated:?}");
        }
    }
}

#[test]
fn an_edit_between_retries_is_noticed_by_the_process_that_waits() {
    for (name, edit) in EDITS {
        let (server, ledger) = service(Some("k0005"));
        let place = Place::new();
        let retry = "retry.max_attempts = 5\nretry.backoff = { kind = \"fixed\", delay = \"3s\" }\nretry.jitter = \"none\"";
        place.write("p.toml", pipeline(Kind::Jsonl, &server, &format!("batch = 1\n{retry}")));
        let mut rows = rows(30);
        Kind::Jsonl.write(&place, &rows);
        let run = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
        place.until_json(&["show"], |run| count(&run["counts"]["succeeded"]) == 29);
        edit(&mut rows);
        Kind::Jsonl.write(&place, &rows);
        run.finish().expect(0);
        accounted(name, &place, &rows);
        assert_eq!(twice(&ledger), [], "{name}");
    }
}
