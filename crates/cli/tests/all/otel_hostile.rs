//! A collector that is away, slow, broken or means no good changes nothing of the work, and no secret is told.

use std::time::Duration;

use serde_json::Value;

use crate::support::collector::Way;
use crate::support::tools::free_port;
use crate::support::{OtelCollector, Place, Server, one_stage, quick_retry, samples, wait};

const SECRET: &str = "hunter2-hunter2-hunter2";
const ITEMS: usize = 40;

fn place_of(server: &Server) -> Place {
    Place::with(&one_stage(&format!("{}\n{}", server.stage(), quick_retry(3))), &samples(ITEMS))
}

/// What a run came to, without what differs from one to the next.
fn essence(place: &Place, report: &Value) -> (Value, Value, String) {
    (report["counts"].clone(), report["attempts"].clone(), format!("{:?}", place.results()))
}

/// Runs with this collector, and says what the run came to and what was told on the way.
fn ran_with(endpoint: &str, more: &[(&str, &str)]) -> ((Value, Value, String), String) {
    let server = crate::monitor::thirds();
    let place = place_of(&server);
    let headers = format!("authorization=Bearer%20{SECRET}");
    let mut env = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_EXPORTER_OTLP_HEADERS", &headers),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "300"),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
        ("REDRIVE_LOG", "debug"),
    ];
    env.extend(more);
    let ran = place.run_with(&["run", "p.toml", "--results", "out.jsonl", "--json"], &env).expect(3);
    place.check();
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(!told.contains("hunter2"), "{told}");
    (essence(&place, &ran.json()), ran.stderr)
}

fn undisturbed() -> (Value, Value, String) {
    let server = crate::monitor::thirds();
    let place = place_of(&server);
    let report = place.run_pipeline(3);
    essence(&place, &report)
}

#[test]
fn whatever_the_collector_does_the_work_comes_to_the_same() {
    let expected = undisturbed();
    let away = format!("http://user:{SECRET}@127.0.0.1:{}", free_port());
    let (came, told) = ran_with(&away, &[]);
    assert_eq!(came, expected);
    assert!(told.contains("the collector takes no spans: it cannot be reached"), "{told}");
    assert!(told.contains("spans were dropped"), "{told}");
    let say = |head: &str| {
        let head = head.to_owned();
        move |_: &crate::support::collector::Body| Way::Say(head.clone(), "an-answer".repeat(50_000))
    };
    let ways = [
        ("500", OtelCollector::start(say("500 No")), "it answered 500"),
        ("302", OtelCollector::start(say("302 There\r\nLocation: http://127.0.0.1:1/")), "it answered 302"),
        ("429", OtelCollector::start(say("429 Later\r\nRetry-After: 3600")), "it answered 429"),
        ("huge", OtelCollector::start(say("200 OK")), ""),
        ("endless", OtelCollector::start(|_| Way::Endless), ""),
        ("never", OtelCollector::start(|_| Way::Never), "it did not answer in time"),
        // What it was sent comes back, with the secret in it.
        (
            "echo",
            OtelCollector::start(|body| Way::Say("400 Bad".to_owned(), format!("{:?}", body.headers))),
            "it answered 400",
        ),
    ];
    for (name, collector, words) in ways {
        let begun = wait::now();
        let (came, told) = ran_with(&collector.endpoint(), &[]);
        assert_eq!(came, expected, "{name}");
        assert!(told.contains(words), "{name}: {told}");
        assert!(!told.contains("an-answer"), "{name}: what a collector says is not repeated");
        let warned = told.matches("the collector takes no spans").count();
        assert_eq!(warned, usize::from(!words.is_empty()), "{name}: it is told once: {told}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{name}: {:?}", begun.elapsed());
        assert!(
            collector.bodies().iter().all(|body| body.headers["authorization"].ends_with(SECRET)),
            "{name}"
        );
        assert!(!collector.bodies().is_empty(), "{name}: it was asked");
    }
}

#[test]
fn a_batch_that_is_turned_away_is_sent_again_and_taken_once() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let collector = OtelCollector::start(move |body| {
        let turned_away =
            body.path == "/v1/traces" && asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        if turned_away {
            Way::Say("503 Later\r\nRetry-After: 1".to_owned(), String::new())
        } else {
            Way::Take
        }
    });
    let server = Server::good();
    let place = place_of(&server);
    server.hold();
    let endpoint = collector.endpoint();
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "20")];
    place.run(&["submit", "p.toml"]).expect(0);
    let worker = place.start_with(&["work"], &env, b"");
    server.release();
    // Those of the first request come once more, with a second between.
    wait::until("it is sent again", || {
        let bodies: Vec<String> = collector.bodies().into_iter().map(|body| body.body).collect();
        bodies.len() > 1 && bodies[1..].contains(&bodies[0])
    });
    worker.signal("TERM");
    worker.finish().expect(0);
    let told = collector.read();
    let again = collector.bodies()[0].body.matches("\"spanId\":").count();
    assert_eq!(told.spans.len(), 2 * ITEMS + again, "attempts and items, and what was sent twice");
}

#[test]
fn what_is_made_faster_than_it_is_taken_is_dropped_and_counted() {
    let collector = OtelCollector::start(|_| Way::Never);
    let server = Server::good();
    let place = place_of(&server);
    place.run(&["submit", "p.toml"]).expect(0);
    let endpoint = collector.endpoint();
    let env = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "200"),
    ];
    let daemon = crate::support::Daemon::start_with(&place, &["--allow-outbound", "127.0.0.0/8"], &env);
    place.until_json(&["show", "r1"], |run| run["counts"]["succeeded"] == ITEMS);
    let dropped = || {
        let told = crate::monitor::samples_of(&daemon.get("/metrics").body);
        told["redrive_otlp_spans_total{outcome=\"dropped\"}"]
    };
    // Two under way and four that wait are all that is kept of eighty.
    assert!(dropped() >= 2.0 * ITEMS as f64 - 6.0, "{}", dropped());
    let said = daemon.stop().stderr;
    assert!(said.contains("not all spans"), "{said}");
}

#[test]
fn what_cannot_be_sent_so_is_refused_before_anything_is_done() {
    let place = place_of(&Server::good());
    let refused = |command: &[&str], more: &[(&str, &str)]| {
        let mut env = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")];
        env.extend(more);
        let ran = place.run_with(command, &env).expect(2);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
        ran.stderr
    };
    for command in [&["run", "p.toml"][..], &["work"], &["serve", "--listen", "127.0.0.1:0"], &["index", "."]]
    {
        let told = refused(command, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert!(told.contains("OTEL_EXPORTER_OTLP_PROTOCOL=\"grpc\": not supported; http/json is"), "{told}");
        assert!(told.contains("hint:"), "{told}");
    }
    let bad = format!("authorization={SECRET}\u{7f}");
    let told = refused(&["run", "p.toml"], &[("OTEL_EXPORTER_OTLP_HEADERS", &bad)]);
    assert!(told.contains("the value of header authorization cannot be sent"), "{told}");
    refused(&["run", "p.toml"], &[("OTEL_EXPORTER_OTLP_HEADERS", SECRET)]);
    assert!(!place.path(".redrive").exists(), "nothing was made");
    // A command that changes nothing does not look at them.
    place.run_with(&["policy", "list"], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense")]).expect(0);
}
