//! A service that refuses the key, or answers with another model's vectors: told once with what to do, and nothing lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::index::{DOCS, Library};
use crate::support::{Answer, Call, Names, Place, Ran, Server, array, names, text};
use serde_json::{Value, json};

/// Does not look like any known kind of key, so that only knowing it helps.
const CANARY: &str = "zebra-quartz-lantern-9417";
const FILES: usize = 24;

fn sent(call: &Call) -> Vec<String> {
    array(&call.item().payload["input"]).iter().map(text).collect()
}

/// Vectors that depend on their texts.
fn vectors(call: &Call, dimensions: usize) -> Answer {
    let vector = |text: &String| {
        let sum = text.bytes().fold(7_usize, |sum, byte| sum * 31 % 1_009 + usize::from(byte));
        (0..dimensions).map(|at| (1 + sum * (at + 3) % 97) as f64).collect::<Vec<_>>()
    };
    let texts = sent(call);
    let data = texts.iter().enumerate().map(|(at, text)| json!({ "index": at, "embedding": vector(text) }));
    Answer::status(200, &json!({ "data": data.collect::<Vec<_>>(), "model": "m" }).to_string())
}

/// A service that wants this key and says what it got.
fn locked(key: &'static str, status: u16) -> Server {
    Server::start(move |call| {
        let got = call.headers.get("authorization").cloned().unwrap_or_default();
        if got == format!("Bearer {key}") {
            return vectors(call, 8);
        }
        let error =
            json!({ "message": format!("Incorrect API key provided: {got}"), "code": "invalid_api_key" });
        Answer::status(status, &json!({ "error": error }).to_string())
    })
}

fn library(server: &Server) -> Library {
    let library = Library::asking(&format!("http://{}/v1", server.address()));
    (0..FILES).for_each(|n| library.write(&format!("{n:02}.md"), format!("This is text number {n}.\n")));
    library
}

fn files() -> Names {
    (0..FILES).map(|n| format!("{n:02}.md")).collect()
}

fn found(place: &Place, query: &str) -> Names {
    let report = place.json(&["search", query, "--mode", "words", "-k", "100"]);
    array(&report["hits"]).iter().map(|hit| text(&hit["path"])).collect()
}

const KEYED: [&str; 2] = ["--api-key-env", "MODEL_KEY"];

#[test]
fn a_refused_key_stops_the_run_at_once_and_the_right_one_completes_it() {
    for status in [401, 403] {
        let server = locked("right", status);
        let library = library(&server);
        let wrong = [("MODEL_KEY", "wrong-key")];
        let ran = library.run_with(&KEYED, &wrong).expect(5);
        let report = ran.json();
        assert_eq!(report["status"], "paused_quota");
        let because = text(&report["reason"]);
        assert!(because.contains("MODEL_KEY") && because.contains(&status.to_string()), "{because}");
        assert!(ran.stderr.contains("same command again"), "{}", ran.stderr);
        assert_eq!(library.place.dead_keys(), names::<&str>([]), "no file is to blame");
        // Calls that were on their way when it was clear, and no more; 403 is clear at the third.
        let calls = server.count();
        let most = if status == 401 { 4 } else { 2 + 4 };
        assert!((1..=most).contains(&calls), "{calls} calls");

        let again = library.run_with(&KEYED, &wrong).expect(5);
        assert_eq!(again.json()["run"], report["run"], "the same run goes on");
        assert!(server.count() <= calls + most, "{} calls", server.count());

        let done = library.run_with(&KEYED, &[("MODEL_KEY", "right")]).expect(0).json();
        assert_eq!((&done["run"], &done["status"]), (&report["run"], &"completed".into()));
        assert_eq!(found(&library.place, "text"), files());
        assert_eq!(done["counts"]["dead"], 0);
        library.place.check();
    }
}

#[test]
fn what_is_said_about_a_refused_key_is_about_the_key() {
    let server = locked("right", 401);
    let library = library(&server);
    let ran = library.run_with(&KEYED, &[("MODEL_KEY", "wrong-key")]).expect(5);
    assert!(!ran.stderr.contains("credit is exhausted"), "nobody spoke of credit:\n{}", ran.stderr);
    assert!(
        ran.json()["next_due"].is_null(),
        "what waits for somebody has no time: {}",
        ran.json()["next_due"]
    );
}

#[test]
fn vectors_of_another_size_stop_the_run_and_leave_the_index_as_it_is() {
    let size = Arc::new(AtomicUsize::new(8));
    let now = size.clone();
    let server = Server::start(move |call| vectors(call, now.load(Ordering::Relaxed)));
    let library = library(&server);
    library.index(&[], 0);
    let before = library.rows();

    size.store(12, Ordering::Relaxed);
    (0..FILES)
        .for_each(|n| library.write(&format!("{n:02}.md"), format!("This is changed text number {n}.\n")));
    let calls = server.count();
    let report = library.index(&[], 5);
    let because = text(&report["reason"]);
    for fragment in ["12 dimensions", "the index has 8", "--reembed"] {
        assert!(because.contains(fragment), "no {fragment:?} in {because}");
    }
    assert!(server.count() <= calls + 4, "{} calls", server.count() - calls);
    assert_eq!(library.place.dead_keys(), names::<&str>([]));
    let after = library.rows();
    assert_eq!((&after.chunks, &after.vectors), (&before.chunks, &before.vectors), "the old index is whole");
    library.index(&[], 5);

    size.store(8, Ordering::Relaxed);
    let done = library.index(&[], 0);
    assert_eq!((&done["run"], &done["status"]), (&report["run"], &"completed".into()));
    assert_eq!(found(&library.place, "changed"), files());
    library.place.check();

    // A model that stays another under its name.
    size.store(12, Ordering::Relaxed);
    library.index(&["--reembed"], 0);
    assert_eq!(found(&library.place, "changed"), files());
    let sizes: Names =
        library.rows().vectors.iter().map(|row| row.split('X').next().unwrap_or("").to_owned()).collect();
    assert_eq!(sizes, names(["'m'12"]), "nothing of the old one is left");
    library.place.check();
}

#[test]
fn a_query_with_a_vector_of_another_size_is_refused() {
    let size = Arc::new(AtomicUsize::new(8));
    let now = size.clone();
    let server = Server::start(move |call| vectors(call, now.load(Ordering::Relaxed)));
    let library = library(&server);
    library.index(&[], 0);
    size.store(12, Ordering::Relaxed);
    for mode in ["meaning", "hybrid"] {
        let ran = library.place.run(&["search", "text", "--mode", mode]);
        assert!(ran.code() != Some(0), "{mode}: hits of another model:\n{}", ran.stdout);
        assert!(ran.stderr.contains("12") && ran.stderr.contains('8'), "{mode}: {}", ran.stderr);
    }
}

#[test]
fn another_model_is_refused_until_the_index_is_made_anew() {
    let server = Server::start(|call| vectors(call, 8));
    let library = library(&server);
    library.index(&[], 0);
    let base = format!("http://{}/v1", server.address());
    let other = ["index", DOCS, "--embedder", "openai", "--base-url", &base, "--model", "other"];
    let ran = library.place.run(&other).expect(2);
    for fragment in ["model m", "other", "--rebuild"] {
        assert!(ran.stderr.contains(fragment), "no {fragment:?} in {}", ran.stderr);
    }
    assert_eq!(found(&library.place, "text"), files());
    let ran = library.place.run(&["search", "text", "--model", "other"]).expect(2);
    assert!(ran.stderr.contains("the model m, not with other"), "{}", ran.stderr);
    let rebuilt: Vec<&str> = other.into_iter().chain(["--rebuild"]).collect();
    library.place.run(&rebuilt).expect(0);
    assert_eq!(found(&library.place, "text"), files());
    library.place.check();
}

/// Looks for the token, and for a good part of it.
fn absent(what: &str, bytes: &[u8]) {
    for part in [CANARY, &CANARY[..18]] {
        let found = bytes.windows(part.len()).position(|window| window == part.as_bytes());
        assert_eq!(found, None, "{what} shows the key");
    }
}

#[test]
fn the_key_is_seen_by_the_service_and_by_nobody_else() {
    let right = locked(CANARY, 401);
    let wrong = locked("another", 401);
    let mut runs: Vec<Ran> = Vec::new();
    for (server, code) in [(&right, 0), (&wrong, 5)] {
        let mut library = library(server);
        library.place.set("REDRIVE_LOG", "trace");
        let place = &library.place;
        let key = [("MODEL_KEY", CANARY)];
        let more: Vec<&str> = KEYED.into_iter().chain(["--log-format", "json"]).collect();
        runs.push(library.run_with(&more, &key).expect(code));
        let base = format!("http://{}/v1", server.address());
        let plain =
            ["index", DOCS, "--embedder", "openai", "--model", "m", "--base-url", &base, KEYED[0], KEYED[1]];
        runs.push(place.run_with(&plain, &key).expect(code));
        let commands: [&[&str]; 9] = [
            &["search", "text number 3"],
            &["search", "text number 3", "--json"],
            &["show", "--json"],
            &["show"],
            &["failures"],
            &["gates", "--json"],
            &["stats", "--json"],
            &["explain", "00.md", "--json"],
            &["check", "--json"],
        ];
        runs.extend(commands.iter().map(|args| place.run_with(args, &key)));
        let calls = server.calls();
        assert!(calls.iter().all(|call| call.headers["authorization"].contains(CANARY)), "it was sent");
        assert!(calls.len() >= 2);
        for entry in std::fs::read_dir(place.path(".redrive")).expect("listed") {
            let path = entry.expect("listed").path();
            absent(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
        }
        let settings: String =
            library.store().query_row("SELECT settings FROM collection", [], |row| row.get(0)).expect("one");
        let settings: Value = serde_json::from_str(&settings).expect("JSON");
        assert_eq!(settings["api_key_env"], "MODEL_KEY", "{settings}");
    }
    for ran in &runs {
        absent("standard output", ran.stdout.as_bytes());
        absent("standard error", ran.stderr.as_bytes());
    }
    assert!(runs.iter().any(|ran| ran.stdout.contains("[redacted]")), "something was there to be removed");
}

#[test]
fn a_passage_that_the_model_refuses_is_told_and_not_forgotten() {
    let server = Server::start(|call| {
        if sent(call).iter().any(|text| text.contains("POISON")) {
            let error = json!({ "message": "The input cannot be processed", "code": "invalid_value" });
            return Answer::status(400, &json!({ "error": error }).to_string());
        }
        vectors(call, 8)
    });
    let library = library(&server);
    let part = |title: &str, word: &str| {
        format!("# {title}\n\n{}\n\n", format!("Long {word} prose here. ").repeat(60))
    };
    library.write("poisoned.md", part("Good", "walrus") + &part("Bad", "POISON lynx"));
    let ran = library.run_with(&["--chunk-tokens", "200"], &[]);
    let report = ran.json();
    assert_eq!(
        &found(&library.place, "text walrus") - &files(),
        names(["poisoned.md"]),
        "the rest of it is there"
    );
    assert_eq!(found(&library.place, "lynx"), names::<&str>([]));
    assert!(!library.place.dead().is_empty(), "{report}");
    assert_eq!(report["status"], "partial_success");
    assert_eq!(library.place.json(&["show"])["status"], report["status"], "one run has one status");
    let base = format!("http://{}/v1", server.address());
    let again =
        ["index", DOCS, "--embedder", "openai", "--model", "m", "--base-url", &base, "--chunk-tokens", "200"];
    let shown = library.place.run(&again);
    let said = format!("{}{}{}", ran.stderr, shown.stdout, shown.stderr);
    assert!(said.contains("fail"), "part of a file cannot be found, and nobody says so:\n{said}");
}
