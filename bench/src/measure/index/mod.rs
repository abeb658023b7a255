//! How fast a directory becomes a searchable index, and how fast a query an answer.

mod bare;
mod corpus;
mod fill;
mod floor;
mod memory;
mod peers;
mod query;
mod rate;
mod redrive;
mod texts;
mod watched;
mod words;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use self::redrive::Redrive;
use self::words::Words;
use super::Scratch;
use super::verdict::Found;
use crate::clock::Watch;
use crate::engine::runtime;
use crate::report::{round, save, say};
use crate::svg;
use crate::{Common, Failure, facts, process, python};

/// What `index` can be told.
#[derive(Args, Clone)]
pub struct Options {
    /// Only these
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Less of everything, to try it out; nothing is written unless told
    #[arg(long)]
    quick: bool,
    /// Where the plots go [default: bench/results, unless quick or only some]
    #[arg(long)]
    plots: Option<PathBuf>,
}

/// The measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Chunks per second beside the model alone, CPU per chunk, and a second run
    Rate,
    /// Time of a query over many chunks
    Query,
    /// Memory over the number of files
    Memory,
    /// What people use today, and everybody killed in the middle
    Peers,
}

/// How large.
struct Scale {
    corpus: u64,
    shared: u64,
    chunks: &'static [usize],
    files: &'static [usize],
    repeat: usize,
}

const FULL: Scale = Scale {
    corpus: 40_000_000,
    shared: 5_000_000,
    chunks: &[100_000, 1_000_000],
    files: &[1_000, 10_000, 100_000],
    repeat: 3,
};
const QUICK: Scale = Scale {
    corpus: 6_000_000,
    shared: 1_000_000,
    chunks: &[10_000, 100_000],
    files: &[1_000, 4_000],
    repeat: 1,
};

/// Measures and prints.
pub fn run(common: &Common, options: &Options) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let watch = Watch::start();
    let (found, loads) = runtime()?.block_on(parts(scratch.folder(), common, options))?;
    let results = Path::new(python::HERE).join("results");
    let publish = !options.quick && options.only.is_empty();
    let place = |told: &Option<PathBuf>, usual: PathBuf| told.clone().or_else(|| publish.then_some(usual));
    let mut all = serde_json::Map::new();
    let mut missed = 0;
    for (name, found) in &found {
        missed += found.missed();
        all.insert((*name).to_owned(), found.json());
        if let Some(folder) = place(&options.plots, results.clone()) {
            draw(&folder, found)?;
        }
    }
    say(&format!("goals missed: {missed}; took {:.0} s; load {}", watch.seconds(), process::load()));
    save(
        place(&common.json, results.join("index.json")).as_deref(),
        &json!({
            "facts": facts, "quick": options.quick, "loads": loads, "seconds": round(watch.seconds()),
            "goals_missed": missed, "measurements": all,
        }),
    )
}

type Named = (&'static str, Found);

async fn parts(folder: &Path, common: &Common, options: &Options) -> Result<(Vec<Named>, Value), Failure> {
    let (redrive, words) = (Redrive::find(folder)?, Words::read()?);
    let scale = if options.quick { QUICK } else { FULL };
    let wanted = |part| options.only.is_empty() || options.only.contains(&part);
    let mut loads = serde_json::Map::new();
    let mut note = |name: &str| {
        loads.insert(name.to_owned(), json!(process::load()));
        say(&format!("\n… {name}, load {}", process::load()));
    };
    let mut all: Vec<Named> = Vec::new();
    let mut keep = |name, found: Found| {
        say(&format!("\n{name}"));
        found.show();
        all.push((name, found));
    };
    if wanted(Part::Rate) {
        note("rate");
        let corpus = corpus::real(&folder.join("corpus"), scale.corpus)?;
        let (rate, again) = rate::run(&redrive, &corpus, common.repeat.min(scale.repeat)).await?;
        keep("rate", rate);
        keep("second run", again);
        std::fs::remove_dir_all(&corpus.folder)?;
    }
    if wanted(Part::Query) {
        note("query");
        keep("query", query::run(&redrive, &words, scale.chunks).await?);
    }
    if wanted(Part::Memory) {
        note("memory");
        keep("memory", memory::run(&redrive, &words, scale.files).await?);
    }
    if wanted(Part::Peers) {
        note("peers");
        let corpus = corpus::real(&folder.join("shared"), scale.shared)?;
        keep("peers", peers::run(&redrive, &corpus, folder).await?);
    }
    note("the end");
    Ok((all, Value::Object(loads)))
}

fn draw(folder: &Path, found: &Found) -> Result<(), Failure> {
    for picture in &found.pictures {
        let (x, y) = match picture.name {
            "query" => ("chunks", "milliseconds"),
            _ => ("files", "MB"),
        };
        let words = svg::Words { title: &picture.title, x, y };
        std::fs::write(
            folder.join(format!("index-{}.svg", picture.name)),
            svg::plot(&words, &picture.lines),
        )?;
    }
    Ok(())
}
