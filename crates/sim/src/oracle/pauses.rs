//! Pauses: what somebody paused is kept, and nothing of it is given to anybody.

use redrive_store::{Claim, Claimed, PauseAsk, PauseChange, PipelinePause, Store};

use super::{Oracle, Ruling, broken};
use crate::hub::at_once;
use crate::met::Met;

/// The pipeline of the simulated run.
pub const PIPELINE: &str = "sim";

impl Oracle {
    /// Takes in that somebody paused something, or let it go on.
    ///
    /// # Errors
    /// When the store keeps something else.
    pub fn on_pause(&mut self, store: &dyn Store, change: &PauseChange, changed: bool) -> Ruling {
        let before = self.pauses.rows.clone();
        match &change.ask {
            PauseAsk::Pause(pause) => {
                self.hub.meet(Met::PipelinePaused);
                let since =
                    before.iter().find(|row| row.stage == pause.stage).map_or(pause.since, |row| row.since);
                self.pauses.rows.retain(|row| row.stage != pause.stage);
                self.pauses.rows.push(PipelinePause { since, ..pause.clone() });
            }
            PauseAsk::Resume { stage, .. } => self.pauses.rows.retain(|row| row.stage != *stage),
        }
        self.pauses.rows.sort_by(|one, other| one.stage.cmp(&other.stage));
        let differs = self.pauses.rows != before;
        self.pauses.rev += i64::from(differs);
        let kept = at_once(store.pauses()).unwrap_or_default();
        if kept != self.pauses || changed != differs {
            return broken("pause", format!("{kept:?} is kept, and was to be {:?}", self.pauses));
        }
        Ok(())
    }

    /// Whether a claim knows of what is paused. One that does not is told so.
    pub(super) fn is_aware(&self, claim: &Claim, got: &Claimed) -> Result<bool, crate::hub::Broken> {
        let aware = claim.pauses == self.pauses.rev;
        if !aware {
            self.hub.meet(Met::Unaware);
        }
        if aware == got.unaware {
            return broken(
                "pause",
                format!("{} knows change {}, and was told otherwise", claim.worker, claim.pauses),
            );
        }
        Ok(aware)
    }

    /// Nothing is given of what is paused.
    pub(super) fn given_nothing_paused(&self, got: &Claimed) -> Ruling {
        for given in &got.items {
            let stage = self.recipe.plan.stage(given.item.stage).map_or("", |stage| &stage.name);
            if let Some(pause) = self.pauses.stops(PIPELINE, stage) {
                let key = &given.item.key;
                return broken(
                    "pause",
                    format!("{key} was claimed at {stage}, though {:?} is paused", pause.stage),
                );
            }
        }
        Ok(())
    }
}
