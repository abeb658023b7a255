//! Logs, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::{Global, LogFormat};

/// Begins to log. `REDRIVE_LOG` sets what (for example `debug`, or `redrive_engine=trace`).
pub fn begin(global: &Global) {
    let usual = if global.quiet { "error" } else { "warn" };
    let filter = EnvFilter::try_from_env("REDRIVE_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(super::progress::above_bars);
    // A second subscriber in one process is not made: the command line begins once.
    let _ = match global.log_format {
        LogFormat::Json => logs.json().try_init(),
        LogFormat::Text => logs
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .with_target(false)
            .try_init(),
    };
}
