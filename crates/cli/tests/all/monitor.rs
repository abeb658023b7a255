//! What is told to monitoring: it is what the reports say, documented, bounded, and never goes backwards.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::support::server::{failed, passed};
use crate::support::{Answer, Daemon, Place, Server, count, one_stage, quick_retry, samples};

/// Samples by their name with labels.
pub fn samples_of(text: &str) -> BTreeMap<String, f64> {
    let told = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    told.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{line}: {error}")))
    })
    .collect()
}

pub fn scraped(place: &Place) -> BTreeMap<String, f64> {
    samples_of(&place.run(&["stats", "--prometheus"]).expect(0).stdout)
}

/// Every third item dies, every third passes at the second try.
pub fn thirds() -> Server {
    Server::start(|call| {
        let one = |item: &crate::support::server::Item| match item.payload["n"].as_u64().unwrap_or(0) % 3 {
            0 => failed(item, "final", "an-unrepeatable-message"),
            1 if item.before == 0 => failed(item, "retryable", "once"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    })
}

fn worked(place: &Place, exit: i32) {
    place.run(&["run", "p.toml", "--quiet"]).expect(exit);
}

fn place_of(server: &Server) -> Place {
    Place::with(&one_stage(&format!("{}\n{}", server.stage(), quick_retry(3))), &samples(30))
}

#[test]
fn what_is_told_is_what_the_reports_say() {
    let server = thirds();
    let place = place_of(&server);
    worked(&place, 3);
    let (told, run) = (scraped(&place), place.json(&["show", "r1"]));
    let of = |name: &str| *told.get(name).unwrap_or_else(|| panic!("{name}: {told:#?}"));
    let here = "pipeline=\"test\",stage=\"work\"";
    for state in ["succeeded", "dead", "waiting", "running", "filtered", "joining", "cancelled", "superseded"]
    {
        let n = of(&format!("redrive_items{{{here},state=\"{state}\"}}"));
        assert_eq!(n, count(&run["counts"][state]) as f64, "{state}");
    }
    assert_eq!(of(&format!("redrive_tries_total{{{here}}}")), count(&run["attempts"]["total"]) as f64);
    assert_eq!(of(&format!("redrive_retries_total{{{here}}}")), 10.0);
    assert_eq!(of(&format!("redrive_attempts_total{{{here},outcome=\"failed\"}}")), 20.0);
    assert_eq!(of(&format!("redrive_failures_total{{{here},class=\"final\"}}")), 10.0);
    assert_eq!(of(&format!("redrive_deaths_total{{{here},reason=\"final\"}}")), 10.0);
    assert_eq!(of(&format!("redrive_dead_items{{{here},reason=\"final\"}}")), 10.0);
    assert_eq!(of(&format!("redrive_item_retries_bucket{{{here},le=\"0\"}}")), 10.0);
    assert_eq!(of(&format!("redrive_item_retries_bucket{{{here},le=\"1\"}}")), 20.0);
    assert_eq!(of(&format!("redrive_time_to_successful_retry_seconds_count{{{here}}}")), 10.0);
    assert_eq!(
        of(&format!("redrive_gate_calls_total{{gate=\"{}\",outcome=\"passed\"}}", server.address())),
        40.0
    );
    assert_eq!(of("redrive_runs{pipeline=\"test\",state=\"ended\"}"), 1.0);
    assert_eq!(of("redrive_workers"), 0.0);
    // Sent back, they die once more: deaths have grown, and the dead are as many as before.
    place.run(&["dead", "redrive", "--all"]).expect(0);
    place.run(&["work", "--until-idle"]).expect(3);
    let told = scraped(&place);
    assert_eq!(told[&format!("redrive_deaths_total{{{here},reason=\"final\"}}")], 20.0);
    assert_eq!(told[&format!("redrive_dead_items{{{here},reason=\"final\"}}")], 10.0);
    assert_eq!(told["redrive_operations{kind=\"redrive\",state=\"done\"}"], 1.0);
}

/// Whether a sample may never go down: of a counter, or of a histogram.
fn only_grows(name: &str) -> bool {
    let name = name.split('{').next().unwrap_or(name);
    ["_total", "_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end))
}

#[test]
fn no_counter_goes_backwards_when_runs_are_forgotten() {
    let server = thirds();
    let place = place_of(&server);
    worked(&place, 3);
    let first = scraped(&place);
    place.run(&["run", "p.toml", "--new", "--quiet"]).expect(3);
    let second = scraped(&place);
    place.run(&["prune", "--older-than", "0s", "--with-dead", "--yes"]).expect(0);
    assert_eq!(place.json(&["runs"])["runs"], json!([]));
    // What nobody can name any more is told as others, until there is a run again.
    let gone = scraped(&place);
    assert_eq!(gone["redrive_deaths_total{pipeline=\"test\",stage=\"_other\",reason=\"final\"}"], 20.0);
    place.run(&["run", "p.toml", "--new", "--quiet"]).expect(3);
    let third = scraped(&place);
    let grown = |earlier: &BTreeMap<String, f64>, later: &BTreeMap<String, f64>| {
        for (name, before) in earlier.iter().filter(|(name, _)| only_grows(name)) {
            let after = later.get(name).copied().unwrap_or_else(|| panic!("{name} is gone"));
            assert!(after >= *before, "{name}: {before}, then {after}");
        }
    };
    grown(&first, &second);
    grown(&second, &third);
    let deaths = "redrive_deaths_total{pipeline=\"test\",stage=\"work\",reason=\"final\"}";
    assert_eq!([first[deaths], second[deaths], third[deaths]], [10.0, 20.0, 30.0]);
}

#[test]
fn neither_keys_nor_messages_are_labels() {
    let server = thirds();
    let place = place_of(&server);
    place.write(
        "in.jsonl",
        "{\"id\": \"an-unrepeatable-key\", \"n\": 3, \"text\": \"an-unrepeatable-content\"}\n",
    );
    worked(&place, 4);
    let text = place.run(&["stats", "--prometheus"]).expect(0).stdout;
    assert!(!text.contains("unrepeatable"), "{text}");
    let known = [
        "pipeline",
        "stage",
        "state",
        "outcome",
        "class",
        "reason",
        "cause",
        "direction",
        "gate",
        "kind",
        "law",
        "collection",
        "status",
        "error_type",
        "version",
        "le",
    ];
    let pattern = regex_lite::Regex::new(r#"([a-z_]+)=""#).expect("a pattern");
    let labels: BTreeSet<&str> =
        pattern.captures_iter(&text).map(|found| found.get(1).expect("one").as_str()).collect();
    assert!(labels.iter().all(|label| known.contains(label)), "{labels:?}");
}

#[test]
fn the_page_of_metrics_is_what_is_told() {
    let server = thirds();
    let place = place_of(&server);
    worked(&place, 3);
    let text = place.run(&["stats", "--prometheus"]).expect(0).stdout;
    let (mut told, mut kinds) = (Vec::new(), BTreeMap::new());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                told.push((name.to_owned(), help.to_owned()))
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                drop(kinds.insert(name.to_owned(), kind.to_owned()))
            }
            _ => {}
        }
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/monitoring.md"))
        .expect("the page");
    let rows: Vec<(String, String, String, String)> = page
        .lines()
        .filter(|line| line.starts_with("| `redrive_") || line.starts_with("| `retry_job_"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            (
                cells[0].trim_matches('`').to_owned(),
                cells[1].to_owned(),
                cells[2].replace('`', ""),
                cells[3].to_owned(),
            )
        })
        .collect();
    let written: Vec<(String, String)> =
        rows.iter().map(|(name, _, _, help)| (name.clone(), help.clone())).collect();
    assert_eq!(written, told, "docs/monitoring.md has every metric, in the order in which they are told");
    for (name, kind, labels, _) in &rows {
        assert_eq!(&kinds[name], kind, "{name}");
        let labels: Vec<&str> = labels.split(", ").filter(|label| *label != "–").collect();
        let sample = text.lines().find(|line| {
            let rest = line.strip_prefix(name.as_str()).unwrap_or_default();
            rest.starts_with('{') || rest.starts_with(' ') || rest.starts_with("_count")
        });
        if let Some(sample) = sample {
            let pattern = regex_lite::Regex::new(r#"([a-z_]+)=""#).expect("a pattern");
            let shown: Vec<&str> =
                pattern.captures_iter(sample).map(|found| found.get(1).expect("one").as_str()).collect();
            assert_eq!(shown, labels, "{name}");
        }
    }
}

#[test]
fn a_daemon_tells_the_same_to_whoever_may_look() {
    let server = thirds();
    let place = place_of(&server);
    worked(&place, 3);
    let daemon = Daemon::start(&place, &["--no-work"]);
    let viewer =
        place.run(&["token", "create", "prom", "--role", "viewer"]).expect(0).stdout.trim().to_owned();
    let reply = daemon.get_as(&viewer, "/metrics").expect(200);
    assert_eq!(reply.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let told = samples_of(&reply.body);
    let passing = |name: &&String| {
        ["redrive_scrape", "redrive_laws", "retry_job_", "redrive_due_lag"]
            .iter()
            .all(|moves| !name.starts_with(moves))
    };
    let same = scraped(&place);
    for name in same.keys().filter(passing) {
        assert_eq!(told.get(name), same.get(name), "{name}");
    }
    daemon.stop().expect(0);
}

#[test]
fn a_run_that_is_paused_because_too_many_are_dead_has_spent_its_budget() {
    let server = thirds();
    let stage = format!("{}\n{}", server.stage(), quick_retry(3));
    let text = one_stage(&stage).replace("failure_budget = false", "failure_budget = false\nmax_dead = 5");
    assert!(text.contains("max_dead"), "{text}");
    let place = Place::with(&text, &samples(60));
    worked(&place, 5);
    assert_eq!(place.json(&["show", "r1"])["status"], "paused_budget");
    let told = scraped(&place);
    assert!(told["redrive_budget_spent_ratio{pipeline=\"test\",stage=\"work\"}"] >= 1.0);
}
