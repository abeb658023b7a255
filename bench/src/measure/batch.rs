//! Items per second over the batch size: where waiting for the disk ends and work begins.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Scratch;
use super::engine::drained;
use crate::engine::runtime;
use crate::material::{Pass, Shape};
use crate::report::{Spread, save, table};
use crate::svg::{Line, Words, plot};
use crate::{Common, Failure, facts, floor, process};

const SIZES: [usize; 8] = [1, 4, 16, 64, 256, 512, 1_024, 2_048];
/// Calls at a time of the second way to reach a size.
const CALLS: usize = 16;

/// The rates at one batch size.
struct Point {
    size: usize,
    floor: Spread,
    one_call: Spread,
    many_calls: Option<Spread>,
}

/// Measures every size and draws them.
pub fn run(common: &Common, svg: Option<&Path>) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let points = SIZES.iter().map(|size| point(common, &scratch, *size)).collect::<Result<Vec<_>, _>>()?;
    let row = |point: &Point| {
        let many = point.many_calls.map_or("–".to_owned(), |spread| spread.text(0));
        let ratio = format!("{:.2}", point.one_call.median / point.floor.median);
        vec![point.size.to_string(), point.floor.text(0), point.one_call.text(0), ratio, many]
    };
    table(
        &["batch size", "floor, items/s", "engine, 1 call", "ratio", "engine, 16 calls"],
        &points.iter().map(row).collect::<Vec<_>>(),
    );
    if let Some(path) = svg {
        std::fs::write(path, drawn(&points))?;
    }
    let figures: Vec<Value> = points
        .iter()
        .map(|point| {
            json!({
                "batch": point.size, "floor_per_s": point.floor.json(), "engine_per_s": point.one_call.json(),
                "engine_16_calls_per_s": point.many_calls.map(Spread::json),
            })
        })
        .collect();
    save(common.json.as_deref(), &json!({ "facts": facts, "load_after": process::load(), "points": figures }))
}

fn point(common: &Common, scratch: &Scratch, size: usize) -> Result<Point, Failure> {
    // Enough for some seconds where every batch waits for the disk.
    let items = common.items.unwrap_or((size * 1_500).clamp(3_000, 100_000));
    let shape = Shape { items, batch: size, concurrency: 1, ..common.shape(items) };
    let wide = Shape { concurrency: CALLS, batch: size / CALLS, ..shape };
    let (mut bare, mut one, mut many) = (Vec::new(), Vec::new(), Vec::new());
    let engine = |shape: Shape| -> Result<f64, Failure> {
        let (_, drain) = runtime()?.block_on(drained(&scratch.store()?, shape, Arc::new(Pass)))?;
        Ok(items as f64 / drain.seconds)
    };
    for _ in 0..common.repeat {
        bare.push(items as f64 / floor::run(&scratch.store()?, shape, false)?.1.seconds);
        one.push(engine(shape)?);
        if size >= CALLS {
            many.push(engine(wide)?);
        }
    }
    let many_calls = (!many.is_empty()).then(|| Spread::of(many));
    Ok(Point { size, floor: Spread::of(bare), one_call: Spread::of(one), many_calls })
}

fn drawn(points: &[Point]) -> String {
    let line = |name: &str, colour, dashes, rate: &dyn Fn(&Point) -> Option<f64>| Line {
        name: name.to_owned(),
        colour,
        dashes,
        points: points.iter().filter_map(|point| Some((point.size as f64, rate(point)?))).collect(),
    };
    let words = Words {
        title: "Drain of a no-op stage, SQLite with synchronous=FULL",
        x: "items per transaction at most (calls × batch of the stage)",
        y: "items/s, median",
    };
    plot(
        &words,
        &[
            line("bare SQL", "#9068e8", "6 4", &|point| Some(point.floor.median)),
            line("engine, 1 call", "#1f7fe0", "", &|point| Some(point.one_call.median)),
            line("engine, 16 calls", "#d4740c", "2 3", &|point| point.many_calls.map(|many| many.median)),
        ],
    )
}
