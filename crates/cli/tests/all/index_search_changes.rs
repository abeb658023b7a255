//! The index follows its files: what was edited, deleted or is left out, also while something of it waits or is being done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::index::{DOCS, Library, Provider};
use crate::support::{Answer, Names, Server, array, column, names, text};
use serde_json::{Value, json};

/// How many texts were sent.
fn asked(provider: &Provider) -> usize {
    provider.ledger().values().sum()
}

fn found(library: &Library, query: &str) -> Names {
    column(&library.place.json(&["search", query, "--mode", "words", "-k", "50"])["hits"], "path")
}

fn remove(library: &Library, name: &str) {
    std::fs::remove_file(library.place.path(DOCS).join(name)).expect("removed");
}

#[test]
fn edits_and_deletions_are_followed() {
    let library = Library::builtin();
    library.write("edited.md", "The walrus sleeps.");
    library.write("deleted.md", "The camel walks.");
    library.write("stays.md", "The otter swims.");
    library.index(&[], 0);

    library.write("edited.md", "The pelican flies.");
    remove(&library, "deleted.md");
    let report = library.index(&[], 0);
    assert_eq!(
        (&report["index"]["walk"]["gone"], &report["index"]["walk"]["changed"]),
        (&1.into(), &1.into())
    );
    for (query, wanted) in [
        ("walrus", names::<&str>([])),
        ("camel", names::<&str>([])),
        ("pelican", names(["edited.md"])),
        ("otter", names(["stays.md"])),
    ] {
        assert_eq!(found(&library, query), wanted, "{query}");
        let near = library.place.json(&["search", query, "--mode", "meaning", "-k", "50"]);
        assert_eq!(column(&near["hits"], "path"), names(["edited.md", "stays.md"]), "{query}");
    }
    // A file that became a directory, and one that is there again.
    remove(&library, "stays.md");
    library.write("stays.md/inner.md", "The otter dives.");
    library.write("deleted.md", "The camel walks.");
    library.index(&[], 0);
    assert_eq!(found(&library, "otter"), names(["stays.md/inner.md"]));
    assert_eq!(found(&library, "camel"), names(["deleted.md"]));
    library.place.check();
}

#[test]
fn a_removed_file_is_not_counted_as_indexed() {
    let library = Library::builtin();
    library.write("a.md", "The walrus sleeps.");
    library.write("b.md", "The otter swims.");
    library.index(&[], 0);
    remove(&library, "a.md");
    let shown = library.place.run(&["index", DOCS, "--processes", "2"]).expect(0).stdout;
    assert!(shown.contains("0 indexed") && shown.contains("1 removed"), "{shown}");
}

#[test]
fn what_ignore_rules_leave_out_leaves_the_index() {
    let library = Library::builtin();
    for name in ["keep.md", "drop.md", "logs/old.md", "logs/new.md"] {
        library.write(name, format!("Words of {name}."));
    }
    library.index(&[], 0);
    library.write(".gitignore", "drop.md\n");
    library.write(".redriveignore", "logs/old*\n");
    library.index(&[], 0);
    assert_eq!(found(&library, "words"), names(["keep.md", "logs/new.md"]));
    let calm = library.index(&[], 0);
    assert_eq!(calm["counts"]["admitted"], 0, "{calm}");
    library.index(&["--no-ignore"], 0);
    assert_eq!(found(&library, "words"), names(["keep.md", "drop.md", "logs/old.md", "logs/new.md"]));
    library.place.check();
}

#[test]
fn rules_that_leave_out_everything_empty_the_index() {
    let library = Library::builtin();
    library.write("private.md", "Words that are private.");
    library.index(&[], 0);
    // The file can be seen: no disk is missing, somebody wants it out.
    library.write(".gitignore", "*\n");
    library.index(&[], 0);
    assert_eq!(found(&library, "words"), Names::new());
}

/// A library with one file that the provider cannot embed for now; its retry waits.
fn waiting(provider: &Provider) -> (Library, Value) {
    let library = Library::asking(&provider.base_url());
    library.write("bad.md", "The SICK walrus sleeps.");
    library.write("good.md", "The otter swims.");
    provider.fail_for("SICK", 500);
    let report = library.index(&["--max-wait", "0s"], 3);
    assert_eq!(report["status"], "partially_completed");
    assert_eq!(found(&library, "walrus otter"), names(["good.md"]));
    (library, report)
}

fn states(library: &Library) -> Vec<(String, Value)> {
    let explain = |key: &str| {
        let told = library.place.run(&["explain", key, "--json"]);
        (
            key.to_owned(),
            if told.code() == Some(0) { told.json()["item"]["state"].clone() } else { Value::Null },
        )
    };
    ["bad.md", "good.md"].into_iter().map(explain).collect()
}

#[test]
fn an_edited_file_takes_the_place_of_the_retry_that_waits() {
    let provider = Provider::start(Duration::ZERO);
    let (library, first) = waiting(&provider);
    library.write("bad.md", "The pelican is well.");
    let report = library.index(&["--max-wait", "0s"], 0);
    assert_eq!(
        (&report["run"], &report["status"]),
        (&first["run"], &"completed".into()),
        "{:?}",
        states(&library)
    );
    let counts = &report["counts"];
    assert_eq!(
        (&counts["superseded"], &counts["succeeded"], &counts["waiting"]),
        (&1.into(), &2.into(), &0.into())
    );
    assert_eq!(found(&library, "walrus pelican otter"), names(["bad.md", "good.md"]));
    assert_eq!(found(&library, "walrus"), names::<&str>([]));
    assert_eq!(library.place.dead_keys(), names::<&str>([]));
    library.place.check();
}

#[test]
fn a_retry_ends_with_its_file() {
    let provider = Provider::start(Duration::ZERO);
    let (library, first) = waiting(&provider);
    remove(&library, "bad.md");
    let report = library.index(&["--max-wait", "0s"], 0);
    assert_eq!(
        (&report["run"], &report["status"]),
        (&first["run"], &"completed".into()),
        "{:?}",
        states(&library)
    );
    let counts = &report["counts"];
    assert_eq!((&counts["waiting"], &counts["joining"], &counts["dead"]), (&0.into(), &0.into(), &0.into()));
    let calls = asked(&provider);
    provider.recover();
    let calm = library.index(&[], 0);
    assert_eq!(calm["counts"]["admitted"], 0);
    assert_eq!(asked(&provider), calls, "nobody asks for it any more");
    assert_eq!(found(&library, "walrus otter"), names(["good.md"]));
    library.place.check();
}

#[test]
fn a_retry_that_is_due_is_done_by_the_same_command() {
    let provider = Provider::start(Duration::ZERO);
    let (library, first) = waiting(&provider);
    provider.recover();
    assert!(library.make_due() > 0);
    let report = library.index(&["--max-wait", "0s"], 0);
    assert_eq!((&report["run"], &report["status"]), (&first["run"], &"completed".into()));
    assert_eq!(found(&library, "walrus otter"), names(["bad.md", "good.md"]));
    library.place.check();
}

#[test]
fn the_old_passage_is_found_until_the_new_one_is_there() {
    let stuck = Arc::new(AtomicBool::new(true));
    let is_stuck = stuck.clone();
    let server = Server::start(move |call| {
        let texts: Vec<String> = array(&call.item().payload["input"]).iter().map(text).collect();
        if is_stuck.load(Ordering::Relaxed) && texts.iter().any(|text| text.contains("pelican")) {
            return Answer::Never;
        }
        let data = texts
            .iter()
            .enumerate()
            .map(|(at, text)| json!({ "index": at, "embedding": [text.len(), 1, 2] }));
        Answer::status(200, &json!({ "data": data.collect::<Vec<_>>() }).to_string())
    });
    let library = Library::asking(&format!("http://{}/v1", server.address()));
    library.write("a.md", "The walrus sleeps.");
    library.write("b.md", "The otter swims.");
    library.index(&[], 0);
    library.write("a.md", "The pelican flies.");
    let calls = server.count();
    let running = library.start(&[]);
    server.until_called(calls + 1);
    for mode in ["words", "hybrid"] {
        let old = library.place.json(&["search", "walrus", "--mode", mode, "--path", "a.md"]);
        assert_eq!(array(&old["hits"])[0]["text"], "The walrus sleeps.", "{mode}");
    }
    assert_eq!(found(&library, "pelican"), names::<&str>([]));
    running.kill();
    assert_eq!(found(&library, "walrus"), names(["a.md"]), "also after a crash");
    stuck.store(false, Ordering::Relaxed);
    let report = library.index(&["--max-wait", "60s"], 0);
    assert_eq!(report["status"], "completed");
    assert_eq!((found(&library, "walrus"), found(&library, "pelican")), (names::<&str>([]), names(["a.md"])));
    library.place.check();
}

#[test]
fn a_rebuilt_index_is_the_same_and_embeds_nothing() {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::asking(&provider.base_url());
    library.write_all(&crate::support::index::mixed(12));
    library.index(&[], 0);
    let (before, calls) = (library.rows(), asked(&provider));
    library.index(&["--rebuild"], 0);
    library.rows().assert_same(&before);
    assert_eq!(asked(&provider), calls, "every vector was kept");
    library.place.check();
}
