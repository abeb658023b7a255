//! Wrong pipelines, stores, names and sources: each is told with an exit code and a message, and nothing is lost.

use std::collections::BTreeMap;

use crate::support::{Names, Place, Server, array, count, keys, names, one_stage, quick_retry, samples};
use serde_json::{Value, json};

const HEAD: &str = "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n";
const PASS: &str = "[[stage]]\nname = \"work\"\nkind = \"pass\"\n";

/// A pipeline file and what has to be said about it. Line 5 is the first after [`HEAD`].
const PIPELINES: &[(&str, &str, &[&str])] = &[
    ("syntax error", "name = \"test\n", &["p.toml:1"]),
    (
        "unknown key with a suggestion",
        "[[stage]]\nname = \"work\"\nkind = \"pass\"\nconcurency = 3\n",
        &["p.toml:8", "concurency", "concurrency"],
    ),
    (
        "unknown key at the top",
        "[[stage]]\nname = \"work\"\nkind = \"pass\"\n[runs]\n",
        &["p.toml:8", "runs", "\"run\""],
    ),
    (
        "wrong type",
        "[[stage]]\nname = \"work\"\nkind = \"pass\"\nbatch = \"many\"\n",
        &["p.toml:8", "batch", "integer"],
    ),
    (
        "no attempts",
        "[[stage]]\nname = \"work\"\nkind = \"pass\"\nretry.max_attempts = 0\n",
        &["p.toml:8", "max_attempts"],
    ),
    (
        "too much jitter",
        "[[stage]]\nname = \"work\"\nkind = \"pass\"\nretry.jitter = 2.0\n",
        &["p.toml:8", "jitter"],
    ),
    (
        "base above max",
        "[[stage]]\nname = \"work\"\nkind = \"pass\"\nretry.backoff = { kind = \"exponential\", base = \"10s\", max = \"5s\" }\n",
        &["p.toml:8", "max"],
    ),
    (
        "empty schedule",
        "[[stage]]\nname = \"work\"\nkind = \"pass\"\nretry.backoff = { kind = \"schedule\", delays = [] }\n",
        &["p.toml:8", "delays"],
    ),
    (
        "unknown preset",
        "[[stage]]\nname = \"work\"\nkind = \"pass\"\nretry = { preset = \"smaple\" }\n",
        &["p.toml:8", "preset", "sample"],
    ),
    (
        "bad thresholds",
        "[run]\ncompleted_at = 0.5\npartial_at = 0.9\n[[stage]]\nname = \"work\"\nkind = \"pass\"\n",
        &["p.toml:7", "partial_at", "completed_at"],
    ),
    (
        "threshold out of range",
        "[run]\ncompleted_at = 1.5\n[[stage]]\nname = \"work\"\nkind = \"pass\"\n",
        &["p.toml:6", "completed_at"],
    ),
    ("unknown kind", "[[stage]]\nname = \"work\"\nkind = \"htpp\"\n", &["p.toml:7", "htpp", "http"]),
    ("no stage", "[run]\ncompleted_at = 0.9\n", &["stage", "at least one"]),
    ("stage without a kind", "[[stage]]\nname = \"work\"\n", &["p.toml:5", "kind"]),
    (
        "two stages of one name",
        "[[stage]]\nname = \"a\"\nkind = \"pass\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n",
        &["p.toml:9", "line 6"],
    ),
    ("no url", "[[stage]]\nname = \"work\"\nkind = \"http\"\n", &["url"]),
    (
        "a secret in a url",
        "[[stage]]\nname = \"work\"\nkind = \"http\"\nurl = \"http://me:hunter2@h/\"\n",
        &["p.toml:8", "header_env"],
    ),
    (
        "a duration without a unit",
        "[[stage]]\nname = \"work\"\nkind = \"pass\"\ntimeout = 30\n",
        &["p.toml:8", "timeout", "30s"],
    ),
    (
        "a filter that cannot be read",
        "[[stage]]\nname = \"work\"\nkind = \"filter\"\nkeep = \"n >\"\n",
        &["work"],
    ),
    (
        "a variable that is not set",
        "[[stage]]\nname = \"work\"\nkind = \"http\"\nurl = \"http://127.0.0.1:1/\"\nheader_env = { X = \"NO_SUCH_VARIABLE_HERE\" }\n",
        &["NO_SUCH_VARIABLE_HERE", "not set"],
    ),
];

#[test]
fn every_mistake_in_a_pipeline_file_is_told_with_its_line() {
    for (what, rest, fragments) in PIPELINES {
        let text = if rest.starts_with("name") { (*rest).to_owned() } else { format!("{HEAD}{rest}") };
        let place = Place::with(&text, &samples(2));
        let ran = place.run(&["run", "p.toml"]);
        assert_eq!(ran.code(), Some(2), "{what}: {}", ran.stderr);
        for fragment in *fragments {
            assert!(ran.stderr.contains(fragment), "{what}: no {fragment:?} in\n{}", ran.stderr);
        }
        assert_eq!(ran.stdout, "", "{what}: errors are no data");
        assert!(
            !ran.stderr.contains("hunter2") && !ran.stderr.contains("panicked"),
            "{what}: {}",
            ran.stderr
        );
        assert!(!place.path(".redrive").exists(), "{what}: no store was made");
    }
}

#[test]
fn several_mistakes_are_all_told_in_the_order_of_their_lines() {
    let text = format!(
        "{HEAD}[[stage]]\nname = \"work\"\nkind = \"http\"\nurl = \"ftp://x\"\nbatch = 0\nretry.max_attempts = 0\ncolour = \"red\"\n\
         [[stage]]\nname = \"work\"\nkind = \"nothing\"\n"
    );
    let place = Place::with(&text, &samples(2));
    let ran = place.run(&["run", "p.toml"]).expect(2);
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("p.toml:")).collect();
    let numbers: Vec<u32> = lines.iter().filter_map(|line| line.split(':').nth(1)?.parse().ok()).collect();
    assert_eq!(numbers, [8, 9, 10, 11, 13, 14], "{}", ran.stderr);
    assert!(ran.stderr.contains("6 problems"), "{}", ran.stderr);
    // The same, by the doctor.
    let found = place.run(&["doctor", "p.toml", "--json"]).expect(1).json();
    assert_eq!(
        array(&found["findings"]).iter().filter(|finding| finding["ok"] == false).count(),
        6,
        "{found}"
    );
}

#[test]
fn wrong_usage_is_told() {
    let place = Place::with(&format!("{HEAD}{PASS}"), &samples(3));
    place.write("binary.toml", [0xff, 0xfe, 0x00]);
    std::fs::create_dir(place.path("folder")).expect("made");
    place.run(&["run", "p.toml"]).expect(0);
    let missing_source = HEAD.replace("in.jsonl", "missing.jsonl") + PASS;
    place.write("missing.toml", missing_source);
    place.write("none.toml", format!("name = \"none\"\n{PASS}"));
    let table: &[(&[&str], &[&str])] = &[
        (&["run", "nowhere.toml"], &["nowhere.toml"]),
        (&["run", "folder"], &["folder"]),
        (&["run", "binary.toml"], &["binary.toml:1: ", "not UTF-8"]),
        (&["run", "missing.toml"], &["missing.jsonl", "hint"]),
        (&["run", "none.toml"], &["names no source", "--input"]),
        (&["run", "p.toml", "--input", "nowhere.jsonl"], &["nowhere.jsonl"]),
        (&["run", "p.toml", "--input", "folder"], &["directory"]),
        (&["run", "p.toml", "--max-wait", "soon"], &["max-wait", "30s"]),
        (&["run", "p.toml", "--nonsense"], &["--nonsense"]),
        (&["run", "p.toml", "--store", "mysql://x"], &["mysql://x", "sqlite:PATH"]),
        (&["run", "p.toml", "--store", "sqlite:"], &["not a store"]),
        (&["run", "p.toml", "--store", "postgres://u:hunter2@h/db"], &["SQLite only"]),
        (&["show", "--store", "sqlite:nowhere.db"], &["no store at nowhere.db"]),
        (&["show", "r99"], &["r99", "redrive runs"]),
        (&["show", "99x"], &["99x"]),
        (&["resume", "r99"], &["r99"]),
        (&["cancel", "r99", "--yes"], &["r99"]),
        (&["stats", "r99"], &["r99"]),
        (&["explain", "nothing"], &["nothing"]),
        (&["dead", "show", "nothing"], &["nothing"]),
        (&["dead", "redrive"], &["which dead items", "--all"]),
        (&["dead", "redrive", "--run", "r1"], &["--all"]),
        (&["dead", "redrive", "--all", "--rate", "0"], &["--rate"]),
        (&["dead", "purge", "--yes"], &["which dead items"]),
        (&["dead", "purge", "--all"], &["--yes"]),
        (&["dead", "list", "--after", "x"], &["cursor"]),
        (&["dead", "list", "--class", "broken"], &["retryable"]),
        (&["dead", "list", "--reason", "broken"], &["quarantined"]),
        (&["dead", "list", "--stage", "nowhere"], &["nowhere"]),
        (&["dead", "import", "nowhere.jsonl"], &["nowhere.jsonl"]),
        (&["prune", "--older-than", "0s"], &["--yes"]),
        (&["nonsense"], &["nonsense"]),
        (&[], &["Usage"]),
    ];
    for (args, fragments) in table {
        let ran = place.run(args);
        assert_eq!(ran.code(), Some(2), "{args:?}: {}{}", ran.stdout, ran.stderr);
        for fragment in *fragments {
            assert!(ran.stderr.contains(fragment), "{args:?}: no {fragment:?} in\n{}", ran.stderr);
        }
        assert!(
            !ran.stderr.contains("hunter2") && !ran.stderr.contains("panicked"),
            "{args:?}: {}",
            ran.stderr
        );
        assert_eq!(ran.stdout, "", "{args:?}");
    }
    assert!(!place.path("nowhere.db").exists());
    assert_eq!(array(&place.json(&["runs"])["runs"]).len(), 1, "nothing of it made a run");
    place.check();
}

#[test]
fn a_store_that_is_not_ours_is_left_as_it_is() {
    let place = Place::with(&format!("{HEAD}{PASS}"), &samples(3));
    let text = "Dear diary, this is not a database.\n".repeat(100);
    place.write("notes.txt", &text);
    let ran = place.run(&["run", "p.toml", "--store", "sqlite:notes.txt"]).expect(2);
    assert!(ran.stderr.contains("notes.txt") && ran.stderr.contains("left as it is"), "{}", ran.stderr);
    assert_eq!(place.read("notes.txt"), text);
    place.run(&["check", "--store", "sqlite:notes.txt"]).expect(2);
    assert_eq!(place.read("notes.txt"), text);

    // Somebody else's SQLite database.
    let made = std::process::Command::new("python3")
        .args([
            "-c",
            "import sqlite3; c = sqlite3.connect('other.db'); c.execute('create table t (a)'); c.commit()",
        ])
        .current_dir(place.path("."))
        .status();
    assert!(made.expect("python").success());
    let before = std::fs::read(place.path("other.db")).expect("read");
    place.run(&["run", "p.toml", "--store", "sqlite:other.db"]).expect(2);
    assert_eq!(std::fs::read(place.path("other.db")).expect("read"), before);

    // A folder in its place.
    std::fs::create_dir(place.path("folder.db")).expect("made");
    place.run(&["run", "p.toml", "--store", "sqlite:folder.db"]).expect(2);
}

#[test]
fn a_newer_store_is_refused_and_a_damaged_one_is_reported() {
    let place = Place::with(&format!("{HEAD}{PASS}"), &samples(50));
    place.run(&["run", "p.toml"]).expect(0);
    let path = place.path(".redrive/state.db");
    let sound = std::fs::read(&path).expect("read");

    // The schema's number is kept in bytes 60 to 63 of the file.
    let mut newer = sound.clone();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&path, &newer).expect("written");
    let ran = place.run(&["runs"]).expect(2);
    assert!(ran.stderr.contains("99") && ran.stderr.contains("newer"), "{}", ran.stderr);
    assert_eq!(std::fs::read(&path).expect("read"), newer);

    let mut damaged = sound.clone();
    damaged[4096..8192].fill(0x5a);
    std::fs::write(&path, &damaged).expect("written");
    let ran = place.run(&["run", "p.toml"]).expect(1);
    assert!(ran.stderr.contains("left as it is") && !ran.stderr.contains("panicked"), "{}", ran.stderr);
    assert_eq!(std::fs::read(&path).expect("read"), damaged);
    place.run(&["doctor"]).expect(1);

    std::fs::write(&path, &sound[..sound.len() / 2]).expect("written");
    place.run(&["check"]).expect(1);

    std::fs::write(&path, &sound).expect("written");
    place.check();
}

/// Reasons, classes and messages of dead items, by key.
fn dead_by_key(place: &Place) -> BTreeMap<String, (Value, Value, String)> {
    let row = |item: &Value| {
        let message = crate::support::text(&item["message"]);
        (crate::support::text(&item["key"]), (item["reason"].clone(), item["class"].clone(), message))
    };
    place.dead().iter().map(row).collect()
}

#[test]
fn a_line_that_cannot_be_used_is_a_dead_item_and_the_others_go_on() {
    let mut source = Vec::new();
    let lines: &[&[u8]] = &[
        b"{\"id\":\"good1\",\"n\":1}",
        b"{oops",
        b"\xff\xfe{\"id\":1}",
        b"{\"id\":[1]}",
        b"{\"other\":1}",
        b"",
        b"   \t ",
        b"{\"id\":\"good2\",\"n\":2}\r",
        b"{\"id\":\"same\",\"n\":3}",
        b"{\"id\":\"same\",\"n\":3}",
        b"{\"id\":\"other\",\"n\":4}",
        b"{\"id\":\"other\",\"n\":5}",
        b"{\"id\":\"split\xc3\"}",
        b"{\"id\":\"good3\",\"n\":6} trailing",
        b"\"just a text\"",
    ];
    for line in lines {
        source.extend_from_slice(line);
        source.push(b'\n');
    }
    // The last line has no end.
    source.extend_from_slice(b"{\"id\":\"last\",\"n\":7}");
    let server = Server::good();
    let stage = format!("{}\n{}", server.stage(), quick_retry(2));
    let place = Place::new();
    place.write("p.toml", one_stage(&stage));
    place.write("in.jsonl", &source);
    let report = place.run_pipeline(4);
    assert_eq!(place.result_keys(), names(["good1", "good2", "same", "other", "last"]));
    assert_eq!(report["duplicates"], 1);
    let dead = dead_by_key(&place);
    let mut numbers: Vec<u32> = Vec::new();
    for (key, (reason, class, message)) in &dead {
        assert_eq!((reason, class), (&json!("final"), &json!("final")), "{key}");
        assert!(key.starts_with("unusable-") || key.starts_with("other#"), "{key}");
        let number = message.strip_prefix("line ").and_then(|rest| rest.split(' ').next());
        numbers.push(number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{message}")));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3, 4, 5, 12, 13, 14, 15]);
    let twice = dead.iter().find(|(key, _)| key.starts_with("other#")).map(|(_, told)| &told.2).expect("it");
    assert!(twice.contains("line 12") && twice.contains("line 11"), "both lines are named: {twice}");
    assert_eq!(server.times_called().into_keys().collect::<Names>(), place.result_keys());
    assert_eq!(count(&report["counts"]["admitted"]), 13);
    place.check();
}

#[test]
fn a_line_of_a_hundred_megabytes_is_refused_and_not_kept() {
    let place = Place::new();
    place.write("p.toml", format!("{HEAD}{PASS}"));
    let mut source = b"{\"id\":\"before\"}\n{\"id\":\"huge\",\"text\":\"".to_vec();
    source.resize(source.len() + 100_000_000, b'x');
    source.extend_from_slice(b"\"}\n{\"id\":\"after\"}\n");
    place.write("in.jsonl", &source);
    place.run_pipeline(3);
    assert_eq!(place.result_keys(), names(["before", "after"]));
    let dead = dead_by_key(&place);
    let messages: Vec<&String> = dead.values().map(|told| &told.2).collect();
    assert!(
        matches!(messages[..], [one] if one.starts_with("line 2 has") && one.contains("more than")),
        "{dead:?}"
    );
    let kept = std::fs::metadata(place.path(".redrive/state.db")).expect("there").len();
    assert!(kept < 4_000_000, "{kept} bytes are kept");
    place.check();
}

#[test]
fn an_empty_source_is_a_completed_run() {
    for source in ["", "\n\n  \n", "\u{feff}"] {
        let place = Place::with(&format!("{HEAD}{PASS}"), source);
        let report = place.run_pipeline(0);
        assert_eq!(
            (&report["status"], count(&report["counts"]["admitted"])),
            (&json!("completed"), 0),
            "{source:?}"
        );
        assert_eq!(place.read("out.jsonl"), "");
        place.check();
    }
}

#[test]
fn standard_input_is_a_source() {
    let place = Place::new();
    place.write("p.toml", format!("{HEAD}{PASS}"));
    let args = ["run", "p.toml", "--input", "-", "--results", "out.jsonl", "--json"];
    let report = place.start_with(&args, &[], samples(1_500).as_bytes()).finish().expect(0).json();
    assert_eq!((&report["source"], count(&report["counts"]["succeeded"])), (&json!("-"), 1_500));
    assert_eq!(place.result_keys(), keys(1_500));
    place.check();
    // A second one goes on with what is new.
    let report = place.start_with(&args, &[], b"{\"id\":\"x\"}\nnonsense\n").finish().expect(0).json();
    assert_eq!(report["run"], "r1");
    assert_eq!(place.result_keys(), &keys(1_500) | &names(["x"]));
    place.check();
}

#[test]
fn keys_are_hashes_of_lines_where_none_are_named() {
    let place = Place::new();
    place.write("p.toml", format!("name = \"test\"\n[source]\npath = \"in.jsonl\"\n{PASS}"));
    place.write("in.jsonl", "{\"a\":1}\n{\"a\":2}\n{\"a\":1}\n");
    let report = place.run_pipeline(0);
    assert_eq!((count(&report["counts"]["admitted"]), &report["duplicates"]), (2, &json!(1)));
    let outputs: Vec<Value> = place.results().into_values().collect();
    assert!(outputs.contains(&json!({ "a": 1 })) && outputs.contains(&json!({ "a": 2 })));
    place.check();
}
