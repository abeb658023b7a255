//! What can be typed after `failures` and `stats`.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use redrive_core::id::RunId;
use redrive_core::time::millis;
use redrive_engine::report::FailureOrder;
use redrive_operate::reports::{Failures, StatsOf};

use super::duration;

/// Options of `failures`.
#[derive(Debug, ClapArgs)]
pub struct FailuresArgs {
    /// The run; default: the newest
    pub run: Option<RunId>,
    /// In every run of this pipeline
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub pipeline: Option<String>,
    /// In every run over this source: a path, or the end of one
    #[arg(long, value_name = "PATH", conflicts_with = "run")]
    pub source: Option<String>,
    /// In every run
    #[arg(long, conflicts_with = "run")]
    pub all: bool,
    /// Only at this stage
    #[arg(long)]
    pub stage: Option<String>,
    /// Only those that failed so often that they look permanent
    #[arg(long)]
    pub permanent: bool,
    /// By key, by retries (most first), by the last change (newest first), or by when they are tried next
    #[arg(long, value_enum, default_value_t = FailureSort::Key)]
    pub sort: FailureSort,
    /// At most so many items
    #[arg(long, short = 'n', default_value_t = 50)]
    pub limit: usize,
    /// Go on after this, from `next` of the page before; say the same --sort
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
}

/// The order of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailureSort {
    /// By key
    Key,
    /// Most retries first
    Retries,
    /// Last change first
    Last,
    /// Soonest next try first
    Next,
}

impl From<FailuresArgs> for Failures {
    fn from(args: FailuresArgs) -> Self {
        Self {
            run: args.run,
            pipeline: args.pipeline,
            source: args.source,
            all: args.all,
            stage: args.stage,
            permanent: args.permanent,
            order: match args.sort {
                FailureSort::Key => FailureOrder::Key,
                FailureSort::Retries => FailureOrder::Retries,
                FailureSort::Last => FailureOrder::Last,
                FailureSort::Next => FailureOrder::Next,
            },
            limit: args.limit,
            after: args.after,
        }
    }
}

/// Options of `stats`.
#[derive(Debug, ClapArgs)]
pub struct StatsArgs {
    /// The run; default: the newest
    pub run: Option<RunId>,
    /// Over the runs of this pipeline: by run, by day, and by how its stages were configured
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub pipeline: Option<String>,
    /// Only runs that began within this time, for example 7d
    #[arg(long, value_parser = duration, value_name = "SPAN", requires = "pipeline")]
    pub since: Option<Duration>,
    /// All metrics as `GET /metrics` tells them, for a text-file collector
    #[arg(long, conflicts_with_all = ["run", "pipeline", "since", "json"])]
    pub prometheus: bool,
}

impl From<StatsArgs> for StatsOf {
    fn from(args: StatsArgs) -> Self {
        Self { run: args.run, pipeline: args.pipeline, within_ms: args.since.map(millis) }
    }
}
