//! Standard input, pipes, and sources that change beside working processes.

use serde_json::Value;

use super::world::{Kind, pipeline, service, twice};
use crate::support::{
    Answer, Names, Place, Server, count, key, names, one_stage, quick_retry, samples, text, wait,
};

#[test]
fn standard_input_takes_what_is_new_and_changed_and_removes_nothing() {
    let (server, ledger) = service(None);
    let place = Place::with(&pipeline(Kind::Jsonl, &server, ""), "");
    let run = |input: &str| {
        let args = ["run", "p.toml", "--input", "-", "--results", "out.jsonl", "--json"];
        place.start_with(&args, &[], input.as_bytes()).finish().expect(0).json()
    };
    run(&samples(3));
    let report = run(&samples(5).replace("\"n\":1}", "\"n\":11}"));
    let read = &report["read"];
    assert_eq!((count(&read["new"]), count(&read["changed"])), (2, 1), "{read}");
    run("{\"id\":\"k0000\",\"n\":0}\n");
    assert_eq!(twice(&ledger), []);
    assert_eq!(place.result_keys(), names((0..5).map(key)));
    place.check();
}

#[test]
fn a_source_that_is_empty_for_a_moment_takes_nothing_away() {
    let (server, ledger) = service(None);
    let place = Place::with(&pipeline(Kind::Jsonl, &server, ""), &samples(5));
    place.run_pipeline(0);
    place.write("in.jsonl", "");
    let ran = place.run(&["run", "p.toml", "--results", "out.jsonl"]).expect(0);
    assert!(ran.stdout.contains("the source is empty: 5 items stay as they are"), "{}", ran.stdout);
    assert_eq!(place.result_keys(), names((0..5).map(key)));
    place.write("in.jsonl", samples(5));
    for _ in 0..2 {
        let report = place.run_pipeline(0);
        assert_eq!(count(&report["read"]["left_alone"]), 5, "{report}");
        assert!(count(&report["read"]["readings"]) <= 1, "{report}");
    }
    assert_eq!(twice(&ledger), []);
    place.check();
}

#[test]
fn content_that_somebody_gave_an_item_survives_a_changed_stage() {
    let filter = |keep: &str| {
        format!(
            "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
             [[stage]]\nname = \"one\"\nkind = \"filter\"\nkeep = \"payload.n > 0\"\n\
             [[stage]]\nname = \"two\"\nkind = \"filter\"\nkeep = \"{keep}\"\n"
        )
    };
    let place = Place::with(&filter("true"), "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":\"bad\"}\n");
    place.run_pipeline(3);
    let exported = place.run(&["dead", "export"]).expect(0).stdout.replace("\"bad\"", "5");
    place.start_with(&["dead", "import", "-"], &[], exported.as_bytes()).finish().expect(0);
    place.run_pipeline(0);
    place.write("p.toml", filter("payload.n > -1"));
    let ran = place.run(&["run", "p.toml", "--results", "out.jsonl"]).expect(0);
    assert!(ran.stderr.contains("1 item with content that was imported stays as it is"), "{}", ran.stderr);
    assert_eq!(place.result_keys(), names(["a", "b"]));
    assert_eq!(count(&place.results()["b"]["n"]), 5);
    // The key alone names what is there now.
    place.write("in.jsonl", "{\"id\":\"a\",\"n\":2}\n{\"id\":\"b\",\"n\":\"bad\"}\n");
    place.run_pipeline(0);
    assert_eq!(place.json(&["explain", "a"])["item"]["state"], "succeeded");
    place.check();
}

#[test]
fn processes_that_find_an_edited_source_at_once_lose_nothing_and_make_no_second_run() {
    for kind in ["jsonl", "files"] {
        let (server, ledger) = service(None);
        let place = Place::new();
        std::fs::create_dir_all(place.path("docs")).expect("made");
        let source = if kind == "files" {
            "kind = \"files\"\npath = \"docs\"\ntext = true"
        } else {
            "path = \"in.jsonl\"\nkey = \"/id\""
        };
        let stage = if kind == "files" { "kind = \"pass\"".to_owned() } else { server.stage() };
        place.write(
            "p.toml",
            format!("name = \"test\"\n[source]\n{source}\n[[stage]]\nname = \"work\"\n{stage}\n"),
        );
        let write = |rows: &[usize]| {
            if kind == "files" {
                for n in 0..40 {
                    let _ = std::fs::remove_file(place.path(&format!("docs/{}", key(n))));
                }
                rows.iter().for_each(|n| place.write(&format!("docs/{}", key(*n)), "text"));
            } else {
                let lines: String =
                    rows.iter().map(|n| format!("{{\"id\":\"{}\",\"n\":{n}}}\n", key(*n))).collect();
                place.write("in.jsonl", lines);
            }
        };
        let mut rows: Vec<usize> = (0..40).collect();
        write(&rows);
        place.run_pipeline(0);
        for round in 0..6 {
            rows.remove(round * 3);
            write(&rows);
            let all: Vec<_> = (0..3).map(|_| place.start(&["run", "p.toml", "-q"])).collect();
            all.into_iter().for_each(|one| drop(one.finish().expect(0)));
            let wanted: Names = rows.iter().map(|n| key(*n)).collect();
            let given = place.run(&["results", "r1"]).expect(0).stdout;
            let found: Names = crate::support::results(&given).into_keys().collect();
            assert_eq!(found, wanted, "{kind}, round {round}");
            assert_eq!(
                crate::support::array(&place.json(&["runs"])["runs"]).len(),
                1,
                "{kind}, round {round}"
            );
        }
        assert_eq!(twice(&ledger), [], "{kind}");
        place.check();
    }
}

#[test]
fn a_second_content_is_told_wherever_it_stands() {
    let place = Place::with(&one_stage("kind = \"pass\""), "{\"id\":\"x\",\"v\":\"B\"}\n");
    place.run_pipeline(0);
    for text in [
        "{\"id\":\"x\",\"v\":\"A\"}\n{\"id\":\"x\",\"v\":\"B\"}\n",
        "{\"id\":\"x\",\"v\":\"B\"}\n{\"id\":\"x\",\"v\":\"A\"}\n",
    ] {
        place.write("in.jsonl", text);
        let report = place.run_pipeline(3);
        let counts = &report["counts"];
        assert_eq!((count(&counts["succeeded"]), count(&counts["dead"])), (1, 1), "{report}");
        assert_eq!(place.results()["x"]["v"], "B", "what is known keeps the key");
    }
    place.check();
}

#[test]
fn a_record_whose_quote_is_never_closed_is_refused() {
    let place = Place::with(&one_stage("kind = \"pass\"").replace("in.jsonl", "in.csv"), "");
    place.write("in.csv", "id,v\na,1\nb,\"2\nc,3\nd,4\n");
    place.run_pipeline(3);
    assert_eq!(place.result_keys(), names(["a"]));
    let dead = place.dead();
    assert!(text(&dead[0]["message"]).contains("line 3 opens a quote that is not closed"), "{dead:?}");
    place.write("in.csv", "id,v\na,1\nb,\"2\"\nc,3\nd,4\n");
    place.run_pipeline(0);
    assert_eq!(place.result_keys(), names(["a", "b", "c", "d"]));
}

#[test]
fn another_key_makes_other_items_of_the_same_lines() {
    let place = Place::with(&one_stage("kind = \"pass\""), "{\"id\":\"a\",\"k\":\"b\"}\n");
    place.run_pipeline(0);
    place.write("p.toml", one_stage("kind = \"pass\"").replace("/id", "/k"));
    place.run_pipeline(0);
    assert_eq!(place.result_keys(), names(["b"]));
}

#[test]
fn a_pipe_takes_what_is_new_and_changed_each_time() {
    let (server, ledger) = service(None);
    let place = Place::with(&pipeline(Kind::Jsonl, &server, ""), "");
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe")).status().expect("it runs");
    assert!(made.success());
    let run = |lines: String| {
        let pipe = place.path("pipe");
        let writer = std::thread::spawn(move || std::fs::write(pipe, lines).expect("read by somebody"));
        let args = ["run", "p.toml", "--input", "pipe", "--results", "out.jsonl", "--json"];
        let report = place.run(&args).expect(0).json();
        writer.join().expect("written");
        report
    };
    run(samples(3));
    let report = run(samples(5).replace("\"n\":1}", "\"n\":11}"));
    assert_eq!((count(&report["read"]["new"]), count(&report["read"]["changed"])), (2, 1), "{report}");
    assert_eq!(twice(&ledger), []);
    assert_eq!(place.result_keys(), names((0..5).map(key)));
    place.check();
}

#[test]
fn the_output_of_another_program_is_a_source() {
    let (server, ledger) = service(None);
    let place = Place::with(&pipeline(Kind::Jsonl, &server, ""), "");
    place.write("some.jsonl", samples(4));
    for _ in 0..2 {
        // The shell hands the program a path like /dev/fd/63.
        let args = [
            "-c",
            "exec \"$0\" run p.toml --input <(cat some.jsonl) --results out.jsonl",
            env!("CARGO_BIN_EXE_redrive"),
        ];
        let mut shell = std::process::Command::new("bash");
        let ran = shell.args(args).current_dir(place.path("")).env_remove("REDRIVE_STORE").output();
        let ran = ran.expect("bash");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    assert_eq!(place.result_keys(), names((0..4).map(key)));
    assert_eq!(twice(&ledger), []);
    place.check();
}

#[test]
fn a_dry_run_names_no_line_that_only_its_source_can_mend() {
    let bad = Server::start(|call| Answer::status(if call.item().key == key(1) { 400 } else { 200 }, "no"));
    let place = Place::with(
        &one_stage(&format!("{}\n{}", bad.stage(), quick_retry(1))),
        &format!("{}not json\n", samples(2)),
    );
    place.run(&["run", "p.toml"]);
    let dead = place.dead_keys();
    let planned = place.json(&["dead", "redrive", "--all", "--dry-run"]);
    let done = place.json(&["dead", "redrive", "--all"]);
    let told = |answer: &Value| (count(&answer["items"]), count(&answer["skipped"]));
    assert_eq!(told(&planned), told(&done), "{planned} {done}");
    assert_eq!(told(&done), (dead.len() as u64 - 1, 1), "{done}");
}

#[test]
fn a_stage_changed_beside_a_working_process_leaves_no_result_of_the_old_one() {
    let service = |version: &'static str| {
        Server::start(move |call| {
            wait::work(std::time::Duration::from_millis(40));
            let of = |item: &crate::support::server::Item| serde_json::json!({ "id": item.id, "output": { "version": version } });
            Answer::results(&call.items.iter().map(of).collect::<Vec<_>>())
        })
    };
    let (old, new) = (service("old"), service("new"));
    let stages = |last: &Server| {
        let stage = |name: &str, server: &Server| {
            format!("[[stage]]\nname = \"{name}\"\n{}\nconcurrency = 2\n", server.stage())
        };
        format!(
            "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n{}{}",
            stage("same", &old),
            stage("changed", last)
        )
    };
    let place = Place::with(&stages(&old), &samples(60));
    let first = place.start(&["run", "p.toml", "--json"]);
    place.until_json(&["show"], |run| count(&run["counts"]["succeeded"]) >= 10);
    place.write("p.toml", stages(&new));
    let second = place.run(&["run", "p.toml", "--results", "out.jsonl"]).expect(0);
    assert!(second.stderr.contains("stage changed is configured otherwise"), "{}", second.stderr);
    let first = first.finish();
    assert!(first.stderr.contains("was changed meanwhile"), "{}", first.stderr);
    place.run_pipeline(0);
    let versions: Names = place.results().into_values().map(|output| text(&output["version"])).collect();
    assert_eq!((versions, place.results().len()), (names(["new"]), 60));
    place.check();
}

#[test]
fn a_line_that_is_edited_at_the_end_finds_its_stage_open() {
    let place = Place::new();
    place.write(
        "work.py",
        "import json, sys, time\nfor line in sys.stdin:\n    items = json.loads(line)['items']\n    time.sleep(0.05)\n    \
         print(json.dumps({'results': [{'id': item['id'], 'output': item['payload']} for item in items]}), flush=True)\n",
    );
    let stage = format!(
        "kind = \"command\"\ncommand = [\"python3\", \"work.py\"]\nconcurrency = 2\n{}",
        quick_retry(2)
    );
    place.write("p.toml", one_stage(&stage));
    place.write("in.jsonl", samples(12));
    let run = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
    place.until_json(&["show"], |run| count(&run["counts"]["succeeded"]) >= 10);
    place.write(
        "in.jsonl",
        format!("{}{{\"id\":\"late\",\"n\":99}}\n", samples(12).replace("\"n\":3}", "\"n\":33}")),
    );
    run.finish().expect(0);
    place.run_pipeline(0);
    let results = place.results();
    assert_eq!((count(&results["k0003"]["n"]), count(&results["late"]["n"])), (33, 99));
    assert_eq!(place.dead_keys(), Names::new());
    place.check();
}
