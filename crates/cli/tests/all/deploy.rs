//! What changes under a worker that is at work: the pipeline, its folder, the source.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Names, Place, Server, Started, count, key, keys, names, samples, wait};

/// Two stages that call a server; `two` is a setting of the second that changes what it does.
fn pipeline(server: &Server, two: u32) -> String {
    let stage = |name: &str, more: &str| {
        format!("[[stage]]\nname = \"{name}\"\n{}\nconcurrency = 4\n{more}\n", server.stage())
    };
    let header = format!("headers = {{ x-version = \"{two}\" }}");
    format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n{}{}",
        stage("one", ""),
        stage("two", &header)
    )
}

fn slow() -> Server {
    Server::start(|call| {
        wait::work(Duration::from_millis(5));
        Answer::all(call)
    })
}

/// Waits until a run has ended with so many items well.
fn until_completed(place: &Place, succeeded: usize) -> Value {
    place.until_json(&["show", "r1"], |run| {
        run["status"] == "completed" && count(&run["counts"]["succeeded"]) == succeeded as u64
    })
}

fn stop(worker: Started) {
    worker.signal("TERM");
    worker.finish().expect(0);
}

/// What the run made, by key.
fn made(place: &Place) -> Names {
    place.run(&["results", "r1", "-o", "made.jsonl"]).expect(0);
    crate::support::results(&place.read("made.jsonl")).into_keys().collect()
}

#[test]
fn a_stage_that_is_edited_under_its_workers_loses_no_item() {
    const ITEMS: usize = 400;
    for workers in [1, 2] {
        let server = slow();
        let place = Place::with(&pipeline(&server, 1), &samples(ITEMS));
        place.run(&["submit", "p.toml"]).expect(0);
        let working: Vec<Started> = (0..workers).map(|_| place.start(&["work"])).collect();
        server.until_called(ITEMS / 2);
        place.write("p.toml", pipeline(&server, 2));
        place.run(&["submit", "p.toml"]).expect(0);
        until_completed(&place, ITEMS);
        // And once more, when all is done and the workers wait.
        place.write("p.toml", pipeline(&server, 3));
        place.run(&["submit", "p.toml"]).expect(0);
        place.until_json(&["show", "r1"], |run| count(&run["stages"][1]["attempts"]["total"]) >= 800);
        until_completed(&place, ITEMS);
        working.into_iter().for_each(stop);
        assert_eq!(made(&place), keys(ITEMS), "{workers} workers");
        place.check();
    }
}

#[test]
fn an_edit_that_broke_off_is_brought_to_its_end_by_a_worker() {
    const ITEMS: usize = 30;
    for (point, said) in [("edit.taken_over", 1), ("reconfigure.reading_begun", 0)] {
        let server = Server::good();
        let place = Place::with(&pipeline(&server, 1), &samples(ITEMS));
        place.run_pipeline(0);
        place.write("p.toml", pipeline(&server, 2));
        let broken = place.run_with(&["submit", "p.toml"], &[("REDRIVE_CRASH_AT", point)]);
        assert_eq!(broken.killed_by(), Some(9), "{point}");
        // Before it has begun to read, the run has ended, and it is only gone on with when that is said again.
        (0..said).for_each(|_| drop(place.run(&["submit", "p.toml"]).expect(0)));
        place.run(&["work", "--until-idle", "--max-wait", "30s"]).expect(0);
        assert_eq!(made(&place), keys(ITEMS), "{point}");
        assert_eq!(server.count(), 4 * ITEMS, "{point}: each went through both stages twice");
        place.check();
    }
}

#[test]
fn a_source_is_followed_whoever_read_it_before() {
    let server = slow();
    let place = Place::with(&pipeline(&server, 1), &samples(100));
    place.run(&["submit", "p.toml"]).expect(0);
    let first = place.start(&["work"]);
    server.until_called(30);
    stop(first);
    assert_eq!(place.json(&["show", "r1"])["status"], "queued", "another worker goes on with it");
    let edited = format!("{}{}\n", samples(100), json!({ "id": "more", "n": 1 }));
    place.write("in.jsonl", edited);
    place.run(&["work", "--until-idle", "--max-wait", "30s"]).expect(0);
    let all = names(keys(100).into_iter().chain(["more".to_owned()]));
    assert_eq!(made(&place), all);
    place.check();
}

#[test]
fn what_is_handed_over_again_while_it_is_worked_on_is_in_the_run() {
    let server = slow();
    let place = Place::with(&pipeline(&server, 1), &samples(60));
    place.run(&["submit", "p.toml"]).expect(0);
    place.start(&["work", "--until-idle"]).finish().expect(0);
    for round in 0..3 {
        let edited = format!("{}{}\n", samples(60), json!({ "id": "last", "n": round }));
        let worker = place.start(&["work", "--until-idle", "--max-wait", "30s"]);
        place.write("in.jsonl", &edited);
        place.run(&["submit", "p.toml"]).expect(0);
        worker.finish().expect(0);
        place.run(&["work", "--until-idle", "--max-wait", "30s"]).expect(0);
        assert_eq!(made(&place).len(), 61);
        let seen = server.by_key().remove("last").unwrap_or_default();
        assert!(seen.iter().any(|(_, item)| item.payload["n"] == json!(round)), "{round}: {seen:?}");
    }
    place.check();
}

#[test]
fn a_pipeline_that_moved_is_worked_on_where_it_is_now() {
    let place = Place::new();
    let script = |word: &str| {
        format!(
            "import sys, json\nfor line in sys.stdin:\n    items = json.loads(line)['items']\n    \
             print(json.dumps({{'results': [{{'id': i['id'], 'output': '{word}'}} for i in items]}}), flush=True)\n"
        )
    };
    let pipeline = "name = \"test\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[[stage]]\nname = \"a\"\n\
                    kind = \"command\"\ncommand = [\"python3\", \"h.py\"]\n";
    for (folder, word) in [("old", "from old"), ("new", "from new")] {
        std::fs::create_dir(place.path(folder)).expect("a folder");
        place.write(&format!("{folder}/p.toml"), pipeline);
        place.write(&format!("{folder}/h.py"), script(word));
    }
    let hand_in = |folder: &str, item: &str| {
        place.run(&["submit", &format!("{folder}/p.toml"), "--item", item]).expect(0);
        place.run(&["work", "--until-idle"]).expect(0);
    };
    hand_in("old", "{\"id\":\"1\"}");
    std::fs::remove_dir_all(place.path("old")).expect("removed");
    hand_in("new", "{\"id\":\"2\"}");
    place.run(&["results", "r1", "-o", "made.jsonl"]).expect(0);
    let made = crate::support::results(&place.read("made.jsonl"));
    assert_eq!((&made["1"], &made["2"]), (&json!("from old"), &json!("from new")));
}

#[test]
fn a_paused_inbox_refuses_a_pipeline_of_other_stages() {
    let place = Place::new();
    let pipeline = |stage: &str| {
        format!(
            "name = \"test\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[[stage]]\nname = \"{stage}\"\nkind = \"pass\"\n"
        )
    };
    place.write("p.toml", pipeline("a"));
    place.run(&["submit", "p.toml", "--item", "{\"id\":\"1\"}"]).expect(0);
    place.run(&["pause", "r1"]).expect(0);
    place.write("p.toml", pipeline("b"));
    let refused = place.run(&["submit", "p.toml", "--item", "{\"id\":\"2\"}"]).expect(2);
    assert!(refused.stderr.contains("other stages"), "{}", refused.stderr);
}

#[test]
fn a_worker_that_is_left_behind_by_its_store_says_so_and_ends() {
    let server = Server::good();
    let place = Place::with(&pipeline(&server, 1), &samples(3));
    place.run(&["submit", "p.toml"]).expect(0);
    place.run(&["work", "--until-idle"]).expect(0);
    let worker = place.start(&["work"]);
    wait::work(Duration::from_millis(500));
    std::fs::rename(place.path(".redrive/state.db"), place.path("away.db")).expect("moved");
    std::fs::copy(place.path("away.db"), place.path(".redrive/state.db")).expect("copied");
    let ended = worker.finish().expect(1);
    assert!(ended.stderr.contains("another file is in its place"), "{}", ended.stderr);
}

#[test]
fn a_gate_serves_the_runs_of_a_worker_in_their_order() {
    const RUNS: usize = 30;
    let server = Server::good();
    let stage = format!("{}\nconcurrency = 4\ngate = \"g\"\n", server.stage());
    let gate = "[gate.g]\nmax_concurrency = 1\n";
    let place = Place::with(&format!("{}{gate}", crate::support::one_stage(&stage)), "");
    for run in 0..RUNS {
        place.write(&format!("{run}.jsonl"), format!("{}\n", json!({ "id": key(run), "n": run })));
        place.run(&["submit", "p.toml", "--input", &format!("{run}.jsonl")]).expect(0);
    }
    let begun = wait::now();
    place.run(&["work", "--until-idle"]).expect(0);
    let called: Vec<String> = server.calls().iter().map(|call| call.item().key.clone()).collect();
    assert_eq!(names(&called), keys(RUNS));
    // Whoever waits is woken by whoever is done; a look at the clock would take a second for each.
    assert!(begun.elapsed() < Duration::from_secs(RUNS as u64 / 2), "{:?}", begun.elapsed());
    // The first call is of whichever run was ready first. From then on it is the oldest's turn, or that of one of the next.
    for (at, this) in called.iter().enumerate().skip(2) {
        let older = called[at + 1..].iter().filter(|later| *later < this).count();
        assert!(older <= 3, "{this} came before {older} older ones: {called:?}");
    }
}

#[test]
fn a_higher_priority_goes_first_at_a_gate_too() {
    let server = slow();
    let stage = format!("{}\nconcurrency = 8\ngate = \"g\"\n", server.stage());
    let gate = "[gate.g]\nmax_concurrency = 2\n";
    let place = Place::with(&format!("{}{gate}", crate::support::one_stage(&stage)), &samples(400));
    place.run(&["submit", "p.toml"]).expect(0);
    let worker = place.start(&["work"]);
    server.until_called(20);
    let urgent: Vec<String> = (0..5).map(|n| format!("urgent-{n}")).collect();
    let lines = urgent.iter().map(|key| format!("{}\n", json!({ "id": key, "n": 0 })));
    place.write("urgent.jsonl", lines.collect::<String>());
    place.run(&["submit", "p.toml", "--input", "urgent.jsonl", "--priority", "9"]).expect(0);
    let before = server.count();
    place.until_json(&["show", "r2"], |run| run["status"] == "completed");
    let called: Vec<String> = server.calls().iter().map(|call| call.item().key.clone()).collect();
    let last = called.iter().rposition(|key| key.starts_with("urgent")).expect("called");
    // It is seen within a second, and its calls are the next but for what is set aside.
    let own = called[..=last].iter().skip(before).position(|key| key.starts_with("urgent")).unwrap_or(0);
    assert!(last - before - own < 25, "from {before} to {last}: {called:?}");
    worker.signal("TERM");
    worker.finish().expect(0);
}
