//! Items that expand into children: parents stand as their children do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::server::{Item, failed, passed};
use crate::support::{Answer, Names, Place, Server, array, count, key, keys, names, quick_retry, samples};
use serde_json::{Value, json};

const PARENTS: usize = 4;

/// A document with pages, each with two lines: three levels.
fn expand(item: &Item, parts: usize, of: &str) -> Value {
    let child = |n: usize| json!({ "key": format!("{}/{of}{n}", item.key), "payload": { "n": n } });
    json!({ "id": item.id, "children": (0..parts).map(child).collect::<Vec<_>>() })
}

/// Pages of the first document all die, one page of the second, none of the others.
fn is_bad(key: &str) -> bool {
    key.starts_with("k0000/") || key == "k0001/p1/l0" || key == "k0001/p1/l1"
}

fn pipeline(server: &Server, rule: &str) -> String {
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(1));
    format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"pages\"\non_child_failure = \"{rule}\"\n{stage}\
         [[stage.children]]\nname = \"lines\"\n{stage}\
         [[stage.children.children]]\nname = \"line\"\n{stage}\
         [[stage]]\nname = \"after\"\n{stage}"
    )
}

fn service(mended: Arc<AtomicBool>) -> Server {
    Server::start(move |call| {
        let item = call.item();
        Answer::results(&[match call.stage.as_str() {
            "pages" => expand(item, 3, "p"),
            "lines" => expand(item, 2, "l"),
            "line" if is_bad(&item.key) && !mended.load(Ordering::SeqCst) => {
                failed(item, "final", "unreadable")
            }
            _ => passed(item),
        }])
    })
}

fn states(place: &Place, keys: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
    let state = |key: String| {
        let life = place.json(&["explain", &key]);
        let state = crate::support::text(&life["item"]["state"]);
        (key, state)
    };
    keys.into_iter().map(state).collect()
}

fn lines(of: &str) -> Names {
    (0..3)
        .flat_map(|page| (0..2).map(move |line| format!("/p{page}/l{line}")))
        .map(|tail| format!("{of}{tail}"))
        .collect()
}

#[test]
fn parents_stand_as_their_children_do_and_a_redriven_child_reopens_them() {
    let mended = Arc::new(AtomicBool::new(false));
    let server = service(mended.clone());
    let place = Place::with(&pipeline(&server, "continue"), &samples(PARENTS));
    let report = place.run_pipeline(3);
    // k0000: every page is dead, so it is. k0001: one page is dead, it goes on without it.
    assert_eq!(place.result_keys(), &keys(PARENTS) - &names([key(0)]));
    assert_eq!((count(&report["counts"]["dead"]), count(&report["counts"]["admitted"])), (1, PARENTS as u64));
    let dead_lines: Names = (0..PARENTS).flat_map(|n| lines(&key(n))).filter(|key| is_bad(key)).collect();
    let dead_pages = names(["k0000/p0", "k0000/p1", "k0000/p2", "k0001/p1"]);
    assert_eq!(place.dead_keys(), &(&dead_lines | &dead_pages) | &names([key(0)]));
    let life = place.json(&["explain", &key(1)]);
    let joined = array(&life["marks"]).iter().find(|mark| mark["what"] == "joined").expect("it joined");
    assert!(crate::support::text(&joined["detail"]).contains("2 done, 1 dead of 3"), "{joined}");
    let called: Names = server
        .calls()
        .iter()
        .filter(|call| call.stage == "line")
        .map(|call| call.item().key.clone())
        .collect();
    assert_eq!(called, (0..PARENTS).flat_map(|n| lines(&key(n))).collect::<Names>());
    place.check();

    // One dead line of k0001 is sent back: its page and its document are open until it is through.
    mended.store(true, Ordering::SeqCst);
    let sent = place.json(&["dead", "redrive", "--item", "k0001/p1/l0"]);
    assert_eq!(count(&sent["items"]), 1);
    assert_eq!(
        states(&place, ["k0001/p1".to_owned(), key(1)])
            .iter()
            .filter(|(_, state)| state == "joining")
            .count(),
        2
    );
    place.check();
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(3);
    let after = states(&place, ["k0001/p1/l0".to_owned(), "k0001/p1".to_owned(), key(1)]);
    assert!(after.iter().all(|(_, state)| state == "succeeded"), "{after:?}");
    assert_eq!(place.result_keys(), &keys(PARENTS) - &names([key(0)]));
    place.check();

    // Everything that is left: lines first, so that nothing is expanded a second time.
    place.run(&["dead", "redrive", "--stage", "line", "--work", "--json"]).expect(0);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(PARENTS));
    assert_eq!(place.dead_keys(), Names::new());
    let expanded = server.calls().iter().filter(|call| call.stage == "pages").count();
    assert_eq!(expanded, PARENTS, "no document was taken apart twice");
    place.check();
}

#[test]
fn one_dead_child_kills_its_parent_where_the_pipeline_says_so() {
    let mended = Arc::new(AtomicBool::new(false));
    let server = service(mended.clone());
    let place = Place::with(&pipeline(&server, "dead"), &samples(PARENTS));
    place.run_pipeline(3);
    assert_eq!(place.result_keys(), &keys(PARENTS) - &names([key(0), key(1)]));
    let dead = place.dead();
    let parent = dead.iter().find(|item| item["key"] == "k0001").expect("it is dead");
    assert_eq!((&parent["reason"], &parent["class"]), (&json!("final"), &json!("final")));
    assert!(crate::support::text(&parent["message"]).contains("1 of 3 children are dead"), "{parent}");
    place.check();
    // Removing a dead document takes its pages and lines with it.
    let gone = place.json(&["dead", "purge", "--item", "k0000", "--yes"]);
    assert_eq!(count(&gone["items"]), 1 + 3 + 6);
    assert!(place.dead_keys().iter().all(|key| !key.starts_with("k0000")));
    place.check();
    mended.store(true, Ordering::SeqCst);
    // One of four was dead when it was purged, and stays counted as that.
    place.run(&["dead", "redrive", "--stage", "line", "--work"]).expect(3);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(3);
    assert_eq!(place.result_keys(), &keys(PARENTS) - &names([key(0)]));
    place.check();
}

#[test]
fn wrong_children_are_a_broken_answer_and_none_at_all_is_complete() {
    let server = Server::start(|call| {
        let item = call.item();
        let twice = json!([{ "key": "same", "payload": 1 }, { "key": "same", "payload": 2 }]);
        let answer = match item.key.as_str() {
            "k0000" => json!({ "id": item.id, "children": [] }),
            "k0001" => json!({ "id": item.id, "children": twice }),
            "k0002" => json!({ "id": item.id, "children": [{ "payload": 1 }] }),
            "k0003" => json!({ "id": item.id, "children": "two" }),
            _ if call.stage == "pages" => expand(item, 1, "p"),
            _ => passed(item),
        };
        Answer::results(&[answer])
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(2));
    let pipeline = format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"pages\"\n{stage}[[stage.children]]\nname = \"page\"\n{stage}"
    );
    let place = Place::with(&pipeline, &samples(5));
    place.run_pipeline(4);
    assert_eq!(place.result_keys(), names([key(0), key(4)]));
    assert_eq!(place.dead_keys(), names([key(1), key(2), key(3)]));
    assert!(place.dead().iter().all(|item| item["class"] == "retryable" && item["attempts"] == 2));
    place.check();

    // Children where the pipeline has no stages for them.
    let server = Server::start(|call| Answer::results(&[expand(call.item(), 2, "p")]));
    let flat = crate::support::one_stage(&format!("{}\n{}", server.stage(), quick_retry(2)));
    let place = Place::with(&flat, &samples(1));
    place.run_pipeline(4);
    let message = crate::support::text(&place.dead()[0]["message"]);
    assert!(message.contains("no [[stage.children]]"), "{message}");
    place.check();
}

#[test]
fn sending_everything_back_at_once_brings_parents_and_children_through() {
    let mended = Arc::new(AtomicBool::new(false));
    let server = service(mended.clone());
    let place = Place::with(&pipeline(&server, "continue"), &samples(PARENTS));
    place.run_pipeline(3);
    mended.store(true, Ordering::SeqCst);
    let dead = place.dead_keys();
    let listed = place.json(&["dead", "redrive", "--run", "r1", "--all", "--dry-run"]);
    let ids = array(&listed["ids"]).len();
    assert!(0 < ids && ids < dead.len(), "those that died of their children live again with them");
    let done = place.run(&["dead", "redrive", "--run", "r1", "--all", "--work", "--json"]).expect(0).json();
    assert_eq!((count(&done["items"]), &done["skipped"]), (ids as u64, &json!(0)));
    let report = &done["runs"][0];
    assert_eq!(
        (&report["status"], count(&report["counts"]["succeeded"])),
        (&json!("completed"), PARENTS as u64)
    );
    assert_eq!(place.dead_keys(), Names::new());
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(PARENTS));
    place.check();
}
