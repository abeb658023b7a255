//! Trying it small: a part of a source, and what a run would do.

use serde_json::{Value, json};

use crate::support::server::{Item, failed, passed};
use crate::support::{Answer, Place, Server, array, count, key, keys, names, one_stage, samples, text};

/// The only stage's service, and a place with so many samples.
fn open(items: usize) -> (Server, Place) {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(items));
    (server, place)
}

fn run(place: &Place, more: &[&str], code: i32) -> Value {
    let args: Vec<&str> = ["run", "p.toml", "--results", "out.jsonl", "--json"]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    place.run(&args).expect(code).json()
}

fn ahead(place: &Place, more: &[&str]) -> Value {
    let args: Vec<&str> =
        ["run", "p.toml", "--dry-run", "--json"].into_iter().chain(more.iter().copied()).collect();
    place.run(&args).expect(0).json()
}

/// What a dry run and a run itself say of a source, where they use the same words.
fn found(report: &Value) -> [u64; 5] {
    ["new", "changed", "back", "removed", "refused"].map(|name| count(&report["read"][name]))
}

fn admitted(report: &Value) -> (u64, bool) {
    (count(&report["counts"]["admitted"]), report["admitted_all"] == true)
}

#[test]
fn a_limited_run_admits_so_many_and_the_next_goes_on() {
    let (server, place) = open(30);
    let first = run(&place, &["--limit", "10"], 0);
    assert_eq!((admitted(&first), &first["status"]), ((10, false), &json!("completed")));
    assert_eq!(place.result_keys(), keys(10));
    assert_eq!(admitted(&place.json(&["show"])), (10, false), "it is kept that it is a part");
    let second = run(&place, &["--limit", "10"], 0);
    assert_eq!((admitted(&second), count(&second["read"]["new"])), ((20, false), 10));
    let ran = place.run(&["run", "p.toml", "--limit", "5"]).expect(0);
    assert!(
        ran.stdout.contains("only a part of the source is admitted so far, 5 items of it now"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("without --limit and --only admits the rest"), "{}", ran.stderr);
    let rest = run(&place, &[], 0);
    assert_eq!((admitted(&rest), &rest["run"]), ((30, true), &first["run"]));
    assert_eq!(place.result_keys(), keys(30));
    assert!(server.times_called().values().all(|times| *times == 1));
    let whole = run(&place, &["--new", "--limit", "30"], 0);
    assert_eq!(admitted(&whole), (30, true), "a limit that is not exceeded leaves nothing out");
    place.check();
}

#[test]
fn a_limit_counts_what_is_new_over_many_pieces_and_repeated_lines() {
    let server = Server::good();
    let place = Place::with(&one_stage(&format!("{}\nbatch = 500", server.stage())), "");
    // Every line is there twice, so that each reading starts at the beginning.
    let twice: String = samples(1_500).lines().map(|line| format!("{line}\n{line}\n")).collect();
    place.write("in.jsonl", twice);
    assert_eq!(admitted(&run(&place, &["--limit", "700"], 0)), (700, false));
    assert_eq!(admitted(&run(&place, &["--limit", "700"], 0)), (1_400, false));
    let rest = run(&place, &["--limit", "700"], 0);
    assert_eq!((admitted(&rest), count(&rest["duplicates"])), ((1_500, true), 1_500));
    assert_eq!(place.result_keys(), keys(1_500));
    assert!(server.times_called().values().all(|times| *times == 1));
}

#[test]
fn a_line_that_went_between_two_parts_is_taken_out_by_the_whole_reading() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1_200));
    run(&place, &["--limit", "1100"], 0);
    let without_first: String = samples(1_200).lines().skip(1).map(|line| format!("{line}\n")).collect();
    place.write("in.jsonl", without_first);
    assert_eq!(found(&run(&place, &["--limit", "10"], 0)), [10, 0, 0, 0, 0]);
    assert_eq!(found(&ahead(&place, &[])), [90, 0, 0, 1, 0]);
    assert_eq!(found(&run(&place, &[], 0)), [90, 0, 0, 1, 0]);
    assert!(!place.result_keys().contains(&key(0)));
    place.check();
}

#[test]
fn a_line_that_went_before_a_reading_was_killed_is_taken_out_by_the_next() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(2_500));
    run(&place, &[], 0);
    let without_first: String = samples(2_500).lines().skip(1).map(|line| format!("{line}\n")).collect();
    place.write("in.jsonl", without_first);
    // Of the three pieces one is looked through.
    let at = [("REDRIVE_CRASH_AT", "admit.after_submit")];
    assert_eq!(place.run_with(&["run", "p.toml"], &at).code(), None);
    assert_eq!(found(&run(&place, &[], 0)), [0, 0, 0, 1, 0]);
    place.check();
}

#[test]
fn whoever_only_works_on_a_part_admits_nothing_more() {
    let server = Server::start(|call| {
        let one = |item: &Item| match item.key == "k0002" && item.before == 0 {
            true => failed(item, "final", "no"),
            false => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(20));
    run(&place, &["--limit", "4"], 3);
    for args in [&["dead", "redrive", "--all", "--work"][..], &["resume", "r1"], &["work", "--until-idle"]] {
        place.run(args).expect(0);
        let shown = place.json(&["show", "r1"]);
        assert_eq!((admitted(&shown), count(&shown["counts"]["succeeded"])), ((4, false), 4), "{args:?}");
    }
    assert_eq!(admitted(&run(&place, &[], 0)), (20, true));
    place.check();
}

#[test]
fn what_was_purged_is_not_new_to_a_limit() {
    let server = Server::start(|call| {
        let one = |item: &Item| match item.payload["n"].as_u64() {
            Some(..3) => failed(item, "final", "no"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(8));
    run(&place, &["--limit", "3"], 4);
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    assert_eq!(count(&ahead(&place, &[])["read"]["new"]), 5);
    let report = run(&place, &["--limit", "2"], 4);
    assert_eq!((admitted(&report), count(&report["read"]["new"])), ((5, false), 2));
    assert_eq!(place.result_keys(), names(["k0003", "k0004"]));
    place.check();
}

#[test]
fn only_these_keys_are_admitted_wherever_they_are() {
    let (server, place) = open(3_000);
    let report = run(&place, &["--only", "k2990", "--only", "k0003"], 0);
    assert_eq!(admitted(&report), (2, false));
    assert_eq!(place.result_keys(), names(["k0003", "k2990"]));
    let again = run(&place, &["--only", "k2990"], 0);
    assert_eq!((admitted(&again), count(&again["read"]["new"])), ((2, false), 0), "it is known");
    assert_eq!(
        admitted(&run(&place, &["--only", "k0001", "--only", "k0002", "--limit", "1"], 0)),
        (3, false)
    );
    assert_eq!(admitted(&run(&place, &[], 0)), (3_000, true));
    assert!(server.times_called().values().all(|times| *times == 1));
    place.check();
}

#[test]
fn a_key_that_is_not_there_is_told_with_those_like_it() {
    let (server, place) = open(5);
    let ran = place.run(&["run", "p.toml", "--only", "K0001"]).expect(2);
    assert!(ran.stderr.contains("in.jsonl has the key \"K0001\""), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: it has \"k0001\""), "{}", ran.stderr);
    assert_eq!(server.count(), 0);
    let ran = place.run(&["run", "p.toml", "--only", "k0001", "--only", "nobody", "--json"]).expect(0);
    assert!(ran.stderr.contains("warning: nothing in the source has the key \"nobody\""), "{}", ran.stderr);
    assert_eq!(admitted(&ran.json()), (1, false));
    assert_eq!(admitted(&run(&place, &[], 0)), (5, true));
    place.run(&["run", "p.toml", "--only", "k0004"]).expect(0);
    assert_eq!(admitted(&place.json(&["show"])), (5, true), "what is read and unchanged is no part");
}

#[test]
fn a_part_takes_nothing_out_that_it_has_not_seen() {
    let (_server, place) = open(10);
    run(&place, &[], 0);
    let edited: String = samples(11)
        .lines()
        .skip(1)
        .map(|line| format!("{}\n", line.replace("\"n\":5", "\"n\":50")))
        .collect();
    place.write("in.jsonl", edited);
    let report = run(&place, &["--only", "k0010"], 0);
    assert_eq!((admitted(&report), found(&report)), ((11, false), [1, 0, 0, 0, 0]));
    assert_eq!(place.result_keys(), keys(11), "what left the source is still there");
    let report = run(&place, &["--limit", "1"], 0);
    assert_eq!((found(&report), count(&report["counts"]["superseded"])), ([0, 1, 0, 1, 0], 2), "{report}");
    place.write("in.jsonl", samples(4));
    let report = run(&place, &["--only", "k0003"], 0);
    assert_eq!(found(&report)[3], 0, "of a part nothing is removed");
    assert_eq!(found(&run(&place, &[], 0))[3], 7);
    place.check();
}

#[test]
fn an_edited_stage_is_not_tried_on_a_part_of_what_passed_it() {
    let server = Server::good();
    let stage = |name: &str| format!("[[stage]]\nname = \"{name}\"\n{}\n", server.stage());
    let pipeline = |more: &str| {
        let head =
            "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n";
        format!("{head}{}{more}{}", stage("first"), stage("last"))
    };
    let place = Place::with(&pipeline(""), &samples(4));
    run(&place, &["--limit", "2"], 0);
    place.write("p.toml", pipeline("headers = { x = \"1\" }\n"));
    let ran = place.run(&["run", "p.toml", "--limit", "1"]).expect(2);
    assert!(
        ran.stderr.contains("stage first is configured otherwise, and 2 items of run r1"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("--keep-passed"), "{}", ran.stderr);
    assert_eq!(place.result_keys(), keys(2));
    let found = ahead(&place, &[]);
    assert_eq!((&found["edit"]["what"], &found["edit"]["from_start"]), (&json!("again"), &json!(2)));
    assert_eq!(admitted(&run(&place, &["--limit", "1", "--keep-passed"], 0)), (3, false));
    place.check();
}

#[test]
fn a_part_of_a_table_a_directory_and_standard_input_can_be_run() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), "");
    let input = samples(5);
    let stdin = |more: &[&str]| {
        let args: Vec<&str> =
            ["run", "p.toml", "--input", "-", "--json"].into_iter().chain(more.iter().copied()).collect();
        place.start_with(&args, &[], input.as_bytes()).finish().expect(0).json()
    };
    assert_eq!(admitted(&stdin(&["--limit", "2"])), (2, false));
    assert_eq!(admitted(&stdin(&["--only", "k0004"])), (3, false));
    assert_eq!(admitted(&stdin(&[])), (5, true));
    place.write("in.csv", "id,n\na,1\nb,2\nc,3\n");
    assert_eq!(admitted(&run(&place, &["--input", "in.csv", "--limit", "2"], 0)), (2, false));
    assert_eq!(admitted(&run(&place, &["--input", "in.csv"], 0)), (3, true));
    std::fs::create_dir(place.path("files")).expect("made");
    ["a.txt", "b.txt", "c.txt"].iter().for_each(|name| place.write(&format!("files/{name}"), name));
    place.write("f.toml", "name = \"f\"\n[source]\nkind = \"files\"\npath = \"files\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n");
    let files = |more: &[&str]| {
        let args: Vec<&str> = ["run", "f.toml", "--json"].into_iter().chain(more.iter().copied()).collect();
        place.run(&args).expect(0).json()
    };
    assert_eq!(admitted(&files(&["--only", "b.txt"])), (1, false));
    assert_eq!(admitted(&files(&["--limit", "1"])), (2, false));
    assert_eq!(admitted(&files(&[])), (3, true));
    place.check();
}

#[test]
fn an_inbox_is_neither_run_in_part_nor_foretold() {
    let place = Place::with(
        "name = \"t\"\n[source]\nkind = \"inbox\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n",
        "",
    );
    for more in [&["--limit", "1"][..], &["--only", "a"], &["--dry-run"]] {
        let args: Vec<&str> = ["run", "p.toml"].into_iter().chain(more.iter().copied()).collect();
        let ran = place.run(&args).expect(2);
        assert!(ran.stderr.contains("the pipeline has an inbox, which is not read"), "{}", ran.stderr);
    }
    assert!(!place.path(".redrive").exists());
    assert!(place.run(&["run", "p.toml", "--limit", "0"]).expect(2).stderr.contains("--limit"));
}

#[test]
fn a_dry_run_writes_nothing_and_calls_nobody() {
    let server = Server::good();
    let place =
        Place::with(&one_stage(&format!("{}\nbatch = 4\ngate = \"svc\"", server.stage())), &samples(10));
    place.write("in.jsonl", format!("{}not json\n{}{{\"id\":\"k0001\",\"n\":9}}\n", samples(10), samples(1)));
    let found = ahead(&place, &[]);
    assert!(!place.path(".redrive").exists(), "not even a store");
    assert_eq!((&found["would"], &found["run"]), (&json!("begin"), &Value::Null));
    assert_eq!(self::found(&found), [12, 0, 0, 0, 2]);
    assert_eq!(count(&found["read"]["duplicates"]), 1);
    let whys: Vec<String> = array(&found["refusals"]).iter().map(|refused| text(&refused["why"])).collect();
    assert!(whys[0].starts_with("line 11 is not JSON"), "{whys:?}");
    assert!(whys[1].starts_with("line 13 has the key \"k0001\" of line 2"), "{whys:?}");
    let stage = json!({"name": "work", "kind": "http", "gate": "svc", "batch": 4, "items": 10, "calls": 3, "max_attempts": 3});
    assert_eq!(found["stages"], json!([stage]));
    let part = ahead(&place, &["--limit", "3"]);
    assert_eq!((count(&part["read"]["new"]), &part["read"]["admitted_all"]), (3, &json!(false)));
    assert_eq!(server.count(), 0);

    let report = run(&place, &[], 3);
    assert_eq!(self::found(&report), self::found(&found), "the run finds what was foretold");
    let told = place.run(&["run", "p.toml", "--dry-run"]).expect(0);
    assert!(told.stdout.contains("run r1 of test over"), "{}", told.stdout);
    assert!(
        told.stdout.lines().all(|line| line.contains("in.jsonl") || line.chars().count() <= 80),
        "{}",
        told.stdout
    );
    let called = server.count();

    let edited = format!("{}{}", &samples(12).replace("\"n\":7", "\"n\":70"), "{\"id\":\"z\",\"n\":1}\n");
    place.write("in.jsonl", edited.lines().skip(2).map(|line| format!("{line}\n")).collect::<String>());
    let store = place.json(&["show"]);
    let found = ahead(&place, &[]);
    assert_eq!(
        (&found["would"], &found["run"], &found["status"]),
        (&json!("go_on"), &json!("r1"), &store["status"])
    );
    assert_eq!((place.json(&["show"]), server.count()), (store, called), "nothing was done");
    assert_eq!(self::found(&run(&place, &[], 0)), self::found(&found));
    let nothing = ahead(&place, &[]);
    assert_eq!((self::found(&nothing), count(&nothing["read"]["known"])), ([0; 5], 11));
    place.check();
}

#[test]
fn a_dry_run_tells_of_a_run_that_is_unfinished_paused_or_cancelled() {
    let server = Server::start(|call| Answer::results(&[failed(call.item(), "retryable", "no")]));
    let slow = "retry.backoff = { kind = \"fixed\", delay = \"1h\" }";
    let place = Place::with(&one_stage(&format!("{}\n{slow}", server.stage())), &samples(3));
    place.run(&["run", "p.toml", "--max-wait", "1s"]).expect(3);
    let found = ahead(&place, &[]);
    assert_eq!((count(&found["unfinished"]), count(&found["stages"][0]["items"])), (3, 3));
    assert_eq!(ahead(&place, &["--new"])["would"], "begin");
    place.run(&["pause", "r1"]).expect(0);
    let found = ahead(&place, &[]);
    assert_eq!((&found["would"], &found["stages"][0]["calls"]), (&json!("nothing"), &Value::Null));
    place.run(&["cancel", "r1", "--yes"]).expect(0);
    let found = ahead(&place, &[]);
    assert_eq!((&found["would"], &found["run"]), (&json!("begin"), &Value::Null));
    let ran = place.run(&["run", "p.toml", "--dry-run", "--only", &key(7)]).expect(2);
    assert!(ran.stderr.contains("has the key \"k0007\""), "{}", ran.stderr);
}

#[test]
fn a_dry_run_after_an_edit_counts_every_item_that_goes_again() {
    let server = Server::start(|call| {
        let verdict = |item: &Item| match count(&item.payload["n"]) {
            n if n < 3 => failed(item, "final", "no"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(verdict).collect::<Vec<_>>())
    });
    let two = |more: &str| {
        let later = "[[stage]]\nname = \"later\"\nkind = \"pass\"\n";
        format!("{}{later}", one_stage(&format!("{}\nbatch = 5\n{more}", server.stage())))
    };
    let place = Place::with(&two(""), &samples(20));
    run(&place, &[], 3);
    place.write("p.toml", two("headers = { x-version = \"2\" }"));
    let edited = samples(20).replace("\"n\":9}", "\"n\":90}");
    let without = |line: &&str| !line.ends_with("\"n\":5}");
    place.write(
        "in.jsonl",
        edited.lines().filter(without).map(|line| format!("{line}\n")).collect::<String>(),
    );
    let found = ahead(&place, &[]);
    assert_eq!((count(&found["edit"]["from_stage"]), count(&found["edit"]["from_start"])), (3, 17));
    let stages = array(&found["stages"]);
    let foreseen: Vec<_> = stages.iter().map(|at| (count(&at["items"]), count(&at["calls"]))).collect();
    assert_eq!(foreseen, [(19, 4), (19, 19)], "all but the one that left the source: {found}");
    let report = run(&place, &[], 3);
    let tried = count(&report["stages"][0]["attempts"]["total"]);
    assert_eq!(tried, 20 + foreseen[0].0, "the run does what was foretold: {report}");
    place.check();
}
