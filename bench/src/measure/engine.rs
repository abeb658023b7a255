//! The engine beside the floor, taking turns, so that a busy neighbour hits both.

use std::sync::Arc;

use redrive_engine::handler::Handler;
use serde_json::{Value, json};

use super::Scratch;
use crate::engine::{Bench, Stretch, measured, runtime};
use crate::material::{Half, Pass, Shape};
use crate::report::{Spread, save, say, table};
use crate::{Common, Failure, facts, floor, process};

/// What one round gave.
struct Round {
    floor: (Stretch, Stretch),
    engine: (Stretch, Stretch),
    streamed: Stretch,
}

/// Measures one and three stages, or what was asked for.
pub fn run(common: &Common) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let stages = if common.stages == 1 { vec![1, 3] } else { vec![common.stages] };
    let mut results = Vec::new();
    for stages in stages {
        let shape = Shape { stages, ..common.shape(200_000) };
        let rounds = (0..common.repeat).map(|_| round(&scratch, shape)).collect::<Result<Vec<_>, _>>()?;
        results.push(told(shape, &rounds));
    }
    let result = json!({ "facts": facts, "load_after": process::load(), "results": results });
    save(common.json.as_deref(), &result)
}

fn round(scratch: &Scratch, shape: Shape) -> Result<Round, Failure> {
    let path = scratch.store()?;
    let floor = floor::run(&path, shape, false)?;
    let wanted = floor::rows(&path)?;
    let path = scratch.store()?;
    let engine = runtime()?.block_on(drained(&path, shape, Arc::new(Pass)))?;
    let written = floor::rows(&path)?;
    if wanted != written {
        return Err(format!("floor and engine wrote different rows:\n{wanted:#?}\n{written:#?}").into());
    }
    let path = scratch.store()?;
    let streamed = runtime()?.block_on(async {
        let bench = Bench::create(&path, shape, Arc::new(Pass)).await?;
        measured(bench.stream()).await
    })?;
    Ok(Round { floor, engine, streamed: streamed.1 })
}

/// Submits everything, then drains it, each measured by itself.
pub async fn drained(
    path: &std::path::Path,
    shape: Shape,
    handler: Arc<dyn Handler>,
) -> Result<(Stretch, Stretch), Failure> {
    let bench = Bench::create(path, shape, handler).await?;
    let ((), submitted) = measured(bench.submit_all()).await?;
    let ((), drained) = measured(bench.drain()).await?;
    Ok((submitted, drained))
}

fn told(shape: Shape, rounds: &[Round]) -> Value {
    let n = shape.items as f64;
    let moves = n * shape.stages as f64;
    let over = |figure: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(figure).collect());
    let lines: Vec<(&str, &str, usize, Spread)> = vec![
        ("floor_submit_per_s", "floor: submit, items/s", 0, over(&|r| n / r.floor.0.seconds)),
        ("floor_drain_per_s", "floor: drain, items/s", 0, over(&|r| n / r.floor.1.seconds)),
        ("engine_submit_per_s", "engine: submit, items/s", 0, over(&|r| n / r.engine.0.seconds)),
        ("engine_drain_per_s", "engine: drain, items/s", 0, over(&|r| n / r.engine.1.seconds)),
        (
            "engine_stream_per_s",
            "engine: submit and drain at once, items/s",
            0,
            over(&|r| n / r.streamed.seconds),
        ),
        ("ratio_submit", "submit, engine / floor", 2, over(&|r| r.floor.0.seconds / r.engine.0.seconds)),
        ("ratio_drain", "drain, engine / floor", 2, over(&|r| r.floor.1.seconds / r.engine.1.seconds)),
        (
            "ratio_whole",
            "submit and drain, engine / floor",
            2,
            over(&|r| (r.floor.0.seconds + r.floor.1.seconds) / r.streamed.seconds),
        ),
        (
            "floor_cpu_us",
            "floor: drain, CPU µs per item and stage",
            1,
            over(&|r| r.floor.1.cpu / moves * 1e6),
        ),
        (
            "engine_cpu_us",
            "engine: drain, CPU µs per item and stage",
            1,
            over(&|r| r.engine.1.cpu / moves * 1e6),
        ),
        (
            "own_cpu_us",
            "engine's own CPU (difference), µs",
            1,
            over(&|r| (r.engine.1.cpu - r.floor.1.cpu) / moves * 1e6),
        ),
        (
            "rows_per_commit",
            "engine: moves per transaction",
            0,
            over(&|r| moves / r.engine.1.writes.commits as f64),
        ),
        (
            "floor_rows_per_commit",
            "floor: moves per transaction",
            0,
            over(&|r| moves / r.floor.1.writes.commits as f64),
        ),
        ("writer_sql_us", "writer: statements, µs", 1, over(&|r| r.engine.1.writes.writing / moves * 1e6)),
        ("writer_flush_us", "writer: COMMIT, µs", 1, over(&|r| r.engine.1.writes.flushing / moves * 1e6)),
        (
            "writer_idle_us",
            "writer: waits for the engine, µs",
            1,
            over(&|r| r.engine.1.writes.waiting / moves * 1e6),
        ),
        (
            "bytes_per_move",
            "engine: bytes to disk per item and stage",
            0,
            over(&|r| r.engine.1.bytes / moves),
        ),
        (
            "floor_bytes_per_move",
            "floor: bytes to disk per item and stage",
            0,
            over(&|r| r.floor.1.bytes / moves),
        ),
    ];
    say(&format!(
        "\n{} items of {} B, {} stage(s), {} call(s) of {}; median (min–max) of {}",
        shape.items,
        shape.payload,
        shape.stages,
        shape.concurrency,
        shape.batch,
        rounds.len()
    ));
    let text =
        lines.iter().map(|(_, what, decimals, spread)| vec![(*what).to_owned(), spread.text(*decimals)]);
    table(&["", "median (min–max)"], &text.collect::<Vec<_>>());
    let mut result = json!({
        "items": shape.items, "payload": shape.payload, "stages": shape.stages,
        "concurrency": shape.concurrency, "batch": shape.batch, "repeat": rounds.len(),
    });
    for (name, _, _, spread) in lines {
        result[name] = spread.json();
    }
    result
}

/// One run for a profiler.
pub fn profile(common: &Common, failing: bool) -> Result<(), Failure> {
    let (scratch, shape) = (Scratch::new(common)?, common.shape(100_000));
    let handler: Arc<dyn Handler> = if failing { Arc::new(Half) } else { Arc::new(Pass) };
    let (submitted, drained) = runtime()?.block_on(drained(&scratch.store()?, shape, handler))?;
    say(&format!("submit {submitted:#?}\ndrain {drained:#?}"));
    Ok(())
}
