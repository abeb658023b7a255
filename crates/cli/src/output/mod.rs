//! How things are shown. Data goes to standard output, everything else to standard error.

pub mod asleep;
pub mod csv;
pub mod log;
pub mod plot;
pub mod progress;
pub mod results;
pub mod summary;
pub mod table;
pub mod target;
pub mod text;

use std::io::Write;

use redrive_operate::Error;
use serde::Serialize;

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
    // Nothing can be done about a closed standard error.
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "error: {}", text::safe(&error.message));
    if let Some(hint) = &error.hint {
        let _ = writeln!(err, "hint: {}", text::safe(hint));
    }
}

/// Writes a line for people to standard error.
pub fn note(text: &str) {
    // Nothing can be done about a closed standard error.
    let _ = writeln!(progress::above_bars(), "{text}");
}
