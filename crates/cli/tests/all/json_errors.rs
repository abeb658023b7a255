//! With `--json` an error is one document, too.

use serde_json::{Value, json};

use crate::support::{Place, one_stage, samples};

/// The document of an error, which is all there is on standard output.
fn refused(place: &Place, args: &[&str], code: i32) -> Value {
    let ran = place.run(&[args, &["--json"]].concat()).expect(code);
    let document = ran.json();
    assert_eq!(document.as_object().map(|top| top.len()), Some(1), "{document}");
    let error = &document["error"];
    assert!(error["code"].is_string() && error["message"].is_string(), "{document}");
    assert!(!ran.stderr.is_empty(), "people are told, too");
    error.clone()
}

#[test]
fn an_error_is_one_document_with_a_code_a_message_and_a_hint() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(3));
    assert_eq!(refused(&place, &["runs"], 2)["code"], "store_not_found");
    place.run(&["run", "p.toml"]).expect(0);
    for (args, code) in [
        (&["show", "r99"][..], "run_not_found"),
        (&["explain", "nobody"], "item_not_found"),
        (&["dead", "list", "--run", "r99"], "run_not_found"),
        (&["pause", "r1"], "run_finished"),
        (&["gates", "reset", "nothing"], "gate_not_found"),
        (&["search", "word"], "index_not_found"),
        (&["run", "nothing.toml"], "unreadable_file"),
        (&["run", "p.toml", "--input", "nothing.jsonl"], "unreadable_source"),
        (&["run", "p.toml", "--results", "p.toml"], "output_refused"),
        (&["dead", "redrive"], "invalid_request"),
        (&["prune", "--older-than", "0s"], "not_confirmed"),
        (&["runs", "--nonsense"], "usage"),
        (&["run"], "usage"),
        (&[], "usage"),
    ] {
        let error = refused(&place, args, 2);
        assert_eq!(error["code"], code, "{args:?}: {error}");
    }
    let error = refused(&place, &["show", "r99"], 2);
    assert_eq!(
        error,
        json!({
            "code": "run_not_found",
            "message": "run r99 does not exist",
            "hint": "`redrive runs` lists the runs of this store",
        })
    );
}

#[test]
fn a_store_that_is_none_has_a_code_of_its_own() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1));
    place.write("other.db", "this is no database, and long enough to be one ".repeat(100));
    let error = refused(&place, &["runs", "--store", "sqlite:other.db"], 2);
    assert_eq!(error["code"], "store_foreign", "{error}");
}

#[test]
fn every_problem_of_a_pipeline_is_in_the_document() {
    let pipeline = one_stage("kind = \"pass\"\nbatch = 0\nnonsense = 1");
    let place = Place::with(&pipeline, &samples(1));
    let error = refused(&place, &["run", "p.toml"], 2);
    assert_eq!(error["code"], "invalid_pipeline");
    let problems = error["problems"].as_array().expect("a list");
    assert_eq!(problems.len(), 2, "{error}");
    for problem in problems {
        assert_eq!(problem["file"], "p.toml");
        assert!(problem["line"].is_u64() && problem["key"].is_string(), "{problem}");
    }
}

#[test]
fn a_wrong_expression_is_told_with_file_line_and_key() {
    let place = Place::with(&one_stage("kind = \"filter\"\nkeep = \"payload.n >> 3\""), &samples(1));
    for args in [&["run", "p.toml"][..], &["policy", "lint", "p.toml"], &["submit", "p.toml"]] {
        let error = refused(&place, args, 2);
        let problem = &error["problems"][0];
        assert_eq!((&problem["file"], &problem["line"]), (&json!("p.toml"), &json!(10)), "{args:?}: {error}");
        assert_eq!(problem["key"], "stage.work.keep");
        let message = problem["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("in the expression, line 1, column 12: Syntax error"), "{message}");
    }
    let told = place.run(&["doctor", "p.toml"]).expect(1).stdout;
    assert!(told.contains("p.toml:10: stage.work.keep: in the expression"), "{told}");
}

#[test]
fn a_pipeline_that_is_no_utf8_is_told_by_its_line() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1));
    let mut bytes = place.read("p.toml").into_bytes();
    bytes.extend(b"# caf\xe9\n");
    place.write("p.toml", bytes);
    let error = refused(&place, &["run", "p.toml"], 2);
    assert_eq!(
        (&error["problems"][0]["line"], &error["code"]),
        (&json!(10), &json!("invalid_pipeline")),
        "{error}"
    );
}

#[test]
fn a_limit_on_the_size_of_files_is_told_as_a_full_disk() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(3));
    let limited = ["sh", "-c", "ulimit -f 20; exec \"$@\"", "sh"];
    let ran = place.start_under(&limited, &["run", "p.toml", "--json"]).finish().expect(1);
    let error = &ran.json()["error"];
    assert_eq!(error["code"], "store_full", "{error}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("a limit on the size of files"), "{message}");
}
