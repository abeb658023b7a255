//! What can be typed after `retry-job`.

use clap::Args as ClapArgs;

/// Options of `retry-job`.
#[derive(Debug, ClapArgs)]
pub struct RetryJobArgs {
    /// Sweep once and end, as a cron job does
    #[arg(long)]
    pub once: bool,
    /// Push the metrics of the job to this Pushgateway after every sweep
    #[arg(long, env = "PUSHGATEWAY_URL", value_name = "URL")]
    pub pushgateway: Option<String>,
}
