//! How things are shown. Data goes to standard output, everything else to standard error.

pub mod advice;
pub mod asleep;
mod command;
pub mod csv;
pub mod log;
pub mod plot;
pub mod progress;
pub mod repeats;
pub mod results;
#[cfg(test)]
pub mod sample;
pub mod screen;
pub mod summary;
pub mod table;
pub mod target;
pub mod text;
pub mod times;
pub mod tone;
pub mod usage;
pub mod wrap;

use std::io::Write;

use redrive_core::time::Timestamp;
use redrive_operate::Error;
use serde::Serialize;

use screen::Screen;
use tone::Tone;

/// Writes one JSON document to standard output.
pub fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::internal(error.to_string()))?;
    lines(&text)
}

/// Writes text to standard output. A reader that has gone away is no failure; a full disk is one.
pub fn lines(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::internal(format!("cannot write standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Tells an error, with everything that is wrong in a pipeline.
pub fn error(error: &Error) {
    for problem in &error.problems {
        note(&text::safe(&problem.to_string()));
        if let Some(hint) = &problem.hint {
            note(&format!("  hint: {}", text::safe(hint)));
        }
    }
    note(&format!("error: {}", text::safe(&error.message)));
    if let Some(hint) = &error.hint {
        note(&format!("hint: {}", text::safe(hint)));
    }
}

/// Writes a sentence for people to standard error, in lines of its width.
pub fn note(text: &str) {
    let screen = Screen::err(Timestamp(0));
    let text = screen.prose(text);
    let tone = [("error:", Tone::Bad), ("warning:", Tone::Wait), ("hint:", Tone::Busy)];
    let named = tone.into_iter().find_map(|(name, tone)| Some((name, tone, text.strip_prefix(name)?)));
    let text = named.map(|(name, tone, rest)| screen.paint(tone, name) + rest).unwrap_or(text);
    // Nothing can be done about a closed standard error.
    let _ = writeln!(progress::above_bars(), "{text}");
}
