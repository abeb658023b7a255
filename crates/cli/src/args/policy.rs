//! What can be typed after `policy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use redrive_operate::policies::Through;

use super::duration;

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

impl From<ThroughArgs> for Through {
    fn from(args: ThroughArgs) -> Self {
        Self {
            requests_per_minute: args.requests_per_minute,
            tokens_per_minute: args.tokens_per_minute,
            tokens_per_item: args.tokens_per_item,
            batch: args.batch,
            latency: args.latency,
            concurrency: args.concurrency,
        }
    }
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
