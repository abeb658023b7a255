//! How things are shown. Data goes to standard output, everything else to standard error.

pub mod advice;
pub mod aside;
pub mod asleep;
pub mod command;
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
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_operate::{Code, Error};
use rustix::fs::{FileType, fstat};
use serde::Serialize;

pub use aside::{error, note};

/// Whether something was written to standard output.
static WRITTEN: AtomicBool = AtomicBool::new(false);

/// An error, as a document.
#[derive(Serialize)]
struct Refusal<'a> {
    error: Told<'a>,
}

/// What is told of an error.
#[derive(Serialize)]
struct Told<'a> {
    code: Code,
    message: &'a str,
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "<[redrive_pipeline::Problem]>::is_empty")]
    problems: &'a [redrive_pipeline::Problem],
}

/// An error as the document that goes to standard output in place of an answer.
pub fn error_document(error: &Error) -> String {
    let Error { code, message, hint, problems, kind: _ } = error;
    let error = Told { code: *code, message, hint: hint.as_deref(), problems };
    compact(&Refusal { error }).unwrap_or_default()
}

/// A value as JSON in one line.
pub fn compact(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(value).map_err(|error| Error::internal(error.to_string()))?;
    Ok(text::safe_json(text))
}

/// Writes an error in place of an answer, unless there was one.
pub fn error_in_place_of_an_answer(error: &Error) {
    if !WRITTEN.load(Ordering::SeqCst) {
        // The error itself is what matters, and it is told on standard error, too.
        let _ = lines(&error_document(error));
    }
}

/// Writes one JSON document to standard output.
pub fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::internal(error.to_string()))?;
    lines(&text::safe_json(text))
}

/// Writes text to standard output. A reader that has gone away is no failure; a full disk is one.
pub fn lines(text: &str) -> Result<(), Error> {
    WRITTEN.store(true, Ordering::SeqCst);
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe && !is_closed_terminal(&error) => {
            let message = format!("cannot write standard output: {error}");
            Err(Error::internal(message).code(Code::OutputFailed))
        }
        _ => Ok(()),
    }
}

/// Whether standard output was a terminal that is gone: nobody is there to read it any more.
fn is_closed_terminal(error: &std::io::Error) -> bool {
    /// The number of EIO.
    const INPUT_OUTPUT: i32 = 5;
    error.raw_os_error() == Some(INPUT_OUTPUT)
        && fstat(std::io::stdout())
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}
