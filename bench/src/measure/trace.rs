//! What tracing costs the engine: none configured, none kept, some kept, all kept and sent to a collector on the loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use redrive_engine::env::{Env, system_now};
use redrive_engine::trace::{SpanCounts, Tracer};
use redrive_operate::telemetry::{Settings, Telemetry};
use redrive_stages::{OtlpCollector, OtlpSpec, OtlpTarget};
use serde_json::{Value, json};

use super::Scratch;
use crate::engine::{Bench, Stretch, measured, runtime};
use crate::material::{Pass, Shape};
use crate::report::{Spread, save, table};
use crate::{Common, Failure, facts, process};

/// What is measured: a name, and the share of traces that is kept; `None`: nothing is configured.
const WAYS: [(&str, Option<&str>); 4] =
    [("not configured", None), ("none kept", Some("0")), ("1 % kept", Some("0.01")), ("all kept", Some("1"))];

/// What one turn gave.
struct Turn {
    stretch: Stretch,
    counts: SpanCounts,
}

/// Measures all ways, taking turns.
pub fn run(common: &Common) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let shape = common.shape(200_000);
    let endpoint = collector()?;
    let mut turns: Vec<Vec<Turn>> = WAYS.iter().map(|_| Vec::new()).collect();
    for _ in 0..common.repeat {
        for (at, (_, share)) in WAYS.iter().enumerate() {
            let path = scratch.store()?;
            turns[at].push(runtime()?.block_on(turn(&path, shape, &endpoint, *share))?);
        }
    }
    let results = told(shape, &turns);
    let result = json!({
        "facts": facts, "load_after": process::load(), "items": shape.items, "stages": shape.stages,
        "concurrency": shape.concurrency, "batch": shape.batch, "repeat": common.repeat, "results": results,
    });
    save(common.json.as_deref(), &result)
}

async fn turn(path: &Path, shape: Shape, endpoint: &str, share: Option<&str>) -> Result<Turn, Failure> {
    let mut bench = Bench::create(path, shape, Arc::new(Pass)).await?;
    bench.submit_all().await?;
    let telemetry = share.map(|share| telemetry(endpoint, share, &bench.env)).transpose()?;
    bench.env.traced = telemetry.as_ref().and_then(Telemetry::traced);
    let ((), stretch) = measured(bench.drain()).await?;
    if let Some(telemetry) = telemetry {
        telemetry.end().await;
    }
    let counts = bench.env.traced.as_deref().map(Tracer::counts).unwrap_or_default();
    Ok(Turn { stretch, counts })
}

fn telemetry(endpoint: &str, share: &str, env: &Env) -> Result<Telemetry, Failure> {
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint),
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", share),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::read(variables.into_iter()).map_err(|error| error.message)?;
    let settings = settings.ok_or("nothing is configured")?;
    let traces = settings.traces.clone().map(|to| OtlpTarget {
        url: to.url,
        headers: to.headers,
        timeout: to.timeout,
    });
    let collector = OtlpCollector::new(OtlpSpec { traces, metrics: None }, Arc::new(system_now))?;
    Ok(Telemetry::begin(settings, Arc::new(collector), env, false))
}

fn told(shape: Shape, turns: &[Vec<Turn>]) -> Vec<Value> {
    let n = shape.items as f64;
    let rate = |turn: &Turn| n / turn.stretch.seconds;
    let spread =
        |turns: &[Turn], figure: &dyn Fn(&Turn) -> f64| Spread::of(turns.iter().map(figure).collect());
    let mut rows = Vec::new();
    let mut results = Vec::new();
    for ((name, _), own) in WAYS.iter().zip(turns) {
        // Each beside the turn of the same round in which nothing was configured.
        let ratio = own.iter().zip(&turns[0]).map(|(turn, plain)| rate(turn) / rate(plain));
        let ratio = Spread::of(ratio.collect());
        let per_s = spread(own, &rate);
        let cpu = spread(own, &|turn| turn.stretch.cpu / n * 1e6);
        let sent = spread(own, &|turn| turn.counts.sent as f64);
        let dropped = spread(own, &|turn| turn.counts.dropped as f64);
        rows.push(vec![
            (*name).to_owned(),
            per_s.text(0),
            ratio.text(2),
            cpu.text(1),
            sent.text(0),
            dropped.text(0),
        ]);
        results.push(json!({
            "way": name, "items_per_s": per_s.json(), "ratio": ratio.json(), "cpu_us_per_item": cpu.json(),
            "spans_sent": sent.json(), "spans_dropped": dropped.json(),
        }));
    }
    table(&["", "items/s", "ratio", "CPU µs/item", "spans sent", "spans dropped"], &rows);
    results
}

/// A collector that reads everything and keeps nothing; its address.
fn collector() -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}/v1/traces", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || drop(serve(&stream)));
        }
    });
    Ok(address)
}

fn serve(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.is_empty() {
                break;
            }
        }
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")?;
    }
}
