//! Sources that change: every line of the file, as it is in the end, is accounted for, and nothing is paid for twice.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::support::{
    Answer, Names, Place, Server, count, key, names, one_stage, quick_retry, samples, text, wait,
};

/// Rows of a source: key and number.
type Rows = Vec<(String, u64)>;

/// How a source is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Jsonl,
    Gzip,
    Csv,
    /// Two files by a pattern.
    Several,
}

const KINDS: [Kind; 4] = [Kind::Jsonl, Kind::Gzip, Kind::Csv, Kind::Several];

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Self::Jsonl => "in.jsonl",
            Self::Gzip => "in.jsonl.gz",
            Self::Csv => "in.csv",
            Self::Several => "part-*.jsonl",
        }
    }

    fn write(self, place: &Place, rows: &[(String, u64)]) {
        let lines = |rows: &[(String, u64)]| -> String {
            rows.iter().map(|(key, n)| format!("{{\"id\":\"{key}\",\"n\":{n}}}\n")).collect()
        };
        match self {
            Self::Jsonl => place.write("in.jsonl", lines(rows)),
            Self::Gzip => {
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packed.write_all(lines(rows).as_bytes()).expect("packed");
                place.write("in.jsonl.gz", packed.finish().expect("packed"));
            }
            Self::Csv => {
                let records: String = rows.iter().map(|(key, n)| format!("{key},{n}\n")).collect();
                place.write("in.csv", format!("id,n\n{records}"));
            }
            Self::Several => {
                let half = rows.len() / 2;
                place.write("part-1.jsonl", lines(&rows[..half]));
                place.write("part-2.jsonl", lines(&rows[half..]));
            }
        }
    }
}

fn rows(count: usize) -> Rows {
    (0..count).map(|n| (key(n), n as u64)).collect()
}

/// What somebody does to a source.
type Edit = fn(&mut Rows);

const EDITS: [(&str, Edit); 8] = [
    ("insert", |rows| {
        for n in 0..5 {
            rows.insert(rows.len() / 3, (format!("new-{n}"), 9_000 + n));
        }
    }),
    ("delete", |rows| drop(rows.drain(10..15))),
    ("edit", |rows| rows[12].1 = 7_777),
    ("swap", |rows| {
        let last = rows.len() - 2;
        rows.swap(3, last);
    }),
    ("truncate", |rows| rows.truncate(rows.len() / 2)),
    ("replace", |rows| *rows = (0..40).map(|n| (format!("other-{n}"), n)).collect()),
    ("append", |rows| rows.extend((0..5).map(|n| (format!("late-{n}"), 8_000 + n)))),
    ("edit the last", |rows| {
        let last = rows.len() - 1;
        rows[last].1 = 6_666;
    }),
];

/// How often every version of every row was worked on.
type Ledger = Arc<Mutex<BTreeMap<(String, u64), usize>>>;

fn number(payload: &Value) -> u64 {
    payload["n"].as_u64().or_else(|| payload["n"].as_str().and_then(|n| n.parse().ok())).expect("a number")
}

/// A service that keeps a ledger of what passes, and fails the rows whose key is `stubborn` once.
fn service(stubborn: Option<&'static str>) -> (Server, Ledger) {
    let ledger = Ledger::default();
    let book = ledger.clone();
    let server = Server::start(move |call| {
        if call.items.iter().any(|item| Some(&*item.key) == stubborn && item.before == 0) {
            return Answer::status(500, "not yet");
        }
        let mut book = book.lock().expect("not poisoned");
        let results: Vec<Value> = call
            .items
            .iter()
            .map(|item| {
                let n = number(&item.payload);
                *book.entry((item.key.clone(), n)).or_default() += 1;
                serde_json::json!({ "id": item.id, "output": { "id": item.key, "twice": n * 2 } })
            })
            .collect();
        Answer::results(&results)
    });
    (server, ledger)
}

fn pipeline(kind: Kind, server: &Server, more: &str) -> String {
    let stage = format!("{}\nconcurrency = 4\n{more}", server.stage());
    one_stage(&stage).replace("in.jsonl", kind.path())
}

/// Every row of the source has its result, and nothing else has one.
fn accounted(what: &str, place: &Place, rows: &Rows) {
    let wanted: BTreeMap<String, u64> = rows.iter().map(|(key, n)| (key.clone(), n * 2)).collect();
    let found: BTreeMap<String, u64> =
        place.results().into_iter().map(|(key, output)| (key, count(&output["twice"]))).collect();
    assert_eq!(found, wanted, "{what}");
    place.check();
}

fn twice(ledger: &Ledger) -> Vec<(String, u64)> {
    let book = ledger.lock().expect("not poisoned");
    book.iter().filter(|(_, times)| **times > 1).map(|(row, _)| row.clone()).collect()
}

#[test]
fn an_edit_after_the_end_costs_what_is_new_and_changed_only() {
    for kind in KINDS {
        for (name, edit) in EDITS {
            let what = format!("{kind:?}, {name}");
            let (server, ledger) = service(None);
            let place = Place::new();
            place.write("p.toml", pipeline(kind, &server, "batch = 20"));
            let mut rows = rows(60);
            kind.write(&place, &rows);
            place.run_pipeline(0);
            accounted(&what, &place, &rows);
            let before = rows.clone();
            edit(&mut rows);
            kind.write(&place, &rows);
            let report = place.run_pipeline(0);
            accounted(&what, &place, &rows);
            assert_eq!(twice(&ledger), [], "{what}");
            let fresh = rows.iter().filter(|row| !before.contains(row)).count() as u64;
            let read = &report["read"];
            assert_eq!(count(&read["new"]) + count(&read["changed"]), fresh, "{what}: {read}");
            assert_eq!(count(&read["left_alone"]), rows.len() as u64 - fresh, "{what}: {read}");
            // Once more without an edit: nothing at all is done.
            let calls = server.count();
            let report = place.run_pipeline(0);
            assert_eq!(
                (server.count(), count(&report["read"]["left_alone"])),
                (calls, rows.len() as u64),
                "{what}"
            );
        }
    }
}

#[test]
fn an_edit_after_a_kill_during_admission_loses_no_line() {
    for kind in KINDS {
        for (name, edit) in EDITS {
            let what = format!("{kind:?}, {name}");
            let (server, ledger) = service(None);
            let place = Place::new();
            place.write("p.toml", pipeline(kind, &server, "batch = 500"));
            let mut rows = rows(2_600);
            kind.write(&place, &rows);
            server.hold();
            let run = ["run", "p.toml", "--results", "out.jsonl", "--json"];
            // The first piece of the source is admitted, the others are not.
            let killed = place.run_with(&run, &[("REDRIVE_CRASH_AT", "admit.after_submit")]);
            assert_eq!(killed.killed_by(), Some(9), "{what}");
            server.release();
            wait::until("the calls of the dead process end", || server.open() == 0);
            let in_flight = ledger.lock().expect("not poisoned").clone();
            edit(&mut rows);
            kind.write(&place, &rows);
            place.run_pipeline(0);
            accounted(&what, &place, &rows);
            let repeated = twice(&ledger);
            assert!(repeated.iter().all(|row| in_flight.contains_key(row)), "{what}: {repeated:?}");
        }
    }
}

#[test]
fn an_edit_after_admission_is_read_by_the_same_command() {
    for kind in KINDS {
        for (name, edit) in EDITS {
            let what = format!("{kind:?}, {name}");
            let (server, ledger) = service(None);
            let place = Place::new();
            place.write("p.toml", pipeline(kind, &server, "batch = 5"));
            let mut rows = rows(60);
            kind.write(&place, &rows);
            server.hold();
            let started = place.start(&["run", "p.toml"]);
            place.until_json(&["show"], |run| run["admitted_all"] == true);
            server.until_open(4);
            started.kill();
            server.release();
            wait::until("the calls of the dead process end", || server.open() == 0);
            let in_flight = ledger.lock().expect("not poisoned").clone();
            edit(&mut rows);
            kind.write(&place, &rows);
            place.run_pipeline(0);
            accounted(&what, &place, &rows);
            let repeated = twice(&ledger);
            assert!(repeated.iter().all(|row| in_flight.contains_key(row)), "{what}: {repeated:?}");
        }
    }
}

#[test]
fn an_edit_between_retries_is_noticed_by_the_process_that_waits() {
    for (name, edit) in EDITS {
        let (server, ledger) = service(Some("k0005"));
        let place = Place::new();
        let retry = "retry.max_attempts = 5\nretry.backoff = { kind = \"fixed\", delay = \"3s\" }\nretry.jitter = \"none\"";
        place.write("p.toml", pipeline(Kind::Jsonl, &server, &format!("batch = 1\n{retry}")));
        let mut rows = rows(30);
        Kind::Jsonl.write(&place, &rows);
        let run = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
        place.until_json(&["show"], |run| count(&run["counts"]["succeeded"]) == 29);
        edit(&mut rows);
        Kind::Jsonl.write(&place, &rows);
        run.finish().expect(0);
        accounted(name, &place, &rows);
        assert_eq!(twice(&ledger), [], "{name}");
    }
}

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

#[test]
fn resume_tells_a_source_that_cannot_be_read() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(3));
    place.run_pipeline(0);
    let utf16: Vec<u8> = samples(3).encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.write("in.jsonl", [b"\xff\xfe".to_vec(), utf16].concat());
    let ran = place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert!(ran.stderr.contains("it is UTF-16") && ran.stderr.contains("in.jsonl"), "{}", ran.stderr);
    assert_eq!(place.result_keys(), names((0..3).map(key)), "what was read before goes on");
    std::fs::remove_file(place.path("in.jsonl")).expect("removed");
    let ran = place.run(&["resume", "r1"]).expect(0);
    assert!(ran.stderr.contains("warning: ") && ran.stderr.contains("in.jsonl"), "{}", ran.stderr);
    let pattern = Place::with(&one_stage("kind = \"pass\"").replace("in.jsonl", "part-*.jsonl"), "");
    pattern.write("part-1.jsonl", samples(3));
    pattern.run_pipeline(0);
    std::fs::rename(pattern.path("part-1.jsonl"), pattern.path("other.jsonl")).expect("renamed");
    let ran = pattern.run(&["resume", "r1"]).expect(0);
    assert!(ran.stderr.contains("part-*.jsonl"), "{}", ran.stderr);
    pattern.check();
}

#[test]
fn a_file_edited_between_retries_is_worked_on_once() {
    // What was asked for: path, hash that the item has, hash of the file as it was when it was asked for.
    let place = Place::new();
    std::fs::create_dir_all(place.path("docs")).expect("made");
    let asked: Arc<Mutex<Vec<(String, u64, u64)>>> = Arc::default();
    let book = asked.clone();
    let server = Server::start(move |call| {
        let item = call.item();
        let there = std::fs::metadata(text(&item.payload["file"])).map_or(0, |file| file.len());
        let size = count(&item.payload["size"]);
        if item.key == "b.txt" && size == 3 {
            return Answer::status(500, "not yet");
        }
        book.lock().expect("not poisoned").push((item.key.clone(), size, there));
        Answer::all(call)
    });
    let retry = "retry.max_attempts = 5\nretry.backoff = { kind = \"fixed\", delay = \"6s\" }\nretry.jitter = \"none\"";
    place.write(
        "p.toml",
        format!(
            "name = \"files\"\n[source]\nkind = \"files\"\npath = \"docs\"\n[[stage]]\nname = \"work\"\n{}\n{retry}\n",
            server.stage()
        ),
    );
    place.write("docs/a.txt", "one");
    place.write("docs/b.txt", "two");
    place.write("docs/c.txt", "three");
    let run = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
    place.until_json(&["show"], |run| count(&run["counts"]["succeeded"]) == 2);
    place.write("docs/b.txt", "another two");
    place.write("docs/d.txt", "four");
    std::fs::remove_file(place.path("docs/c.txt")).expect("removed");
    run.finish().expect(0);
    let mut asked = asked.lock().expect("not poisoned").clone();
    asked.sort();
    let wanted = [("a.txt", 3, 3), ("b.txt", 11, 11), ("c.txt", 5, 5), ("d.txt", 4, 4)];
    assert_eq!(asked, wanted.map(|(key, size, there)| (key.to_owned(), size, there)));
    assert_eq!(server.times_called()["b.txt"], 2, "the old version is not called for again");
    assert_eq!(place.result_keys(), names(["a.txt", "b.txt", "d.txt"]));
    place.check();
}
