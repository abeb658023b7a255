//! Results on their way out: one line for each, and a word about those that are left out.

use std::collections::BTreeSet;

use redrive_core::id::RunId;
use redrive_engine::report::{LeftOut, ResultOutcome, ResultReader, Wanted};
use redrive_operate::Error;
use redrive_store::Store;
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

impl Written {
    /// Takes in what there is of an item; `true` when that was a result or will never be one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn take(&mut self, outcome: ResultOutcome, form: Form, sink: &mut Sink) -> Result<bool, Error> {
        match outcome {
            ResultOutcome::Line(mut line) => {
                match form {
                    Form::Lines => line.push(b'\n'),
                    Form::List if self.written > 0 => sink.put(b",\n")?,
                    Form::List => {}
                }
                sink.put(&line)?;
                self.written += 1;
            }
            ResultOutcome::LeftOut(item) => {
                self.left_out += 1;
                if self.left_out_items.len() < NAMED {
                    note(&safe(&format!(
                        "{} ({}) is left out of the results: {}",
                        item.key, item.id, item.why
                    )));
                    self.left_out_items.push(item);
                }
            }
            ResultOutcome::NotKept => self.not_kept += 1,
            ResultOutcome::NotYet | ResultOutcome::Never | ResultOutcome::Known => return Ok(false),
        }
        Ok(true)
    }

    /// Writes every result that a run has now.
    ///
    /// # Errors
    /// When the store or the sink fails.
    pub async fn all(
        &mut self,
        store: &dyn Store,
        run: RunId,
        wanted: &Wanted,
        form: Form,
        sink: &mut Sink,
    ) -> Result<(), Error> {
        let mut reader = ResultReader::all(store, run, wanted);
        while let Some((_, outcome)) = reader.next(&BTreeSet::new()).await? {
            self.take(outcome, form, sink)?;
            if sink.reader_left() {
                break;
            }
        }
        Ok(())
    }

    /// Tells what was not written, beyond what was named already.
    pub fn tell_the_rest(&self) {
        let unnamed = self.left_out - self.left_out_items.len() as u64;
        if unnamed > 0 {
            note(&format!("{} more are left out of the results, for the like reasons", count(unnamed)));
        }
    }
}
