//! Half of all attempts fail: what is left of the rate of attempts, and whether every attempt is accounted for.

use std::sync::Arc;

use redrive_core::id::{ItemId, RunId};
use serde_json::json;

use super::Scratch;
use super::engine::drained;
use crate::engine::runtime;
use crate::material::{Half, Pass, Shape, fails, item};
use crate::report::{Spread, save, say, table};
use crate::{Common, Failure, facts, floor, process};

/// Measures it beside a run in which nothing fails, with about as many attempts.
pub fn run(common: &Common) -> Result<(), Failure> {
    let (scratch, failing) = (Scratch::new(common)?, common.shape(100_000));
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let oracle = attempts_to_come(failing);
    let passing = Shape { items: oracle / failing.stages, ..failing };
    let (mut smooth, mut rough, mut ratio, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut bare, mut bare_ratio, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..common.repeat {
        let (_, even) = floor::run(&scratch.store()?, passing, false)?;
        let path = scratch.store()?;
        let (_, drain) = floor::run(&path, failing, true)?;
        let wanted = written(&path)?;
        let bare_rate = oracle as f64 / drain.seconds;
        bare.push(bare_rate);
        bare_ratio.push(bare_rate * even.seconds / (passing.items * passing.stages) as f64);
        let (_, drain) = runtime()?.block_on(drained(&scratch.store()?, passing, Arc::new(Pass)))?;
        let base = (passing.items * passing.stages) as f64 / drain.seconds;
        let path = scratch.store()?;
        let (_, drain) = runtime()?.block_on(drained(&path, failing, Arc::new(Half)))?;
        let made = attempts_made(&path)?;
        if made != oracle {
            return Err(format!("{made} attempts were recorded, {oracle} were to come").into());
        }
        if written(&path)? != wanted {
            return Err(format!("floor and engine wrote different rows: {wanted:#?}").into());
        }
        let rate = oracle as f64 / drain.seconds;
        beside.push(rate / bare_rate);
        smooth.push(base);
        rough.push(rate);
        ratio.push(rate / base);
        cpu.push(drain.cpu / oracle as f64 * 1e6);
    }
    say(&format!("\n{} items, {oracle} attempts, all as the oracle says", failing.items));
    let lines = [
        ("attempts_per_s_none_fail", "none fail, attempts/s", 0, Spread::of(smooth)),
        ("attempts_per_s_half_fail", "half fail, attempts/s", 0, Spread::of(rough)),
        ("ratio", "half / none", 2, Spread::of(ratio)),
        ("floor_attempts_per_s_half_fail", "floor: half fail, attempts/s", 0, Spread::of(bare)),
        ("floor_ratio", "floor: half / none", 2, Spread::of(bare_ratio)),
        ("engine_over_floor", "half fail, engine / floor", 2, Spread::of(beside)),
        ("cpu_us_per_attempt", "half fail, CPU µs per attempt", 1, Spread::of(cpu)),
    ];
    let text =
        lines.iter().map(|(_, what, decimals, spread)| vec![(*what).to_owned(), spread.text(*decimals)]);
    table(&["", "median (min–max)"], &text.collect::<Vec<_>>());
    let mut result = json!({
        "facts": facts, "load_after": process::load(), "items": failing.items, "stages": failing.stages,
        "attempts": oracle, "attempts_match_oracle": true,
        "concurrency": failing.concurrency, "batch": failing.batch, "repeat": common.repeat,
    });
    for (name, _, _, spread) in lines {
        result[name] = spread.json();
    }
    save(common.json.as_deref(), &result)
}

/// How many attempts it takes until every item has passed; the same numbers fail at every stage.
fn attempts_to_come(shape: Shape) -> usize {
    let one = |n: usize| {
        let new = item(n, shape.payload);
        let id = ItemId::derive(RunId(1), None, &new.key, new.version());
        (1..).take_while(|attempt| fails(id, *attempt)).count() + 1
    };
    (0..shape.items).map(one).sum::<usize>() * shape.stages
}

/// What both ways must agree on: items and attempts. (Counters of healing times differ, as times do.)
fn written(path: &std::path::Path) -> Result<Vec<String>, Failure> {
    Ok(floor::rows(path)?.into_iter().filter(|row| !row.contains("counter")).collect())
}

fn attempts_made(path: &std::path::Path) -> Result<usize, Failure> {
    let conn = rusqlite::Connection::open(path)?;
    let rows: i64 = conn.query_row("SELECT count(*) FROM attempt", [], |row| row.get(0))?;
    let passed: i64 = conn.query_row("SELECT count(*) FROM item WHERE state = 3", [], |row| row.get(0))?;
    let counted: i64 =
        conn.query_row("SELECT sum(n) FROM counter WHERE metric / 100000 = 5", [], |row| row.get(0))?;
    let items: i64 = conn.query_row("SELECT count(*) FROM item", [], |row| row.get(0))?;
    if counted != rows || passed != items {
        return Err(
            format!("{rows} attempt rows, {counted} counted; {passed} of {items} items passed").into()
        );
    }
    Ok(usize::try_from(rows)?)
}
