//! What follows when an item is handed over, answered, or left without an answer.

use super::{Desk, Illegal};
use crate::answer::{HandOver, Handed, MAX_TICKET};
use crate::attempt::{AttemptRecord, Outcome};
use crate::event::{ItemReply, Transition};
use crate::failure::{Class, Failure, Kind};
use crate::id::WorkerId;
use crate::item::State;
use crate::policy::Cause;
use crate::time::Timestamp;

impl Desk<'_> {
    /// When the attempt began that a claim at `since` is a part of.
    pub(super) fn began(&self, since: Timestamp) -> Timestamp {
        self.item.handed.as_ref().map_or(since, |handed| handed.since)
    }

    /// Who has the attempt that is open, and since when; `None` when none is.
    fn open_attempt(&self) -> Option<(WorkerId, Timestamp)> {
        match self.item.state {
            State::Running { worker, since } => Some((worker, self.began(since))),
            State::Waiting { .. } => self.item.handed.as_ref().map(|handed| (handed.worker, handed.since)),
            State::Joining
            | State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => None,
        }
    }

    /// The end of an attempt that is open while its item is taken out.
    pub(super) fn broken_off(&self) -> Option<AttemptRecord> {
        self.open_attempt().map(|held| self.record(held, Outcome::Cancelled, None, None))
    }

    /// Somebody else has the item, or has it still: its attempt stays open, and it is looked at again when its answer is to be
    /// asked for, or has not come. It is awaited no longer than the item is worth a try.
    pub(super) fn handed_over(&self, (worker, since): (WorkerId, Timestamp), over: HandOver) -> Transition {
        let now = self.at.now;
        let known = self.item.handed.as_ref();
        let last = self.plan.deadline_of(self.item);
        let until = known.map_or_else(|| now.after(over.within), |handed| handed.until);
        let until = last.map_or(until, |last| until.min(last));
        let due = over.ask_in.map_or(until, |wait| until.min(now.after(wait)));
        let ticket = over.ticket.filter(|ticket| ticket.len() <= MAX_TICKET);
        let handed = match known {
            Some(known) => Handed { until, ticket: ticket.or_else(|| known.ticket.clone()), ..known.clone() },
            None => Handed { worker, since, at: now, until, ticket, route: over.route },
        };
        self.awaiting(handed, due)
    }

    /// Waiting for an answer until it is looked after again.
    pub(super) fn awaiting(&self, handed: Handed, due: Timestamp) -> Transition {
        let mut next = self.to(State::Waiting { due, cause: Some(Cause::Answer) });
        next.after.handed = Some(handed);
        next
    }

    /// Whoever looked after the answer has let go of the item: it is awaited as before, and can be looked after at once.
    pub(super) fn goes_on_waiting(&self) -> Option<Transition> {
        let handed = self.item.handed.clone()?;
        let due = self.at.now.min(handed.until);
        Some(self.awaiting(handed, due))
    }

    /// The clock was put back: what was awaited for so long is awaited for as long from now on.
    pub(super) fn put_back(&self, handed: Handed) -> Handed {
        let now = self.at.now;
        let left = handed.until.since(self.item.updated_at);
        Handed {
            since: handed.since.min(now),
            at: handed.at.min(now),
            until: handed.until.min(now.after(left)),
            ..handed
        }
    }

    /// The first answer ends the attempt, whether the item is waited for, looked after, or not even known as handed over yet.
    pub(super) fn answered(&self, reply: ItemReply) -> Result<Transition, Illegal> {
        let Some(held) = self.open_attempt() else {
            return self.illegal("no attempt of it waits for an answer");
        };
        match reply {
            ItemReply::HandedOver(_) => self.illegal("an answer does not hand it over again"),
            ItemReply::TurnedAway { .. } => self.illegal("no gate stands between it and its answer"),
            ItemReply::Output(_)
            | ItemReply::Indexed(..)
            | ItemReply::Judged(..)
            | ItemReply::Reused(..)
            | ItemReply::Filtered(_)
            | ItemReply::Children(_)
            | ItemReply::Failed { .. } => Ok(self.ended(held, reply)),
        }
    }

    /// No answer has come: that is a failure under the policy.
    pub(super) fn unanswered(&self) -> Result<Transition, Illegal> {
        let Some((handed, held)) = self.item.handed.as_ref().zip(self.open_attempt()) else {
            return self.illegal("no answer is awaited");
        };
        let waited = self.at.now.since(handed.at);
        let text = format!("no answer within {} s of being handed over", waited.as_secs());
        Ok(self.failed(held, Failure::new(Class::Timeout, Kind::Timeout, text), false))
    }
}
