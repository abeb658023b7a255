//! External workers: they ask `redrive serve` for work over HTTP, and say what became of it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{
    Daemon, Names, Place, Reply, Script, array, count, key, keys, names, quick_retry, results, text, wait,
};

/// A place with a pipeline whose one stage external workers do.
pub fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/moods.toml", pipeline());
    place
}

fn pipeline() -> String {
    format!(
        "name = \"moods\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n[[stage]]\n\
         name = \"mood\"\nkind = \"external\"\nbatch = 100\noutput = \"/mood\"\ntimeout = \"60s\"\n{}",
        quick_retry(2)
    )
}

pub fn hand_in(daemon: &Daemon, items: usize) {
    let items: Vec<Value> = (0..items).map(|n| json!({"payload": {"id": key(n), "n": n}})).collect();
    daemon.post("/v1/pipelines/moods/items", &json!({"items": items})).expect(200);
}

pub fn claim(daemon: &Daemon, max_items: usize, lease_ms: u64) -> Value {
    let ask = json!({"pipeline": "moods", "stages": ["mood"], "max_items": max_items, "wait_ms": 30_000, "lease_ms": lease_ms});
    daemon.post("/v1/work/claim", &ask).expect(200).json()
}

pub fn keys_of(claim: &Value) -> Names {
    names(array(&claim["items"]).iter().map(|item| text(&item["key"])))
}

pub fn complete(daemon: &Daemon, claim: &Value, output: &str) -> Reply {
    let result = |item: &Value| json!({"id": item["id"], "output": output});
    let results: Vec<Value> = array(&claim["items"]).iter().map(result).collect();
    daemon.post("/v1/work/complete", &json!({"lease": claim["lease"], "results": results}))
}

/// What each item came to, by its key.
pub fn moods(daemon: &Daemon) -> BTreeMap<String, Value> {
    results(&daemon.get("/v1/runs/r1/results").expect(200).body)
}

#[test]
fn nothing_is_claimed_and_no_attempt_is_counted_while_nobody_asks() {
    let place = place();
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    hand_in(&daemon, 5);
    let why = "no external worker asks for stage mood";
    let report = daemon.until("/v1/runs/r1", |report| report["reason"] == why);
    assert_eq!((count(&report["counts"]["waiting"]), count(&report["attempts"]["total"])), (5, 0));
    let life = daemon.get("/v1/items/k0003/explain").expect(200).json();
    assert_eq!((count(&life["item"]["attempts"]), array(&life["attempts"]).len()), (0, 0));
    assert!(text(&life["now"]).contains("no external worker asks for it"), "{}", life["now"]);
    assert_eq!(daemon.get("/v1/overview").expect(200).json()["runs"][0]["reason"], why);
    let shown = place.run(&["show", "r1"]).expect(0).stdout;
    assert!(shown.contains(why), "{shown}");
    // Whoever asks is given them, and they are in hand from then on.
    let claim = claim(&daemon, 3, 30_000);
    assert_eq!(
        (&claim["pipeline"], &claim["stage"], &claim["run"]),
        (&json!("moods"), &json!("mood"), &json!("r1"))
    );
    assert_eq!(
        (array(&claim["items"]).len(), &claim["stopping"]),
        (3, &json!(false)),
        "no more than was asked for"
    );
    let held = daemon.get("/v1/runs/r1").expect(200).json();
    assert_eq!((count(&held["counts"]["running"]), count(&held["counts"]["waiting"])), (3, 2));
    let heard = complete(&daemon, &claim, "good").expect(200).json();
    assert_eq!((&heard["recorded"], &heard["left"], &heard["lease"]), (&json!(3), &json!(0), &Value::Null));
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    assert_eq!(count(&report["counts"]["succeeded"]), 3, "it is kept when it is answered");
    assert_eq!(moods(&daemon).into_keys().collect::<Names>(), keys_of(&claim));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_claim_that_waits_is_answered_when_something_comes() {
    let place = place();
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let ask = |body: Value| daemon.post("/v1/work/claim", &body);
    let none = ask(json!({"wait_ms": 0})).expect(200).json();
    assert_eq!((&none["lease"], array(&none["items"]).len()), (&Value::Null, 0));
    for wrong in [
        json!({"max_items": 0}),
        json!({"max_items": 10_001}),
        json!({"wait_ms": 60_001}),
        json!({"lease_ms": 999}),
        json!({"colour": 1}),
        json!({"worker": "w".repeat(201)}),
    ] {
        ask(wrong).expect(400);
    }
    std::thread::scope(|scope| {
        let begun = wait::now();
        let waits = scope.spawn(|| claim(&daemon, 10, 30_000));
        hand_in(&daemon, 2);
        let claimed = waits.join().expect("answered");
        assert_eq!(keys_of(&claimed), keys(2));
        assert!(begun.elapsed() < std::time::Duration::from_secs(25), "it did not wait to the end");
        complete(&daemon, &claimed, "good").expect(200);
        // Now the run is open, and only the question was missing.
        hand_in(&daemon, 3);
        let next = claim(&daemon, 10, 30_000);
        assert_eq!(keys_of(&next), names([key(2)]));
        complete(&daemon, &next, "good").expect(200);
    });
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    assert_eq!((count(&report["counts"]["succeeded"]), count(&report["attempts"]["total"])), (3, 3));
    daemon.stop().expect(0);
}

/// Claims and answers until all of so many items are done; the keys of what it did.
fn works(daemon: &Daemon, name: &str, max_items: usize, of: u64) -> Vec<String> {
    let mut done = Vec::new();
    loop {
        let ask = json!({"stages": ["mood"], "max_items": max_items, "wait_ms": 300, "lease_ms": 30_000, "worker": name});
        let claim = daemon.post("/v1/work/claim", &ask).expect(200).json();
        if array(&claim["items"]).is_empty() {
            let report = daemon.get("/v1/runs/r1").expect(200).json();
            if count(&report["counts"]["succeeded"]) == of {
                return done;
            }
            continue;
        }
        assert!(array(&claim["items"]).len() <= max_items, "{claim}");
        let heard = complete(daemon, &claim, name).expect(200).json();
        assert_eq!(heard["stale"], 0, "{heard}");
        done.extend(keys_of(&claim));
    }
}

#[test]
fn workers_that_race_do_every_item_once() {
    let place = place();
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let more = Daemon::start(&place, &["--pipelines", "pipelines"]);
    hand_in(&daemon, 300);
    let done: Vec<Vec<String>> = std::thread::scope(|scope| {
        let a = scope.spawn(|| works(&daemon, "a", 7, 300));
        let b = scope.spawn(|| works(&daemon, "b", 20, 300));
        // Each daemon serves its own.
        let c = scope.spawn(|| works(&more, "c", 11, 300));
        [a, b, c].map(|worker| worker.join().expect("it ends")).to_vec()
    });
    let all: Vec<String> = done.iter().flatten().cloned().collect();
    assert_eq!((all.len(), names(&all)), (300, keys(300)), "each by one of them");
    for (name, mine) in ["a", "b", "c"].iter().zip(&done) {
        let kept = moods(&daemon).into_iter().filter(|(_, content)| content["mood"] == *name);
        assert_eq!(kept.map(|(key, _)| key).collect::<Names>(), names(mine), "{name}");
    }
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    assert_eq!((count(&report["attempts"]["total"]), count(&report["attempts"]["crashes"])), (300, 0));
    daemon.stop().expect(0);
    more.stop().expect(0);
    place.check();
}

/// A worker of another language.
fn python(file: &Path, daemon: &Daemon, token: &str) -> Script {
    let url = format!("http://{}", daemon.address());
    Script::start(Path::new("python3"), file, &[("REDRIVE_URL", &url), ("REDRIVE_TOKEN", token)])
}

/// Claims with a short lease, says so in a file, and never answers.
const CLAIMS_AND_HANGS: &str = r#"
import json, os, time, urllib.request
body = {"stages": ["mood"], "max_items": 20, "wait_ms": 30000, "lease_ms": 1000, "worker": "victim"}
headers = {"Authorization": "Bearer " + os.environ["REDRIVE_TOKEN"], "Content-Type": "application/json"}
request = urllib.request.Request(os.environ["REDRIVE_URL"] + "/v1/work/claim", json.dumps(body).encode(), headers)
claim = json.load(urllib.request.urlopen(request))
with open(os.path.join(os.path.dirname(__file__), "claimed.json"), "w") as file:
    json.dump(claim, file)
time.sleep(600)
"#;

#[test]
fn a_worker_that_is_killed_with_a_batch_in_hand_counts_a_crash_and_others_do_it() {
    let place = place();
    let token =
        place.run(&["token", "create", "wanda", "--role", "worker"]).expect(0).stdout.trim().to_owned();
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    place.write("victim.py", CLAIMS_AND_HANGS);
    hand_in(&daemon, 30);
    let victim = python(&place.path("victim.py"), &daemon, &token);
    let mut held = Value::Null;
    wait::until("the victim holds a batch", || {
        let text = std::fs::read_to_string(place.path("claimed.json")).unwrap_or_default();
        held = serde_json::from_str(&text).unwrap_or_default();
        held["lease"].is_string()
    });
    drop(victim);
    let report = daemon.until("/v1/runs/r1", |report| report["attempts"]["crashes"] == 20);
    assert_eq!(count(&report["counts"]["dead"]), 0);
    let done = works(&daemon, "heir", 100, 30);
    assert_eq!((done.len(), names(&done)), (30, keys(30)));
    // The dead rise, and are too late.
    let result = json!({"id": held["items"][0]["id"], "output": "victim"});
    let late =
        daemon.post_as(&token, "/v1/work/complete", &json!({"lease": held["lease"], "results": [result]}));
    assert_eq!(late.expect(409).json()["code"], "lease_over");
    assert!(moods(&daemon).values().all(|content| content["mood"] == "heir"));
    let key = text(&held["items"][0]["key"]);
    let life = daemon.get(&format!("/v1/items/{key}/explain")).expect(200).json();
    let outcomes: Vec<String> =
        array(&life["attempts"]).iter().map(|attempt| text(&attempt["outcome"])).collect();
    assert_eq!(outcomes, ["crashed", "succeeded"]);
    assert!(text(&life["attempts"][0]["message"]).contains("\"victim\" gave no sign of life"), "{life}");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn the_example_in_python_does_the_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = root.join("examples/external");
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    std::fs::copy(example.join("pipeline.toml"), place.path("pipelines/moods.toml")).expect("copied");
    let token =
        place.run(&["token", "create", "wanda", "--role", "worker"]).expect(0).stdout.trim().to_owned();
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let worker = python(&example.join("worker.py"), &daemon, &token);
    let mut items: Vec<Value> = (0..150)
        .map(|n| json!({"payload": {"id": key(n), "text": if n % 2 == 0 { "Great!" } else { "Meh." }}}))
        .collect();
    items.push(json!({"payload": {"id": "empty", "text": " "}}));
    items.push(json!({"payload": {"id": "none"}}));
    items.push(json!({"payload": {"id": "number", "text": 7}}));
    daemon.post("/v1/pipelines/moods/items", &json!({"items": items})).expect(200);
    let report = daemon.until("/v1/runs/r1", |report| {
        report["counts"]["succeeded"] == 150
            && report["counts"]["filtered"] == 1
            && report["counts"]["dead"] == 1
    });
    assert_eq!(count(&report["attempts"]["crashes"]), 0, "{report}");
    let found = moods(&daemon);
    assert_eq!((&found["k0000"]["mood"], &found["k0001"]["mood"]), (&json!("good"), &json!("other")));
    let dead = daemon.get("/v1/dead").expect(200).json();
    assert_eq!((&dead["items"][0]["key"], &dead["items"][0]["class"]), (&json!("none"), &json!("final")));
    let life = daemon.get("/v1/items/number/explain").expect(200).json();
    assert!(text(&life["item"]["message"]).contains("AttributeError"), "{life}");
    drop(worker);
    daemon.stop().expect(0);
    place.check();
}
