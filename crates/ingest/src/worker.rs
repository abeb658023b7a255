//! The loop of a child process that parses and cuts for the engine.
//!
//! It speaks the protocol of handlers: one line of JSON with files comes in, one line with a result for each goes out.
//! A file's result is its chunks as children, a reason to leave it out, or an error that is its own. A parent that gets
//! no line (the child was killed, ran out of memory, or took too long) has learned that this file cannot be parsed.
//!
//! The order in the child: [`quiet_panics`], [`crate::limits::apply`], [`serve`].

mod answer;
mod file;

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::path::PathBuf;

use crate::chunk::ChunkOptions;
use crate::parse::Limits;
use crate::walk::WalkOptions;

/// Why a file is left out that was gone when it was to be read.
pub const VANISHED: &str = "it vanished";
/// Why a file is left out that is not what was listed: the next listing has it as it is.
pub const CHANGED: &str = "it changed after it was listed";
/// Why a file is left out that was listed as gone and is not.
pub const THERE_AGAIN: &str = "it is there again";
/// How the reason begins for which a file without text is left out.
pub const NOT_A_TEXT: &str = "not a text";

/// Most chunks that are made of a file.
pub const MAX_CHUNKS: usize = 100_000;

/// What a worker is told at its start.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Where the files are. Default: where the process runs.
    pub root: PathBuf,
    /// How large files may be and whether symbolic links are followed; nothing else of it counts here.
    pub walk: WalkOptions,
    /// How much may come out of a file; its `max_bytes` does not count, the limit is that of `walk`.
    pub parse: Limits,
    /// How large chunks are.
    pub chunk: ChunkOptions,
    /// Longest request, in bytes. Default: 8 MiB.
    pub max_request: usize,
    /// Longest answer, in bytes; a parent should take as much. A file whose chunks do not fit fails. Default: 64 MiB.
    pub max_answer: usize,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            root: PathBuf::from("."),
            walk: WalkOptions::default(),
            parse: Limits::default(),
            chunk: ChunkOptions::default(),
            max_request: 8 << 20,
            max_answer: 64 << 20,
        }
    }
}

/// Keeps panics of parsers, which are caught, from writing to the error output.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// Answers requests until the input ends, or nobody reads the answers.
///
/// `count` says how many tokens a text has, see [`crate::chunk::chunk`]. `each` runs before each file, to grant it
/// processor time. A request that cannot be read, or is too long, is answered by a line without `results`, which fails
/// that call and no other. A last line without its end was cut off and is nobody's request.
///
/// # Errors
///
/// When `each` fails, or reading or writing fails in another way than by a closed pipe.
pub fn serve(
    mut input: impl BufRead,
    mut output: impl Write,
    options: &WorkerOptions,
    count: &dyn Fn(&str) -> usize,
    each: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let (mut request, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        match read_line(&mut input, &mut request, options.max_request)? {
            Line::End => return Ok(()),
            Line::Whole if request.trim_ascii().is_empty() => continue,
            Line::Whole => answer::answer(&request, &mut line, options, count, each)?,
            Line::TooLong => {
                answer::refuse(
                    &mut line,
                    &format!("the request is longer than {} bytes", options.max_request),
                );
            }
        }
        match output.write_all(&line).and_then(|()| output.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        // One huge answer must not be held against the memory of all later files.
        line.shrink_to(1 << 20);
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a line of bounded length; of a longer one the rest is skipped.
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
