//! Whether vectors are as long as those before them.
//!
//! A model does not change how many numbers its vectors have; another model behind the same name does. What the run's
//! first answer had is kept with the run, so that a restart does not mix two kinds. An answer of another length is asked
//! for again, like any wrong answer, as long as right ones come too; where none does it is no accident, and waits for
//! somebody before more is paid for.

use std::sync::{Mutex, OnceLock, PoisonError};

use redrive_core::failure::{Class, Failure, Kind};
use redrive_engine::handler::RunMemory;

/// So many wrong answers in a row are no accident, even where right ones came before.
const IN_A_ROW: u32 = 10;
/// So many more wrong answers than right ones say that it was the first that was wrong.
const MAJORITY: u32 = 5;

/// How long vectors have to be.
pub(super) struct Dimension {
    model: String,
    asked: Option<usize>,
    kept: OnceLock<RunMemory>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    known: Option<usize>,
    right: u32,
    wrong: u32,
    wrong_in_a_row: u32,
}

impl Seen {
    /// Takes an answer in, and says whether the wrong ones among them are accidents.
    fn count(&mut self, is_right: bool) -> bool {
        if is_right {
            self.right = self.right.saturating_add(1);
            self.wrong_in_a_row = 0;
        } else {
            self.wrong = self.wrong.saturating_add(1);
            self.wrong_in_a_row += 1;
        }
        let few = self.wrong < self.right.saturating_add(MAJORITY);
        self.right > 0 && few && self.wrong_in_a_row < IN_A_ROW
    }
}

impl Dimension {
    /// As many numbers as were asked for; `None`: as many as the first answer has.
    pub(super) fn new(model: &str, asked: Option<usize>) -> Self {
        Self { model: model.to_owned(), asked, kept: OnceLock::new(), seen: Mutex::default() }
    }

    /// Keeps what is found with the run from now on.
    pub(super) fn keep_in(&self, memory: RunMemory) {
        let _ = self.kept.set(memory);
    }

    /// Judges an answer whose vectors have so many numbers.
    pub(super) async fn judge(&self, answered: usize) -> Result<(), Failure> {
        let known = self.known(answered).await?;
        let accident = self.seen.lock().unwrap_or_else(PoisonError::into_inner).count(known == answered);
        if known == answered {
            return Ok(());
        }
        if accident {
            let text = format!("the answer has vectors of {answered} dimensions where {known} were expected");
            return Err(Failure::new(Class::Retryable, Kind::Answer, text));
        }
        let text = match self.asked {
            Some(asked) => format!(
                "the model answered with vectors of {answered} dimensions, and dimensions = {asked} was asked for; \
                 set it to what the model gives, or leave it out"
            ),
            None => format!(
                "the model answered with vectors of {answered} dimensions, this run's first answer had {known}; one \
                 of them is of another model. Ask the one the run began with, or say which is right with dimensions \
                 = N and begin anew with --new"
            ),
        };
        Err(Failure::new(Class::Quota, Kind::Answer, text))
    }

    async fn known(&self, answered: usize) -> Result<usize, Failure> {
        let known = self.seen.lock().unwrap_or_else(PoisonError::into_inner).known;
        if let Some(known) = self.asked.or(known) {
            return Ok(known);
        }
        let known = match self.kept.get() {
            None => answered,
            Some(memory) => {
                // A run may go on with another model, if somebody says so.
                let kept = memory.keep(&format!("dimensions of {}", self.model), answered as u64).await;
                let kept =
                    kept.map_err(|error| Failure::new(Class::Retryable, Kind::Database, error.to_string()))?;
                usize::try_from(kept).unwrap_or(answered)
            }
        };
        // Where two first answers come at once, the one that was kept holds for both.
        Ok(*self.seen.lock().unwrap_or_else(PoisonError::into_inner).known.get_or_insert(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_wrong_answers_are_accidents_and_a_majority_is_none() {
        assert!(!Seen::default().count(false), "nothing right has come: it is another model");
        let mut seen = Seen::default();
        assert!((0..1_000).all(|n| seen.count(n % 3 != 2)), "a third of them");
        assert_eq!((0..20).position(|_| !seen.count(false)), Some(9), "ten in a row");
        let mut first_wrong = Seen::default();
        let told = (0..100).position(|n| !first_wrong.count(n % 7 == 0));
        assert_eq!(told, Some(6), "the first was wrong, and is so now and then");
    }
}
