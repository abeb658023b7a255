//! What workers and processes share about a gate, and what outlives them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::batch::BatchSize;
use super::breaker::Breaker;
use super::evidence::Evidence;
use super::rate::Rate;
use super::spec::GateSpec;
use super::told::Told;
use super::window::Window;
use crate::time::{CLOCK_SLACK, Timestamp};

/// A worker that has not been heard of for so long has no share, in milliseconds.
const MEMBER_FOR: i64 = 6_000;

/// A gate as it is kept in the store.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GateState {
    /// Grows when an operator changes it: what workers found out before that no longer counts.
    pub epoch: u64,
    /// What was asked for, by the last worker that used it.
    pub given: Option<GateSpec>,
    /// A human has to act.
    pub pause: Option<Paused>,
    /// The dependency asked to be left alone.
    pub closed: Option<Closed>,
    /// It asked for longer than is granted: until when it is left alone; then one call tries it out.
    pub parked: Option<Closed>,
    /// A gate that was parked since then, or before, has been tried out, and is not parked by that any more.
    pub(super) tried_out: Timestamp,
    /// Whether the dependency is away.
    pub breaker: Breaker,
    /// Calls at once.
    pub window: Window,
    /// Requests per second that it turned out to bear.
    pub rate: Rate,
    /// What kind of limit it keeps.
    pub evidence: Evidence,
    /// What its answers said about its limits.
    pub told: Told,
    /// Sizes of requests, by stage.
    pub batch: BTreeMap<String, BatchSize>,
    /// Until when requests, and tokens, are overdrawn.
    pub requests_free_at: Timestamp,
    /// See above.
    pub tokens_free_at: Timestamp,
    /// When an operator last let it go on.
    pub(super) resumed_at: Timestamp,
    /// Who uses it now.
    pub members: BTreeMap<String, Member>,
    /// All calls so far.
    pub totals: Totals,
}

/// A gate that waits for somebody to act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Who paused it.
    pub by: PausedBy,
    /// Why, in words.
    pub why: String,
    /// Since when.
    pub since: Timestamp,
}

/// Who paused a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PausedBy {
    /// The service said that credit is exhausted.
    Quota,
    /// An operator.
    Operator,
}

/// A gate that is closed for some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Since when.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// When that was last decided, by the clock that `until` is of: it may have been put off since it was closed.
    #[serde(default)]
    pub decided_at: Timestamp,
    /// What the service asked for, in milliseconds; `None`: it turned calls away without saying for how long.
    pub asked_ms: Option<i64>,
}

/// One worker at a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Member {
    /// When it was last heard of.
    pub at: Timestamp,
    /// Its calls under way.
    pub under_way: u32,
    /// Its calls that were started in the last minute.
    pub per_minute: u32,
}

/// Calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Calls that were made.
    pub calls: u64,
    /// Calls that were answered as they should be.
    pub passed: u64,
    /// Calls that were turned away.
    pub throttled: u64,
    /// Calls that failed because of the service.
    pub failed: u64,
    /// Tokens that were consumed, as far as that is known.
    pub tokens: u64,
}

impl Totals {
    fn plus(self, other: Self, less: Self) -> Self {
        let sum = |a: u64, b: u64, c: u64| a.saturating_add(b.saturating_sub(c));
        Self {
            calls: sum(self.calls, other.calls, less.calls),
            passed: sum(self.passed, other.passed, less.passed),
            throttled: sum(self.throttled, other.throttled, less.throttled),
            failed: sum(self.failed, other.failed, less.failed),
            tokens: sum(self.tokens, other.tokens, less.tokens),
        }
    }
}

/// A gate's state that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl GateState {
    /// Reads a gate as it was written, by this version or an older one.
    ///
    /// # Errors
    /// [`Unreadable`] when a newer version wrote it. To take it for a new gate would lift a pause that this version does not
    /// know.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        serde_json::from_str(text).map_err(|error| Unreadable(error.to_string()))
    }

    /// Reads a gate that was written at `written` by whatever clock: nothing in it lasts longer than it was meant to when that
    /// clock was ahead of `now`.
    ///
    /// # Errors
    /// As [`GateState::read`].
    pub fn read_at(text: &str, written: Timestamp, now: Timestamp) -> Result<Self, Unreadable> {
        let mut state = Self::read(text)?;
        if state.last_found().max(written) > now.after(CLOCK_SLACK) {
            state.set_right(written, now);
        }
        Ok(state)
    }

    /// The time of the last finding. A clock may have been put right between that and when it was written.
    fn last_found(&self) -> Timestamp {
        let closed = [&self.closed, &self.parked].into_iter().flatten();
        let found = closed.map(|closed| closed.decided_at.max(closed.since));
        let others = [self.breaker.changed_at, self.window.cut_at, self.rate.cut_at];
        found.chain(others).fold(self.tried_out, Timestamp::max)
    }

    /// Writes it.
    #[must_use]
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Takes away the shares of workers that are not among these: they are gone.
    pub fn keep_members(&mut self, live: &[String]) {
        // A worker that has several views of a gate takes part under `NAME/2` and so on, too.
        let worker = |name: &str| name.split_once('/').map_or(name, |(worker, _)| worker).to_owned();
        self.members.retain(|name, _| live.contains(&worker(name)));
    }

    /// The workers that use it now.
    pub fn live_members(&self, now: Timestamp) -> impl Iterator<Item = (&String, &Member)> {
        let heard = now.0 - MEMBER_FOR..=now.0 + MEMBER_FOR;
        self.members.iter().filter(move |(_, member)| heard.contains(&member.at.0))
    }

    /// Takes in what is in the store, where others wrote since; `synced` is what this worker had in common with it
    /// before. Whatever is newer holds; what is counted is added up.
    pub(super) fn merge(&mut self, theirs: &Self, synced: Totals, now: Timestamp) {
        let totals = theirs.totals.plus(self.totals, synced);
        if theirs.epoch > self.epoch {
            let members = std::mem::take(&mut self.members);
            *self = theirs.clone();
            self.members.extend(members);
        } else if theirs.epoch == self.epoch {
            self.merge_findings(theirs, now);
        }
        self.totals = totals;
        for (name, member) in &theirs.members {
            let known = self.members.entry(name.clone()).or_default();
            *known = if known.at >= member.at { *known } else { *member };
        }
        let heard = now.0 - MEMBER_FOR..=now.0 + MEMBER_FOR;
        self.members.retain(|_, member| heard.contains(&member.at.0));
    }

    fn merge_findings(&mut self, theirs: &Self, now: Timestamp) {
        if self.pause.is_none() {
            self.pause.clone_from(&theirs.pause);
        }
        let until = |closed: &Option<Closed>| closed.as_ref().map(|closed| (closed.until, closed.since));
        // What is over has been dealt with by whoever knew of it.
        let lasts = theirs.closed.as_ref().is_some_and(|closed| closed.until > now);
        if lasts && until(&theirs.closed) > until(&self.closed) {
            self.closed.clone_from(&theirs.closed);
        }
        self.resumed_at = self.resumed_at.max(theirs.resumed_at);
        self.tried_out = self.tried_out.max(theirs.tried_out);
        let since = |parked: &Option<Closed>| parked.as_ref().map(|parked| (parked.since, parked.until));
        if since(&theirs.parked) > since(&self.parked) {
            self.parked.clone_from(&theirs.parked);
        }
        self.parked.take_if(|parked| parked.since <= self.tried_out);
        if theirs.breaker.changed_at > self.breaker.changed_at {
            self.breaker = theirs.breaker;
        }
        if theirs.window.cut_at > self.window.cut_at {
            self.window.take_over(&theirs.window);
        } else if theirs.window.cut_at == self.window.cut_at {
            self.window.limit = self.window.limit.max(theirs.window.limit);
        }
        if theirs.rate.cut_at > self.rate.cut_at {
            self.rate = theirs.rate.clone();
        }
        if theirs.evidence.at > self.evidence.at {
            self.evidence = theirs.evidence.clone();
        }
        self.told.merge(&theirs.told);
        for (stage, theirs) in &theirs.batch {
            let ours = self.batch.entry(stage.clone()).or_default();
            if theirs.changed_at > ours.changed_at {
                *ours = *theirs;
            }
        }
        self.requests_free_at = self.requests_free_at.max(theirs.requests_free_at);
        self.tokens_free_at = self.tokens_free_at.max(theirs.tokens_free_at);
    }

    /// Sets right what a clock wrote that was ahead of `now`, as far as `written`: it lasts from now on as long as it did then.
    /// Each finding has its own time, so that what a right clock wrote beside it stays as it is.
    pub fn set_right(&mut self, written: Timestamp, now: Timestamp) {
        let ahead = |at: Timestamp| if at > now.after(CLOCK_SLACK) { at.0.saturating_sub(now.0) } else { 0 };
        let back = |at: &mut Timestamp, ms: i64| *at = Timestamp(at.0.saturating_sub(ms));
        for closed in [&mut self.closed, &mut self.parked].into_iter().flatten() {
            back(&mut closed.until, ahead(closed.decided_at.max(closed.since)));
            closed.since = closed.since.min(now);
            closed.decided_at = closed.decided_at.min(now);
        }
        if let Some(pause) = &mut self.pause {
            pause.since = pause.since.min(now);
        }
        self.resumed_at = self.resumed_at.min(now);
        let ms = ahead(self.tried_out);
        back(&mut self.tried_out, ms);
        if let Some(parked) = &self.parked {
            // It is parked since it was last tried out, or it would not be.
            self.tried_out = self.tried_out.min(Timestamp(parked.since.0.saturating_sub(1)));
        }
        let ms = ahead(self.breaker.changed_at);
        self.breaker.away_since = self.breaker.away_since.map(|since| since.min(now));
        back(&mut self.breaker.probe_at, ms);
        back(&mut self.breaker.changed_at, ms);
        self.window.put_back(ahead(self.window.cut_at));
        let pauses = [&self.closed, &self.parked].into_iter().flatten().map(|closed| closed.until);
        self.rate.put_back(ahead(self.rate.cut_at), pauses.fold(now, Timestamp::max));
        self.evidence.put_back(ahead(self.evidence.at));
        for pace in [&mut self.told.requests, &mut self.told.tokens].into_iter().flatten() {
            pace.at = pace.at.min(now);
        }
        self.batch.values_mut().for_each(|batch| batch.set_right(now));
        let ms = ahead(written);
        back(&mut self.requests_free_at, ms);
        back(&mut self.tokens_free_at, ms);
        self.members.values_mut().for_each(|member| member.at = member.at.min(now));
    }

    /// An operator stops it.
    pub fn stop(&mut self, why: String, now: Timestamp) {
        self.epoch += 1;
        self.pause = Some(Paused { by: PausedBy::Operator, why, since: now });
    }

    /// An operator lets it go on: whatever keeps it closed is lifted, and it begins with one call at a time. What is
    /// known about rates and sizes stays.
    pub fn resume(&mut self, now: Timestamp) {
        self.epoch += 1;
        self.pause = None;
        self.closed = None;
        self.parked = None;
        self.resumed_at = now;
        self.told = Told::default();
        if self.breaker.away_since.is_some() {
            // Still to be tried out, at once, and with all the patience of a new outage.
            self.breaker =
                Breaker { away_since: Some(now), probe_at: now, changed_at: now, probes: 0, resumed: true };
        }
        self.evidence.forget_background();
        self.rate.cuts_in_a_row = 0;
        self.window.ramp(now);
    }

    /// An operator makes it forget everything but its totals.
    pub fn reset(&mut self) {
        let given = self.given.take();
        *self = Self { epoch: self.epoch + 1, totals: self.totals, given, ..Self::default() };
    }
}
