//! Logs, on standard error.

use redrive_core::time::Timestamp;
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};

use super::aside;
use super::progress::above_bars;
use super::repeats::FirstOfAKind;
use super::screen::Screen;
use crate::args::{Global, LogFormat};

/// Begins to log. `REDRIVE_LOG` sets what (for example `info`, `debug`, or `redrive::item=debug`); whoever sets it, or reads
/// logs by a program, is told every warning, and others one of each kind.
pub fn begin(global: &Global) {
    aside::begin(global.log_format);
    let asked = std::env::var("REDRIVE_LOG").ok().filter(|asked| !asked.trim().is_empty());
    let once = (asked.is_none() && global.log_format == LogFormat::Text).then_some(FirstOfAKind);
    let filter = EnvFilter::try_new(directives(asked.as_deref(), global.quiet));
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(directives(None, global.quiet))).and(once);
    // A log that cannot be written is no reason to stop, nor to say so where it could not be said.
    let logs = fmt::layer().log_internal_errors(false).with_writer(above_bars);
    // A second subscriber in one process is not made: the command line begins once.
    let _ = match global.log_format {
        LogFormat::Json => {
            let logs = logs.json().flatten_event(true).with_current_span(false).with_span_list(false);
            registry().with(logs.with_filter(filter)).try_init()
        }
        LogFormat::Text => {
            let logs = logs.with_ansi(Screen::err(Timestamp(0)).colour).with_target(false);
            registry().with(logs.with_filter(filter)).try_init()
        }
    };
}

/// What is logged. A bare level is meant for what is ours: at `debug`, libraries would drown it. Without a word nothing is
/// logged of items: reports tell it, and a run with many dead ones would tell nothing else.
fn directives(asked: Option<&str>, quiet: bool) -> String {
    match asked.map(str::trim) {
        Some(level) if ["info", "debug"].contains(&level.to_ascii_lowercase().as_str()) => {
            format!("warn,redrive={level}")
        }
        Some(other) if !other.is_empty() => other.to_owned(),
        _ => format!("{},redrive::item=off", if quiet { "error" } else { "warn" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_meant_for_what_is_ours_and_silence_spares_items() {
        for (asked, told) in [
            (None, "warn,redrive::item=off"),
            (Some(""), "warn,redrive::item=off"),
            (Some("debug"), "warn,redrive=debug"),
            (Some("INFO"), "warn,redrive=INFO"),
            (Some("error"), "error"),
            (Some("redrive::item=debug"), "redrive::item=debug"),
        ] {
            assert_eq!(directives(asked, false), told);
        }
        assert_eq!(directives(None, true), "error,redrive::item=off");
    }
}
