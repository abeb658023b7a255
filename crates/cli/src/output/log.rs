//! Logs, on standard error.

use redrive_core::time::Timestamp;
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};

use super::aside::{self, note};
use super::progress::above_bars;
use super::repeats::FirstOfAKind;
use super::screen::Screen;
use super::text::short;
use crate::args::{Global, LogFormat};

/// The library that speaks AMQP logs whole messages, with their contents. What goes wrong there is told by ours.
const UNHEARD: &str = "lapin=off";
/// How much is logged, from nothing to everything.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Begins to log. `REDRIVE_LOG` sets what (for example `info`, `debug`, or `redrive::item=debug`); whoever sets it, or reads
/// logs by a program, is told every warning, and others one of each kind.
pub fn begin(global: &Global) {
    aside::begin(global.log_format);
    let said = std::env::var("REDRIVE_LOG").ok().map(|asked| parts(&asked).collect::<Vec<_>>().join(","));
    let said = said.filter(|asked| !asked.is_empty());
    let wrong = said.as_deref().and_then(wrong);
    if let Some(wrong) = &wrong {
        let held = if global.quiet { "errors" } else { "warnings" };
        note(&format!(
            "warning: REDRIVE_LOG: {:?} is neither a level ({}) nor TARGET=LEVEL; {held} are logged, as without it",
            short(wrong, 60),
            LEVELS.join(", ")
        ));
    }
    let asked = said.filter(|_| wrong.is_none());
    let once = (asked.is_none() && global.log_format == LogFormat::Text).then_some(FirstOfAKind);
    let filter = format!("{},{UNHEARD}", directives(asked.as_deref(), global.quiet));
    let filter = EnvFilter::new(filter).and(once);
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

/// What stands between commas.
fn parts(asked: &str) -> impl Iterator<Item = &str> {
    asked.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// The first part that says nothing, if there is one. A word that is no level would be taken for a program part of that name,
/// and nothing be logged.
fn wrong(asked: &str) -> Option<String> {
    let is_level = |word: &str| LEVELS.contains(&word.trim().to_ascii_lowercase().as_str());
    let says_something = |part: &str| match part.rsplit_once('=') {
        _ if part.contains('[') => true,
        Some((target, level)) => !target.trim().is_empty() && is_level(level),
        None => is_level(part),
    };
    let wrong = parts(asked).find(|part| !says_something(part)).map(str::to_owned);
    wrong.or_else(|| EnvFilter::try_new(asked).is_err().then(|| asked.to_owned()))
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
    fn a_word_that_is_no_level_is_found() {
        for right in
            ["info", "WARN", "off", "redrive::item=debug", "warn,redrive=trace,hyper=info", "a[b]=info"]
        {
            assert_eq!(wrong(right), None, "{right}");
        }
        for (asked, told) in [
            ("deubg", "deubg"),
            ("bogus=zz", "bogus=zz"),
            ("warn,redrive=loud", "redrive=loud"),
            ("redrive::item", "redrive::item"),
            ("=info", "=info"),
        ] {
            assert_eq!(wrong(asked).as_deref(), Some(told), "{asked}");
        }
    }

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
