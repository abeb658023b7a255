//! How long a query takes over many chunks: whole commands, and the two parts within this process.

use std::fs;
use std::path::Path;

use redrive_core::vector::Quantised;
use redrive_embed::builtin;
use redrive_store::Index;
use redrive_store::index::{NearestQuery, Scope, WordsQuery};
use serde_json::{Value, json};

use super::fill::fill;
use super::redrive::{Redrive, bytes, file};
use super::words::{Dice, Words};
use crate::Failure;
use crate::clock::Watch;
use crate::measure::verdict::{Found, Goal, Picture};
use crate::report::{percentile, round, say};
use crate::svg::Line;

/// Queries of each kind.
const QUERIES: usize = 20;
/// Queries before, so that the file is in the cache.
const BEFORE: usize = 2;
/// Hits asked for within the process; a search command looks further down than what it shows.
const COUNT: usize = 50;

/// Fills a store step by step, and asks at each.
pub async fn run(redrive: &Redrive, words: &Words, sizes: &[usize]) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut lines = [("redrive search", "#1f7fe0"), ("nearest", "#d4740c"), ("containing", "#9068e8")]
        .map(|(name, colour)| Line { name: name.to_owned(), colour, dashes: "", points: Vec::new() });
    let place = redrive.place("query")?;
    let seed = place.join("seed");
    fs::create_dir_all(&seed)?;
    fs::write(seed.join("one.txt"), "the first note of all\n")?;
    // The command makes collection and model, so that its searches accept them.
    redrive.index(&place, &seed).await?;
    let mut filled = 0;
    for &size in sizes {
        let watch = Watch::start();
        fill(&place, words, filled, size)?;
        filled = size;
        say(&format!(
            "  {size} chunks: filled in {:.1} s, {:.0} MB",
            watch.seconds(),
            bytes(&place) as f64 / 1e6
        ));
        let who = format!("{size} chunks");
        let mut raw = json!({ "store_mb": round(bytes(&place) as f64 / 1e6) });
        let asked = asked(redrive, &place, words).await?;
        for ((what, mut times), line) in asked.into_iter().zip(&mut lines) {
            times.sort_by(f64::total_cmp);
            let (median, p95) = (percentile(&times, 0.5), percentile(&times, 0.95));
            let [name, name95] = what;
            found.add(&who, name, median, Goal::None);
            found.add(&who, name95, p95, Goal::None);
            raw[name] = Value::from(times.into_iter().map(round).collect::<Vec<_>>());
            line.points.push((size as f64, median));
        }
        found.raw.insert(who, raw);
    }
    fs::remove_dir_all(&place)?;
    found.pictures.push(Picture {
        name: "query",
        title: "Time of a query over chunks, median of 20, warm".to_owned(),
        lines: lines.into(),
    });
    Ok(found)
}

type Asked = ([&'static str; 2], Vec<f64>);

async fn asked(redrive: &Redrive, place: &Path, words: &Words) -> Result<[Asked; 3], Failure> {
    let mut dice = Dice::new(7);
    let queries: Vec<Vec<String>> = (0..BEFORE + QUERIES).map(|_| words.query(&mut dice)).collect();
    let mut whole = Vec::new();
    for query in &queries {
        let watch = Watch::start();
        let output = redrive.search(place, &query.join(" ")).output()?;
        whole.push(watch.seconds() * 1e3);
        let hits: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        if !output.status.success() || hits.is_null() {
            return Err(format!("redrive search failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
    }
    let store = crate::engine::open(&file(place))?;
    let collection = store.collections().await?.pop().ok_or("no collection")?;
    let scope = Scope { collections: vec![collection.no], ..Scope::default() };
    let (mut nearest, mut containing) = (Vec::new(), Vec::new());
    for query in &queries {
        let vector = builtin().embed_one(&query.join(" ")).ok_or("a query without a known word")?;
        let asked = NearestQuery {
            model: collection.model_no,
            vector: Quantised::new(&vector),
            scope: scope.clone(),
            count: COUNT,
        };
        let watch = Watch::start();
        let hits = store.nearest(asked).await?;
        nearest.push(watch.seconds() * 1e3);
        if hits.len() < COUNT {
            return Err("a search by meaning found too little".into());
        }
        let asked = WordsQuery { words: query.clone(), scope: scope.clone(), count: COUNT };
        let watch = Watch::start();
        store.containing(asked).await?;
        containing.push(watch.seconds() * 1e3);
    }
    let warm = |times: Vec<f64>| times.into_iter().skip(BEFORE).collect();
    Ok([
        (["ms, redrive search, median", "ms, redrive search, p95"], warm(whole)),
        (["ms, nearest, median", "ms, nearest, p95"], warm(nearest)),
        (["ms, containing, median", "ms, containing, p95"], warm(containing)),
    ])
}
