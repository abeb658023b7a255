//! How dead items are sent back: options of `dead redrive`, and of `dead freeze`, which does the same later.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use redrive_operate::Error;
use redrive_operate::dead::{Redrive, Which, said_policy};
use redrive_operate::operations::{Start, StartKind};

use super::dead::DeadFilter;

/// Which dead items are sent back, and how.
#[derive(Debug, Clone, ClapArgs)]
pub struct SendBack {
    /// Which
    #[command(flatten)]
    pub filter: DeadFilter,
    /// All of them
    #[arg(long)]
    pub all: bool,
    /// At most so many
    #[arg(long)]
    pub limit: Option<u64>,
    /// So many a second, each when its time is near: by a daemon, a worker that stays, or --work
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Send this many first, and the others only if all of them pass
    #[arg(long, value_name = "N")]
    pub canary: Option<u64>,
    /// Send no more back when more than this share of those that ended has failed again, for example 0.2
    #[arg(long, value_name = "SHARE")]
    pub stop_at: Option<f64>,
    /// Under this policy at the stage that failed them, and not the stage's own: a preset's name, or what `retry` takes in a
    /// pipeline file, for example '{ max_attempts = 2 }'
    #[arg(long, value_name = "POLICY")]
    pub retry: Option<String>,
    /// Go again from this stage, which they have passed, and not from the one that failed them
    #[arg(long, value_name = "STAGE", conflicts_with_all = ["limit", "rate", "canary", "stop_at", "retry"])]
    pub from: Option<String>,
}

/// Options of `dead redrive`.
#[derive(Debug, ClapArgs)]
pub struct RedriveArgs {
    /// Which, and how
    #[command(flatten)]
    pub send: SendBack,
    /// Only say which
    #[arg(long, conflicts_with = "stop_at")]
    pub dry_run: bool,
    /// Work on the runs they belong to until those end
    #[arg(long)]
    pub work: bool,
    /// With --work: write one line for every item of those runs that succeeded
    #[arg(long, value_name = "OUT.jsonl", requires = "work", conflicts_with = "from")]
    pub results: Option<PathBuf>,
}

/// Options of `dead freeze`.
#[derive(Debug, ClapArgs)]
pub struct FreezeArgs {
    /// Which, and how
    #[command(flatten)]
    pub send: SendBack,
}

impl SendBack {
    /// Which of them.
    pub fn which(&self) -> Which {
        self.filter.clone().into()
    }

    /// What is written down to be done.
    ///
    /// # Errors
    /// When the policy is no policy.
    pub fn start(&self) -> Result<Start, Error> {
        Ok(Start {
            all: self.all,
            limit: self.limit,
            rate_per_second: self.rate,
            canary: self.canary,
            stop_at: self.stop_at,
            from: self.from.clone(),
            retry: self.retry.as_deref().map(said_policy).transpose()?,
            ..Start::of(StartKind::Redrive, self.which())
        })
    }
}

impl FreezeArgs {
    /// What is frozen.
    ///
    /// # Errors
    /// When the policy is no policy.
    pub fn request(&self) -> Result<Start, Error> {
        Ok(Start { dry_run: true, ..self.send.start()? })
    }
}

impl RedriveArgs {
    /// How they are sent back.
    ///
    /// # Errors
    /// When the policy is no policy.
    pub fn request(&self) -> Result<Redrive, Error> {
        let SendBack { limit, canary, retry, .. } = &self.send;
        let retry = retry.as_deref().map(said_policy).transpose()?;
        Ok(Redrive { limit: *limit, canary: *canary, work: self.work, retry })
    }
}
