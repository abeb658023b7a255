//! What can be typed after `redrive runs`.

use std::time::Duration;

use clap::Args as ClapArgs;
use redrive_core::status::RunStatus;
use redrive_core::time::millis;
use redrive_operate::runs::List;

use super::duration;
use super::top::interval;

/// Options of `runs`.
#[derive(Debug, ClapArgs)]
pub struct RunsArgs {
    /// Only runs of this pipeline
    #[arg(long)]
    pub pipeline: Option<String>,
    /// Only runs that stand like this, for example running or failed; several with commas
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    pub status: Vec<RunStatus>,
    /// Only runs that are not finished, or that finished within this time, for example 24h
    #[arg(long, value_parser = duration, value_name = "SPAN")]
    pub since: Option<Duration>,
    /// At most so many
    #[arg(long, short = 'n', default_value_t = 20)]
    pub limit: usize,
    /// Go on: print the table anew in its place; where there is no terminal, a line for each change
    #[arg(long, short)]
    pub watch: bool,
    /// How often to look
    #[arg(long, value_parser = interval, default_value = "1s", value_name = "SPAN", requires = "watch")]
    pub interval: Duration,
}

impl RunsArgs {
    /// Which runs are meant.
    pub fn list(&self) -> List {
        List {
            pipeline: self.pipeline.clone(),
            status: self.status.clone(),
            within_ms: self.since.map(millis),
            limit: self.limit,
            before: None,
        }
    }
}

fn status(text: &str) -> Result<RunStatus, String> {
    RunStatus::ALL.into_iter().find(|status| status.name() == text).ok_or_else(|| {
        let names: Vec<&str> = RunStatus::ALL.iter().map(|status| status.name()).collect();
        format!("there are {}", names.join(", "))
    })
}
