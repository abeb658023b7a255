//! What an edit costs, and what becomes of items whose stage was changed.

use super::world::{Kind, pipeline, service, twice};
use crate::support::{
    Answer, Names, Place, Server, count, key, names, one_stage, quick_retry, samples, text,
};

#[test]
fn lines_that_nobody_touched_survive_an_edit_before_them() {
    // 60,000 lines, killed after some pieces, five lines deleted before that place.
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(9_000));
    let run = ["run", "p.toml", "--results", "out.jsonl", "--json"];
    let killed = place.run_with(&run, &[("REDRIVE_CRASH_AT", "admit.after_submit:3")]);
    assert_eq!(killed.killed_by(), Some(9));
    let text: String = samples(9_000)
        .lines()
        .enumerate()
        .filter(|(n, _)| !(100..105).contains(n))
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    place.write("in.jsonl", &text);
    let report = place.run_pipeline(0);
    let wanted: Names = (0..9_000).filter(|n| !(100..105).contains(n)).map(key).collect();
    assert_eq!(place.result_keys(), wanted);
    assert_eq!(count(&report["counts"]["succeeded"]), 8_995);
    assert_eq!(count(&report["counts"]["superseded"]), 5, "what left the source is told: {report}");
    place.check();
}

#[test]
fn a_line_that_is_back_is_not_paid_for_again() {
    let (server, ledger) = service(None);
    let place = Place::with(&pipeline(Kind::Jsonl, &server, ""), &samples(6));
    place.run_pipeline(0);
    let text = samples(6);
    for edited in
        [text.replace("\"n\":3", "\"n\":33"), text.lines().take(2).map(|line| format!("{line}\n")).collect()]
    {
        place.write("in.jsonl", edited);
        place.run_pipeline(0);
        place.write("in.jsonl", &text);
        let report = place.run_pipeline(0);
        assert!(count(&report["read"]["back"]) > 0, "{report}");
        assert_eq!(twice(&ledger), []);
        assert_eq!(place.result_keys(), names((0..6).map(key)));
    }
    place.check();
}

#[test]
fn a_line_that_is_back_further_down_is_back_and_no_repeated_one() {
    for moved in ["{\"id\":\"x\",\"n\":1}\n", "not json\n"] {
        let place = Place::with(
            &one_stage("kind = \"pass\""),
            &format!("{}{moved}{}", samples(1), "{\"id\":\"y\"}\n"),
        );
        let code = if moved.starts_with('{') { 0 } else { 3 };
        place.run_pipeline(code);
        let without = format!("{}{}", samples(1), "{\"id\":\"y\"}\n");
        place.write("in.jsonl", &without);
        assert_eq!(count(&place.run_pipeline(0)["read"]["removed"]), 1);
        place.write("in.jsonl", format!("{without}{moved}"));
        let report = place.run_pipeline(code);
        assert_eq!((count(&report["read"]["back"]), count(&report["duplicates"])), (1, 0), "{report}");
        place.write("in.jsonl", &without);
        assert_eq!(count(&place.run_pipeline(0)["read"]["removed"]), 1, "it is missed once more");
        place.check();
    }
}

#[test]
fn a_changed_stage_sends_items_again_from_where_their_content_is_kept() {
    let (first, one) = service(None);
    let second = Server::good();
    let third = Server::good();
    let stages = |judge: &Server, reuse: bool| {
        format!(
            "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
             [[stage]]\nname = \"draft\"\n{}\nreuse = {reuse}\n[[stage]]\nname = \"judge\"\n{}\n",
            first.stage(),
            judge.stage()
        )
    };
    let place = Place::with(&stages(&second, true), &samples(5));
    place.run_pipeline(0);
    place.write("p.toml", stages(&third, true));
    let kept = place.run(&["run", "p.toml", "--keep-passed"]).expect(0);
    assert!(kept.stderr.contains("stays as it is"), "{}", kept.stderr);
    assert_eq!(third.count(), 0);
    place.write("p.toml", stages(&second, true));
    place.run(&["run", "p.toml", "--keep-passed"]).expect(0);
    place.write("p.toml", stages(&third, true));
    let again = place.run(&["run", "p.toml"]).expect(0);
    assert!(again.stderr.contains("stage judge is configured otherwise: 5 items"), "{}", again.stderr);
    assert_eq!((third.count(), twice(&one)), (5, vec![]), "what the first stage kept is reused");
    // A retry policy is not what a stage does.
    place.write("p.toml", format!("{}retry.max_attempts = 7\n", stages(&third, true)));
    place.run(&["run", "p.toml"]).expect(0);
    assert_eq!(third.count(), 5);
    place.check();
    let anew = place.run(&["run", "p.toml", "--new", "--json"]).expect(0).json();
    assert_eq!((anew["run"].as_str(), count(&anew["counts"]["succeeded"])), (Some("r2"), 5));
}

#[test]
fn items_that_ended_at_a_changed_stage_go_again_from_it_alone() {
    let (first, one) = service(None);
    let bad =
        Server::start(|call| Answer::results(&[crate::support::server::failed(call.item(), "final", "no")]));
    let good = Server::good();
    let stages = |judge: &Server| {
        format!(
            "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
             [[stage]]\nname = \"draft\"\n{}\n[[stage]]\nname = \"judge\"\n{}\n",
            first.stage(),
            judge.stage()
        )
    };
    let place = Place::with(&stages(&bad), &samples(4));
    place.run_pipeline(4);
    place.write("p.toml", stages(&good));
    let again = place.run(&["run", "p.toml"]).expect(0);
    assert!(again.stderr.contains("4 items go again from it"), "{}", again.stderr);
    assert_eq!((good.count(), twice(&one)), (4, vec![]));
    place.check();
}

#[test]
fn a_refused_line_cannot_succeed_as_a_stump() {
    let huge = format!("{{\"id\":\"huge\",\"text\":\"{}\"}}", "x".repeat(17 << 20));
    let place = Place::with(
        &one_stage(&format!("kind = \"pass\"\n{}", quick_retry(2))),
        &format!("{{\"id\":\"a\"}}\n{huge}\n{{\"nokey\":1}}\nnot json\n"),
    );
    place.run_pipeline(4);
    let before = place.dead_keys();
    assert_eq!(before.len(), 3);
    let dead = place.dead();
    let huge =
        dead.iter().find(|item| item["message"].as_str().is_some_and(|why| why.starts_with("line 2 has")));
    let huge = text(&huge.expect("it is dead")["key"]);
    let redriven = place.run(&["dead", "redrive", "--all", "--work"]);
    assert_eq!(place.dead_keys(), before, "{}", redriven.stderr);
    place.run_pipeline(4);
    assert_eq!(place.result_keys(), names(["a"]));
    let explained = place.json(&["explain", &huge]);
    let now = explained["now"].as_str().expect("a sentence");
    assert!(now.contains("Mend it there and run again"), "{now}");
    // Wherever they stand, they are the same: nothing of them is new.
    let moved = format!("{{\"id\":\"first\"}}\n{}", place.read("in.jsonl"));
    place.write("in.jsonl", moved);
    let report = place.run_pipeline(4);
    assert_eq!((count(&report["read"]["new"]), count(&report["read"]["removed"])), (1, 0), "{report}");
    assert_eq!(place.dead_keys(), before);
    // Mended in the source, they are what they are then.
    place.write("in.jsonl", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n");
    place.run_pipeline(0);
    assert_eq!(place.result_keys(), names(["a", "b", "c"]));
    assert_eq!(place.dead_keys(), Names::new());
    place.check();
}

#[test]
fn another_encoding_is_told_and_loses_nothing() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(5));
    place.run_pipeline(0);
    let utf16: Vec<u8> = samples(5).encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.write("in.jsonl", [b"\xff\xfe".to_vec(), utf16].concat());
    let ran = place.run(&["run", "p.toml"]).expect(2);
    assert!(ran.stderr.contains("it is UTF-16"), "{}", ran.stderr);
    assert_eq!(count(&place.json(&["show"])["counts"]["succeeded"]), 5);
    place.write("in.jsonl", samples(5));
    place.run_pipeline(0);
    assert_eq!(place.result_keys(), names((0..5).map(key)));
}

#[test]
fn the_files_of_a_directory_go_to_any_stage() {
    let server = Server::start(|call| {
        let item = call.item();
        let text = item.payload["text"].as_str().unwrap_or("none").to_owned();
        Answer::results(&[serde_json::json!({ "id": item.id, "output": { "text": text } })])
    });
    let place = Place::new();
    std::fs::create_dir_all(place.path("docs/sub")).expect("made");
    place.write("docs/a.txt", "alpha");
    place.write("docs/sub/b.md", "beta");
    place.write("docs/pic.png", b"\x89PNG\r\n\x1a\n\0\0");
    let pipeline = |more: &str| {
        format!(
            "name = \"files\"\n[source]\nkind = \"files\"\npath = \"docs\"\n{more}\n[[stage]]\nname = \"work\"\n{}\n",
            server.stage()
        )
    };
    place.write("p.toml", pipeline(""));
    place.run_pipeline(0);
    assert_eq!(place.result_keys(), names(["a.txt", "pic.png", "sub/b.md"]));
    let calls = server.count();
    place.write("docs/a.txt", "alpha two");
    std::fs::remove_file(place.path("docs/sub/b.md")).expect("removed");
    let report = place.run_pipeline(0);
    assert_eq!(server.count(), calls + 1);
    assert_eq!((count(&report["read"]["changed"]), count(&report["read"]["removed"])), (1, 1), "{report}");
    assert_eq!(place.result_keys(), names(["a.txt", "pic.png"]));
    place.check();
    let other = Place::new();
    std::fs::create_dir_all(other.path("docs")).expect("made");
    other.write("docs/a.txt", "alpha");
    other.write("docs/bad.txt", b"\xff\xfe\xfd");
    other.write("p.toml", pipeline("text = true"));
    other.run_pipeline(3);
    assert_eq!(other.results()["a.txt"]["text"], "alpha");
    assert_eq!(other.dead_keys(), names(["bad.txt"]));
}
