//! External workers go through the gates of their stages as calls of the daemon's own do.

use serde_json::{Value, json};

use crate::serve_external::{claim, complete, hand_in, keys_of};
use crate::support::shifted::Shifted;
use crate::support::{Daemon, Place, array, count, keys, quick_retry, text};

/// A place with a pipeline whose one stage external workers do, through a gate.
fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let text = format!(
        "name = \"moods\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n[[stage]]\n\
         name = \"mood\"\nkind = \"external\"\nbatch = 100\noutput = \"/mood\"\ntimeout = \"60s\"\ngate = \"desk\"\n{}\n\
         [gate.desk]\nbreaker = false\n",
        quick_retry(2)
    );
    place.write("pipelines/moods.toml", text);
    place
}

fn start(place: &Place) -> Daemon {
    Daemon::start(place, &["--pipelines", "pipelines"])
}

/// Asks for work and waits only a moment for it.
fn ask(daemon: &Daemon) -> Value {
    let ask = json!({"stages": ["mood"], "max_items": 10, "wait_ms": 400, "lease_ms": 30_000});
    daemon.post("/v1/work/claim", &ask).expect(200).json()
}

/// How a gate stands; `null` where nobody knows it yet. Lists go by `items`, or by what is in them.
fn gate(list: &Value) -> Value {
    let all = list.get("items").or_else(|| list.get("gates")).map(array).unwrap_or_default();
    all.iter().find(|gate| gate["name"] == "desk").cloned().unwrap_or_default()
}

fn until_gate(daemon: &Daemon, state: &str) {
    daemon.until("/v1/gates", |list| gate(list)["state"] == state);
}

fn attempts(daemon: &Daemon) -> (u64, u64, u64) {
    let told = daemon.get("/v1/runs/r1").expect(200).json()["attempts"].clone();
    (count(&told["total"]), count(&told["failures"]), count(&told["throttles"]))
}

/// Has the gate known: somebody did something behind it.
fn known(daemon: &Daemon) {
    hand_in(daemon, 1);
    let first = claim(daemon, 10, 30_000);
    complete(daemon, &first, "good").expect(200);
    until_gate(daemon, "open");
}

#[test]
fn nothing_is_given_out_and_no_attempt_is_counted_while_the_gate_is_paused() {
    let place = place();
    let daemon = start(&place);
    known(&daemon);
    assert_eq!(attempts(&daemon), (1, 0, 0));
    daemon.post("/v1/gates/desk/pause", &json!({"why": "a look"})).expect(200);
    // Whoever works hears of it within a moment; one that begins knows it.
    daemon.stop().expect(0);
    let daemon = start(&place);
    hand_in(&daemon, 5);
    for _ in 0..3 {
        let none = ask(&daemon);
        assert_eq!((&none["lease"], &none["items"]), (&Value::Null, &json!([])), "{none}");
    }
    assert_eq!(attempts(&daemon), (1, 0, 0), "turned away is no try");
    let item = daemon.get("/v1/items/k0003").expect(200).json();
    assert_eq!((&item["state"], count(&item["attempts"])), (&json!("waiting"), 0), "{item}");
    let now = text(&daemon.get("/v1/items/k0003/explain").expect(200).json()["now"]);
    assert!(now.contains("desk") && now.contains("paused"), "{now}");
    daemon.post("/v1/gates/desk/resume", &json!({})).expect(200);
    let mut done = crate::support::Names::new();
    while done.len() < 4 {
        let some = claim(&daemon, 10, 30_000);
        complete(&daemon, &some, "good").expect(200);
        done.extend(keys_of(&some));
    }
    assert_eq!(done, keys(5).into_iter().skip(1).collect());
    assert_eq!(attempts(&daemon), (5, 0, 0));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_worker_that_is_turned_away_closes_the_gate_for_as_long_as_it_was_asked() {
    let mut place = place();
    let clock = Shifted::in_place(&mut place);
    let daemon = start(&place);
    hand_in(&daemon, 4);
    let held = claim(&daemon, 10, 30_000);
    let turned = |item: &Value| json!({"id": item["id"], "error": {"class": "rate_limited", "message": "slow down", "retry_after_ms": 60_000}});
    let results: Vec<Value> = array(&held["items"]).iter().map(turned).collect();
    let told = results.len() as u64;
    let body = json!({"lease": held["lease"], "results": results});
    assert_eq!(daemon.post("/v1/work/complete", &body).expect(200).json()["recorded"], told);
    until_gate(&daemon, "closed");
    assert_eq!(ask(&daemon)["items"], json!([]), "nobody is given anything meanwhile");
    let (total, failures, throttles) = attempts(&daemon);
    assert_eq!((failures, throttles), (0, told), "of {total}");
    let item = daemon.get(&format!("/v1/items/{}", text(&held["items"][0]["key"]))).expect(200).json();
    assert_eq!((&item["state"], count(&item["failures"])), (&json!("waiting"), 0), "{item}");
    daemon.stop().expect(0);
    clock.put(90_000);
    let daemon = start(&place);
    let mut done = crate::support::Names::new();
    while done.len() < 4 {
        let some = claim(&daemon, 10, 30_000);
        complete(&daemon, &some, "good").expect(200);
        done.extend(keys_of(&some));
    }
    let report = daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 4);
    assert_eq!((count(&report["attempts"]["failures"]), count(&report["counts"]["dead"])), (0, 0));
    daemon.stop().expect(0);
    place.check();
}
