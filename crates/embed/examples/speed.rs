//! Measures embedding and scanning on this machine: `cargo run --release -p redrive-embed --example speed -- TEXTS`,
//! where TEXTS is a file with a text on each line.

use std::env;
use std::fs;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use redrive_core::vector::{Hit, Nearest, Quantised, dot};
use redrive_embed::{Embedder, builtin};

fn main() -> io::Result<()> {
    let mut output = io::stdout().lock();
    let path = env::args().nth(1).ok_or_else(|| io::Error::other("give a file with a text on each line"))?;
    let file = fs::read_to_string(path)?;
    let (model, load) = timed(builtin);
    writeln!(output, "load: {load:?}")?;
    let texts: Vec<&str> = file.lines().filter(|text| model.embed_one(text).is_some()).collect();
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let tokens = best(|| texts.iter().map(|text| model.count_tokens(text)).sum::<usize>());
    writeln!(output, "tokenize: {:.1} MB/s", bytes as f64 / 1e6 / tokens.as_secs_f64())?;
    let embed = best(|| model.embed(&texts)).as_secs_f64();
    writeln!(
        output,
        "embed: {} texts of {} bytes, {:.0} texts/s, {:.1} MB/s",
        texts.len(),
        bytes / texts.len().max(1),
        texts.len() as f64 / embed,
        bytes as f64 / 1e6 / embed
    )?;
    let vectors = model.embed(&texts).map_err(io::Error::other)?;
    recall(&mut output, &vectors)?;
    for rows in [100_000, 1_000_000] {
        scan(&mut output, &vectors, rows)?;
    }
    Ok(())
}

/// How many of the ten nearest by floats are among the ten nearest by codes, over the first 500 texts.
fn recall(output: &mut impl Write, vectors: &[Vec<f32>]) -> io::Result<()> {
    let vectors = &vectors[..vectors.len().min(5_000)];
    let stored: Vec<Quantised> = vectors.iter().map(|vector| Quantised::new(vector)).collect();
    let (mut same, mut total) = (0, 0);
    for query in vectors.iter().take(500) {
        let mut exact: Vec<(f32, i64)> =
            vectors.iter().zip(0..).map(|(row, at)| (dot(query, row), at)).collect();
        exact.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        exact.truncate(10);
        let found = nearest(&Quantised::new(query), &stored);
        total += exact.len();
        same += found.iter().filter(|hit| exact.iter().any(|(_, id)| *id == hit.id)).count();
    }
    writeln!(output, "recall@10 of codes: {:.4} over {} texts", same as f64 / total as f64, vectors.len())
}

fn scan(output: &mut impl Write, vectors: &[Vec<f32>], rows: usize) -> io::Result<()> {
    let stored: Vec<Quantised> = vectors.iter().map(|vector| Quantised::new(vector)).collect();
    let rows: Vec<Quantised> = stored.iter().cycle().take(rows).cloned().collect();
    let query = Quantised::new(&vectors[0]);
    let all = best(|| nearest(&query, &rows));
    writeln!(output, "look at {} rows, 1 thread: {all:.1?}", rows.len())
}

fn nearest(query: &Quantised, rows: &[Quantised]) -> Vec<Hit> {
    let mut nearest = Nearest::new(query, 10);
    rows.iter().zip(0..).for_each(|(row, id)| nearest.look(id, &row.codes, row.scale));
    nearest.found()
}

/// The shortest of five runs.
fn best<T>(mut run: impl FnMut() -> T) -> Duration {
    (0..5).map(|_| timed(&mut run).1).min().unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "measures real time; nothing here is simulated")]
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = black_box(run());
    (result, start.elapsed())
}
