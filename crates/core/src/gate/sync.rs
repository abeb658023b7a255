//! Telling other workers, and hearing from them.

use super::bucket::Bucket;
use super::cut::SinceCut;
use super::doubt::Refusals;
use super::meter::Meter;
use super::{Gate, GateState, Member};
use crate::time::Timestamp;

/// How often what is not urgent is saved, in milliseconds.
const SAVE_EVERY: i64 = 1_000;

impl Gate {
    /// What was handed out as `sent` is in the store, though nobody said so: what it counts is not counted again.
    pub fn settle(&mut self, sent: &GateState) {
        self.synced = sent.totals;
    }

    /// Takes in what the store has, where others may have written.
    pub fn merge(&mut self, theirs: &GateState, now: Timestamp) {
        let (epoch, cut_at) = (self.shared.epoch, self.shared.rate.cut_at);
        self.shared.merge(theirs, self.synced, now);
        self.synced = theirs.totals;
        if self.shared.rate.cut_at > cut_at {
            self.since_cut = Some(SinceCut::new(self.shared.rate.cut_at));
            self.requests.empty();
        }
        if self.shared.epoch > epoch {
            self.lately.forget();
            self.losses.forget();
            self.refusals = Refusals::default();
            self.recent.forget();
            (self.inquiry, self.trial, self.shut_since) = (None, None, None);
            self.probing = false;
            self.urgent = false;
        }
    }

    /// The clock was put back by so many milliseconds while the gate was in use.
    pub fn put_back(&mut self, ms: i64, now: Timestamp) {
        self.shared.set_right(Timestamp(now.0.saturating_add(ms)), now);
        self.started_at = self.started_at.min(now);
        self.doubled_at = self.doubled_at.min(now);
        self.saved_at = self.saved_at.min(now);
        [&mut self.requests, &mut self.tokens].into_iter().for_each(|bucket| bucket.put_back(now));
        (self.started, self.passed) = (Meter::default(), Meter::default());
        self.lately.forget();
        self.recent.forget();
        (self.inquiry, self.trial, self.judged_at) = (None, None, Timestamp(i64::MIN));
        (self.since_cut, self.shut_since) = (None, None);
        self.dirty = true;
    }

    /// The clock was put forward by so many milliseconds while the gate was in use: how long a dependency has been away does
    /// not count them.
    pub fn put_forward(&mut self, ms: i64, now: Timestamp) {
        let away = &mut self.shared.breaker.away_since;
        *away = away.map(|since| Timestamp(since.0.saturating_add(ms)).min(now));
        self.dirty = true;
    }

    /// Whether others should know something at once.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// What others should know, if it is time to tell them.
    pub fn to_save(&mut self, now: Timestamp) -> Option<GateState> {
        let due = self.dirty && (now.0 - self.saved_at.0 >= SAVE_EVERY || now < self.saved_at);
        if !self.urgent && !due {
            return None;
        }
        let (requests, tokens) = (self.request_rate(now), self.token_rate(now));
        let free = |bucket: &Bucket, rate: f64| bucket.free_at(rate).filter(|_| rate.is_finite());
        self.shared.requests_free_at = free(&self.requests, requests).unwrap_or_default();
        self.shared.tokens_free_at = free(&self.tokens, tokens).unwrap_or_default();
        let per_minute = self.started.last_minute(now);
        let under_way = u32::try_from(self.under_way).unwrap_or(u32::MAX);
        self.shared.given = Some(self.spec.clone());
        self.shared.members.insert(self.me.clone(), Member { at: now, under_way, per_minute });
        Some(self.shared.clone())
    }

    /// What was handed out is saved.
    pub fn saved(&mut self, state: &GateState, now: Timestamp) {
        self.synced = state.totals;
        self.saved_at = now;
        // What happened while it was being written is told the next time.
        let known = state.rate == self.shared.rate
            && state.evidence.finds_the_same(&self.shared.evidence)
            && state.closed == self.shared.closed
            && state.parked == self.shared.parked
            && state.pause == self.shared.pause
            && state.breaker == self.shared.breaker
            && state.batch == self.shared.batch;
        self.urgent &= !known;
        self.dirty = self.under_way > 0 || !known || self.shared.totals != state.totals;
    }

    /// Leaves: what was found stays, the worker's share is others' again. Handed out at the end.
    pub fn leave(&mut self, now: Timestamp) -> GateState {
        self.urgent = true;
        let mut state = self.to_save(now).unwrap_or_default();
        state.members.remove(&self.me);
        state
    }
}
