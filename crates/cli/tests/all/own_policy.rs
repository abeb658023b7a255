//! Dead items are sent back under a policy of their own: for that one redrive, and whatever becomes of pipeline and process.

use serde_json::{Value, json};

use crate::support::server::failed;
use crate::support::shifted::Shifted;
use crate::support::{Answer, Daemon, Place, Server, array, count, one_stage, samples, text};

/// A service that never does anything but fail.
fn broken() -> Server {
    Server::start(|call| {
        let one = |item| failed(item, "retryable", "not today");
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    })
}

/// A stage that gives up at the first failure.
fn gives_up(server: &Server) -> String {
    format!("{}\nretry = {{ preset = \"none\" }}", server.stage())
}

/// How many tries an item had since it was sent back last.
fn tries(life: &Value) -> usize {
    let generation = &life["item"]["generation"];
    array(&life["attempts"]).iter().filter(|attempt| attempt["generation"] == *generation).count()
}

const THREE: &str = r#"{ max_attempts = 3, backoff = { kind = "none" } }"#;

#[test]
fn one_redrive_goes_under_the_policy_that_was_typed_and_the_next_does_not() {
    let server = broken();
    let place = Place::with(&one_stage(&gives_up(&server)), &samples(4));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    place.run(&["dead", "redrive", "--all", "--retry", THREE, "--work", "--quiet"]).expect(4);
    for item in place.dead() {
        let life = place.json(&["explain", &text(&item["key"])]);
        assert_eq!((tries(&life), &life["item"]["reason"]), (3, &json!("exhausted")), "{life}");
        let said = json!({"max_attempts": 3, "backoff": {"kind": "none"}});
        assert_eq!(life["item"]["retry"], said);
        let mark = text(&life["marks"][0]["detail"]);
        assert!(
            mark.starts_with("under a policy of its own: {") && mark.contains("\"max_attempts\":3"),
            "{mark}"
        );
    }
    let shown = place.run(&["dead", "show", "k0001"]).expect(0).stdout;
    assert!(shown.contains("at this stage under a policy of its own: {"), "{shown}");
    let listed = place.run(&["dead", "operations"]).expect(0).stdout;
    assert!(listed.contains("under the policy"), "{listed}");
    let exported = place.run(&["dead", "export", "--item", "k0001"]).expect(0).stdout;
    place.write("edited.jsonl", &exported);
    place.run(&["dead", "import", "edited.jsonl", "--quiet"]).expect(0);
    let back = place.json(&["explain", "k0001"]);
    assert_eq!(back["item"]["retry"], Value::Null, "sent back in another way it goes as ever");

    place.run(&["dead", "redrive", "--all", "--work", "--quiet"]).expect(4);
    let life = place.json(&["explain", "k0002"]);
    assert_eq!((tries(&life), &life["item"]["retry"]), (1, &Value::Null), "it was for one redrive");
    place.run(&["dead", "redrive", "--item", "k0003", "--retry", "none", "--work", "--quiet"]).expect(4);
    assert_eq!(place.json(&["explain", "k0003"])["item"]["retry"], "none");
    place.check();
}

#[test]
fn what_is_no_policy_is_refused_in_the_words_of_a_pipeline_file_before_anything_is_done() {
    let server = broken();
    let place = Place::with(&one_stage(&gives_up(&server)), &samples(2));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    for (wrong, words) in [
        ("patient", "unknown preset \"patient\"; known are"),
        ("{ max_attempts = 0 }", "retry.max_attempts: 0 is too low"),
        ("{ max_atempts = 2 }", "retry.max_atempts: unknown key"),
        ("{ max_attempts = ", "no policy"),
    ] {
        for verb in ["redrive", "freeze"] {
            let ran = place.run(&["dead", verb, "--all", "--retry", wrong]).expect(2);
            assert!(ran.stderr.contains(words), "{wrong}: {}", ran.stderr);
        }
    }
    place.run(&["dead", "redrive", "--all", "--retry", "none", "--from", "work"]).expect(2);
    assert_eq!(array(&place.json(&["dead", "operations"])["operations"]).len(), 0);
    let daemon = Daemon::start(&place, &[]);
    for wrong in [json!(3), json!({"max_attempts": 0}), json!({"max_attempts": null}), json!("patient")] {
        let asked = json!({"kind": "redrive", "all": true, "retry": wrong});
        let told = daemon.post("/v1/operations", &asked).expect(400).json();
        assert!(text(&told["detail"]).starts_with("no policy"), "{told}");
    }
    let purge = json!({"kind": "purge", "all": true, "retry": "none"});
    daemon.post("/v1/operations", &purge).expect(400);
    daemon.stop().expect(0);
}

#[test]
fn a_policy_of_its_own_outlives_a_kill_and_an_edited_pipeline() {
    let server = broken();
    let mut place = Place::with(&one_stage(&gives_up(&server)), &samples(700));
    let clock = Shifted::in_place(&mut place);
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    let retry = json!({"max_attempts": 2, "backoff": {"kind": "fixed", "delay": "1h"}});
    let asked = json!({"kind": "redrive", "all": true, "retry": retry, "dry_run": true});
    let dies = Daemon::start_with(&place, &["--no-work"], &[("REDRIVE_CRASH_AT", "redrive.after_page:1")]);
    let frozen = dies.post("/v1/operations", &asked).expect(201).json();
    let id = text(&frozen["operations"][0]["id"]);
    dies.post(&format!("/v1/operations/{id}/start"), &json!({})).expect(200);
    assert!(dies.finish().killed_by().is_some(), "it was killed");
    let stubborn = format!("{}\nretry = {{ preset = \"daemon\" }}", server.stage());
    place.write("p.toml", one_stage(&stubborn));
    place.run(&["submit", "p.toml", "--quiet"]).expect(0);
    let daemon = Daemon::start(&place, &[]);
    let path = format!("/v1/operations/{id}");
    let waits = |run: &Value| count(&run["counts"]["waiting"]) == 700;
    daemon.until(&path, |it| it["state"] == "done" && it["outcomes"]["live"] == 700);
    let life = daemon.until("/v1/items/k0699/explain?run=r1", |life| {
        tries(life) == 1 && life["item"]["state"] == "waiting"
    });
    assert_eq!(life["item"]["retry"], retry);
    daemon.until("/v1/runs/r1", waits);
    clock.put(2 * 3_600_000);
    let ended = daemon.until(&path, |it| it["outcomes"]["failed_again"] == 700);
    assert_eq!(count(&ended["changed"]), 700);
    for key in ["k0000", "k0699"] {
        let life = daemon.get(&format!("/v1/items/{key}/explain?run=r1")).expect(200).json();
        assert_eq!((tries(&life), &life["item"]["reason"]), (2, &json!("exhausted")), "{life}");
    }
    daemon.stop().expect(0);
    place.check();
}
