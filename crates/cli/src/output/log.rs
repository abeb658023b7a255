//! Logs, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::aside;
use crate::args::{Global, LogFormat};

/// Begins to log. `REDRIVE_LOG` sets what (for example `info`, `debug`, or `redrive::item=debug`).
pub fn begin(global: &Global) {
    aside::begin(global.log_format);
    let asked = std::env::var("REDRIVE_LOG").ok();
    let filter = EnvFilter::try_new(directives(asked.as_deref(), global.quiet));
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(directives(None, global.quiet)));
    // A log that cannot be written is no reason to stop, nor to say so where it could not be said.
    let logs = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_writer(super::progress::above_bars);
    // A second subscriber in one process is not made: the command line begins once.
    let _ = match global.log_format {
        LogFormat::Json => {
            logs.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
        }
        LogFormat::Text => logs
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .with_target(false)
            .try_init(),
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
