//! What can be typed. Nothing here is looked up or opened.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use redrive_core::failure::Class;
use redrive_core::id::{OperationId, RunId};
use redrive_core::item::DeadReason;

/// A durable pipeline engine for AI and document work: every item is accounted for.
#[derive(Debug, Parser)]
#[command(name = "redrive", version, max_term_width = 110)]
pub struct Args {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, ClapArgs)]
pub struct Global {
    /// Where the state is kept: sqlite:PATH
    #[arg(
        long,
        global = true,
        env = "REDRIVE_STORE",
        default_value = "sqlite:.redrive/state.db",
        value_name = "URL"
    )]
    pub store: String,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress display and no hints
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Form of the logs on standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// Form of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a pipeline over its source, or go on with the run of both
    Run(RunArgs),
    /// Make a directory searchable, or bring its index up to date
    Index(crate::commands::index::IndexArgs),
    /// Find passages in what was indexed
    Search(crate::commands::search::SearchArgs),
    /// Show how a run stands
    Show {
        /// The run, for example r12; default: the newest
        run: Option<RunId>,
    },
    /// List runs, newest first
    Runs {
        /// Only runs of this pipeline
        #[arg(long)]
        pipeline: Option<String>,
        /// At most so many
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: usize,
    },
    /// Print what became of a run's items, as JSON Lines, at any time
    Results(ResultsArgs),
    /// Let a paused or interrupted run go on, and work on it
    Resume(ResumeArgs),
    /// Stop a run for now: what runs is finished and recorded, nothing new begins
    Pause {
        /// The run
        run: RunId,
    },
    /// Take a run out for good: nothing new begins, everything unfinished is cancelled
    Cancel {
        /// The run
        run: RunId,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Give one item up: it is dead, with your words, and can be redriven
    Kill {
        /// Its id, the beginning of its id, or its key
        item: String,
        /// Only in this run
        #[arg(long)]
        run: Option<RunId>,
        /// Why
        #[arg(long, default_value = "given up by an operator", value_name = "TEXT")]
        why: String,
    },
    /// Tell one item's whole life, and why it is not running now
    Explain {
        /// Its id, the beginning of its id, or its key
        item: String,
        /// Only in this run
        #[arg(long)]
        run: Option<RunId>,
    },
    /// Show what failed in a run: items sorted, error history, retries, next time
    Failures {
        /// The run; default: the newest
        run: Option<RunId>,
        /// At most so many items
        #[arg(long, short = 'n', default_value_t = 50)]
        limit: usize,
    },
    /// Show retry histogram, error classes, stage reliability and time to successful retry
    Stats {
        /// The run; default: the newest
        run: Option<RunId>,
    },
    /// Prove the laws over everything the store holds
    Check {
        /// Only this run
        #[arg(long)]
        run: Option<RunId>,
    },
    /// Show the gates: how fast each dependency is called, and what keeps it closed
    Gates {
        /// What to do; without it, all gates are shown
        #[command(subcommand)]
        command: Option<GatesCommand>,
    },
    /// A provider that misbehaves on purpose, by a seeded plan: rehearse an outage before it happens
    Rehearse(crate::commands::rehearse::RehearseArgs),
    /// Look at dead items, send them back, or remove them
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Look at retry policies
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Forget runs that finished long ago; those with dead items are spared
    Prune {
        /// Keep runs that finished within this time, for example 30d
        #[arg(long, value_parser = duration, value_name = "SPAN")]
        older_than: Duration,
        /// Forget runs with dead items too
        #[arg(long)]
        with_dead: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Look whether everything is in order here
    Doctor {
        /// A pipeline file to look at as well
        pipeline: Option<PathBuf>,
    },
    /// Parse files for the process that started this one
    #[command(hide = true)]
    ParseWorker {
        /// Settings, as JSON
        settings: String,
    },
    /// Embed texts for the process that started this one
    #[command(hide = true)]
    EmbedWorker {
        /// Settings, as JSON
        settings: String,
    },
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Options of `run`.
#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// The pipeline file
    pub file: PathBuf,
    /// Read items from here instead of what the file's source names: files, patterns, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub input: Vec<String>,
    /// Start a new run that does everything, whatever was done before
    #[arg(long)]
    pub new: bool,
    /// Leave items alone that have passed a stage which is configured otherwise now
    #[arg(long)]
    pub keep_passed: bool,
    /// What the work does
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Options of `resume`.
#[derive(Debug, ClapArgs)]
pub struct ResumeArgs {
    /// The run
    pub run: RunId,
    /// Use this version of the pipeline file from now on
    #[arg(long, value_name = "FILE")]
    pub pipeline: Option<PathBuf>,
    /// Leave items alone that have passed a stage which is configured otherwise now
    #[arg(long)]
    pub keep_passed: bool,
    /// What the work does
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Options of `results`.
#[derive(Debug, ClapArgs)]
pub struct ResultsArgs {
    /// The run; default: the newest
    pub run: Option<RunId>,
    /// Go on with each result as it becomes final, until the run ends
    #[arg(long, short)]
    pub follow: bool,
    /// What this stage made of the items that passed it, as far as it is kept
    #[arg(long, value_name = "STAGE")]
    pub stage: Option<String>,
    /// Write them here instead of to standard output; a file that is there is replaced at the end
    #[arg(long, short, value_name = "OUT.jsonl")]
    pub output: Option<PathBuf>,
}

/// Options of everything that works on a run.
#[derive(Debug, Clone, ClapArgs)]
pub struct WorkArgs {
    /// Write one line for every item that succeeded; a file that is there is replaced at the end
    #[arg(long, value_name = "OUT.jsonl")]
    pub results: Option<PathBuf>,
    /// End when only retries due later than this remain; default: wait for all
    #[arg(long, value_parser = duration, value_name = "SPAN")]
    pub max_wait: Option<Duration>,
    /// How long work is held without a sign of life before others may take it over
    #[arg(long, value_parser = lease, default_value = "30s", value_name = "SPAN")]
    pub lease: Duration,
}

/// Which dead items.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct DeadFilter {
    /// In this run
    #[arg(long)]
    pub run: Option<RunId>,
    /// Of this pipeline
    #[arg(long)]
    pub pipeline: Option<String>,
    /// At this stage
    #[arg(long)]
    pub stage: Option<String>,
    /// Whose last failure has this class: final, retryable, timeout, rate_limited, quota, oversized, crash
    #[arg(long, value_parser = class)]
    pub class: Option<Class>,
    /// Dead for this reason: final, exhausted, expired, quarantined, operator
    #[arg(long, value_parser = reason)]
    pub reason: Option<DeadReason>,
    /// In this group of alike errors (see `dead groups`)
    #[arg(long)]
    pub group: Option<String>,
    /// Whose key or last failure contains this text
    #[arg(long)]
    pub text: Option<String>,
    /// That died within this time, for example 2h
    #[arg(long, value_parser = duration, value_name = "SPAN")]
    pub since: Option<Duration>,
    /// Only this item: its id, the beginning of it, or its key
    #[arg(long)]
    pub item: Option<String>,
}

/// The commands about dead items.
#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// List dead items
    List {
        /// Which
        #[command(flatten)]
        filter: DeadFilter,
        /// At most so many
        #[arg(long, short = 'n', default_value_t = 50)]
        limit: usize,
        /// Go on after this cursor, from `next` of the page before
        #[arg(long)]
        after: Option<String>,
    },
    /// Show one dead item with its content and history
    Show {
        /// Its id, the beginning of its id, or its key
        item: String,
        /// Only in this run
        #[arg(long)]
        run: Option<RunId>,
    },
    /// Show dead items grouped by alike errors
    Groups {
        /// Which
        #[command(flatten)]
        filter: DeadFilter,
        /// At most so many groups
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: usize,
    },
    /// Write dead items as JSON Lines, with content and history
    Export {
        /// Which
        #[command(flatten)]
        filter: DeadFilter,
        /// Where to; default: standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the file if it is there, with whatever was edited in it
        #[arg(long, requires = "output")]
        overwrite: bool,
    },
    /// Send dead items back with the content in a file that `dead export` wrote and somebody edited
    Import {
        /// The file; - is standard input
        file: String,
    },
    /// Send dead items back, from the stage that failed them
    Redrive(RedriveArgs),
    /// Remove dead items and everything that came from them; a tombstone stays
    Purge {
        /// Which
        #[command(flatten)]
        filter: DeadFilter,
        /// All of them
        #[arg(long)]
        all: bool,
        /// Only say how many
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// List operations on many items: who asked for what, and how far it is
    Operations {
        /// Stop this one after the page it is at
        #[arg(long, value_name = "OPERATION")]
        stop: Option<OperationId>,
        /// At most so many
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: usize,
    },
}

/// Options of `dead redrive`.
#[derive(Debug, ClapArgs)]
pub struct RedriveArgs {
    /// Which
    #[command(flatten)]
    pub filter: DeadFilter,
    /// All of them
    #[arg(long)]
    pub all: bool,
    /// Only say which
    #[arg(long)]
    pub dry_run: bool,
    /// At most so many
    #[arg(long)]
    pub limit: Option<u64>,
    /// So many a second
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Send this many first and work on them; go on only if all of them pass
    #[arg(long, value_name = "N")]
    pub canary: Option<u64>,
    /// Work on the runs they belong to until those end
    #[arg(long)]
    pub work: bool,
    /// With --work: write one line for every item of those runs that succeeded
    #[arg(long, value_name = "OUT.jsonl", requires = "work")]
    pub results: Option<PathBuf>,
}

/// What the calls of a simulation have to pass; in a file it takes the place of what the file says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ClapArgs)]
pub struct ThroughArgs {
    /// Most requests per minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Through a gate")]
    pub requests_per_minute: Option<u64>,
    /// Most tokens per minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Through a gate")]
    pub tokens_per_minute: Option<u64>,
    /// Tokens of one item
    #[arg(long, value_name = "N", help_heading = "Through a gate")]
    pub tokens_per_item: Option<u64>,
    /// Most items of one call
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Through a gate")]
    pub batch: Option<u32>,
    /// How long a call takes
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Through a gate")]
    pub latency: Option<Duration>,
    /// Most calls at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Through a gate")]
    pub concurrency: Option<u32>,
}

/// The commands about policies.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// List the presets
    List,
    /// Show a preset, or a pipeline file's policies, as a timeline
    Show {
        /// A preset's name or a pipeline file
        policy: String,
        /// Only this stage of the pipeline file
        #[arg(long)]
        stage: Option<String>,
        /// Attempts shown
        #[arg(long, default_value_t = 12)]
        attempts: usize,
    },
    /// Say when each attempt would run, how long until dead, and how many calls that takes
    Simulate {
        /// A preset's name or a pipeline file
        policy: String,
        /// Only this stage of the pipeline file
        #[arg(long)]
        stage: Option<String>,
        /// Share of attempts that fail
        #[arg(long, default_value_t = 0.1)]
        failure_rate: f64,
        /// Number of items
        #[arg(long, default_value_t = 1_000)]
        items: u64,
        /// Attempts shown
        #[arg(long, default_value_t = 12)]
        attempts: usize,
        /// Draw the timeline
        #[arg(long, value_name = "OUT.svg")]
        plot: Option<PathBuf>,
        /// What calls have to pass.
        #[command(flatten)]
        through: ThroughArgs,
    },
    /// Warn of policies that cannot do what they seem to promise
    Lint {
        /// Presets' names or pipeline files; default: every preset
        policies: Vec<String>,
    },
}

pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; durations look like 500ms, 30s, 5m, 24h"))
}

pub fn lease(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(100);
    duration(text).and_then(|span| if span < least { Err("at least 100ms".to_owned()) } else { Ok(span) })
}

fn class(text: &str) -> Result<Class, String> {
    let names = || Class::ALL.map(Class::name).join(", ");
    Class::from_name(text).ok_or_else(|| format!("classes are {}", names()))
}

fn reason(text: &str) -> Result<DeadReason, String> {
    let names = || DeadReason::ALL.map(DeadReason::name).join(", ");
    DeadReason::from_name(text).ok_or_else(|| format!("reasons are {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}

/// Commands about gates.
#[derive(Debug, Subcommand)]
pub enum GatesCommand {
    /// Let nothing more through: what is under way finishes, the rest waits and spends nothing
    Pause {
        /// The gate
        name: String,
        /// Why, for those who will wonder
        #[arg(long, default_value = "no reason was given", value_name = "TEXT")]
        why: String,
    },
    /// Let a gate go on that was paused, closed or away, and the runs that were paused for it
    Resume {
        /// The gate; may be left out when only one is not open
        name: Option<String>,
    },
    /// Forget what was found out about a gate: rates, sizes, pauses
    Reset {
        /// The gate
        name: String,
    },
}
