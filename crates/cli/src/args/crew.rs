//! What can be typed after `redrive work`.

use std::time::Duration;

use clap::Args as ClapArgs;
use redrive_operate::work::Serve;

use super::{BusArgs, CommandsArgs, EndArgs, OutboundArgs, duration, lease, name};

/// Options of `work`.
#[derive(Debug, ClapArgs)]
pub struct CrewArgs {
    /// Take only runs of these categories; default: all runs
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name)]
    pub categories: Vec<String>,
    /// Take only runs of these pipelines; default: all runs
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name)]
    pub pipelines: Vec<String>,
    /// End when nothing is left to do, instead of waiting for more
    #[arg(long)]
    pub until_idle: bool,
    /// With --until-idle: also wait for retries that are due within this
    #[arg(long, value_parser = duration, value_name = "SPAN", requires = "until_idle", default_value = "0s")]
    pub max_wait: Duration,
    /// How long work is held without a sign of life before others may take it over
    #[arg(long, value_parser = lease, default_value = "30s", value_name = "SPAN")]
    pub lease: Duration,
    /// Most runs that are worked on at a time
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub runs_at_once: u16,
    /// Instead of runs, do the work of stages that are told as this event, for whoever works on their runs; can be repeated
    #[arg(
        long = "event",
        value_name = "NAME",
        help_heading = "Bus",
        conflicts_with_all = ["categories", "pipelines", "until_idle", "max_wait", "lease", "runs_at_once", "on_end"]
    )]
    pub events: Vec<String>,
    /// Where events are heard
    #[command(flatten)]
    pub bus: BusArgs,
    /// What stages may start
    #[command(flatten)]
    pub commands: CommandsArgs,
    /// Whom stages may call
    #[command(flatten)]
    pub outbound: OutboundArgs,
    /// What follows the end of a run
    #[command(flatten)]
    pub end: EndArgs,
}

impl CrewArgs {
    /// What is asked for.
    pub fn serve(&self) -> Serve {
        Serve {
            categories: self.categories.clone(),
            pipelines: self.pipelines.clone(),
            until_idle: self.until_idle.then_some(self.max_wait),
            lease: self.lease,
            runs_at_once: usize::from(self.runs_at_once),
            carry: true,
        }
    }
}
