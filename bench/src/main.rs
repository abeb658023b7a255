//! Measures Redrive against the bare-SQL floor on the machine it is run on. See `bench/README.md`.

mod client;
mod clock;
mod engine;
mod facts;
mod floor;
mod material;
mod measure;
mod process;
mod python;
mod report;
mod svg;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::material::Shape;
use crate::report::say;

/// Anything that ends a measurement.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures Redrive's engine.
#[derive(Parser)]
#[command(name = "redrive-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What most measurements can be told.
#[derive(Args, Clone)]
pub struct Common {
    /// Items [default: what suits the measurement]
    #[arg(long)]
    items: Option<usize>,
    /// Bytes of content of each item
    #[arg(long, default_value_t = 200)]
    payload: usize,
    /// Stages
    #[arg(long, default_value_t = 1)]
    stages: usize,
    /// Calls at a time, per stage
    #[arg(long, default_value_t = 1)]
    concurrency: usize,
    /// Items in a call
    #[arg(long, default_value_t = 512)]
    batch: usize,
    /// Repetitions
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Folder for the stores, on the disk to be measured [default: a temporary one]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Writes the figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Common {
    /// The shape asked for, with so many items unless told.
    pub fn shape(&self, items: usize) -> Shape {
        Shape {
            items: self.items.unwrap_or(items),
            payload: self.payload,
            stages: self.stages,
            concurrency: self.concurrency,
            batch: self.batch,
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// The disk, the library, the machine
    Calibrate(Common),
    /// Bare SQL that writes the same rows
    Floor(Common),
    /// The engine beside the floor, taking turns
    Engine(Common),
    /// External workers over HTTP beside a handler in the process
    External(Common),
    /// The engine when half of all attempts fail
    Failing(Common),
    /// Items per second over the batch size, with a plot
    Batch {
        #[command(flatten)]
        common: Common,
        /// Where the plot goes
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// Growth of resident memory with the number of items
    Memory(Common),
    /// From the start of a process to its first claim
    Restart(Common),
    /// From submission to start, one item at a time
    Latency(Common),
    /// Many small runs in one worker beside one large run
    Runs(Common),
    /// What tracing costs, from nothing configured to everything sent, taking turns
    Trace(Common),
    /// What an operator waits for with 200,000 dead items: groups, export, check, purge, cancel, beside bare SQL
    Triage(Common),
    /// What the daemon takes: pages of a million dead items, a scrape, redrive, export, followers, doing nothing, external workers
    Serve(Common),
    /// How near to a provider's limits a run stays, beside what people use today
    Flow {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: measure::flow::Options,
    },
    /// How fast a directory becomes an index and a query an answer, beside the bare model and what people use today
    Index {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: measure::index::Options,
    },
    /// How fast mail archives become threads with summaries, beside reading and threading alone
    Mail(Common),
    /// How fast facts get to RabbitMQ, beside a bare client
    Relay {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: measure::relay::Options,
    },
    /// One engine run and nothing else, for profilers
    Profile {
        #[command(flatten)]
        common: Common,
        /// Half of all attempts fail
        #[arg(long)]
        failing: bool,
    },
    #[command(hide = true)]
    MemoryChild(Common),
    #[command(hide = true)]
    RestartChild { store: PathBuf },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Calibrate(common) => measure::calibrate::run(&common),
        Command::Floor(common) => measure::floor::run(&common),
        Command::Engine(common) => measure::engine::run(&common),
        Command::External(common) => measure::external::run(&common),
        Command::Failing(common) => measure::failing::run(&common),
        Command::Batch { common, svg } => measure::batch::run(&common, svg.as_deref()),
        Command::Memory(common) => measure::memory::run(&common),
        Command::Restart(common) => measure::restart::run(&common),
        Command::Latency(common) => measure::latency::run(&common),
        Command::Runs(common) => measure::runs::run(&common),
        Command::Trace(common) => measure::trace::run(&common),
        Command::Triage(common) => measure::triage::run(&common),
        Command::Serve(common) => measure::serve::run(&common),
        Command::Flow { common, options } => measure::flow::run(&common, &options),
        Command::Index { common, options } => measure::index::run(&common, &options),
        Command::Mail(common) => measure::mail::run(&common),
        Command::Relay { common, options } => measure::relay::run(&common, &options),
        Command::Profile { common, failing } => measure::engine::profile(&common, failing),
        Command::MemoryChild(common) => measure::memory::child(&common),
        Command::RestartChild { store } => measure::restart::child(&store),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
