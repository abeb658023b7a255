//! Spans and metrics for OpenTelemetry: one trace for each item, whoever works on it, and every body is OTLP.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::monitor::samples_of;
use crate::support::collector::{Told, until_spans};
use crate::support::server::{failed, passed};
use crate::support::{
    Answer, Daemon, Names, OtelCollector, Place, Server, array, column, count, names, one_stage, quick_retry,
    samples, text, wait,
};

/// Variables that send everything to a collector, soon.
fn to(collector: &OtelCollector) -> Vec<(String, String)> {
    [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()), ("OTEL_BSP_SCHEDULE_DELAY", "20".to_owned())]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
}

fn sending(place: &mut Place, collector: &OtelCollector) {
    to(collector).iter().for_each(|(name, value)| place.set(name, value));
}

fn two_stages(server: &Server) -> String {
    let stage = format!("{}\nconcurrency = 8\n{}", server.stage(), quick_retry(3));
    format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"first\"\n{stage}[[stage]]\nname = \"second\"\n{stage}"
    )
}

/// What an attempt is known by, and how it went.
type Attempt = (String, u64, u64, String, Option<String>, Option<u64>, String, i64);

fn attempt_of_span(span: &Value) -> Attempt {
    (
        text(&span["redrive.stage"]),
        count(&span["redrive.generation"]),
        count(&span["redrive.attempt"]),
        text(&span["redrive.outcome"]),
        span["error.type"].as_str().map(str::to_owned),
        span["http.response.status_code"].as_u64(),
        text(&span["redrive.worker"]),
        span["ms"].as_i64().expect("a time"),
    )
}

fn attempt_of_row(row: &Value) -> Attempt {
    (
        text(&row["stage"]),
        count(&row["generation"]),
        count(&row["attempt"]),
        text(&row["outcome"]),
        row["class"].as_str().map(str::to_owned),
        row["status"].as_u64(),
        text(&row["worker"]),
        row["duration_ms"].as_i64().expect("a time"),
    )
}

/// Fails unless the spans are exactly the attempts that are recorded, each item's in a trace of its own below its own span.
fn assert_spans_are_the_history(place: &Place, told: &Told) {
    let items = place.json(&["items", "-n", "500"]);
    let mut traces: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    let mut of_item: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for span in &told.spans {
        traces.entry(text(&span["trace"])).or_default().push(span);
        of_item.entry(text(&span["redrive.item"])).or_default().insert(text(&span["trace"]));
    }
    assert_eq!(traces.len(), of_item.len(), "one trace for each item");
    assert!(
        column(&items["items"], "id").is_subset(&of_item.keys().cloned().collect()),
        "every item has one"
    );
    for whole in of_item.keys() {
        let life = place.json(&["explain", whole]);
        let of: Vec<&String> = of_item.get(whole).into_iter().flatten().collect();
        assert_eq!(of.len(), 1, "{whole} has one trace");
        let spans = &traces[of[0]];
        let ids: BTreeSet<String> = spans.iter().map(|span| text(&span["span"])).collect();
        assert_eq!(ids.len(), spans.len(), "no span is there twice");
        let (attempts, lives): (Vec<&Value>, Vec<&Value>) =
            spans.iter().partition(|span| span["redrive.stage"].is_string());
        let mut found: Vec<Attempt> = attempts.iter().map(|span| attempt_of_span(span)).collect();
        let mut recorded: Vec<Attempt> = array(&life["attempts"]).iter().map(attempt_of_row).collect();
        found.sort();
        recorded.sort();
        assert_eq!(found, recorded, "{whole}");
        for span in &attempts {
            let own = lives.iter().find(|life| life["redrive.generation"] == span["redrive.generation"]);
            assert_eq!(span["parent"], own.expect("its item's span")["span"]);
            let failed = ["failed", "crashed"].contains(&text(&span["redrive.outcome"]).as_str());
            assert_eq!(span["error"], json!(failed), "{span}");
        }
        let last = lives.iter().max_by_key(|life| count(&life["redrive.generation"])).expect("one");
        assert_eq!(last["redrive.state"], life["item"]["state"]);
        assert_eq!((&last["parent"], &last["name"]), (&Value::Null, &json!("test")));
        assert_eq!(last["error"], json!(life["item"]["state"] == "dead"));
    }
}

#[test]
fn an_item_has_one_trace_across_stages_retries_and_processes_of_which_one_is_killed() {
    const ITEMS: usize = 6;
    let held = Arc::new(AtomicBool::new(true));
    let hold = held.clone();
    let server = Server::start(move |call| {
        let item = call.item();
        if call.stage == "second" {
            wait::until("the test lets go", || !hold.load(Ordering::SeqCst));
        }
        let n = count(&item.payload["n"]);
        match (call.stage.as_str(), n) {
            ("first", 1 | 4) if item.before == 0 => Answer::status(500, "once"),
            ("second", 3) => Answer::results(&[failed(item, "final", "a-message-that-stays-here")]),
            _ => Answer::results(&[json!({ "id": item.id, "output": item.payload })]),
        }
    });
    let collector = OtelCollector::good();
    let mut place = Place::with(&two_stages(&server), &samples(ITEMS));
    sending(&mut place, &collector);
    let first = place.start(&["run", "p.toml", "--quiet"]);
    // Both failures and every pass of the first stage; what is held has not ended, and is nobody's when it is killed.
    until_spans(&collector, ITEMS + 2);
    server.until_called(2 * ITEMS + 2);
    assert_eq!(first.kill().killed_by(), Some(9));
    held.store(false, Ordering::SeqCst);
    place.run(&["run", "p.toml", "--quiet"]).expect(3);
    let told = collector.read();
    assert_spans_are_the_history(&place, &told);
    let workers: Names =
        told.spans.iter().filter_map(|span| span["redrive.worker"].as_str()).map(str::to_owned).collect();
    assert_eq!(workers.len(), 2, "two processes added to the traces: {workers:?}");
    let crashed = told.spans.iter().filter(|span| span["redrive.outcome"] == "crashed").count();
    assert_eq!(crashed, ITEMS, "what was held when its worker was killed is told by the other one");
    let sent = format!("{:?}", collector.bodies());
    assert!(
        !sent.contains("a-message-that-stays-here") && !sent.contains("k0003"),
        "neither errors nor keys"
    );
    assert_eq!(told.spans[0]["resource"]["service.name"], "redrive");
    // What is sent back goes on in the same trace, below a span of its own.
    place.run(&["dead", "redrive", "--all"]).expect(0);
    place.run(&["work", "--until-idle"]).expect(3);
    let told = collector.read();
    assert_spans_are_the_history(&place, &told);
    let generations: Vec<u64> = told
        .spans
        .iter()
        .filter(|span| span["redrive.state"] == "dead")
        .map(|span| count(&span["redrive.generation"]))
        .collect();
    assert_eq!(generations, [0, 1]);
}

#[test]
fn services_are_told_the_span_that_they_are_called_in() {
    let server = Server::good();
    let script = "import json, sys\nfor line in sys.stdin:\n    items = json.loads(line)['items']\n    \
                  print(json.dumps({'results': [{'id': i['id'], 'output': {'told': i.get('traceparent')}} for i in items]}), flush=True)\n";
    let pipeline = format!(
        "{}[[stage]]\nname = \"child\"\nkind = \"command\"\ncommand = [\"python3\", \"child.py\"]\nbatch = 4\n",
        one_stage(&server.stage())
    );
    let mut place = Place::with(&pipeline, &samples(5));
    place.write("child.py", script);
    place.run_pipeline(0);
    assert!(
        place.results().values().all(|output| output["told"].is_null()),
        "nothing unless it is configured"
    );
    assert!(server.calls().iter().all(|call| !call.headers.contains_key("traceparent")));
    let collector = OtelCollector::good();
    sending(&mut place, &collector);
    place.run(&["run", "p.toml", "--new", "--results", "new.jsonl", "--quiet"]).expect(0);
    let told = collector.read();
    let made = |stage: &str| -> Names {
        let of_stage = told.spans.iter().filter(|span| span["redrive.stage"] == stage);
        of_stage.map(|span| format!("00-{}-{}-01", text(&span["trace"]), text(&span["span"]))).collect()
    };
    let heard: Names = server.calls()[5..].iter().map(|call| call.headers["traceparent"].clone()).collect();
    assert_eq!(heard, made("work"));
    let outputs = crate::support::results(&place.read("new.jsonl"));
    assert_eq!(names(outputs.values().map(|output| text(&output["told"]))), made("child"));
    place.set("OTEL_PROPAGATORS", "none");
    place.run(&["run", "p.toml", "--new", "--quiet"]).expect(0);
    assert!(server.calls()[10..].iter().all(|call| !call.headers.contains_key("traceparent")));
}

#[test]
fn a_share_of_the_items_is_traced_and_services_hear_which() {
    let server = Server::good();
    let collector = OtelCollector::good();
    let mut place = Place::with(&one_stage(&server.stage()), &samples(40));
    sending(&mut place, &collector);
    place.set("OTEL_TRACES_SAMPLER", "parentbased_traceidratio");
    place.set("OTEL_TRACES_SAMPLER_ARG", "0.5");
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    let traced: Names = collector.read().spans.iter().map(|span| text(&span["trace"])).collect();
    let kept = |flag: &str| -> Names {
        let calls = server.calls();
        let told = calls.iter().map(|call| call.headers["traceparent"].split('-').collect::<Vec<_>>());
        told.filter(|parts| parts[3] == flag).map(|parts| parts[1].to_owned()).collect()
    };
    assert_eq!(traced, kept("01"));
    assert!(traced.len() > 5 && kept("00").len() > 5, "{} of 40", traced.len());
    let before = collector.spans_so_far();
    place.set("OTEL_TRACES_SAMPLER", "always_off");
    place.run(&["run", "p.toml", "--new", "--quiet"]).expect(0);
    assert_eq!(collector.spans_so_far(), before);
}

#[test]
fn what_an_item_expands_into_has_traces_of_its_own_that_name_it() {
    let server = Server::start(|call| {
        let item = call.item();
        let child = |n: u64| json!({ "key": format!("{}/{n}", item.key), "payload": { "n": n } });
        Answer::results(&[match call.stage.as_str() {
            "pages" => json!({ "id": item.id, "children": [child(0), child(1)] }),
            _ => passed(item),
        }])
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(2));
    let pipeline = format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n\
         [[stage]]\nname = \"pages\"\n{stage}[[stage.children]]\nname = \"page\"\n{stage}"
    );
    let collector = OtelCollector::good();
    let mut place = Place::with(&pipeline, &samples(2));
    sending(&mut place, &collector);
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    let told = collector.read();
    assert_spans_are_the_history(&place, &told);
    let lives: Vec<&Value> = told.spans.iter().filter(|span| span["redrive.state"].is_string()).collect();
    let (children, parents): (Vec<&Value>, Vec<&Value>) =
        lives.into_iter().partition(|life| !array(&life["links"]).is_empty());
    assert_eq!((parents.len(), children.len()), (2, 4));
    let known: BTreeSet<String> =
        parents.iter().map(|span| json!([[span["trace"], span["span"]]]).to_string()).collect();
    let linked: BTreeSet<String> = children.iter().map(|span| span["links"].to_string()).collect();
    assert_eq!(linked, known);
}

/// A value of a metric by the name that the text format has for it.
fn by_name(told: &Told) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for point in &told.points {
        let named = |le: Option<String>| {
            let labels = point["labels"].as_object().expect("labels");
            let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", text(value)));
            let mut all: Vec<String> = labels.collect();
            all.extend(le.map(|le| format!("le=\"{le}\"")));
            all.sort();
            if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
        };
        let name = text(&point["name"]);
        if let Some(value) = point["value"].as_f64() {
            values.insert(format!("{name}{}", named(None)), value);
            continue;
        }
        values.insert(format!("{name}_sum{}", named(None)), point["sum"].as_f64().expect("a sum"));
        values.insert(format!("{name}_count{}", named(None)), count(&point["count"]) as f64);
        let bounds = array(&point["bounds"]).iter().map(|bound| bound.as_f64().expect("a bound").to_string());
        let mut all = 0;
        for (bound, n) in bounds.chain(["+Inf".to_owned()]).zip(array(&point["buckets"])) {
            all += count(n);
            values.insert(format!("{name}_bucket{}", named(Some(bound))), all as f64);
        }
    }
    values
}

/// The same name with its labels in the order of the alphabet.
fn ordered(name: &str) -> String {
    let Some((name, labels)) = name.split_once('{') else { return name.to_owned() };
    let mut labels: Vec<&str> =
        labels.trim_end_matches('}').split("\",").map(|one| one.trim_end_matches('"')).collect();
    labels.sort_unstable();
    let labels: Vec<String> = labels.iter().map(|one| format!("{one}\"")).collect();
    format!("{name}{{{}}}", labels.join(","))
}

#[test]
fn metrics_are_those_of_the_page_of_metrics() {
    let server = crate::monitor::thirds();
    let collector = OtelCollector::good();
    let mut place = Place::with(&one_stage(&format!("{}\n{}", server.stage(), quick_retry(3))), &samples(30));
    sending(&mut place, &collector);
    place.run(&["run", "p.toml", "--quiet"]).expect(3);
    let sent = by_name(&collector.read());
    let text = place.run(&["stats", "--prometheus"]).expect(0).stdout;
    let page: BTreeMap<String, f64> =
        samples_of(&text).into_iter().map(|(name, value)| (ordered(&name), value)).collect();
    // How long it took to read, what a gate says of the last minute, and what only the process that sends knows.
    let moves = |name: &str| {
        ["redrive_scrape_", "redrive_otlp_", "redrive_gate_", "redrive_due_lag"]
            .iter()
            .any(|own| name.starts_with(own))
    };
    let told = |all: &BTreeMap<String, f64>| -> BTreeMap<String, f64> {
        all.iter().filter(|(name, _)| !moves(name)).map(|(name, value)| (name.clone(), *value)).collect()
    };
    assert!(told(&page).len() > 100, "{page:#?}");
    assert_eq!(told(&sent), told(&page));
    let spans = collector.spans_so_far() as f64;
    assert_eq!(sent.get("redrive_otlp_spans_total{outcome=\"dropped\"}"), Some(&0.0));
    assert!((0.0..=spans).contains(&sent["redrive_otlp_spans_total{outcome=\"sent\"}"]));
    // Without metrics, spans alone, and the other way round.
    for (variable, path) in [("OTEL_METRICS_EXPORTER", "/v1/traces"), ("OTEL_TRACES_EXPORTER", "/v1/metrics")]
    {
        let before = collector.bodies().len();
        place.run_with(&["run", "p.toml", "--new", "--quiet"], &[(variable, "none")]).expect(3);
        let bodies = collector.bodies();
        assert!(bodies.len() > before && bodies[before..].iter().all(|body| body.path == path), "{path}");
    }
}

#[test]
fn a_daemon_sends_spans_and_metrics_and_what_is_left_when_it_is_told_to_stop() {
    let server = Server::good();
    let collector = OtelCollector::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(20));
    place.run(&["submit", "p.toml"]).expect(0);
    let env = to(&collector);
    let mut env: Vec<(&str, &str)> =
        env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // Nothing is sent for an hour but what is left at the end.
    env.extend([("OTEL_BSP_SCHEDULE_DELAY", "3600000"), ("OTEL_METRIC_EXPORT_INTERVAL", "100")]);
    let daemon = Daemon::start_with(&place, &["--allow-outbound", "127.0.0.0/8"], &env);
    place.until_json(&["show", "r1"], |run| run["counts"]["succeeded"] == 20);
    wait::until("metrics", || collector.bodies().iter().any(|body| body.path == "/v1/metrics"));
    assert_eq!(collector.spans_so_far(), 0);
    daemon.stop();
    let told = collector.read();
    assert_spans_are_the_history(&place, &told);
    assert!(!told.points.is_empty());
}

#[test]
fn indexing_is_traced_too() {
    let collector = OtelCollector::good();
    let mut place = Place::new();
    std::fs::create_dir(place.path("docs")).expect("made");
    place.write("docs/otter.md", "# Otters\n\nAn otter swims.\n");
    sending(&mut place, &collector);
    place.run(&["index", "docs", "--quiet"]).expect(0);
    let told = collector.read();
    let stages: Names =
        told.spans.iter().filter_map(|span| span["redrive.stage"].as_str()).map(str::to_owned).collect();
    assert!(stages.contains("parse") && stages.contains("embed"), "{stages:?}");
    assert!(
        !format!("{:?}", collector.bodies()).contains("otter"),
        "neither names of files nor their contents"
    );
}

#[test]
fn an_attempt_that_ends_by_an_answer_is_told_once_with_its_item() {
    let server = Server::start(|call| {
        let said = |item: &crate::support::server::Item| json!({"id": item.id, "deferred": {}});
        Answer::results(&call.items.iter().map(said).collect::<Vec<_>>())
    });
    let (mut place, collector) = (Place::new(), OtelCollector::good());
    sending(&mut place, &collector);
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let stage = format!("[[stage]]\nname = \"work\"\n{}\ndefer = true\n", server.stage());
    place.write(
        "pipelines/jobs.toml",
        format!("name = \"jobs\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n{stage}"),
    );
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    daemon.post("/v1/pipelines/jobs/items", &json!({"items": [{"payload": {"id": "a"}}]})).expect(200);
    server.until_called(1);
    daemon.until("/v1/runs/r1", |report| count(&report["awaited"]) == 1);
    let token = server.calls()[0].item().token.clone();
    let answers = json!({"answers": [{"token": token, "result": {"output": 1}}]});
    daemon.post("/v1/answers", &answers).expect(200);
    daemon.until("/v1/runs/r1", |report| count(&report["counts"]["succeeded"]) == 1);
    until_spans(&collector, 2);
    daemon.stop().expect(0);
    let told = collector.read().spans;
    let (attempts, lives): (Vec<&Value>, Vec<&Value>) =
        told.iter().partition(|span| span["redrive.stage"].is_string());
    assert_eq!((attempts.len(), lives.len()), (1, 1), "{told:?}");
    assert_eq!(
        (text(&attempts[0]["redrive.outcome"]), count(&attempts[0]["redrive.attempt"])),
        ("succeeded".to_owned(), 1)
    );
    assert_eq!((&attempts[0]["parent"], &attempts[0]["trace"]), (&lives[0]["span"], &lives[0]["trace"]));
}
