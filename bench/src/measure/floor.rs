//! The floor alone.

use serde_json::json;

use super::Scratch;
use crate::report::{Spread, save, table};
use crate::{Common, Failure, facts, floor};

/// Measures it.
pub fn run(common: &Common) -> Result<(), Failure> {
    let (scratch, shape) = (Scratch::new(common)?, common.shape(200_000));
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let (mut submitted, mut drained, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    let n = shape.items as f64;
    for _ in 0..common.repeat {
        let (submit, drain) = floor::run(&scratch.store()?, shape, false)?;
        submitted.push(n / submit.seconds);
        drained.push(n / drain.seconds);
        cpu.push(drain.cpu / n * 1e6);
    }
    let rows = [("submit, items/s", submitted), ("drain, items/s", drained), ("drain, CPU µs/item", cpu)]
        .map(|(what, figures)| (what, Spread::of(figures)));
    let lines = rows.iter().map(|(what, spread)| vec![(*what).to_owned(), spread.text(1)]);
    table(&["floor", "median (min–max)"], &lines.collect::<Vec<_>>());
    let result = json!({
        "facts": facts, "items": shape.items, "stages": shape.stages, "batch": shape.capacity(),
        "submit_per_s": rows[0].1.json(), "drain_per_s": rows[1].1.json(), "drain_cpu_us": rows[2].1.json(),
    });
    save(common.json.as_deref(), &result)
}
