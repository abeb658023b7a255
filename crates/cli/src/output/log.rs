//! Logs, on standard error.

use redrive_core::time::Timestamp;
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};

use super::progress::above_bars;
use super::repeats::FirstOfAKind;
use super::screen::Screen;
use crate::args::{Global, LogFormat};

/// Begins to log. `REDRIVE_LOG` sets what (for example `debug`, or `redrive_engine=trace`); whoever sets it, or reads logs by a
/// program, is told every warning, and others one of each kind.
pub fn begin(global: &Global) {
    let usual = if global.quiet { "error" } else { "warn" };
    let asked = EnvFilter::try_from_env("REDRIVE_LOG").ok();
    let once = (asked.is_none() && global.log_format == LogFormat::Text).then_some(FirstOfAKind);
    let filter = asked.unwrap_or_else(|| EnvFilter::new(usual)).and(once);
    let logs = fmt::layer().with_writer(above_bars);
    // A second subscriber in one process is not made: the command line begins once.
    let _ = match global.log_format {
        LogFormat::Json => registry().with(logs.json().with_filter(filter)).try_init(),
        LogFormat::Text => {
            let colour = Screen::err(Timestamp(0)).colour;
            let logs = logs.with_ansi(colour).with_target(false);
            registry().with(logs.with_filter(filter)).try_init()
        }
    };
}
