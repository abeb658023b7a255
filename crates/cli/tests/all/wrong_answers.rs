//! Answers of an embedding service that are wrong are never stored, and asked for again.

use std::time::Duration;

use crate::support::{Names, Place, Rehearsal, count, keys, one_stage, quick_retry, texts, wait};

const ITEMS: usize = 160;
const DIMENSIONS: usize = 16;

/// A fault that hits some calls; everything passes in the end, and nothing wrong is stored.
fn occasional(fault: &str, stage: &str) {
    let provider = Rehearsal::start(&format!(
        "seed = 11\ndimensions = {DIMENSIONS}\n[latency]\nbase = \"2ms\"\n[[fault]]\nkind = {fault}\nrate = 0.3\n"
    ));
    let stage = format!("{}batch = 4\nconcurrency = 4\n{stage}{}", provider.embed(), quick_retry(12));
    let place = Place::with(&one_stage(&stage), &texts(ITEMS));
    let begun = wait::now();
    let report = place.run_pipeline(0);
    let took = begun.elapsed();
    assert_eq!(report["status"], "completed", "{fault}");
    assert_eq!(place.dead_keys(), Names::new(), "{fault}");
    let results = place.results();
    assert_eq!(results.keys().cloned().collect::<Names>(), keys(ITEMS), "{fault}");
    for (key, output) in &results {
        let vector = crate::support::array(&output["embedding"]);
        assert_eq!(vector.len(), DIMENSIONS, "{fault}: {key}");
        assert!(vector.iter().all(|n| n.as_f64().is_some_and(f64::is_finite)), "{fault}: {output}");
        let length: f64 = vector.iter().filter_map(serde_json::Value::as_f64).map(|n| n * n).sum();
        assert!((length - 1.0).abs() < 0.01, "{fault}: {key} has another length: {length}");
        assert_eq!(output["text"], format!("text of {key}"), "{fault}");
    }
    let served = provider.end();
    let hits: u64 = served["faults"].as_object().expect("by kind").values().map(count).sum();
    assert!(hits >= 3, "{fault} was met: {served:#}");
    assert_eq!(count(&served["distinct_served"]), ITEMS as u64, "{fault}");
    assert!(took < Duration::from_secs(20), "{fault} took {took:?}");
    place.check();
}

#[test]
fn answers_with_wrong_vectors_are_asked_for_again() {
    for fault in ["\"too-few\"", "\"too-many\"", "\"wrong-dimension\"", "\"nan\"", "\"null\"", "\"empty\""] {
        occasional(fault, "");
    }
}

#[test]
fn answers_that_are_no_answers_are_asked_for_again() {
    for fault in ["\"garbage\"", "\"cut\"", "\"cut-inside\""] {
        occasional(fault, "");
    }
    occasional("\"huge\"\nbytes = 40000000", "max_answer = \"1MiB\"\n");
}

#[test]
fn answers_that_trickle_are_given_up_after_the_time_limit() {
    occasional("\"slowloris\"\npace = \"100ms\"", "timeout = \"300ms\"\nretry.timeout_growth = 1.0\n");
    occasional("\"endless\"\npace = \"100ms\"", "timeout = \"300ms\"\nretry.timeout_growth = 1.0\n");
}

#[test]
fn another_order_is_put_right() {
    let provider = Rehearsal::start(&format!(
        "dimensions = {DIMENSIONS}\n[[fault]]\nkind = \"shuffled\"\nrate = 0.5\nuntil = \"10m\"\n"
    ));
    let stage = format!("{}batch = 8\n{}", provider.embed(), quick_retry(3));
    let place = Place::with(&one_stage(&stage), &texts(ITEMS));
    place.run_pipeline(0);
    let mixed = place.results();
    assert!(count(&provider.report()["faults"]["shuffled"]) > 0);
    let calm = Rehearsal::start(&format!("dimensions = {DIMENSIONS}\n"));
    let stage = format!("{}batch = 8\n{}", calm.embed(), quick_retry(3));
    let other = Place::with(&one_stage(&stage), &texts(ITEMS));
    other.run_pipeline(0);
    assert_eq!(mixed, other.results(), "every text has its own vector");
}
