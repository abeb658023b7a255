//! Results on their way out: one line for each, and a word about those that are left out.

use redrive_core::id::RunId;
use redrive_core::status::RunStatus;
use redrive_engine::report::{LeftOut, ResultOutcome};
use redrive_operate::Error;
use redrive_operate::results::Taker;
use serde::Serialize;

use super::note;
use super::target::Sink;
use super::text::{count, safe};

/// So many of those that are left out are named; the others are counted.
const NAMED: usize = 20;

/// How results are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A line for each.
    Lines,
    /// Elements of one list.
    List,
}

/// What was written, and what was not.
#[derive(Debug, Default, Serialize)]
pub struct Written {
    /// Results written.
    pub written: u64,
    /// Results that could not be written, because their content is damaged.
    pub left_out: u64,
    /// The first of those.
    pub left_out_items: Vec<LeftOut>,
    /// Items that passed the stage, and what it made of them was not kept.
    pub not_kept: u64,
}

/// Writes results as they come.
pub struct Writer {
    sink: Sink,
    form: Form,
    written: Written,
    /// Whether people are told that nobody works on the run.
    hints: bool,
}

impl Writer {
    /// Writes to a sink.
    pub fn new(sink: Sink, form: Form) -> Self {
        Self { sink, form, written: Written::default(), hints: false }
    }

    /// Tells people when nobody works on the run.
    pub fn with_hints(self, hints: bool) -> Self {
        Self { hints, ..self }
    }

    /// Writes something around the results.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, text: &str) -> Result<(), Error> {
        self.sink.put(text.as_bytes())
    }

    /// What was written so far.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Finishes what it writes to.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<Written, Error> {
        self.sink.finish()?;
        Ok(self.written)
    }
}

impl Taker for Writer {
    fn take(&mut self, outcome: ResultOutcome) -> Result<bool, Error> {
        let (sink, written) = (&mut self.sink, &mut self.written);
        match outcome {
            ResultOutcome::Line(mut line) => {
                match self.form {
                    Form::Lines => line.push(b'\n'),
                    Form::List if written.written > 0 => sink.put(b",\n")?,
                    Form::List => {}
                }
                sink.put(&line)?;
                written.written += 1;
            }
            ResultOutcome::LeftOut(item) => {
                written.left_out += 1;
                if written.left_out_items.len() < NAMED {
                    note(&safe(&format!(
                        "{} ({}) is left out of the results: {}",
                        item.key, item.id, item.why
                    )));
                    written.left_out_items.push(item);
                }
            }
            ResultOutcome::NotKept => written.not_kept += 1,
            ResultOutcome::NotYet | ResultOutcome::Never | ResultOutcome::Known => return Ok(false),
        }
        Ok(true)
    }

    fn is_done(&self) -> bool {
        self.sink.reader_left()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.sink.flush()
    }

    fn rests(&mut self, run: RunId, status: RunStatus) {
        if self.hints && status == RunStatus::Open {
            note(&format!("hint: run {run} is open; results follow until `redrive close {run}` ends it"));
        } else if self.hints {
            note(&format!("hint: run {run} is {status}; `redrive resume {run}` goes on with it"));
        }
    }
}

impl Written {
    /// Tells what was not written, beyond what was named already.
    pub fn tell_the_rest(&self) {
        let unnamed = self.left_out - self.left_out_items.len() as u64;
        if unnamed > 0 {
            note(&format!("{} more are left out of the results, for the like reasons", count(unnamed)));
        }
    }
}
