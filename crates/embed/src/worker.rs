//! The loop of a child process that embeds for the engine.
//!
//! It speaks the protocol of handlers: one line of JSON with items comes in, one line with a result for each goes out.
//! Nothing else is written, and nothing is kept between two lines. It ends when the other side closes a pipe.

mod frame;
mod limits;
mod pointer;

use std::io::{self, BufRead, ErrorKind, Read, Write};

use crate::embedder::Embedder;
pub use limits::{LimitsError, VectorFormat, WorkerLimits};

/// Why an item is left out whose text the model has nothing to say about: white space, emoji, words it does not know.
pub const NO_WORDS: &str = "no words the model knows";

/// Why a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// There are no more requests: the other side closed its end, or is gone.
    InputClosed,
    /// Nobody reads the answers any more.
    OutputClosed,
}

/// Answers requests until there are no more.
///
/// A request that cannot be read, or is too long, is answered by a line without `results`, which fails that call and no
/// other. An item that has no text fails by itself; one whose text has no known word is left out ([`NO_WORDS`]).
///
/// # Errors
/// When reading or writing fails in another way than by a closed pipe.
pub fn serve(
    mut input: impl BufRead,
    mut output: impl Write,
    embedder: &dyn Embedder,
    limits: &WorkerLimits,
) -> io::Result<Ended> {
    let mut line = Vec::new();
    loop {
        let answer = match read_line(&mut input, &mut line, limits.max_request())? {
            Line::End => return Ok(Ended::InputClosed),
            Line::Whole if line.trim_ascii().is_empty() => continue,
            Line::Whole => frame::answer(&line, embedder, limits),
            Line::TooLong => {
                frame::refused(&format!("the request is longer than {} bytes", limits.max_request()))
            }
        };
        let written = output.write_all(&answer).and_then(|()| output.flush());
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Ended::OutputClosed),
            written => written?,
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a line of bounded length; of a longer one the rest is skipped. A last line that is not ended was cut off and is
/// nobody's request.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<Line> {
    line.clear();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    input.take(limit).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        return Ok(Line::Whole);
    }
    if line.len() <= most {
        return Ok(Line::End);
    }
    line.clear();
    Ok(if input.skip_until(b'\n')? == 0 { Line::End } else { Line::TooLong })
}
