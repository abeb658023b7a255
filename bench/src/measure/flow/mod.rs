//! How near to a provider's limits a run stays, measured against the rehearsal provider in this process.
//!
//! Every contestant is a process of its own and calls a provider of its own that plays the same plan.

mod beside;
mod contestant;
mod gateways;
mod limit;
mod outage;
mod peers;
mod picture;
mod provider;
mod redrive;
mod steps;
mod tokens;
mod zoo;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::limit::Kind;
use self::peers::Peers;
use self::redrive::Redrive;
use super::Scratch;
use super::verdict::Found;
use crate::clock::Watch;
use crate::engine::runtime;
use crate::report::{round, save, say};
use crate::svg::{Words, plot_over_time};
use crate::{Common, Failure, facts, process};

/// What `flow` can be told.
#[derive(Args, Clone)]
pub struct Options {
    /// Only these
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scenario>,
    /// Fewer items, to try it out
    #[arg(long)]
    quick: bool,
    /// Where the plots go
    #[arg(long)]
    plots: Option<PathBuf>,
    /// Only cases of `zoo` and `gateways` whose names contain one of these
    #[arg(long = "case", value_delimiter = ',', value_name = "TEXT")]
    cases: Vec<String>,
    /// How often `zoo` plays each case, with other dice each time
    #[arg(long, default_value_t = 1, value_name = "N")]
    seeds: u64,
    /// How late calls arrive at most in `zoo`, in milliseconds or as 30ms
    #[arg(long, default_value = "10ms", value_parser = milliseconds, value_name = "SPAN")]
    jitter: Duration,
}

impl Options {
    /// Whether a case of this name is wanted.
    fn picks(&self, name: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|part| name.contains(part.as_str()))
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("ms").unwrap_or(text).trim();
    number.parse().map(Duration::from_millis).map_err(|error| format!("{error}; it looks like 30ms"))
}

/// The scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// A limit of 50 calls a second
    Limit,
    /// The same, where rejected calls count too
    Debt,
    /// What people use today, in both
    Loops,
    /// A limit that changes
    Steps,
    /// Few calls and few tokens a minute
    Tokens,
    /// A provider that is well beside one that is away
    Beside,
    /// A provider that is away for ten seconds
    Outage,
    /// Every kind of limit that is known, beside the loop that people write; only where it is named
    Zoo,
    /// nginx, HAProxy and LiteLLM in front of a provider; only where it is named
    Gateways,
}

impl Scenario {
    /// Whether it shows its own table, and runs only where it is named.
    fn names_itself(self) -> bool {
        matches!(self, Self::Zoo | Self::Gateways)
    }
}

/// How large.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    quick: bool,
}

impl Scale {
    fn items(self, whole: usize) -> usize {
        if self.quick { whole / 6 } else { whole }
    }
}

/// Waits for all of them, in the order in which they were started.
async fn joined<T: 'static>(mut runs: JoinSet<Result<(usize, T), Failure>>) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    while let Some(run) = runs.join_next().await {
        all.push(run??);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, one)| one).collect())
}

/// Measures and prints.
pub fn run(common: &Common, options: &Options) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    if options.quick {
        say("quick: the goals are those of the full size, and the start weighs more");
    }
    let watch = Watch::start();
    let (found, loads) = runtime()?.block_on(scenarios(scratch.folder(), options))?;
    let mut results = serde_json::Map::new();
    let mut missed = 0;
    for (name, found) in &found {
        missed += found.missed();
        results.insert((*name).to_owned(), found.json());
        if let Some(folder) = &options.plots {
            draw(folder, found)?;
        }
    }
    say(&format!("goals missed: {missed}; took {:.0} s; load {}", watch.seconds(), process::load()));
    save(
        common.json.as_deref(),
        &json!({
            "facts": facts, "quick": options.quick, "loads": loads, "seconds": round(watch.seconds()), "goals_missed": missed,
            "scenarios": results,
        }),
    )
}

type Named = (&'static str, Found);

async fn scenarios(folder: &Path, options: &Options) -> Result<(Vec<Named>, Value), Failure> {
    let redrive = Redrive::find(folder)?;
    let scale = Scale { quick: options.quick };
    let wanted = |scenario| options.only.is_empty() || options.only.contains(&scenario);
    let mut loads = serde_json::Map::new();
    let mut note = |name: &str| {
        loads.insert(name.to_owned(), json!(process::load()));
        say(&format!("… {name}, load {}", process::load()));
    };
    let peers = if wanted(Scenario::Loops) { Some(Arc::new(Peers::prepare(folder).await)) } else { None };
    let mut all: Vec<Named> = Vec::new();
    // Redrive hardly uses the processor at these rates, so what is slow anyway goes on at once.
    if options.only.contains(&Scenario::Zoo) {
        note("zoo");
        all.push(("zoo", zoo::run(&redrive, options).await?));
    }
    if options.only.contains(&Scenario::Gateways) {
        note("gateways");
        all.push(("gateways", gateways::run(&redrive, options, folder).await?));
    }
    if !options.only.is_empty() && options.only.iter().all(|one| one.names_itself()) {
        note("the end");
        return Ok((all, Value::Object(loads)));
    }
    note("limit and debt");
    let (steady, debt) = tokio::join!(
        maybe(wanted(Scenario::Limit), limit::redrive(Kind::Steady, &redrive, scale)),
        maybe(wanted(Scenario::Debt), limit::redrive(Kind::Debt, &redrive, scale)),
    );
    let (mut steady, mut debt) = (steady?, debt?);
    note("steps, tokens and outage");
    let (steps, tokens, outage) = tokio::join!(
        maybe(wanted(Scenario::Steps), steps::run(&redrive, scale)),
        maybe(wanted(Scenario::Tokens), tokens::run(&redrive, scale)),
        maybe(wanted(Scenario::Outage), outage::run(&redrive, scale)),
    );
    note("beside");
    let beside = maybe(wanted(Scenario::Beside), beside::run(&redrive, scale)).await?;
    if let Some(peers) = &peers {
        for (kind, found) in [(Kind::Steady, &mut steady), (Kind::Debt, &mut debt)] {
            note("loops");
            limit::peers(kind, peers, scale, found.get_or_insert_default()).await?;
        }
    }
    note("the end");
    for found in [&mut steady, &mut debt].into_iter().flatten() {
        limit::finish(found);
    }
    let named = [
        ("limit", steady),
        ("debt", debt),
        ("steps", steps?),
        ("tokens", tokens?),
        ("beside", beside),
        ("outage", outage?),
    ];
    for (name, found) in named {
        if let Some(found) = found {
            say(&format!("\n{name}"));
            found.show();
            all.push((name, found));
        }
    }
    Ok((all, Value::Object(loads)))
}

async fn maybe(
    wanted: bool,
    scenario: impl Future<Output = Result<Found, Failure>>,
) -> Result<Option<Found>, Failure> {
    if wanted { Ok(Some(scenario.await?)) } else { Ok(None) }
}

fn draw(folder: &Path, found: &Found) -> Result<(), Failure> {
    for picture in &found.pictures {
        let words = Words {
            title: &picture.title,
            x: "seconds since the first call",
            y: "good answers per second, mean of the last 5 s",
        };
        let file = folder.join(format!("flow-{}.svg", picture.name));
        std::fs::write(file, plot_over_time(&words, &picture.lines))?;
    }
    Ok(())
}
