//! What can be typed. Nothing here is looked up or opened.

mod again;
mod asked;
mod bus;
mod care;
mod commands;
mod crew;
mod dead;
mod index;
mod mail;
mod mcp;
mod outbound;
mod pipelines;
mod policy;
mod redrive;
mod rehearse;
mod reports;
mod retry_job;
mod runs;
mod schema;
mod search;
mod serve;
mod submit;
mod top;
mod tryout;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use redrive_core::id::RunId;
use redrive_core::verdict::Verdict;
use redrive_operate::results;
use redrive_operate::work::WorkSettings;

pub use again::{ItemsArgs, RerunArgs, RetryArgs, StuckArgs};
pub use asked::{Asked, usage_error};
pub use bus::{BusArgs, BusCaArgs, QueuesCommand, RelayArgs, UnroutedArgs};
pub use care::BackupArgs;
pub use commands::CommandsArgs;
pub use crew::CrewArgs;
pub use dead::{DeadColumn, DeadCommand, EditArgs};
pub use index::{Embedder, IndexArgs};
pub use mail::{MailArgs, ThreadsArgs};
pub use mcp::McpArgs;
pub use outbound::OutboundArgs;
pub use pipelines::{PipelinesCommand, which};
pub use policy::PolicyCommand;
pub use redrive::RedriveArgs;
pub use rehearse::RehearseArgs;
pub use reports::{FailuresArgs, StatsArgs};
pub use retry_job::RetryJobArgs;
pub use runs::RunsArgs;
pub use schema::SchemaArgs;
pub use search::SearchArgs;
pub use serve::{ServeArgs, TokenCommand};
pub use submit::SubmitArgs;
pub use top::TopArgs;
pub use tryout::TryArgs;

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

/// The store where none is named.
pub const DEFAULT_STORE: &str = "sqlite:.redrive/state.db";

/// Options of every command.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Where the state is kept: sqlite:PATH
    #[arg(
        long,
        global = true,
        env = "REDRIVE_STORE",
        default_value = DEFAULT_STORE,
        value_name = "URL"
    )]
    pub store: String,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress display and no hints
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Form of everything on standard error: text for people, or one JSON object a line
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Colours: on a terminal, always, or never; NO_COLOR and CLICOLOR_FORCE are honoured
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub color: Colour,
    /// Tell times exactly and in UTC, instead of "2 min ago" and local dates
    #[arg(long, global = true)]
    pub utc: bool,
}

/// When words have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// Whatever is written to.
    Always,
    /// Nowhere.
    Never,
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
    /// Call one stage once, and show the request, the answer and what would follow; nothing is kept
    Try(TryArgs),
    /// Work on every run that has something to do, in a fair order
    Work(CrewArgs),
    /// Work on runs and answer over HTTP, until told to stop: the daemon
    Serve(ServeArgs),
    /// Say whom `redrive serve` lets in: make, rotate and revoke tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Hand a run over, or items to a run that stays open, for others to work on
    Submit(SubmitArgs),
    /// Close a run that stays open for items: it is finished once those it has have ended
    Close {
        /// The run
        run: RunId,
    },
    /// Make a directory searchable, or bring its index up to date
    Index(IndexArgs),
    /// Take mail archives in: messages to search, threads with summaries
    Mail(MailArgs),
    /// Find passages in what was indexed
    Search(SearchArgs),
    /// List the threads of the mail with their summaries, the newest first
    Threads(ThreadsArgs),
    /// Show a thread: its summary and its messages
    Thread {
        /// Its name, or the Message-ID of one of its messages
        id: String,
    },
    /// Show how a run stands
    Show {
        /// The run, for example r12; default: the newest
        run: Option<RunId>,
    },
    /// List runs, newest first
    Runs(RunsArgs),
    /// Watch everything that goes on, live: runs, stages, gates, dead groups; pause, resume and redrive by a key
    Top(TopArgs),
    /// Print what became of a run's items, as JSON Lines, at any time
    Results(ResultsArgs),
    /// Let a paused or interrupted run go on, and work on it
    Resume(ResumeArgs),
    /// Stop a run for now: what runs is finished and recorded, nothing new begins
    Pause {
        /// The run
        run: RunId,
        /// Why, for those who will wonder
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        why: String,
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
    /// Have waiting items go now instead of when their wait is over, or at another time
    Retry(RetryArgs),
    /// Sweep for items that nobody holds any more, every 15 minutes
    RetryJob(RetryJobArgs),
    /// Pass on what happens to items and runs to a RabbitMQ broker, without a daemon
    Relay(RelayArgs),
    /// Look after queues of failed messages at a RabbitMQ broker: list, export, requeue, purge
    #[command(subcommand)]
    Queues(QueuesCommand),
    /// Do items again that have ended, from a stage they have passed
    Rerun(RerunArgs),
    /// List items in any state, of any run
    Items(ItemsArgs),
    /// List items that nothing happens to, and why
    Stuck(StuckArgs),
    /// Tell one item's whole life, and why it is not running now
    Explain {
        /// Its id, the beginning of its id, or its key
        item: String,
        /// Only in this run
        #[arg(long)]
        run: Option<RunId>,
    },
    /// Show what failed, in a run or in many: items sorted, error history, retries, next time
    Failures(FailuresArgs),
    /// Show retry histogram, error classes, stage reliability and time to successful retry
    Stats(StatsArgs),
    /// Prove the laws over everything the store holds
    Check {
        /// Only this run
        #[arg(long)]
        run: Option<RunId>,
    },
    /// Show the pipelines that go on, and what somebody paused of them
    Pipelines {
        /// What to do; without it, all of them are shown
        #[command(subcommand)]
        command: Option<PipelinesCommand>,
    },
    /// Show the gates: how fast each dependency is called, and what keeps it closed
    Gates {
        /// What to do; without it, all gates are shown
        #[command(subcommand)]
        command: Option<GatesCommand>,
    },
    /// List the schedules that daemons look after: next times, last firing, what was skipped and why
    Schedules,
    /// A provider that misbehaves on purpose, by a seeded plan: rehearse an outage before it happens
    Rehearse(RehearseArgs),
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
    /// Give room back to the disk that the store does not need any more
    Compact,
    /// Copy the whole store into a file, while others go on
    Backup(BackupArgs),
    /// Look whether everything is in order here
    Doctor {
        /// A pipeline file to look at as well, or a RabbitMQ broker: amqp://…
        pipeline: Option<PathBuf>,
        /// Whom to trust there
        #[command(flatten)]
        ca: BusCaArgs,
    },
    /// Parse files for the process that started this one
    #[command(hide = true)]
    ParseWorker {
        /// Settings, as JSON
        settings: String,
    },
    /// Read messages for the process that started this one
    #[command(hide = true)]
    MailWorker {
        /// Settings, as JSON
        settings: String,
    },
    /// Embed texts for the process that started this one
    #[command(hide = true)]
    EmbedWorker {
        /// Settings, as JSON
        settings: String,
    },
    /// Evaluate an expression for the process that started this one
    #[command(hide = true)]
    FilterWorker {
        /// Settings, as JSON
        settings: String,
    },
    /// Answer an agent over standard input and output, by the Model Context Protocol
    Mcp(McpArgs),
    /// Print a skill file for agents that use the command line
    Skill,
    /// Print what a command's --json prints, as JSON Schema
    Schema(SchemaArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, for man
    Man,
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
    /// Admit at most so many items that are new or changed; the next run goes on with the rest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Admit only items with this key; can be said several times
    #[arg(long, value_name = "KEY")]
    pub only: Vec<String>,
    /// Read the source and say what would be done; nothing is called and nothing is written
    #[arg(long, conflicts_with = "results")]
    pub dry_run: bool,
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
    /// Only those of items that succeeded with this verdict: passed, needs_review, failed
    #[arg(long, value_parser = again::verdict)]
    pub verdict: Option<Verdict>,
    /// Write them here instead of to standard output; a file that is there is replaced at the end
    #[arg(long, short, value_name = "OUT.jsonl")]
    pub output: Option<PathBuf>,
}

impl ResultsArgs {
    /// Which results.
    pub fn asked(&self) -> results::Asked {
        results::Asked { run: self.run, stage: self.stage.clone(), verdict: self.verdict }
    }
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
    /// What follows the end
    #[command(flatten)]
    pub end: EndArgs,
}

/// What follows the end of work.
#[derive(Debug, Clone, ClapArgs)]
pub struct EndArgs {
    /// Start this by `sh -c` when the work ends, whatever the end: the run report is its standard input
    #[arg(long, value_name = "COMMAND")]
    pub on_end: Option<String>,
}

impl WorkArgs {
    /// How it is worked on.
    pub fn settings(&self) -> WorkSettings {
        WorkSettings { lease: self.lease, max_wait: self.max_wait, ..WorkSettings::default() }
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

pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; durations look like 500ms, 30s, 5m, 24h"))
}

/// The name of a pipeline or a category.
pub fn name(text: &str) -> Result<String, String> {
    redrive_pipeline::title(text)
}

pub fn lease(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(100);
    duration(text).and_then(|span| if span < least { Err("at least 100ms".to_owned()) } else { Ok(span) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn a_daemon_listens_on_this_machine_alone_unless_told_otherwise() {
        use clap::Parser;
        let args = Args::try_parse_from(["redrive", "serve"]).expect("it is enough");
        let Command::Serve(serve) = args.command else { panic!("{:?}", args.command) };
        assert_eq!(serve.listen.to_string(), "127.0.0.1:7300");
        assert!(!serve.allow_remote && !serve.insecure_http);
    }

    #[test]
    fn a_port_alone_is_one_of_the_loopback_and_what_is_no_address_is_told_with_an_example() {
        use clap::Parser;
        let listens = |said: &str| match Args::try_parse_from(["redrive", "serve", "--listen", said]) {
            Ok(Args { command: Command::Serve(serve), .. }) => Ok(serve.listen.to_string()),
            Ok(args) => panic!("{:?}", args.command),
            Err(error) => Err(error.to_string()),
        };
        for said in ["9701", ":9701", "localhost:9701", "127.0.0.1:9701"] {
            assert_eq!(listens(said).as_deref(), Ok("127.0.0.1:9701"), "{said}");
        }
        assert_eq!(listens("[::1]:9701").as_deref(), Ok("[::1]:9701"));
        for said in ["redrive.lan:9701", "127.0.0.1", "99999", ""] {
            let told = listens(said).expect_err(said);
            assert!(told.contains("such as 127.0.0.1:7300"), "{said}: {told}");
        }
    }
}
