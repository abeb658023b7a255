//! What can be typed after `redrive top`.

use std::time::Duration;

use clap::Args as ClapArgs;
use redrive_core::id::RunId;

use super::duration;

/// Options of `top`.
#[derive(Debug, ClapArgs)]
pub struct TopArgs {
    /// Only this run, and its dead items
    #[arg(long)]
    pub run: Option<RunId>,
    /// How often to look
    #[arg(long, value_parser = interval, default_value = "1s", value_name = "SPAN")]
    pub interval: Duration,
}

/// How often to look: no more than ten times a second.
pub fn interval(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(100);
    duration(text).and_then(|span| if span < least { Err("at least 100ms".to_owned()) } else { Ok(span) })
}
