//! Lists over HTTP: one shape, one name for where a page begins, and cursors that belong to their list.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::serve_operations::{all_dead, mended_later};
use crate::support::server::{Item, failed};
use crate::support::{Answer, Daemon, Place, Server, array, one_stage, samples, text};

/// Every item of a list, page by page; fails where a page is larger than asked for, or one comes twice.
fn walk(daemon: &Daemon, path: &str, limit: usize, name: &str) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let and = if path.contains('?') { '&' } else { '?' };
        let page = daemon.get(&format!("{path}{and}limit={limit}{after}")).expect(200).json();
        let items = array(&page["items"]);
        assert!(items.len() <= limit, "{path}: {page}");
        found.extend(items.iter().map(|item| text(&item[name])));
        match &page["next"] {
            Value::Null => break,
            next => after = format!("&after={}", text(next)),
        }
        assert_eq!(items.len(), limit, "only the last page is short: {page}");
    }
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!(once.len(), found.len(), "{path}: {found:?}");
    found
}

/// A place with seven groups of dead items, of different sizes.
fn grouped() -> (Server, Place) {
    const WORDS: [&str; 7] = ["gold", "jump", "kiosk", "lynx", "quiz", "sphinx", "vows"];
    let server = Server::start(|call| {
        let one = |item: &Item| {
            let n = usize::try_from(item.payload["n"].as_u64().expect("a number")).expect("small");
            failed(item, "final", &format!("no good: {}", WORDS[n % WORDS.len()]))
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(18));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    (server, place)
}

#[test]
fn every_list_has_items_and_next_and_goes_on_by_after() {
    let (_server, place) = grouped();
    let daemon = Daemon::start(&place, &["--no-work"]);
    let document = daemon.get("/v1/openapi.json").expect(200).json();
    let mut pages = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let parameters = methods["get"]["parameters"].as_array();
        let named = |name: &str| {
            parameters
                .is_some_and(|all| all.iter().any(|param| param["in"] == "query" && param["name"] == name))
        };
        assert!(!named("cursor"), "{path}: it is called `after`");
        if !named("after") {
            continue;
        }
        pages += 1;
        let asked = path.replace("{run}", "r1").replace("{item}", "k0001").replace("{operation}", "op1");
        if !asked.contains("/op1/") {
            let page = daemon.get(&asked).expect(200).json();
            assert!(page["next"].is_null() || page["next"].is_string(), "{asked}: {page}");
        }
        // Neither what another list gave nor what the floor would take is a cursor here.
        let of_runs = text(&daemon.get("/v1/dead?limit=1").json()["next"]);
        let elsewhere = if path == "/v1/dead" { "r1" } else { &of_runs };
        for wrong in [elsewhere, "1", "r1", "0.1", "%00"] {
            let told = daemon.get(&format!("{asked}?after={wrong}")).expect(400).json();
            assert!(text(&told["hint"]).contains("`next`"), "{asked}: {told}");
        }
    }
    assert!(pages >= 7, "{pages}");
    for path in ["/v1/gates", "/v1/policies", "/v1/workers", "/v1/pipelines", "/v1/stuck", "/v1/operations"] {
        let list = daemon.get(path).expect(200).json();
        let keys: Vec<&String> = list.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["items", "next"], "{path}");
    }
    daemon.stop().expect(0);
}

#[test]
fn groups_are_walked_through_from_the_largest_to_the_smallest() {
    let (_server, place) = grouped();
    let daemon = Daemon::start(&place, &["--no-work"]);
    let all = daemon.get("/v1/dead/groups").expect(200).json();
    let all: Vec<String> = array(&all["items"]).iter().map(|group| text(&group["group"])).collect();
    assert_eq!(all.len(), 7);
    for limit in [1, 2, 3, 7] {
        assert_eq!(walk(&daemon, "/v1/dead/groups", limit, "group"), all, "{limit} at a time");
        assert_eq!(walk(&daemon, "/v1/dead/groups?pipeline=test", limit, "group"), all, "{limit} at a time");
    }
    for known in &all[1..4] {
        let note = json!({"words": "known", "acknowledged": true});
        daemon.post(&format!("/v1/dead/groups/{known}/note"), &note).expect(200);
    }
    let open: Vec<String> = [&all[..1], &all[4..]].concat();
    assert_eq!(walk(&daemon, "/v1/dead/groups?open=true", 2, "group"), open);
    daemon.stop().expect(0);
}

#[test]
fn operations_runs_and_items_that_stand_still_are_walked_through_in_pages() {
    let (server, _) = mended_later();
    let place = all_dead(&server, 5);
    let daemon = Daemon::start(&place, &["--no-work"]);
    for _ in 0..5 {
        let frozen = json!({"kind": "redrive", "all": true, "dry_run": true});
        daemon.post("/v1/operations", &frozen).expect(201);
    }
    assert_eq!(walk(&daemon, "/v1/operations", 2, "id"), ["op5", "op4", "op3", "op2", "op1"]);
    let pipeline = "name = \"other\"\n[[stage]]\nname = \"work\"\nkind = \"pass\"\n";
    for run in 0..3 {
        let items: Vec<Value> = (0..4).map(|n| json!({"key": format!("{run}-{n}"), "payload": n})).collect();
        daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201);
    }
    assert_eq!(walk(&daemon, "/v1/runs", 2, "run"), ["r4", "r3", "r2", "r1"]);
    let still = walk(&daemon, "/v1/stuck?older_than=0", 5, "key");
    assert_eq!(still.len(), 12, "{still:?}");
    let newest = still[..5].iter().filter(|key| key.starts_with("2-")).count();
    assert_eq!(newest, 4, "run by run, the newest first, and on a page by time: {still:?}");
    assert_eq!(walk(&daemon, "/v1/dead", 2, "key").len(), 5);
    assert_eq!(walk(&daemon, "/v1/runs/r2/items", 3, "key").len(), 4);
    assert_eq!(walk(&daemon, "/v1/operations/op1/items", 2, "key").len(), 5);
    assert_eq!(walk(&daemon, "/v1/failures?run=r1", 2, "of").len(), 5);
    daemon.stop().expect(0);
}
