//! What goes to standard error and is no log: notes, warnings, hints and errors. For machines each is one JSON object in a line.

use std::io::Write;
use std::sync::OnceLock;

use redrive_core::time::Timestamp;
use redrive_engine::env::Env;
use redrive_operate::{Code, Error};
use redrive_pipeline::Problem;
use serde::Serialize;

use super::progress::above_bars;
use super::screen::Screen;
use super::text::safe;
use super::tone::Tone;
use crate::args::LogFormat;

static FORM: OnceLock<LogFormat> = OnceLock::new();

/// Says in which form everything goes to standard error. The first word counts.
pub fn begin(form: LogFormat) {
    FORM.get_or_init(|| form);
}

/// Whether standard error is read by a machine.
pub fn for_machines() -> bool {
    FORM.get() == Some(&LogFormat::Json)
}

/// A line for a machine; the first fields are those of a log.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Problem]>::is_empty")]
    problems: &'a [Problem],
    target: &'a str,
}

impl<'a> Line<'a> {
    fn new(level: &'a str, target: &'a str, message: &'a str) -> Self {
        let timestamp = Env::system().clock.now().to_string();
        Self { timestamp, level, message, code: None, hint: None, problems: &[], target }
    }

    fn write(&self) {
        if let Ok(text) = super::compact(self) {
            put(&text);
        }
    }
}

fn put(text: &str) {
    // Nothing can be done about a closed standard error.
    let _ = writeln!(above_bars(), "{text}");
}

/// Writes a sentence for people, in lines of the width there is, with its first word in its colour.
fn tell(text: &str) {
    let screen = Screen::err(Timestamp(0));
    let text = screen.prose(text);
    let tones = [("error:", Tone::Bad), ("warning:", Tone::Wait), ("hint:", Tone::Busy)];
    let named = tones.into_iter().find_map(|(name, tone)| Some((name, tone, text.strip_prefix(name)?)));
    put(&named.map(|(name, tone, rest)| screen.paint(tone, name) + rest).unwrap_or(text));
}

/// Writes a line for people to standard error. What begins with `warning:` or `hint:` is one.
pub fn note(text: &str) {
    if !for_machines() {
        return tell(text);
    }
    if let Some(warning) = text.strip_prefix("warning: ") {
        Line::new("WARN", "redrive::note", warning).write();
    } else if let Some(hint) = text.strip_prefix("hint: ") {
        Line::new("INFO", "redrive::hint", hint).write();
    } else {
        Line::new("INFO", "redrive::note", text).write();
    }
}

/// Tells an error, with everything that is wrong in a pipeline.
pub fn error(error: &Error) {
    if for_machines() {
        let line = Line::new("ERROR", "redrive::error", &error.message);
        let hint = error.hint.as_deref();
        return Line { code: Some(error.code), hint, problems: &error.problems, ..line }.write();
    }
    for problem in &error.problems {
        tell(&safe(&problem.to_string()));
        if let Some(hint) = &problem.hint {
            tell(&format!("  hint: {}", safe(hint)));
        }
    }
    tell(&format!("error: {}", safe(&error.message)));
    if let Some(hint) = &error.hint {
        tell(&format!("hint: {}", safe(hint)));
    }
}
