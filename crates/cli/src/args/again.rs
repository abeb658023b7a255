//! What can be typed after `retry`, `rerun`, `items` and `stuck`.

use std::time::Duration;

use clap::Args as ClapArgs;
use redrive_core::failure::Class;
use redrive_core::id::RunId;
use redrive_core::item::StateKind;
use redrive_core::time::millis;
use redrive_core::verdict::Verdict;
use redrive_operate::again::{Rerun, Retry};
use redrive_operate::dead::Which;
use redrive_operate::items::{List, Stuck};
use redrive_operate::operations::{Start, StartKind};

use super::dead::class;
use super::duration;

/// Options of `retry`.
#[derive(Debug, ClapArgs)]
pub struct RetryArgs {
    /// One item: its id, the beginning of its id, or its key
    pub item: Option<String>,
    /// Those of this run
    #[arg(long)]
    pub run: Option<RunId>,
    /// Those of this pipeline
    #[arg(long)]
    pub pipeline: Option<String>,
    /// Those at this stage
    #[arg(long)]
    pub stage: Option<String>,
    /// Those whose last failure is in this group of alike errors
    #[arg(long)]
    pub group: Option<String>,
    /// Those whose last failure has this class: retryable, timeout, rate_limited, quota, oversized, crash
    #[arg(long, value_parser = class)]
    pub class: Option<Class>,
    /// Those whose key or last failure contains this text
    #[arg(long)]
    pub text: Option<String>,
    /// Not now, but in this time, for example 10m
    #[arg(long = "in", value_parser = duration, value_name = "SPAN")]
    pub later: Option<Duration>,
    /// Only say how many
    #[arg(long)]
    pub dry_run: bool,
    /// Work on the runs they belong to until they have ended or wait again
    ///
    /// What else is due in these runs is worked on, too; retries that are due later are not waited for.
    #[arg(long)]
    pub work: bool,
}

impl From<RetryArgs> for Retry {
    fn from(args: RetryArgs) -> Self {
        let which = Which {
            run: args.run,
            pipeline: args.pipeline,
            stage: args.stage,
            class: args.class,
            group: args.group,
            text: args.text,
            item: args.item,
            ..Which::default()
        };
        Self { which, in_ms: args.later.map_or(0, millis), work: args.work }
    }
}

/// Options of `rerun`.
#[derive(Debug, ClapArgs)]
pub struct RerunArgs {
    /// The run; default: the newest
    pub run: Option<RunId>,
    /// Go again from this stage
    #[arg(long)]
    pub stage: String,
    /// Only items with this key; may be said several times
    #[arg(long, value_name = "KEY")]
    pub key: Vec<String>,
    /// Only say how many
    #[arg(long)]
    pub dry_run: bool,
    /// Freeze those that would go again, each as it is now; `dead start` then has exactly these done
    #[arg(long, requires = "run", conflicts_with_all = ["dry_run", "work", "yes"])]
    pub freeze: bool,
    /// Work on the run until it ends
    #[arg(long)]
    pub work: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

impl RerunArgs {
    /// What is to be done again.
    pub fn request(&self) -> Rerun {
        Rerun { run: self.run, stage: self.stage.clone(), keys: self.key.clone(), work: self.work }
    }

    /// What is frozen.
    pub fn frozen(&self) -> Start {
        let which = Which { run: self.run, stage: Some(self.stage.clone()), ..Which::default() };
        Start { keys: self.key.clone(), dry_run: true, ..Start::of(StartKind::Rerun, which) }
    }
}

/// Options of `items`.
#[derive(Debug, ClapArgs)]
pub struct ItemsArgs {
    /// Those of this run; default: of every run
    #[arg(long)]
    pub run: Option<RunId>,
    /// Those of this pipeline
    #[arg(long)]
    pub pipeline: Option<String>,
    /// In this state: waiting, running, joining, succeeded, filtered, superseded, cancelled, dead
    #[arg(long, value_parser = state)]
    pub state: Option<StateKind>,
    /// Succeeded with this verdict: passed, needs_review, failed
    #[arg(long, value_parser = verdict)]
    pub verdict: Option<Verdict>,
    /// Those at this stage
    #[arg(long)]
    pub stage: Option<String>,
    /// Dead ones in this group of alike errors (see `dead groups`)
    #[arg(long)]
    pub group: Option<String>,
    /// Those whose last failure has this class: final, retryable, timeout, rate_limited, quota, oversized, crash
    #[arg(long, value_parser = class)]
    pub class: Option<Class>,
    /// Those whose key, or what they died of, contains this text
    #[arg(long)]
    pub text: Option<String>,
    /// Those that changed within this time, for example 2h
    #[arg(long, value_parser = duration, value_name = "SPAN")]
    pub since: Option<Duration>,
    /// Those that came from other items, too: chunks of files, for example
    #[arg(long)]
    pub children: bool,
    /// At most so many
    #[arg(long, short = 'n', default_value_t = 50)]
    pub limit: usize,
    /// Go on after this cursor, from `next` of the page before
    #[arg(long)]
    pub after: Option<String>,
    /// These columns in this order, by the names of --json: --columns key,state,due
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub columns: Vec<String>,
    /// Print comma-separated values with a heading line
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

impl ItemsArgs {
    /// Which page.
    pub fn request(&self) -> List {
        let which = Which {
            run: self.run,
            pipeline: self.pipeline.clone(),
            stage: self.stage.clone(),
            class: self.class,
            group: self.group.clone(),
            text: self.text.clone(),
            within_ms: self.since.map(millis),
            ..Which::default()
        };
        let (state, verdict, children) = (self.state, self.verdict, self.children);
        List { which, state, verdict, children, limit: self.limit, after: self.after.clone() }
    }
}

/// Options of `stuck`.
#[derive(Debug, ClapArgs)]
pub struct StuckArgs {
    /// Only of this run; default: of every run that is not finished
    pub run: Option<RunId>,
    /// Those that were in hand, or due, for at least this long
    #[arg(long, value_parser = duration, default_value = "10m", value_name = "SPAN")]
    pub older_than: Duration,
    /// At most so many
    #[arg(long, short = 'n', default_value_t = 50)]
    pub limit: usize,
}

impl StuckArgs {
    /// Which of them.
    pub fn request(&self) -> Stuck {
        Stuck { run: self.run, older_than_ms: millis(self.older_than), limit: self.limit }
    }
}

/// A verdict by its name.
pub fn verdict(text: &str) -> Result<Verdict, String> {
    let names = || Verdict::ALL.map(Verdict::name).join(", ");
    Verdict::from_name(text).ok_or_else(|| format!("verdicts are {}", names()))
}

fn state(text: &str) -> Result<StateKind, String> {
    let names = || StateKind::ALL.map(|state| state.to_string()).join(", ");
    StateKind::ALL
        .into_iter()
        .find(|state| state.to_string() == text)
        .ok_or_else(|| format!("states are {}", names()))
}
