//! Nothing rewrites history: what was purged is counted and told, what is pruned is named, statistics are of all items.

use std::time::Duration;

use crate::support::{
    Answer, Call, Names, Place, Server, count, key, keys, names, one_stage, quick_retry, samples, text, wait,
};
use serde_json::{Value, json};

const ITEMS: usize = 10;
/// Items 2 to 9 die.
const DEAD: u64 = 8;

/// Two items pass, all others are refused.
fn mostly_bad(call: &Call) -> Answer {
    match call.item().payload["n"].as_u64() {
        Some(0 | 1) => Answer::all(call),
        _ => Answer::status(422, "not like this"),
    }
}

fn failed_run() -> (Server, Place) {
    let server = Server::start(mostly_bad);
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    place.run_pipeline(4);
    (server, place)
}

fn sum_of_all_but(counts: &Value, name: &str) -> u64 {
    let counts = counts.as_object().expect("an object");
    counts.iter().filter(|(state, _)| *state != name).map(|(_, n)| count(n)).sum()
}

#[test]
fn a_purge_never_makes_a_status_better() {
    let (server, place) = failed_run();
    let before = place.json(&["show", "r1"]);
    assert_eq!((&before["status"], &before["counts"]["purged"]), (&json!("failed"), &json!(0)));
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    for report in [&place.json(&["show", "r1"]), &place.json(&["runs"])["runs"][0]] {
        assert_eq!(report["status"], "failed");
        let counts = &report["counts"];
        assert_eq!((&counts["admitted"], &counts["purged"]), (&json!(ITEMS), &json!(DEAD)));
        assert_eq!((&counts["succeeded"], &counts["dead"]), (&json!(2), &json!(0)));
        assert_eq!(sum_of_all_but(counts, "admitted"), ITEMS as u64, "the counts add up");
        assert_eq!(report["stages"][0]["counts"], *counts);
    }
    let told = place.run(&["show", "r1"]).expect(0).stdout;
    assert!(told.contains("10 admitted") && told.contains("8 purged"), "{told}");
    place.check();
    // The same command once more has nothing to do, pays nothing, and says what it said.
    let calls = server.count();
    place.run(&["resume", "r1"]).expect(4);
    assert_eq!(server.count(), calls);
    place.check();
}

#[test]
fn a_purged_item_is_told_by_explain_and_by_dead_show() {
    let (_server, place) = failed_run();
    let life = place.json(&["explain", &key(3)]);
    let id = text(&life["item"]["id"]);
    let mut place = place;
    place.set("USER", "mallory");
    place.run(&["dead", "purge", "--item", &key(3), "--yes"]).expect(0);
    for args in [["explain", &key(3)], ["explain", &id], ["explain", &id[..8]]] {
        let left = place.json(&args);
        let item = &left["item"];
        assert_eq!((&item["id"], &item["key"], &item["run"]), (&json!(id), &json!(key(3)), &json!("r1")));
        assert_eq!((&item["state"], &item["was"]), (&json!("purged"), &json!("dead")));
        assert_eq!((&item["stage"], &item["reason"]), (&json!("work"), &json!("final")));
        assert_eq!((&item["by"], &item["operation"]), (&json!("mallory"), &json!("op1")));
        assert!(item["purged_at"].is_string() && left["attempts"] == json!([]), "{left}");
    }
    let told = place.run(&["dead", "show", &key(3)]).expect(0).stdout;
    for part in [&*key(3), "purged", "mallory", "op1", "dead (final)", "work"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    // What works on items says what became of it, instead of that it never was.
    let refused = place.run(&["kill", &key(3)]).expect(2).stderr;
    assert!(refused.contains("was purged") && refused.contains("explain"), "{refused}");
    // The same key in another run is another item.
    place.run(&["run", "p.toml", "--new"]).expect(4);
    let newest = place.run(&["explain", &key(3)]).expect(0);
    assert!(newest.stderr.contains("r2") && newest.stdout.contains("in run r2"), "{}", newest.stdout);
    assert_eq!(place.json(&["explain", &key(3), "--run", "r1"])["item"]["state"], "purged");
    place.check();
}

#[test]
fn a_purged_line_that_is_read_again_is_no_new_work() {
    let server = Server::start(mostly_bad);
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    // Admission is broken off, so that the source is read again from an earlier place.
    place.run_with(&["run", "p.toml"], &[("REDRIVE_CRASH_AT", "admit.after_submit")]);
    place.run_pipeline(4);
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    let calls = server.count();
    let again = place.run(&["resume", "r1", "--json"]).expect(4).json();
    assert_eq!(server.count(), calls);
    assert_eq!(
        (count(&again["counts"]["admitted"]), count(&again["counts"]["purged"])),
        (ITEMS as u64, DEAD)
    );
    place.check();
}

#[test]
fn prune_spares_dead_letters_unless_told_and_names_them() {
    let (_server, place) = failed_run();
    let good = Server::good();
    place.write("good.toml", one_stage(&good.stage()).replace("\"test\"", "\"good\""));
    place.run(&["run", "good.toml"]).expect(0);
    // The question names what goes and what stays.
    let asked = place.run(&["prune", "--older-than", "0s"]).expect(2).stderr;
    for part in ["1 run with 8 dead items is spared", "--with-dead", "Forget 1 run that", "10 items"] {
        assert!(asked.contains(part), "no {part:?} in {asked}");
    }
    let asked = place.run(&["prune", "--older-than", "0s", "--with-dead"]).expect(2).stderr;
    assert!(asked.contains("Forget 2 runs") && asked.contains("20 items, 8 of them dead letters"), "{asked}");
    let pruned = place.json(&["prune", "--older-than", "0s", "--yes"]);
    assert_eq!((&pruned["runs"], &pruned["items"], &pruned["dead"]), (&json!(1), &json!(10), &json!(0)));
    assert_eq!(pruned["spared"], json!({ "runs": 1, "dead": DEAD }));
    assert_eq!(
        place.dead_keys(),
        keys(ITEMS).difference(&names([key(0), key(1)])).cloned().collect::<Names>()
    );
    // Where nothing goes, nobody has to be asked.
    let told = place.run(&["prune", "--older-than", "0s"]).expect(0).stdout;
    assert!(told.contains("forgot 0 runs") && told.contains("spared"), "{told}");
    place.check();
    let taken = place.json(&["prune", "--older-than", "0s", "--with-dead", "--yes"]);
    assert_eq!((&taken["runs"], &taken["dead"]), (&json!(1), &json!(DEAD)));
    assert_eq!(taken["spared"], json!({ "runs": 0, "dead": 0 }));
    assert!(place.dead().is_empty());
    place.check();
}

#[test]
fn a_run_that_is_gone_on_with_is_as_young_as_its_last_end() {
    let good = Server::good();
    let place = Place::with(&one_stage(&good.stage()), &samples(2));
    place.run(&["run", "p.toml"]).expect(0);
    let ended = || place.json(&["show", "r1"])["finished_at"].clone();
    let first = ended();
    place.write("in.jsonl", samples(3));
    place.run(&["run", "p.toml"]).expect(0);
    assert_ne!(ended(), first, "it ended again");
    // Its age counts from there.
    let kept = place.json(&["prune", "--older-than", "1h", "--yes"]);
    let gone = place.json(&["prune", "--older-than", "0s", "--yes"]);
    assert_eq!((&kept["runs"], &gone["runs"]), (&json!(0), &json!(1)), "{kept} {gone}");
    place.check();
}

#[test]
fn a_run_whose_dead_letters_were_purged_is_pruned_with_its_tombstones() {
    let (_server, place) = failed_run();
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    let pruned = place.json(&["prune", "--older-than", "0s", "--yes"]);
    assert_eq!(
        (&pruned["runs"], &pruned["items"], &pruned["tombstones"]),
        (&json!(1), &json!(2), &json!(DEAD))
    );
    let gone = place.run(&["explain", &key(3)]).expect(2).stderr;
    assert!(gone.contains("no item has the id or key"), "{gone}");
    place.check();
}

#[test]
fn an_edited_item_is_told_from_a_repeated_one_by_its_id() {
    // A handler that remembers what it was asked by the id, as a `command` handler has to.
    let server = Server::start(|call| {
        let bad =
            call.stage == "work" && call.item().key == key(1) && call.item().payload.get("good").is_none();
        if bad { Answer::status(422, "not like this") } else { Answer::all(call) }
    });
    let stage = |name: &str| format!("[[stage]]\nname = \"{name}\"\n{}\n", server.stage());
    let place = Place::with(&format!("{}{}", one_stage(&server.stage()), stage("after")), &samples(3));
    place.run_pipeline(3);
    let exported = place.run(&["dead", "export"]).expect(0).stdout;
    let mut line: Value = serde_json::from_str(exported.trim()).expect("JSON");
    line["item"]["payload"] = json!({ "id": key(1), "n": 1, "good": true });
    place.start_with(&["dead", "import", "-"], &[], format!("{line}\n").as_bytes()).finish().expect(0);
    place.run(&["resume", "r1"]).expect(0);
    let mut by_id: std::collections::BTreeMap<String, Names> = std::collections::BTreeMap::new();
    for call in server.calls() {
        let item = call.item();
        let asked = format!("{} at {}: {}", item.key, call.stage, item.payload);
        by_id.entry(item.id.clone()).or_default().insert(asked);
        assert_eq!(call.headers["idempotency-key"], item.id, "of one item the header is the id");
        let public = text(&place.json(&["explain", &item.key])["item"]["id"]);
        assert_eq!(item.item, public, "operators know it by the other id");
    }
    assert!(by_id.values().all(|asked| asked.len() == 1), "one id, one work: {by_id:#?}");
    assert_eq!(by_id.len(), 3 + 3 + 1, "three items at two stages, and one of them edited");
    place.check();
}

#[test]
fn the_table_of_runs_adds_up() {
    let server = Server::start(|call| match call.item().payload["n"].as_u64() {
        Some(0) => Answer::results(&[json!({ "id": call.item().id, "filtered": "dull" })]),
        Some(1) => Answer::status(422, "not like this"),
        _ => Answer::all(call),
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    place.run_pipeline(3);
    let heads = |table: &str| {
        table.lines().next().unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let table = place.run(&["runs"]).expect(0).stdout;
    let expected =
        ["RUN", "PIPELINE", "STATUS", "ADMITTED", "SUCCEEDED", "FILTERED", "DEAD", "TOOK", "BEGAN", "SOURCE"];
    assert_eq!(heads(&table), expected, "states that no run has are left out");
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    // Another run that waits: nobody is at it.
    let held = Server::good();
    held.hold();
    place.write(
        "open.toml",
        one_stage(&format!("{}\nconcurrency = 2\n", held.stage())).replace("\"test\"", "\"open\""),
    );
    let started = place.start(&["run", "open.toml"]);
    held.until_open(2);
    place.until_json(&["show", "r2"], |report| report["admitted_all"] == true);
    let table = place.run(&["runs"]).expect(0).stdout;
    held.release();
    started.finish().expect(0);
    let heads = heads(&table);
    for row in table.lines().skip(1).take(2) {
        let cells: Vec<&str> = row.split_whitespace().collect();
        let n = |at: usize| cells[at].replace(',', "").parse::<u64>().unwrap_or_else(|_| panic!("{row}"));
        let admitted = heads.iter().position(|head| head == "ADMITTED").expect("there");
        let took = heads.iter().position(|head| head == "TOOK").expect("there");
        assert_eq!((admitted + 1..took).map(n).sum::<u64>(), n(admitted), "{table}");
    }
    assert!(heads.contains(&"PURGED".to_owned()) && heads.contains(&"RUNNING".to_owned()), "{table}");
}

#[test]
fn the_time_between_a_run_and_its_redrive_is_not_what_it_took() {
    let server = Server::start(|call| match call.item().before {
        0 if call.item().key == key(1) => Answer::status(422, "not yet"),
        _ => Answer::all(call),
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    let begun = wait::now();
    let first = place.run(&["run", "p.toml", "--json"]).expect(3);
    let (took, waited) = (first.took, wait::now());
    wait::until("two seconds have passed", || waited.elapsed() > Duration::from_secs(2));
    let second = place.run(&["dead", "redrive", "--all", "--work", "--json"]).expect(0);
    let shown = place.json(&["show", "r1"]);
    let elapsed = Duration::from_millis(count(&shown["elapsed_ms"]));
    assert!(elapsed <= took + second.took, "{elapsed:?} of {took:?} and {:?}", second.took);
    assert!(elapsed + Duration::from_secs(2) <= begun.elapsed());
}

#[test]
fn no_retry_is_announced_for_what_was_never_tried() {
    let server = Server::good();
    server.hold();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 2\n", server.stage())), &samples(ITEMS));
    let started = place.start(&["run", "p.toml"]);
    server.until_open(2);
    place.until_json(&["show", "r1"], |report| report["admitted_all"] == true);
    place.run(&["pause", "r1"]).expect(0);
    server.release();
    let paused = started.finish().expect(5).stdout;
    let shown = place.run(&["show", "r1"]).expect(0).stdout;
    assert!(shown.contains("waiting"), "{shown}");
    assert!(!paused.contains("next retry due") && !shown.contains("next retry due"), "{paused}{shown}");
}

/// How often an item is turned away, and how often it then fails, before it passes; by its number.
fn hard(call: &Call) -> Answer {
    match (call.item().payload["n"].as_u64().unwrap_or(0), call.item().before) {
        // Turned away, then passes: no retry.
        (0, 0) => Answer::Http(429, vec![("Retry-After", "0".to_owned())], "slow down".to_owned()),
        // Fails for ever.
        (1 | 2, _) => Answer::status(502, "busy"),
        // Dies, and passes when it is sent back.
        (3, 0) => Answer::status(422, "not like this"),
        _ => Answer::all(call),
    }
}

#[test]
fn statistics_are_of_all_items_not_only_of_those_that_passed() {
    let server = Server::start(hard);
    let endless = "retry = { max_attempts = 9, backoff = { kind = \"schedule\", delays = [\"20ms\", \"20ms\", \"1h\"] }, jitter = \"none\" }";
    let place = Place::with(&one_stage(&format!("{}\n{endless}\n", server.stage())), &samples(5));
    let ran = |args: &[&str]| place.run(args);
    ran(&["run", "p.toml", "--max-wait", "5s"]).expect(3);
    let stage = || place.json(&["stats", "r1"])["stages"][0].clone();
    let first = stage();
    // Five were tried: one that was turned away first and one other passed at once, one died, two fail on and on.
    assert_eq!((&first["tried"], &first["first_try_rate"]), (&json!(5), &json!(0.4)));
    assert_eq!(first["passed_after"], json!({ "0": 2 }), "being turned away is no retry");
    assert_eq!((&first["dead_after"], &first["waiting_after"]), (&json!({ "0": 1 }), &json!({ "2": 2 })));
    assert_eq!(first["retry_histogram"], json!({ "0": 3, "2": 2 }));
    // Sent back, with a stage that is configured otherwise: it passes, but not at its first try.
    place.write("p.toml", one_stage(&format!("{}\ntimeout = \"45s\"\n{endless}\n", server.stage())));
    ran(&["resume", "r1", "--pipeline", "p.toml", "--max-wait", "1s"]).expect(3);
    ran(&["dead", "redrive", "--all"]).expect(0);
    ran(&["resume", "r1", "--max-wait", "1s"]).expect(3);
    let then = stage();
    assert_eq!((&then["tried"], &then["first_try_rate"]), (&json!(5), &json!(0.4)));
    assert_eq!((&then["passed_after"], &then["dead_after"]), (&json!({ "0": 2, "1": 1 }), &json!({})));
    let told = ran(&["stats", "r1"]).expect(0).stdout;
    for part in ["5 tried, 40.0 % of them passed at the first try", "not through yet, after retries"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    place.check();
    // A purge makes no statistics better.
    place.run(&["kill", &key(1)]).expect(0);
    let before = stage();
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    let after = stage();
    assert_eq!(
        (&after["dead_after"], &after["first_try_rate"]),
        (&before["dead_after"], &before["first_try_rate"])
    );
    place.check();
}

#[test]
fn two_versions_of_a_stage_can_be_compared() {
    let server = Server::start(mostly_bad);
    let good = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    place.run_pipeline(4);
    place.write("p.toml", one_stage(&good.stage()));
    // A stage that is configured otherwise does everything again: eight that died, and two that had passed.
    place.run(&["resume", "r1", "--pipeline", "p.toml"]).expect(0);
    let stats = place.json(&["stats", "r1"]);
    let configs = stats["stages"][0]["configs"].as_array().expect("a list").clone();
    let [old, new] = &configs[..] else { panic!("{configs:#?}") };
    assert_eq!((&old["present"], &new["present"]), (&json!(false), &json!(true)));
    assert_eq!(
        (&old["attempts"]["total"], &old["passed"], &old["first_try_rate"]),
        (&json!(10), &json!(2), &json!(0.2))
    );
    assert_eq!(
        (&new["attempts"]["total"], &new["passed"], &new["tried"]),
        (&json!(10), &json!(10), &json!(2))
    );
    assert_eq!(
        (&old["retries"], &new["retries"]),
        (&json!(0), &json!(0)),
        "what died before is not charged to it"
    );
    assert_eq!((&old["attempt_success_rate"], &new["attempt_success_rate"]), (&json!(0.2), &json!(1.0)));
    let told = place.run(&["stats", "r1"]).expect(0).stdout;
    assert!(told.contains("by configuration") && told.contains("(present)"), "{told}");
    let life = place.json(&["explain", &key(3)]);
    assert_eq!(life["attempts"][1]["config"], new["config"], "the mark is that of the attempts");
}

/// How often a text is in the files of the store.
fn found_in_store(place: &Place, text: &str) -> usize {
    let files =
        ["state.db", "state.db-wal", "state.db-shm"].map(|name| place.path(&format!(".redrive/{name}")));
    let bytes: Vec<u8> = files.iter().flat_map(|path| std::fs::read(path).unwrap_or_default()).collect();
    bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
}

#[test]
fn a_purge_leaves_no_bytes_of_what_it_removed() {
    const PRIVATE: &str = "Wilhelmina-Quagga";
    // Every item has an output of its first stage, which is kept for reuse; every third then dies, with an error that repeats it.
    let server = Server::start(|call| {
        let item = call.item();
        let n = item.payload["n"].as_u64().unwrap_or(0);
        match (&*call.stage, n % 3) {
            ("work", _) => {
                let told = format!("made of {}", item.payload["text"].as_str().unwrap_or_default());
                Answer::results(&[json!({ "id": item.id, "output": { "n": n, "text": told } })])
            }
            (_, 0) if item.before == 0 => {
                Answer::status(502, item.payload["text"].as_str().unwrap_or_default())
            }
            (_, 0) => Answer::status(422, item.payload["text"].as_str().unwrap_or_default()),
            _ => Answer::all(call),
        }
    });
    let sizes = [1, 40, 300, 900, 3_000, 9_000];
    let line = |n: usize| {
        let who = if n.is_multiple_of(3) { PRIVATE } else { "somebody" };
        let text = format!("{who} ").repeat(1 + sizes[n % sizes.len()] / 18);
        format!("{}\n", json!({ "id": key(n), "n": n, "text": text }))
    };
    let source: String = (0..90).map(line).collect();
    let stages = format!(
        "{}reuse = true\n[[stage]]\nname = \"judge\"\n{}\n{}",
        one_stage(&server.stage()),
        server.stage(),
        quick_retry(3)
    );
    let place = Place::with(&stages, &source);
    place.run_pipeline(3);
    assert!(found_in_store(&place, PRIVATE) > 100, "it is there before");
    let gone = place.json(&["dead", "purge", "--all", "--yes"]);
    assert_eq!(gone["items"], 30);
    assert_eq!(found_in_store(&place, PRIVATE), 0, "no byte of it is left");
    assert!(found_in_store(&place, "somebody") > 100, "what was not purged is there");
    let shown = place.json(&["show", "r1"]);
    assert_eq!((&shown["counts"]["succeeded"], &shown["counts"]["purged"]), (&json!(60), &json!(30)));
    place.check();
}

#[test]
fn prune_gives_room_back() {
    let server = Server::good();
    let line = |n: usize| format!("{}\n", json!({ "id": key(n), "n": n, "text": "long ".repeat(2_000) }));
    let place = Place::with(&one_stage(&server.stage()), &(0..300).map(line).collect::<String>());
    place.run_pipeline(0);
    let size = || std::fs::metadata(place.path(".redrive/state.db")).expect("there").len();
    let before = size();
    let pruned = place.json(&["prune", "--older-than", "0s", "--yes"]);
    assert!(
        count(&pruned["given_back"]) > 1_000_000 && size() * 2 < before,
        "{before}, then {}: {pruned}",
        size()
    );
    place.check();
}
