//! A key that is refused and credit that is used up wait for somebody: no item is to blame, none dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::index::Library;
use crate::support::{
    Answer, Call, Names, Place, Server, array, count, keys, names, one_stage, quick_retry, text, texts,
};

const ITEMS: usize = 40;
/// Calls that are answered before the service stops.
const GOOD: usize = 15;
const CONCURRENCY: usize = 8;

/// What a model answers to anything: vectors of four numbers, or a word.
fn fine(call: &Call) -> Answer {
    let body = match call.item().payload["input"].as_array() {
        Some(input) => {
            let entry = |(at, _): (usize, &Value)| json!({ "index": at, "embedding": [0.1, 0.2, 0.3, 0.4] });
            json!({ "data": input.iter().enumerate().map(entry).collect::<Vec<_>>() })
        }
        None => json!({ "choices": [{ "message": { "content": "fine" }, "finish_reason": "stop" }] }),
    };
    Answer::status(200, &body.to_string())
}

fn stage(kind: &str, server: &Server) -> String {
    let how = if kind == "chat" { "prompt = \"{/text}\"" } else { "batch = 1" };
    format!(
        "kind = \"{kind}\"\n{how}\nbase_url = \"http://{}/v1\"\nmodel = \"m\"\napi_key_env = \"MODEL_KEY\"\n\
         concurrency = {CONCURRENCY}\ngate = \"api\"\n{}",
        server.address(),
        quick_retry(2)
    )
}

fn place(kind: &str, server: &Server, items: usize) -> Place {
    let mut place = Place::with(&one_stage(&stage(kind, server)), &texts(items));
    place.set("MODEL_KEY", "canary-0123");
    place
}

/// A service that works, then refuses everything, then works again. The run pauses, loses nothing, and goes on.
fn paused(kind: &str, status: u16, body: &'static str) {
    let (served, mended) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let open = mended.clone();
    let server = Server::start(move |call| {
        if open.load(Ordering::SeqCst) || served.fetch_add(1, Ordering::SeqCst) < GOOD {
            return fine(call);
        }
        Answer::status(status, body)
    });
    let place = place(kind, &server, ITEMS);
    let case = format!("{kind}, {status}: {body}");
    let ran = place.run(&["run", "p.toml", "--json"]).expect(5);
    let report = ran.json();
    assert_eq!(report["status"], "paused_quota", "{case}: {report:#}");
    assert_eq!(count(&report["attempts"]["failures"]), 0, "{case}");
    assert_eq!(place.dead_keys(), Names::new(), "{case}");
    assert!(ran.stderr.contains("redrive resume r1"), "{case}: {}", ran.stderr);
    assert_eq!(place.gate("api")["state"], "paused", "{case}");
    let wasted = server.count() - GOOD;
    assert!((1..=CONCURRENCY + 5).contains(&wasted), "{case}: {wasted} calls were refused");
    mended.store(true, Ordering::SeqCst);
    let done = place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0).json();
    assert_eq!(done["status"], "completed", "{case}");
    assert_eq!(place.result_keys(), keys(ITEMS), "{case}");
    place.check();
}

#[test]
fn a_refused_key_pauses_a_run_and_kills_no_item() {
    for kind in ["embed", "chat"] {
        paused(kind, 401, r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#);
        paused(kind, 403, r#"{"error":{"message":"Forbidden"}}"#);
        paused(
            kind,
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
        );
    }
}

#[test]
fn credit_that_is_used_up_pauses_a_run_whatever_the_status_and_the_words() {
    for (status, body) in [
        (402, "{}"),
        (
            403,
            r#"{"error":"Your team has used all available credits or reached its monthly spending limit."}"#,
        ),
        (
            403,
            r#"{"statusCode":403,"message":"Out of call volume quota. Quota will be replenished in 6.23:59:59."}"#,
        ),
        (403, r#"{"error":{"message":"Key limit exceeded (total limit).","code":403}}"#),
        (401, r#"{"error":{"message":"Insufficient Balance"}}"#),
        (403, r#"{"error":{"message":"No.","code":"insufficient_account_balance"}}"#),
        (
            403,
            r#"{"error":{"message":"The free tier of the model has been exhausted.","code":"AllocationQuota.FreeTierOnly"}}"#,
        ),
        (412, r#"{"error":"Account is suspended, possibly due to reaching the monthly spending limit"}"#),
        (429, r#"{"error":{"message":"Quota exceeded for requests, limit: 50 per_day"}}"#),
        (429, r#"{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}"#),
    ] {
        paused("embed", status, body);
    }
}

#[test]
fn an_error_with_status_200_is_read_by_its_code_whether_number_or_word() {
    paused("embed", 200, r#"{"error":{"message":"no","code":"insufficient_quota"}}"#);
    paused("chat", 200, r#"{"error":{"message":"no","code":401}}"#);
    let server = Server::start(|call| match (call.item().key.rsplit(' ').next(), call.item().before) {
        (Some("k0001"), _) => {
            Answer::status(200, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#)
        }
        (Some("k0002"), 0..3) => {
            Answer::status(200, r#"{"error":{"message":"Try again in 20ms","code":"rate_limit_exceeded"}}"#)
        }
        _ => fine(call),
    });
    let place = place("embed", &server, 10);
    let report = place.run(&["run", "p.toml", "--json"]).expect(3).json();
    assert_eq!(place.dead_keys(), names(["k0001"]));
    assert_eq!(place.dead()[0]["class"], "oversized", "{:#}", place.dead()[0]);
    assert_eq!(count(&report["attempts"]["failures"]), 1, "throttles spend nothing: {report:#}");
    assert_eq!(count(&report["attempts"]["throttles"]), 3);
}

#[test]
fn items_that_are_refused_for_what_they_are_do_not_pause_the_others() {
    // The first, two in the middle, and the last: there is nobody behind it to tell.
    let poison = ["k0000", "k0011", "k0012", "k0039"];
    let server = Server::start(move |call| {
        let refused = poison.iter().any(|key| call.item().key.ends_with(key));
        if refused { Answer::status(403, "<html>Request blocked</html>") } else { fine(call) }
    });
    for kind in ["chat", "embed"] {
        let place = place(kind, &server, ITEMS);
        let report = place.run(&["run", "p.toml", "--results", "out.jsonl", "--json"]).expect(3).json();
        assert_eq!(place.dead_keys(), names(poison), "{kind}: {report:#}");
        assert_eq!(place.result_keys(), &keys(ITEMS) - &names(poison));
        assert!(place.dead().iter().all(|dead| dead["reason"] == "final"), "{:#?}", place.dead());
        place.check();
    }
}

#[test]
fn one_item_that_is_refused_does_not_take_its_batch_with_it() {
    let server = Server::start(|call| {
        let sent = array(&call.item().payload["input"]);
        let poison = sent.iter().any(|sent| text(sent).ends_with("k0021"));
        if poison { Answer::status(403, "blocked") } else { fine(call) }
    });
    let stage = stage("embed", &server).replace("batch = 1", "batch = 8");
    let mut place = Place::with(&one_stage(&stage), &texts(ITEMS));
    place.set("MODEL_KEY", "canary-0123");
    place.run(&["run", "p.toml", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.dead_keys(), names(["k0021"]));
    assert_eq!(place.result_keys(), &keys(ITEMS) - &names(["k0021"]));
    place.check();
}

#[test]
fn a_pipeline_that_calls_a_refused_key_final_has_its_way() {
    let server = Server::start(|_| Answer::status(401, "no"));
    let stage = format!("{}retry.final_on = [401]\n", stage("embed", &server));
    let mut place = Place::with(&one_stage(&stage), &texts(3));
    place.set("MODEL_KEY", "canary-0123");
    place.run(&["run", "p.toml"]).expect(4);
    assert_eq!(place.dead_keys(), keys(3));
}

/// A directory of some files.
fn library(server: &Server) -> Library {
    let library = Library::asking(&format!("http://{}/v1", server.address()));
    (0..12).for_each(|n| library.write(&format!("{n:02}.md"), format!("This is text number {n}.\n")));
    library
}

#[test]
fn the_hint_for_a_missing_key_works_the_first_time() {
    let server = Server::start(|call| {
        let known = call.headers.get("authorization").is_some_and(|sent| sent == "Bearer right");
        if known { fine(call) } else { Answer::status(401, r#"{"error":{"message":"no key"}}"#) }
    });
    let library = library(&server);
    let ran = library.run_with(&[], &[]).expect(5);
    assert!(text(&ran.json()["reason"]).contains("--api-key-env VARIABLE"), "{}", ran.stdout);
    let done = library.run_with(&["--api-key-env", "MODEL_KEY"], &[("MODEL_KEY", "right")]).expect(0).json();
    assert_eq!(done["status"], "completed");
    assert_eq!(count(&done["counts"]["succeeded"]), 12);
    library.place.check();
}

#[test]
fn a_wrong_dimension_stops_an_index_at_once_and_is_paid_for_once() {
    let server = Server::start(fine);
    let library = library(&server);
    let ran = library.run_with(&["--dimensions", "128"], &[]).expect(5);
    let report = ran.json();
    assert_eq!(report["status"], "paused_quota", "{report:#}");
    let because = text(&report["reason"]);
    for fragment in ["4 dimensions", "the index has 128", "--reembed"] {
        assert!(because.contains(fragment), "no {fragment:?} in {because}");
    }
    assert_eq!(library.place.dead_keys(), Names::new());
    let asked: Vec<String> = server
        .calls()
        .iter()
        .flat_map(|call| array(&call.item().payload["input"]).iter().map(text).collect::<Vec<_>>())
        .collect();
    let distinct: Names = asked.iter().cloned().collect();
    assert_eq!(asked.len(), distinct.len(), "no text was paid for twice");
    library.place.check();
}
