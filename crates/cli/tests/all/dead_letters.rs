//! Dead items: looked at, exported, edited, sent back, removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::server::failed;
use crate::support::{
    Answer, Names, Place, Server, array, column, count, key, keys, names, one_stage, quick_retry, samples,
    wait,
};
use serde_json::{Value, json};

const ITEMS: usize = 60;

/// Until the service is mended, everything divisible by three is refused and by five breaks it.
fn service(mended: Arc<AtomicBool>) -> Server {
    Server::start(move |call| {
        let item = call.item();
        let n = item.payload["n"].as_u64().unwrap_or(0);
        match (mended.load(Ordering::SeqCst), n) {
            (false, n) if n % 3 == 0 => Answer::status(422, &format!("field {n} is not allowed")),
            (false, n) if n % 5 == 0 => Answer::status(500, "broken"),
            _ => Answer::all(call),
        }
    })
}

fn every(step: usize) -> Names {
    (0..ITEMS).filter(|n| n % step == 0).map(key).collect()
}

fn dead_run() -> (Server, Place, Arc<AtomicBool>) {
    let mended = Arc::new(AtomicBool::new(false));
    let server = service(mended.clone());
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(2));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    place.run_pipeline(3);
    assert_eq!(place.dead_keys(), &every(3) | &every(5));
    (server, place, mended)
}

fn all_pass(place: &Place, run: &str) {
    place.run(&["resume", run, "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert_eq!(place.dead_keys(), Names::new());
    place.check();
}

#[test]
fn paging_shows_every_dead_item_once() {
    let (_server, place, _) = dead_run();
    for size in ["1", "7", "28", "500"] {
        let (mut seen, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
        loop {
            let mut args = vec!["dead", "list", "-n", size];
            args.extend(after.iter().flat_map(|after| ["--after", after]));
            let page = place.json(&args);
            seen.extend(array(&page["items"]).iter().map(|item| crate::support::text(&item["key"])));
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => break,
            }
        }
        assert_eq!(seen.len(), (&every(3) | &every(5)).len(), "{size}");
        assert_eq!(names(&seen), &every(3) | &every(5), "{size}");
    }
    place.check();
}

#[test]
fn filters_and_groups_divide_the_dead() {
    let (_server, place, _) = dead_run();
    let keys_of = |args: &[&str]| {
        let all: Vec<&str> = ["dead", "list", "-n", "500"].into_iter().chain(args.iter().copied()).collect();
        column(&place.json(&all)["items"], "key")
    };
    let (refused, broken) = (every(3), &every(5) - &every(3));
    assert_eq!(keys_of(&["--class", "final"]), refused);
    assert_eq!(keys_of(&["--reason", "final"]), refused);
    assert_eq!(keys_of(&["--reason", "exhausted"]), broken);
    assert_eq!(keys_of(&["--class", "retryable", "--stage", "work"]), broken);
    assert_eq!(keys_of(&["--text", "not allowed"]), refused);
    assert_eq!(keys_of(&["--text", "k0005"]), names([key(5)]));
    assert_eq!(keys_of(&["--run", "r1", "--since", "1h"]), &refused | &broken);
    assert_eq!(keys_of(&["--pipeline", "test", "--reason", "expired"]), Names::new());
    assert_eq!(keys_of(&["--item", "k0003"]), names([key(3)]));
    // Numbers in messages do not make groups of their own.
    let groups = place.json(&["dead", "groups"]);
    let sizes: Vec<u64> = array(&groups["groups"]).iter().map(|group| count(&group["items"])).collect();
    assert_eq!(sizes, [refused.len() as u64, broken.len() as u64]);
    let group = crate::support::text(&groups["groups"][0]["group"]);
    assert_eq!(keys_of(&["--group", &group]), refused);
    let shown = place.json(&["dead", "show", "k0005"]);
    assert_eq!((&shown["item"]["reason"], array(&shown["attempts"]).len()), (&json!("exhausted"), 2));
    place.check();
}

#[test]
fn an_exported_item_comes_back_with_its_edited_content() {
    let (server, place, _) = dead_run();
    place.run(&["dead", "export", "--reason", "final", "-o", "dead.jsonl"]).expect(0);
    let text = place.read("dead.jsonl");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let exported: Names = lines.iter().map(|line| crate::support::text(&line["item"]["key"])).collect();
    assert_eq!(exported, every(3));
    let piped = place.run(&["dead", "export", "--reason", "final"]).expect(0);
    assert_eq!(piped.stdout.lines().count(), lines.len());
    // Numbers that the service takes: 1 more than before, and not divisible by five either.
    let edited: String = lines
        .into_iter()
        .map(|mut line| {
            line["item"]["payload"]["n"] = json!(301);
            line["item"]["payload"]["edited"] = json!(true);
            format!("{line}\n")
        })
        .collect();
    place.write("edited.jsonl", format!("{edited}\nnot an export\n{{\"item\":{{\"id\":\"00000000000000000000000000000000\",\"payload\":1}}}}\n"));
    let ran = place.run(&["dead", "import", "edited.jsonl", "--json"]).expect(3);
    assert_eq!((count(&ran.json()["items"]), count(&ran.json()["skipped"])), (every(3).len() as u64, 2));
    assert!(ran.stderr.contains("edited.jsonl:"), "{}", ran.stderr);
    // The same again changes nothing: they are not dead any more.
    let ran = place.run(&["dead", "import", "edited.jsonl", "--json"]).expect(3);
    assert_eq!(count(&ran.json()["items"]), 0);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(3);
    let broken = &every(5) - &every(3);
    assert_eq!(place.dead_keys(), broken);
    assert_eq!(place.result_keys(), &keys(ITEMS) - &broken);
    let results = place.results();
    for key in every(3) {
        assert_eq!(results[&key]["twice"], 602, "{key}");
    }
    let last = server.by_key()["k0003"].last().expect("called").1.payload.clone();
    assert_eq!(last["edited"], true);
    let life = place.json(&["explain", "k0003"]);
    assert_eq!(life["item"]["generation"], 1);
    assert!(array(&life["marks"]).iter().any(|mark| mark["what"] == "edited"), "{life}");
    place.check();
}

#[test]
fn a_dry_run_names_exactly_what_the_redrive_changes() {
    let (_server, place, mended) = dead_run();
    for (filter, limit) in
        [(&["--reason", "exhausted"][..], None), (&["--class", "final"], Some("5")), (&["--all"], None)]
    {
        let mut args = vec!["dead", "redrive"];
        args.extend(filter);
        args.extend(limit.iter().flat_map(|limit| ["--limit", limit]));
        let before: Vec<Value> = place.dead();
        let planned: Vec<&str> = args.iter().copied().chain(["--dry-run"]).collect();
        let planned = place.json(&planned);
        let ids: Names = array(&planned["ids"]).iter().map(crate::support::text).collect();
        assert_eq!(place.dead(), before, "a dry run changes nothing");
        let done = place.json(&args);
        assert_eq!(count(&done["items"]), ids.len() as u64);
        let left = column(&place.dead().into(), "id");
        assert_eq!(&column(&before.into(), "id") - &left, ids, "{args:?}");
        for id in &ids {
            assert_eq!(place.json(&["explain", id])["item"]["state"], "waiting");
        }
        place.check();
    }
    mended.store(true, Ordering::SeqCst);
    all_pass(&place, "r1");
    let audit = place.json(&["dead", "operations"]);
    assert_eq!(
        array(&audit["operations"]).iter().filter(|row| row["kind"] == "redrive").count(),
        3,
        "{audit}"
    );
}

#[test]
fn a_canary_stops_what_would_fail_and_lets_go_what_passes() {
    let (server, place, mended) = dead_run();
    let before = column(&place.dead().into(), "id");
    let calls = server.count();
    let args = ["dead", "redrive", "--reason", "final", "--canary", "2", "--json"];
    let ran = place.run(&args).expect(3);
    assert!(ran.stderr.contains("0 of 2 canaries"), "{}", ran.stderr);
    assert_eq!(server.count(), calls + 2);
    assert_eq!(column(&place.dead().into(), "id"), before, "they are dead again, the others still");
    place.check();
    mended.store(true, Ordering::SeqCst);
    let ran =
        place.run(&["dead", "redrive", "--reason", "final", "--canary", "2", "--work", "--json"]).expect(3);
    assert!(ran.stderr.contains("2 of 2 canaries"), "{}", ran.stderr);
    assert_eq!(place.dead_keys(), &every(5) - &every(3));
    place.run(&["dead", "redrive", "--all", "--work"]).expect(0);
    all_pass(&place, "r1");
}

#[test]
fn a_rate_spreads_what_is_sent_back() {
    let (server, place, mended) = dead_run();
    mended.store(true, Ordering::SeqCst);
    let (before, begun) = (server.count(), wait::now());
    place.run(&["dead", "redrive", "--reason", "exhausted", "--rate", "10", "--work"]).expect(3);
    let calls = &server.calls()[before..];
    let expected = &every(5) - &every(3);
    assert_eq!(calls.iter().map(|call| call.item().key.clone()).collect::<Names>(), expected);
    for (n, call) in (0..).zip(calls) {
        let least = std::time::Duration::from_millis(100 * n);
        assert!(call.at - begun >= least, "call {n} came after {:?}", call.at - begun);
    }
    assert_eq!(place.dead_keys(), every(3));
    place.check();
}

#[test]
fn purged_items_are_gone_and_leave_the_books_in_order() {
    let (_server, place, mended) = dead_run();
    let planned = place.json(&["dead", "purge", "--class", "final", "--dry-run"]);
    assert_eq!(count(&planned["items"]), every(3).len() as u64);
    assert_eq!(place.dead_keys(), &every(3) | &every(5));
    let gone = place.json(&["dead", "purge", "--class", "final", "--yes"]);
    assert_eq!(count(&gone["items"]), every(3).len() as u64);
    let left = &every(5) - &every(3);
    assert_eq!(place.dead_keys(), left);
    let report = place.json(&["show", "r1"]);
    assert_eq!(count(&report["counts"]["admitted"]), ITEMS as u64);
    assert_eq!(count(&report["counts"]["purged"]), every(3).len() as u64);
    assert_eq!(report["dead"]["by_class"], json!({ "retryable": left.len() }));
    assert_eq!(place.json(&["explain", "k0003"])["item"]["state"], "purged");
    place.check();
    mended.store(true, Ordering::SeqCst);
    // All that is left passes; what was purged was dead, and stays counted as that.
    place.run(&["dead", "redrive", "--all", "--work"]).expect(3);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(3);
    assert_eq!(place.result_keys(), &keys(ITEMS) - &every(3));
    let gone = place.json(&["dead", "purge", "--all", "--yes"]);
    assert_eq!(count(&gone["items"]), 0);
    place.check();
}

#[test]
fn refused_lines_can_be_mended_and_sent_back() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":2,}\n");
    place.run_pipeline(3);
    let key = place.dead_keys().pop_first().expect("one");
    assert!(key.starts_with("unusable-"), "{key}");
    let exported = place.run(&["dead", "export"]).expect(0).stdout;
    let mut line: Value = serde_json::from_str(exported.trim()).expect("JSON");
    assert_eq!(line["item"]["payload"]["begins"], "{\"id\":\"b\",\"n\":2,}", "enough to know the line");
    line["item"]["payload"] = json!({ "id": "b", "n": 2 });
    let sent = place.start_with(&["dead", "import", "-"], &[], format!("{line}\n").as_bytes()).finish();
    sent.expect(0);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), names(["a", key.as_str()]));
    assert_eq!(place.results()[&key]["twice"], 4);
    place.check();
}

#[test]
fn a_line_that_could_not_be_read_has_no_content_to_edit() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":2,}\n");
    place.run(&["run", "p.toml"]).expect(3);
    let key = place.dead_keys().pop_first().expect("one");
    for args in [&["dead", "edit", &key, "--set", "/n=3"][..], &["dead", "edit", &key]] {
        let told = place.run_with(args, &[("EDITOR", "true")]).expect(2).stderr;
        assert!(told.contains("no content of it to edit: line 2 is not JSON"), "{told}");
        assert!(
            told.contains("mend it in") && told.contains("in.jsonl") && told.contains("--file"),
            "{told}"
        );
    }
    assert_eq!(place.dead_keys(), names([&key]));
    place.write("b.json", "{\"id\":\"b\",\"n\":2}");
    let edited = place.json(&["dead", "edit", &key, "--file", "b.json", "--work"]);
    assert_eq!(edited["differences"], json!([{ "pointer": "", "after": { "id": "b", "n": 2 } }]));
    place.run(&["results", "r1", "-o", "out.jsonl"]).expect(0);
    assert_eq!(place.results()[&key]["twice"], 4);
    place.check();
}

#[test]
fn a_redrive_whose_work_was_broken_off_is_gone_on_with_by_the_same_words() {
    let fixed = Arc::new(AtomicBool::new(false));
    let is_fixed = fixed.clone();
    let server = Server::start(move |call| match is_fixed.load(Ordering::SeqCst) {
        true => Answer::all(call),
        false => Answer::status(400, "no"),
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(1));
    let place = Place::with(&one_stage(&stage), &samples(4));
    place.run(&["run", "p.toml"]).expect(4);
    fixed.store(true, Ordering::SeqCst);
    place.run(&["dead", "redrive", "--run", "r1", "--all"]).expect(0);
    let ran = place.run(&["dead", "redrive", "--run", "r1", "--all", "--work"]).expect(0);
    assert!(ran.stdout.contains("4 succeeded"), "{}", ran.stdout);
    let again = place.run(&["dead", "redrive", "--run", "r1", "--all", "--work"]).expect(0);
    assert!(again.stderr.contains("nothing is dead that could be sent back"), "{}", again.stderr);
    place.check();
}

#[test]
fn a_redrive_that_was_killed_at_work_is_gone_on_with_by_the_same_words() {
    for more in [&[][..], &["--canary", "4"]] {
        let (broken, stuck) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
        let (is_broken, is_stuck) = (broken.clone(), stuck.clone());
        let server = Server::start(move |call| match is_broken.load(Ordering::SeqCst) {
            true => Answer::status(400, "no"),
            false if is_stuck.load(Ordering::SeqCst) => Answer::Never,
            false => Answer::all(call),
        });
        let stage = format!("{}\n{}", server.stage(), quick_retry(3));
        let place = Place::with(&one_stage(&stage), &samples(4));
        place.run(&["run", "p.toml"]).expect(4);
        let called = server.calls().len();
        broken.store(false, Ordering::SeqCst);
        let args: Vec<&str> =
            ["dead", "redrive", "--all", "--work"].into_iter().chain(more.iter().copied()).collect();
        let at_work = place.start(&args);
        wait::until("it is at work", || server.calls().len() > called);
        at_work.kill();
        assert_eq!(place.dead_keys(), names::<&str>([]), "all are sent back");
        stuck.store(false, Ordering::SeqCst);
        let args: Vec<&str> = args.into_iter().chain(["--results", "out.jsonl"]).collect();
        let ran = place.run(&args).expect(0);
        assert!(ran.stdout.contains("4 succeeded"), "{}{}", ran.stdout, ran.stderr);
        assert_eq!(place.result_keys(), keys(4), "{more:?}");
        place.check();
    }
}

#[test]
fn lines_that_only_their_source_can_mend_are_not_offered_to_be_sent_back() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), "{\"id\":\"a\",\"n\":1}\nnot json\n");
    let ran = place.run(&["run", "p.toml"]);
    assert!(
        !ran.stderr.contains("sends them back") && ran.stderr.contains("mend it there"),
        "{}",
        ran.stderr
    );
    let failures = place.run(&["failures"]).expect(0).stdout;
    assert!(failures.contains("line 2"), "{failures}");
    let dry = place.run(&["dead", "redrive", "--all", "--dry-run"]).expect(0);
    assert!(
        dry.stdout.is_empty() && dry.stderr.contains("1 would be left alone"),
        "{}{}",
        dry.stdout,
        dry.stderr
    );
}

#[test]
fn who_works_on_a_run_is_told_and_a_killed_process_does_not() {
    let server = Server::good();
    server.hold();
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    let run = place.start(&["run", "p.toml"]);
    server.until_called(1);
    let shown = place.run(&["show"]).expect(0);
    assert!(shown.stderr.contains("is at work") && !shown.stderr.contains("resume"), "{}", shown.stderr);
    run.kill();
    let report = place.json(&["show"]);
    assert_eq!((&report["status"], &report["workers"]), (&json!("interrupted"), &json!([])), "{report}");
    let doctor = place.run(&["doctor"]);
    assert!(doctor.stdout.contains("is gone"), "{}", doctor.stdout);
    let elapsed = || place.json(&["show"])["elapsed_ms"].clone();
    assert_eq!(elapsed(), elapsed(), "nobody is at it");
    server.release();
    place.run(&["run", "p.toml"]).expect(0);
    place.check();
}

#[test]
fn a_dry_run_counts_calls_by_the_batch_of_the_stage() {
    let server = Server::start(|call| {
        Answer::results(&call.items.iter().map(|item| failed(item, "final", "no")).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&format!("{}\nbatch = 4", server.stage())), &samples(10));
    place.run(&["run", "p.toml"]).expect(4);
    let planned = place.json(&["dead", "redrive", "--all", "--dry-run"]);
    assert_eq!((count(&planned["items"]), count(&planned["calls"])), (10, 3));
    let told = place.run(&["dead", "redrive", "--all", "--dry-run"]).expect(0);
    assert!(told.stderr.contains("10 items would be sent back in at least 3 calls"), "{}", told.stderr);
}
