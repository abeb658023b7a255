//! Turns: what ended, what the gates learnt and what was claimed, in one transaction.

use redrive_store::{Error, Store, Turn, Turned};

use super::{Oracle, Ruling, broken};
use crate::hub::Broken;

impl Oracle {
    /// Takes in a turn and its answer: each part as its own verb, in their order. What is kept is looked at after all of
    /// them, because nobody can look in between.
    ///
    /// # Errors
    /// What is wrong with the answers, or with what was written.
    pub fn on_turn(&mut self, store: &dyn Store, turn: &Turn, turned: &Turned) -> Ruling {
        let (applied, gates, claimed) =
            (granted(&turned.applied)?, granted(&turned.gates)?, granted(&turned.claimed)?);
        let mut touched = Vec::new();
        match &turn.commit {
            Some(commit) => touched.extend(self.committed(store, commit, applied, &claimed.items)?),
            None if !applied.is_empty() => {
                return broken("L3", "a commit that nobody asked for was answered".to_owned());
            }
            None => {}
        }
        self.on_gates_saved(store, &turn.gates, gates)?;
        match &turn.claim {
            Some(claim) => touched.extend(self.claimed(claim, claimed)?),
            None if !claimed.items.is_empty() => {
                return broken("L3", "items were given that nobody asked for".to_owned());
            }
            None => {}
        }
        self.verify(store, &touched)
    }
}

/// The store below has no faults: it refuses no part.
fn granted<T>(part: &Result<T, Error>) -> Result<&T, Broken> {
    part.as_ref().map_err(|error| Broken {
        law: "store".to_owned(),
        what: format!("a part of a turn was refused: {error}"),
    })
}
