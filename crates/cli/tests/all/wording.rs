//! What is said is so, reads well, and stays within bounds.

use serde_json::json;

use crate::support::{Answer, Place, Server, array, one_stage, samples, text};

fn pass() -> String {
    one_stage("kind = \"pass\"")
}

#[test]
fn one_is_not_counted_as_several_and_nothing_is_said_to_be_nothing() {
    let place = Place::with(&pass(), &samples(1));
    let ran = place.run(&["run", "p.toml"]).expect(0);
    assert!(ran.stdout.contains("  1 attempt: "), "{}", ran.stdout);
    let check = place.run_with(&["check"], &[("COLUMNS", "80")]).expect(0).stdout;
    assert!(check.ends_with("1 run, 1 item, 1 attempt\n"), "{check}");
    assert!(check.lines().all(|line| line.chars().count() <= 80), "{check}");
    let pruned = place.run(&["prune", "--older-than", "0s", "--yes"]).expect(0).stdout;
    assert!(pruned.contains("forgot 1 run with 1 item"), "{pruned}");

    let empty = Place::with(&pass(), "");
    empty.run(&["submit", "p.toml"]).expect(0);
    let worked = empty.run(&["work", "--until-idle"]).expect(0);
    assert!(worked.stderr.contains("run r1 of test: completed (no items)"), "{}", worked.stderr);
}

#[test]
fn a_pause_by_somebody_without_a_name_is_by_a_number() {
    let place = Place::with(&pass(), &samples(1));
    place.run(&["submit", "p.toml"]).expect(0);
    let nobody = [("USER", ""), ("LOGNAME", "")];
    place.run_with(&["pause", "r1"], &nobody).expect(0);
    let reason = text(&place.json(&["show"])["reason"]);
    assert!(reason.starts_with("paused by uid "), "{reason}");
    place.run_with(&["cancel", "r1", "--yes"], &nobody).expect(0);
    let reason = text(&place.json(&["show"])["reason"]);
    assert!(reason.starts_with("cancelled by uid "), "{reason}");
    let told = Place::with(&pass(), &samples(1));
    told.run(&["submit", "p.toml"]).expect(0);
    told.run_with(&["pause", "r1"], &[("USER", ""), ("LOGNAME", "ann")]).expect(0);
    assert_eq!(told.json(&["show"])["reason"], "paused by ann");
}

#[test]
fn hints_name_only_what_can_be_done() {
    let place = Place::with(&pass(), &samples(1));
    for args in [&["work", "--until-idle"][..], &["close", "r1"]] {
        let told = place.run(args).expect(2).stderr;
        assert!(
            told.contains("hint:") && told.contains("`redrive submit PIPELINE.toml`"),
            "{args:?}: {told}"
        );
    }
    let missing = place.run(&["run", "none.toml"]).expect(2).stderr;
    assert!(!missing.contains("examples/"), "{missing}");
    std::fs::create_dir_all(place.path("examples/flaky")).expect("made");
    place.write("examples/flaky/pipeline.toml", "");
    let missing = place.run(&["run", "none.toml"]).expect(2).stderr;
    assert!(missing.contains("hint: examples/flaky/pipeline.toml is one to begin with"), "{missing}");

    place.write(
        "box.toml",
        "name = \"box\"\n[source]\nkind = \"inbox\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n",
    );
    place.run(&["submit", "box.toml", "--item", "1"]).expect(0);
    place.run(&["pause", "r1"]).expect(0);
    let paused = place.run(&["run", "box.toml"]).expect(5).stderr;
    assert!(paused.contains("run r1") && !paused.contains("--new"), "{paused}");
    let lines = place.run(&["submit", "p.toml"]).expect(0).stdout;
    assert!(lines.contains("run r2"), "{lines}");
    place.run(&["pause", "r2"]).expect(0);
    let paused = place.run(&["run", "p.toml"]).expect(5).stderr;
    assert!(paused.contains("--new starts another run"), "{paused}");
    std::fs::remove_file(place.path("in.jsonl")).expect("removed");
    let gone = place.run(&["resume", "r2"]).expect(2).stderr;
    assert!(gone.contains("bring it back where it was") && !gone.contains("--input"), "{gone}");
}

#[test]
fn a_run_that_does_not_exist_is_said_not_to_exist() {
    let place = Place::with(&pass(), &samples(1));
    place.run(&["run", "p.toml"]).expect(0);
    for args in [&["explain", "r99"][..], &["explain", "k0000", "--run", "r99"]] {
        let told = place.run(args).expect(2).stderr;
        assert!(told.contains("run r99 does not exist"), "{args:?}: {told}");
    }
    let run = place.run(&["explain", "r1"]).expect(2).stderr;
    assert!(run.contains("`redrive show r1` shows it"), "{run}");
}

#[test]
fn a_huge_key_is_cut_for_people_and_whole_for_programs() {
    let server = Server::start(|_| Answer::status(422, "never"));
    let key = "k".repeat(1_000_000);
    let place = Place::with(&one_stage(&server.stage()), &format!("{}\n", json!({ "id": key })));
    place.run(&["run", "p.toml"]).expect(4);
    let id = text(&place.dead()[0]["id"]);
    for args in [&["failures"][..], &["explain", &id], &["dead", "show", &id], &["dead", "list"]] {
        let told = place.run(args).expect(0).stdout;
        assert!(told.len() < 4_000 && told.contains("kkk"), "{args:?}: {} bytes", told.len());
    }
    assert_eq!(place.json(&["explain", &id])["item"]["key"], key);
}

#[test]
fn a_pipeline_without_end_is_not_read_to_its_end() {
    let place = Place::new();
    let told = place.run(&["run", "/dev/zero"]).expect(2).stderr;
    assert!(told.contains("/dev/zero is larger than a pipeline may be (16 MiB)"), "{told}");
    place.write("in.jsonl", samples(1));
    let piped = place.start_with(&["run", "/dev/stdin", "--input", "in.jsonl"], &[], pass().as_bytes());
    piped.finish().expect(0);
}

#[test]
fn category_and_priority_are_shown_where_there_are_any() {
    let place = Place::with(&pass(), &samples(1));
    place.run(&["submit", "p.toml", "--category", "night", "--priority", "-3"]).expect(0);
    let shown = place.run(&["show"]).expect(0).stdout;
    assert!(shown.contains("  category night, priority -3\n"), "{shown}");
    let listed = place.run(&["runs"]).expect(0).stdout;
    assert!(listed.contains("CATEGORY") && listed.contains("night") && listed.contains("-3"), "{listed}");
    let runs = place.json(&["runs"]);
    let run = &array(&runs["runs"])[0];
    assert_eq!((&run["category"], &run["priority"]), (&json!("night"), &json!(-3)));
    let plain = Place::with(&pass(), &samples(1));
    plain.run(&["run", "p.toml"]).expect(0);
    assert!(!plain.run(&["show"]).expect(0).stdout.contains("priority"));
    assert!(!plain.run(&["runs"]).expect(0).stdout.contains("CATEGORY"));
}

#[test]
fn what_is_wrong_with_a_header_is_told_before_anything_is_done() {
    let table = |more: &str| pass().replace("path = \"in.jsonl\"", &format!("path = \"in.csv\"\n{more}"));
    let place = Place::with(&table(""), "");
    for (content, why) in [
        ("name;id\nx;1\n", "no column for the key /id; its columns are \"name;id\""),
        ("name,id,name\nx,1,y\n", "column 3 of its header is \"name\", which is empty or there twice"),
    ] {
        place.write("in.csv", content);
        let told = place.run(&["run", "p.toml"]).expect(2).stderr;
        assert!(told.contains(why), "{content}: {told}");
        assert!(!place.path(".redrive").exists(), "{content}: no store is made");
    }
    place.write("in.csv", "name;id\nx;1\n");
    let told = place.run(&["run", "p.toml"]).expect(2).stderr;
    assert!(told.contains("`delimiter`"), "{told}");
    place.write("p.toml", table("delimiter = \";\""));
    place.run_pipeline(0);
    assert_eq!(place.results()["1"], json!({ "name": "x", "id": "1" }));
    let empty = Place::with(&table(""), "");
    empty.write("in.csv", "");
    empty.run(&["run", "p.toml"]).expect(0);
}
