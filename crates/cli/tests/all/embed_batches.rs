//! Batches of texts against a real provider: poison is found and dies alone, a service that takes single texts gets them.

use crate::support::server::passed;
use crate::support::{
    Answer, Names, Place, Rehearsal, Server, array, count, key, keys, names, quick_retry, samples, texts,
};
use serde_json::{Value, json};

const DOCUMENTS: usize = 219;
const POISONED: usize = 14;
const BATCH: usize = 32;
const DIMENSIONS: usize = 8;

/// A document has four to eight chunks.
fn chunks(document: &str) -> usize {
    4 + document[1..].parse::<usize>().expect("a number") % 5
}

/// Every sixteenth document, fourteen of them, has poison in its third chunk.
fn is_poison(document: &str, chunk: usize) -> bool {
    let n: usize = document[1..].parse().expect("a number");
    n % 16 == 3 && n / 16 < POISONED && chunk == 2
}

fn all_chunks() -> Vec<(String, usize)> {
    keys(DOCUMENTS).into_iter().flat_map(|key| (0..chunks(&key)).map(move |n| (key.clone(), n))).collect()
}

/// Takes documents apart, and is where chunks are stored in the end.
fn around() -> Server {
    Server::start(|call| {
        if call.stage == "store" {
            return Answer::results(&call.items.iter().map(passed).collect::<Vec<_>>());
        }
        let results = call.items.iter().map(|item| {
            let child = |n: usize| {
                let mark = if is_poison(&item.key, n) { "POISON" } else { "chunk" };
                let text = format!("{mark} {n} of {}", item.key);
                json!({ "key": format!("{}/{n}", item.key), "payload": { "text": text } })
            };
            json!({ "id": item.id, "children": (0..chunks(&item.key)).map(child).collect::<Vec<_>>() })
        });
        Answer::results(&results.collect::<Vec<_>>())
    })
}

fn is_vector(value: &Value, dimensions: usize) -> bool {
    value.as_array().is_some_and(|all| {
        all.len() == dimensions && all.iter().all(|n| n.as_f64().is_some_and(f64::is_finite))
    })
}

/// Documents are taken apart, chunks embedded and stored; one chunk of some documents can never be embedded.
fn poisoned_documents(status: u16, attempts: u32) {
    let around = around();
    let provider = Rehearsal::start(&format!(
        "dimensions = {DIMENSIONS}\n[latency]\nbase = \"5ms\"\n[[poison]]\nmarker = \"POISON\"\nstatus = {status}\n"
    ));
    let (http, embed, retry) = (around.stage(), provider.embed(), quick_retry(attempts));
    let pipeline = format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"split\"\n{http}\nbatch = 32\n{retry}\
         [[stage.children]]\nname = \"embed\"\n{embed}batch = {BATCH}\nconcurrency = 4\ngate = \"model\"\n{retry}\
         [[stage.children]]\nname = \"store\"\n{http}\nbatch = 32\n{retry}"
    );
    let place = Place::with(&pipeline, &samples(DOCUMENTS));
    let report = place.run_pipeline(0);
    assert_eq!(report["status"], "completed");

    let named = |chunks: &mut dyn Iterator<Item = (String, usize)>| -> Names {
        chunks.map(|(key, n)| format!("{key}/{n}")).collect()
    };
    let poison = named(&mut all_chunks().into_iter().filter(|(key, n)| is_poison(key, *n)));
    assert_eq!(poison.len(), POISONED);
    assert_eq!(place.dead_keys(), poison, "exactly the poison is dead");
    let mut stored = Vec::new();
    for call in around.calls().iter().filter(|call| call.stage == "store") {
        for item in &call.items {
            assert!(is_vector(&item.payload["embedding"], DIMENSIONS), "{}", item.payload);
            stored.push(item.key.clone());
        }
    }
    assert_eq!(names(&stored).len(), stored.len(), "nothing is stored twice");
    assert_eq!(names(&stored), &named(&mut all_chunks().into_iter()) - &poison, "everything else is stored");
    // Every document is through, and says how many of its chunks are missing.
    assert_eq!(place.result_keys(), keys(DOCUMENTS));
    let hurt = place.json(&["explain", &key(3)]);
    let joined = array(&hurt["marks"]).iter().find(|mark| mark["what"] == "joined").expect("it joined");
    assert!(crate::support::text(&joined["detail"]).contains("1 dead"), "{joined}");

    let gate = place.gate("model");
    assert_eq!((&gate["state"], &gate["batch"]), (&json!("open"), &json!({})), "{gate:#}");
    let served = provider.end();
    assert_eq!(
        (count(&served["distinct_served"]), count(&served["paid_again"])),
        ((all_chunks().len() - POISONED) as u64, 0),
        "{served:#}"
    );
    // 2·log2(32) for each poison, and for each of its attempts where it may be tried again.
    let whole = all_chunks().len().div_ceil(BATCH) as u64;
    let tries = u64::from(if status == 500 { attempts } else { 1 });
    let extra = count(&served["calls"]).saturating_sub(whole);
    assert!(count(&served["failed"]) >= POISONED as u64, "{served:#}");
    assert!(
        extra <= POISONED as u64 * 10 * tries,
        "{extra} calls besides {whole} for {POISONED} poison chunks: {served:#}"
    );
    place.check();
}

#[test]
fn chunks_that_are_refused_die_alone() {
    poisoned_documents(400, 3);
}

#[test]
fn chunks_that_are_too_large_die_alone() {
    poisoned_documents(413, 3);
}

#[test]
fn chunks_that_break_the_service_die_alone() {
    poisoned_documents(500, 2);
}

#[test]
fn a_service_that_takes_single_texts_is_found_out_once_and_remembered() {
    const ITEMS: usize = 100;
    let provider = Rehearsal::start(
        "[latency]\nbase = \"2ms\"\n[size]\nmax_texts = 1\nstatus = 500\ncode = \"broken\"\n",
    );
    let stage =
        format!("{}batch = 32\nconcurrency = 2\ngate = \"model\"\n{}", provider.embed(), quick_retry(3));
    let place = Place::with(&crate::support::one_stage(&stage), &texts(ITEMS));
    let report = place.run_pipeline(0);
    assert_eq!(count(&report["attempts"]["failures"]), 0, "{report:#}");
    assert_eq!(place.result_keys(), keys(ITEMS));
    let first = provider.report();
    // Two batches are under way at once; each is taken apart with a handful of probes.
    let failed = count(&first["failed"]);
    assert!((1..=2 * 7 + 2).contains(&failed), "{failed} calls with several texts: {first:#}");
    assert_eq!((count(&first["ok"]), count(&first["paid_again"])), (ITEMS as u64, 0), "{first:#}");
    assert_eq!(place.gate("model")["batch"], json!({ "work": 1 }));
    assert!(place.run(&["gates"]).stdout.contains("work sends at most 1 item"), "people are told");

    provider.reset();
    place.write("in2.jsonl", texts(ITEMS).replace("text of", "other text of"));
    let again = ["run", "p.toml", "--input", "in2.jsonl", "--results", "out.jsonl", "--json"];
    place.run(&again).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    let second = provider.end();
    assert!(count(&second["failed"]) <= 2, "after a restart it is remembered: {second:#}");
    assert_eq!(count(&second["ok"]), ITEMS as u64);
    place.check();
}

#[test]
fn an_item_that_can_never_pass_its_gate_is_dead_without_a_call() {
    let provider = Rehearsal::start("");
    let stage = format!("{}gate = \"model\"\n{}", provider.embed(), quick_retry(3));
    let pipeline = format!("{}[gate.model]\ntokens_per_minute = 1000\n", crate::support::one_stage(&stage));
    // A token has about four letters.
    let large = "word ".repeat(2_500);
    let source = format!("{}{{\"id\":\"large\",\"text\":\"{large}\"}}\n", texts(5));
    let place = Place::with(&pipeline, &source);
    let report = place.run_pipeline(3);
    assert_eq!(place.result_keys(), keys(5));
    let dead = place.dead();
    assert_eq!(crate::support::column(&Value::Array(dead.clone()), "key"), names(["large"]));
    assert_eq!((&dead[0]["class"], &dead[0]["reason"]), (&json!("oversized"), &json!("final")));
    assert!(crate::support::text(&dead[0]["message"]).contains("1000"), "{}", dead[0]["message"]);
    assert_eq!(count(&report["attempts"]["failures"]), 1);
    let served = provider.end();
    assert_eq!((count(&served["items_served"]), count(&served["failed"])), (5, 0), "{served:#}");
    place.check();
}
