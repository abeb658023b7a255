//! `redrive index --watch`: the index follows the files until it is told to stop.

use std::time::{Duration, SystemTime};

use crate::support::index::{DOCS, Library, Provider};
use crate::support::{Names, Place, Started, array, column, names, wait};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(6);

/// How many texts were sent.
fn asked(provider: &Provider) -> usize {
    provider.ledger().values().sum()
}

fn found(library: &Library, query: &str) -> Names {
    column(&library.place.json(&["search", query, "--mode", "words", "-k", "50"])["hits"], "path")
}

fn until_found(library: &Library, query: &str, wanted: &Names) {
    wait::until(&format!("{query} is in {wanted:?}"), || found(library, query) == *wanted);
}

fn watch(library: &Library) -> Started {
    let started = library.start(&["--watch"]);
    started.until_said("watching");
    started
}

/// Waits until the last pass is over.
fn until_calm(place: &Place) {
    place.until_json(&["runs"], |report| array(&report["runs"])[0]["status"] == "completed");
}

/// Ends a watch that waits. Told while it looks around, it may not have heard: see the test of that.
fn end(mut watching: Started) {
    let mut looks = 0;
    wait::until("it ends", || {
        if looks % 200 == 0 && !watching.has_ended() {
            watching.signal("TERM");
        }
        looks += 1;
        watching.has_ended()
    });
    watching.finish().expect(130);
}

#[test]
fn the_index_follows_the_files_until_it_is_told_to_stop() {
    let library = Library::builtin();
    library.write("first.md", "The otter swims.");
    library.write("second.md", "The camel walks.");
    let watching = watch(&library);
    assert_eq!(found(&library, "otter"), names(["first.md"]));
    library.write("new.md", "The walrus sleeps.");
    until_found(&library, "walrus", &names(["new.md"]));
    library.write("first.md", "The pelican flies.");
    until_found(&library, "pelican", &names(["first.md"]));
    // The new passages come first, then the old ones go.
    until_found(&library, "otter", &Names::new());
    std::fs::remove_file(library.place.path(DOCS).join("second.md")).expect("removed");
    until_found(&library, "camel", &Names::new());
    // Directories that were not there are heard of, too.
    library.write("a/new/folder/deep.md", "The lynx hides.");
    until_found(&library, "lynx", &names(["a/new/folder/deep.md"]));
    let new = library.place.path(DOCS).join("new.md");
    std::fs::rename(new, library.place.path(DOCS).join("moved.md")).expect("moved");
    until_found(&library, "walrus", &names(["moved.md"]));

    until_calm(&library.place);
    end(watching);
    let calm = library.index(&[], 0);
    let walk = &calm["index"]["walk"];
    assert_eq!((&walk["changed"], &walk["gone"]), (&0.into(), &0.into()), "nothing was left to do");
    assert_eq!(found(&library, "the"), names(["first.md", "moved.md", "a/new/folder/deep.md"]));
    library.place.check();
}

#[test]
fn told_to_stop_in_the_middle_of_a_pass_it_finishes_the_pass_and_ends() {
    for signal in ["TERM", "INT"] {
        let provider = Provider::start(Duration::ZERO);
        let library = Library::asking(&provider.base_url());
        library.write("first.md", "The otter swims.");
        let mut watching = watch(&library);
        let calls = provider.server.count();
        provider.server.hold();
        library.write("new.md", "The walrus sleeps.");
        provider.server.until_called(calls + 1);
        watching.signal(signal);
        watching.until_said("stopping");
        provider.server.release();
        // Looked for several times as long as a burst of changes is waited out.
        let told = wait::now();
        wait::until("it ends, or does not hear", || watching.has_ended() || told.elapsed() > PATIENCE);
        assert!(watching.has_ended(), "{signal}: it goes on watching");
        watching.finish().expect(130);
        library.index(&[], 0);
        assert_eq!(found(&library, "walrus"), names(["new.md"]));
        library.place.check();
    }
}

#[test]
fn told_to_stop_while_a_burst_of_changes_is_waited_out_it_ends() {
    let library = Library::builtin();
    library.write("first.md", "The otter swims.");
    let mut watching = watch(&library);
    library.write("new.md", "The walrus sleeps.");
    // It has heard of the change, and waits whether there are more.
    wait::work(Duration::from_millis(120));
    watching.signal("TERM");
    let told = wait::now();
    wait::until("it ends, or did not hear", || watching.has_ended() || told.elapsed() > PATIENCE);
    assert!(watching.has_ended(), "it goes on watching");
    watching.finish().expect(130);
    library.index(&[], 0);
    assert_eq!(found(&library, "walrus"), names(["new.md"]));
}

#[test]
fn a_broken_file_does_not_end_the_watch() {
    let library = Library::builtin();
    library.write("first.md", "The otter swims.");
    let watching = watch(&library);
    library.write("broken.pdf", "%PDF-1.4\nnothing\n");
    wait::until("it is dead", || library.place.dead_keys() == names(["broken.pdf"]));
    library.write("new.md", "The walrus sleeps.");
    until_found(&library, "walrus", &names(["new.md"]));
    assert_eq!(library.place.dead_keys(), names(["broken.pdf"]), "tried once");
    end(watching);
    library.place.check();
}

#[test]
fn a_retry_that_falls_due_is_done_without_a_change() {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::asking(&provider.base_url());
    library.write("bad.md", "The SICK walrus sleeps.");
    library.write("good.md", "The otter swims.");
    provider.fail_for("SICK", 500);
    library.index(&["--max-wait", "0s"], 3);
    provider.recover();
    let calls = asked(&provider);
    // Late enough that the first pass is over, soon enough to wait for.
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    let due = i64::try_from(now).expect("it fits") + 4_000;
    let changed =
        library.store().execute("UPDATE item SET due = ?1 WHERE state = 0", [due]).expect("changed");
    assert!(changed > 0, "something waits");
    let watching = watch(&library);
    assert_eq!(asked(&provider), calls, "it is not due yet");
    until_found(&library, "walrus", &names(["bad.md"]));
    until_calm(&library.place);
    end(watching);
    library.place.check();
}

#[test]
fn a_store_below_the_directory_is_no_change_of_it() {
    let place = Place::new();
    place.write("a.md", "The otter swims.");
    let watching = place.start(&["index", ".", "--watch"]);
    watching.until_said("watching");
    let runs = || array(&place.json(&["runs"])["runs"]).len();
    let before = runs();
    // Longer than a burst is waited out, several times.
    wait::work(Duration::from_secs(3));
    assert!(runs() <= before + 1, "{} passes over nothing new", runs() - before);
    end(watching);
}

#[test]
fn a_watch_keeps_the_last_hundred_passes_and_those_with_dead_letters() {
    let library = Library::builtin();
    library.write("broken.pdf", "%PDF-1.4 nothing");
    library.write("first.md", "The otter swims.");
    library.write("gone.md", "The dodo walked.");
    library.index(&[], 3);
    std::fs::remove_file(library.place.path(DOCS).join("gone.md")).expect("removed");
    library.index(&[], 0);
    // As many passes as some minutes of work on one note make.
    let store = library.store();
    let columns = "pipeline, source, category, priority, definition, folder, control, reason, cursor, admitted_all, \
         duplicates, budget, created_at, finished_at, paused_since, paused_ms";
    for _ in 0..150 {
        let sql = format!("INSERT INTO run ({columns}) SELECT {columns} FROM run WHERE id = 2");
        store.execute(&sql, []).expect("inserted");
        let worker = "INSERT INTO worker (name, identity, lease_until, started_at, retired) SELECT name, identity, lease_until, started_at, 0 FROM worker LIMIT 1";
        store.execute(worker, []).expect("inserted");
    }
    drop(store);
    let watching = watch(&library);
    library.write("new.md", "The walrus sleeps.");
    until_found(&library, "walrus", &names(["new.md"]));
    until_calm(&library.place);
    end(watching);
    let store = library.store();
    let number = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("counted");
    assert!(number("SELECT count(*) FROM run") <= 100 + 20, "{}", number("SELECT count(*) FROM run"));
    assert_eq!(number("SELECT count(*) FROM run WHERE id = 1"), 1, "it has a dead letter");
    assert!(number("SELECT count(*) FROM worker") < 30);
    assert_eq!(number("SELECT count(*) FROM doc WHERE path = 'gone.md'"), 0);
    assert_eq!(library.place.dead_keys(), names(["broken.pdf"]));
    library.place.check();
}
