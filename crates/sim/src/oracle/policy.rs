//! Policies of their own: an item that was sent back under one goes by it, at that stage and in that generation, and by no other.

use redrive_core::event::Transition;
use redrive_core::item::{DeadReason, Item, State, StateKind};

use super::{Oracle, Ruling, broken};
use crate::met::Met;

impl Oracle {
    /// L9: what an item was sent back under is neither lost nor kept for too long, and its number of attempts is the one that counts.
    pub(super) fn goes_under(&self, before: &Item, transition: &Transition) -> Ruling {
        let after = &transition.after;
        let mark = transition.mark.as_ref();
        if mark.is_some_and(|mark| mark.what == "redriven") {
            return self.sent_under(transition);
        }
        let same = after.stage == before.stage && after.generation == before.generation;
        let wanted = before.policy.as_ref().filter(|_| same);
        if after.policy.as_ref() != wanted {
            let (key, has) = (&after.key, &after.policy);
            return broken("policy", format!("{key} goes under {has:?}, and was to go under {wanted:?}"));
        }
        let Some(own) = &before.policy else { return Ok(()) };
        let passed = transition.record.as_ref().is_some_and(|record| record.outcome.is_pass());
        if passed {
            self.hub.meet(Met::OwnPassed);
        }
        let most = own.policy().max_attempts().map_or(u32::MAX, u32::from);
        let waits = after.state.kind() == StateKind::Waiting && same;
        match after.state {
            State::Dead { reason: DeadReason::Exhausted } if after.failures != most => {
                broken("policy", format!("{} died after {} of {most} failures", after.key, after.failures))
            }
            State::Dead { reason: DeadReason::Exhausted } => {
                self.hub.meet(Met::OwnExhausted);
                Ok(())
            }
            _ if waits && after.failures >= most => {
                broken("policy", format!("{} goes on after {} of {most} failures", after.key, after.failures))
            }
            _ => Ok(()),
        }
    }

    /// The history of an item tells what it was sent back under.
    fn sent_under(&self, transition: &Transition) -> Ruling {
        let Transition { after, mark, .. } = transition;
        let detail = mark.as_ref().map_or("", |mark| &*mark.detail);
        let told = match &after.policy {
            None => detail.is_empty(),
            Some(own) => {
                self.hub.meet(Met::OwnPolicy);
                detail.ends_with(&own.to_string())
            }
        };
        match told {
            true => Ok(()),
            false => broken(
                "policy",
                format!("{} goes under {:?}, and {detail:?} is noted", after.key, after.policy),
            ),
        }
    }
}
