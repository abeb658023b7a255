//! What models answer: half answers are none, dimensions stay, what is refused is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::{
    Answer, Call, Names, Place, Server, array, count, keys, names, one_stage, quick_retry, text, texts,
};

/// The vectors of a call, of so many numbers each, and tokens for each text.
fn vectors(call: &Call, numbers: usize, tokens: u64) -> Answer {
    let input = array(&call.item().payload["input"]);
    let entry = |(at, _): (usize, &Value)| json!({ "index": at, "embedding": vec![0.5; numbers] });
    let data: Vec<Value> = input.iter().enumerate().map(entry).collect();
    Answer::status(200, &json!({ "data": data, "usage": { "prompt_tokens": tokens } }).to_string())
}

fn embed(server: &Server, more: &str) -> String {
    let address = server.address();
    one_stage(&format!("kind = \"embed\"\nbase_url = \"http://{address}/v1\"\nmodel = \"m\"\n{more}"))
}

fn lengths(place: &Place) -> Vec<usize> {
    let mut all: Vec<usize> =
        place.results().values().map(|output| array(&output["embedding"]).len()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn a_run_keeps_its_dimensions_over_a_restart() {
    let (size, served) = (Arc::new(AtomicUsize::new(4)), Arc::new(AtomicUsize::new(0)));
    let (now, calls) = (size.clone(), served.clone());
    let server = Server::start(move |call| {
        if calls.fetch_add(1, Ordering::SeqCst) >= 24 && now.load(Ordering::SeqCst) == 4 {
            return Answer::Never;
        }
        vectors(call, now.load(Ordering::SeqCst) % 100, 1)
    });
    let pipeline = embed(&server, &format!("batch = 1\nconcurrency = 4\ngate = \"api\"\n{}", quick_retry(3)));
    let place = Place::with(&pipeline, &texts(60));
    let started = place.start(&["run", "p.toml"]);
    server.until_called(25);
    place.until_json(&["show", "r1"], |report| count(&report["counts"]["succeeded"]) >= 24);
    started.kill();
    size.store(8, Ordering::SeqCst);
    let calls = server.count();
    let ran = place.run(&["run", "p.toml", "--results", "out.jsonl", "--json"]).expect(5);
    let report = ran.json();
    assert_eq!(report["status"], "paused_quota", "{report:#}");
    let because = text(&report["reason"]);
    assert!(because.contains("8 dimensions") && because.contains("had 4"), "{because}");
    assert!(server.count() <= calls + 4, "{} more calls", server.count() - calls);
    assert_eq!(place.dead_keys(), Names::new());
    // The right model is back.
    size.store(104, Ordering::SeqCst);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!((place.result_keys(), lengths(&place)), (keys(60), vec![4]));
    place.check();
}

#[test]
fn where_the_first_answer_is_the_wrong_one_no_good_one_dies_of_it() {
    let served = AtomicUsize::new(0);
    let server = Server::start(move |call| {
        vectors(call, if served.fetch_add(1, Ordering::SeqCst) == 0 { 3 } else { 4 }, 1)
    });
    let pipeline = embed(&server, &format!("batch = 4\nconcurrency = 1\ngate = \"api\"\n{}", quick_retry(3)));
    let place = Place::with(&pipeline, &texts(40));
    let report = place.run(&["run", "p.toml", "--json"]).expect(5).json();
    let because = text(&report["reason"]);
    assert!(because.contains("4 dimensions") && because.contains("had 3"), "{because}");
    assert!(because.contains("dimensions = N"), "{because}");
    assert_eq!(place.dead_keys(), Names::new());
    // Who is told which is right has them all.
    place.write("p.toml", pipeline.replace("batch = 4", "batch = 4\ndimensions = 4"));
    place.run(&["gates", "resume", "api"]).expect(0);
    place.run(&["run", "p.toml", "--new", "--results", "out.jsonl"]).expect(0);
    assert_eq!((place.result_keys(), lengths(&place)), (keys(40), vec![4]));
    place.check();
}

#[test]
fn one_odd_answer_among_right_ones_is_asked_for_again() {
    let served = AtomicUsize::new(0);
    let server = Server::start(move |call| {
        let n = served.fetch_add(1, Ordering::SeqCst);
        // The first answers are on their way together, and any of them may come first.
        vectors(call, if n > 30 && n % 7 == 3 { 5 } else { 4 }, 1)
    });
    let place = Place::with(&embed(&server, &format!("batch = 1\n{}", quick_retry(5))), &texts(60));
    place.run(&["run", "p.toml", "--results", "out.jsonl"]).expect(0);
    assert_eq!((place.result_keys(), lengths(&place)), (keys(60), vec![4]));
}

#[test]
fn tokens_of_refused_answers_are_counted_and_priced() {
    for batch in [1, 8] {
        let told = Arc::new(AtomicU64::new(0));
        let sum = told.clone();
        let server = Server::start(move |call| {
            let input = array(&call.item().payload["input"]).len() as u64;
            sum.fetch_add(input * 1_000, Ordering::SeqCst);
            // The first answer to every text, and to every batch, is no good.
            vectors(call, if call.item().before == 0 { 0 } else { 4 }, input * 1_000)
        });
        let stage = format!("batch = {batch}\n{}", quick_retry(9));
        let pipeline = format!("{}\n[price.m]\ninput = 2.0\n", embed(&server, &stage));
        let place = Place::with(&pipeline, &texts(24));
        let report = place.run_pipeline(0);
        let told = told.load(Ordering::SeqCst);
        assert!(told >= 48_000, "every text is paid for twice at least: {told}");
        assert_eq!(count(&report["usage"]["tokens_in"]), told, "batches of {batch}: {report:#}");
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let money = told as f64 * 2.0 / 1e6;
        let shown = report["usage"]["usd"].as_f64().expect("a price");
        assert!((shown - money).abs() < 1e-6, "{shown} for {money}");
    }
}

#[test]
fn half_an_answer_is_never_a_result() {
    let ends =
        ["stop", "STOP", "end_turn", "error", "abort", "model_length", "MAX_TOKENS", "SAFETY", "incomplete"];
    let server = Server::start(move |call| {
        let n: usize = call.item().key.rsplit('k').next().and_then(|n| n.parse().ok()).expect("a number");
        let content = json!([{ "type": "text", "text": "half a sen" }]);
        let choice = json!({ "message": { "content": content }, "finish_reason": ends[n] });
        Answer::status(200, &json!({ "choices": [choice] }).to_string())
    });
    let stage = format!(
        "kind = \"chat\"\nprompt = \"{{/text}}\"\nbase_url = \"http://{}/v1\"\nmodel = \"m\"\n{}",
        server.address(),
        quick_retry(1)
    );
    let place = Place::with(&one_stage(&stage), &texts(ends.len()));
    place.run(&["run", "p.toml", "--results", "out.jsonl"]).expect(4);
    assert_eq!(place.result_keys(), names(["k0000", "k0001", "k0002"]));
    for dead in place.dead() {
        let n: usize = text(&dead["key"])[1..].parse().expect("a number");
        let message = text(&dead["message"]);
        assert!(message.contains(ends[n]) || message.contains("cut off"), "{message}");
    }
}
