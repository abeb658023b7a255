//! Counters that are kept beside the items, in the same transaction.
//!
//! Every store gets its counters from the functions here, so there is one author of what is counted; `redrive check`
//! compares them with the items themselves.

mod span;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::attempt::{AttemptRecord, Outcome};
use crate::event::{Place, Transition};
use crate::failure::{Class, Kind};
use crate::id::{RunId, StageNo};
use crate::item::{DeadReason, Item, State, StateKind};
use crate::time::millis;
use crate::usage::Usage;
use crate::verdict::Verdict;

pub use span::HealSpan;

/// Highest number of attempts that has a counter of its own; more are counted there.
pub const MAX_ATTEMPT_BUCKET: u16 = 50;

/// One thing that is counted, per run and stage. Their order is that of their codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Items that are in this state now.
    State(StateKind),
    /// Items that were admitted here.
    Admitted,
    /// Items that are dead now for this reason.
    DeadReason(DeadReason),
    /// Items that are dead now after a failure of this class.
    DeadClass(Class),
    /// Attempts that ended so.
    Outcome(Outcome),
    /// Attempts that failed so.
    Failure(Class, Kind),
    /// Attempts that were answered with this HTTP status.
    Status(u16),
    /// Items that passed the stage at this try; 0: without a call. Attempts that were turned away or broken off are no tries.
    PassedAfter(u16),
    /// Items that passed after failing, by the power of two of the milliseconds from first failure to success. Versions before
    /// [`Metric::HealedIn`] counted by it; it is read and not written.
    HealedWithin(u16),
    /// Sum of the milliseconds from first failure to success.
    HealMillis,
    /// Tokens that attempts sent.
    TokensIn,
    /// Tokens that attempts received.
    TokensOut,
    /// What attempts cost, in billionths of a US dollar, as far as prices are known.
    NanoUsd,
    /// Tokens, sent or received, of attempts whose price is not known.
    UnpricedTokens,
    /// Items that were purged here, by the state they were in.
    Purged(StateKind),
    /// Items of a run that is being forgotten, page by page, that went already, by the state they were in.
    Forgotten(StateKind),
    /// Items that are, or were when they were purged, dead here after so many tries.
    DeadAfter(u16),
    /// Items that wait or run here after so many tries that failed.
    OpenAfter(u16),
    /// Items that were tried here.
    FirstTry,
    /// Items that passed here at the first try.
    FirstPass,
    /// Tries that were an item's first here since it was sent back, where it had been tried here before.
    TriedAnew,
    /// Items that passed after failing, by the [`HealSpan`] of the time from first failure to success.
    HealedIn(u16),
    /// Tries by the [`HealSpan`] of the time from claim to end.
    TookIn(u16),
    /// Sum of the milliseconds from claim to end of tries.
    TookMillis,
    /// Items that have succeeded and have this verdict.
    Verdict(Verdict),
    /// Times that an item died here for this reason. One that is sent back and dies again counts twice.
    Died(DeadReason),
    /// Items that are handed over and wait for their answer, or are looked after for it just now.
    Awaited,
}

impl Metric {
    /// The number by which stores keep it.
    #[must_use]
    pub fn code(self) -> i64 {
        let (family, value) = match self {
            Self::State(kind) => (1, i64::from(kind.code())),
            Self::Admitted => (2, 0),
            Self::DeadReason(reason) => (3, reason as i64),
            Self::DeadClass(class) => (4, class as i64),
            Self::Outcome(outcome) => (5, i64::from(outcome.code())),
            Self::Failure(class, kind) => (6, class as i64 * 100 + kind as i64),
            Self::Status(status) => (7, i64::from(status)),
            Self::PassedAfter(attempts) => (8, i64::from(attempts)),
            Self::HealedWithin(power) => (9, i64::from(power)),
            Self::HealMillis => (10, 0),
            Self::TokensIn => (11, 0),
            Self::TokensOut => (11, 1),
            Self::NanoUsd => (11, 2),
            Self::UnpricedTokens => (11, 3),
            Self::Purged(kind) => (12, i64::from(kind.code())),
            Self::Forgotten(kind) => (13, i64::from(kind.code())),
            Self::DeadAfter(tries) => (14, i64::from(tries)),
            Self::OpenAfter(tries) => (15, i64::from(tries)),
            Self::FirstTry => (16, 0),
            Self::FirstPass => (16, 1),
            Self::TriedAnew => (16, 2),
            Self::HealedIn(span) => (17, i64::from(span)),
            Self::TookIn(span) => (18, i64::from(span)),
            Self::TookMillis => (19, 0),
            Self::Verdict(verdict) => (20, i64::from(verdict.code())),
            Self::Died(reason) => (21, reason as i64),
            Self::Awaited => (22, 0),
        };
        family * 100_000 + value
    }

    /// The metric with that number.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        let (family, value) = (code.div_euclid(100_000), code.rem_euclid(100_000));
        let index = usize::try_from(value).ok()?;
        let small = u16::try_from(value).ok();
        match family {
            1 => StateKind::from_code(u8::try_from(value).ok()?).map(Self::State),
            2 if value == 0 => Some(Self::Admitted),
            3 => DeadReason::ALL.get(index).copied().map(Self::DeadReason),
            4 => Class::ALL.get(index).copied().map(Self::DeadClass),
            5 => Outcome::from_code(u8::try_from(value).ok()?).map(Self::Outcome),
            6 => Some(Self::Failure(*Class::ALL.get(index / 100)?, *Kind::ALL.get(index % 100)?)),
            7 => small.map(Self::Status),
            8 => small.map(Self::PassedAfter),
            9 => small.map(Self::HealedWithin),
            10 => Some(Self::HealMillis),
            11 if value == 0 => Some(Self::TokensIn),
            11 if value == 1 => Some(Self::TokensOut),
            11 if value == 2 => Some(Self::NanoUsd),
            11 if value == 3 => Some(Self::UnpricedTokens),
            12 => StateKind::from_code(u8::try_from(value).ok()?).map(Self::Purged),
            13 => StateKind::from_code(u8::try_from(value).ok()?).map(Self::Forgotten),
            14 => small.map(Self::DeadAfter),
            15 => small.map(Self::OpenAfter),
            16 if value == 0 => Some(Self::FirstTry),
            16 if value == 1 => Some(Self::FirstPass),
            16 if value == 2 => Some(Self::TriedAnew),
            17 => small.map(Self::HealedIn),
            18 => small.map(Self::TookIn),
            19 if value == 0 => Some(Self::TookMillis),
            20 => Verdict::from_code(u8::try_from(value).ok()?).map(Self::Verdict),
            21 => DeadReason::ALL.get(index).copied().map(Self::Died),
            22 if value == 0 => Some(Self::Awaited),
            _ => None,
        }
    }

    /// Whether it only ever grows, whatever becomes of the items: what was counted so outlives a run that is forgotten.
    #[must_use]
    pub fn only_grows(self) -> bool {
        match self {
            Self::Admitted
            | Self::Outcome(_)
            | Self::Failure(..)
            | Self::Status(_)
            | Self::PassedAfter(_)
            | Self::HealedWithin(_)
            | Self::HealedIn(_)
            | Self::HealMillis
            | Self::TokensIn
            | Self::TokensOut
            | Self::NanoUsd
            | Self::UnpricedTokens
            | Self::Purged(_)
            | Self::FirstTry
            | Self::FirstPass
            | Self::TriedAnew
            | Self::TookIn(_)
            | Self::TookMillis
            | Self::Died(_) => true,
            Self::State(_)
            | Self::DeadReason(_)
            | Self::DeadClass(_)
            | Self::Forgotten(_)
            | Self::DeadAfter(_)
            | Self::OpenAfter(_)
            | Self::Verdict(_)
            | Self::Awaited => false,
        }
    }
}

/// One counter of a run, as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// The stage.
    pub stage: StageNo,
    /// What is counted.
    pub metric: Metric,
    /// How many, or how much.
    pub n: i64,
}

/// Reason and class of a dead item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadMark {
    /// Why.
    pub reason: DeadReason,
    /// After which class of failure.
    pub class: Option<Class>,
}

/// Where an item stands.
#[must_use]
pub fn place(item: &Item) -> Place {
    let dead = match item.state {
        State::Dead { reason } => Some(DeadMark { reason, class: item.last.as_ref().map(|last| last.class) }),
        _ => None,
    };
    Place {
        stage: item.stage,
        kind: item.state.kind(),
        dead,
        verdict: item.verdict(),
        awaited: item.handed.is_some(),
    }
}

/// What an attempt's usage adds to which counters.
#[must_use]
pub fn consumed(usage: &Usage) -> [(Metric, i64); 4] {
    let amount = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let unpriced = if usage.nano_usd.is_none() { usage.tokens() } else { 0 };
    [
        (Metric::TokensIn, amount(usage.tokens_in)),
        (Metric::TokensOut, amount(usage.tokens_out)),
        (Metric::NanoUsd, amount(usage.nano_usd.unwrap_or(0))),
        (Metric::UnpricedTokens, amount(unpriced)),
    ]
}

/// The counter of an item that failed here and is dead or not through, by its tries.
#[must_use]
pub fn unpassed(kind: StateKind, tries: u32) -> Option<Metric> {
    let bucket = bucket(tries);
    match kind {
        _ if tries == 0 => None,
        StateKind::Dead => Some(Metric::DeadAfter(bucket)),
        StateKind::Waiting | StateKind::Running => Some(Metric::OpenAfter(bucket)),
        StateKind::Joining
        | StateKind::Succeeded
        | StateKind::Filtered
        | StateKind::Superseded
        | StateKind::Cancelled => None,
    }
}

fn bucket(tries: u32) -> u16 {
    u16::try_from(tries).unwrap_or(u16::MAX).min(MAX_ATTEMPT_BUCKET)
}

/// Changes of counters, summed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deltas {
    by_stage: BTreeMap<(RunId, StageNo, Metric), i64>,
    by_config: BTreeMap<(RunId, StageNo, i64, Metric), i64>,
}

impl Deltas {
    /// Adds to one counter. A sum that cannot be held stays at the largest number.
    pub fn add(&mut self, run: RunId, stage: StageNo, metric: Metric, n: i64) {
        let sum = self.by_stage.entry((run, stage, metric)).or_default();
        *sum = sum.saturating_add(n);
    }

    /// Adds one to a counter of a stage, and to that of the stage as it was configured for this attempt.
    fn count(&mut self, run: RunId, record: &AttemptRecord, metric: Metric) {
        self.add(run, record.stage, metric, 1);
        *self.by_config.entry((run, record.stage, record.config, metric)).or_default() += 1;
    }

    /// Adds what an admitted item changes.
    pub fn admitted(&mut self, item: &Item) {
        let place = place(item);
        self.add(item.run, item.stage, Metric::Admitted, 1);
        self.stands(item.run, place, 1);
        self.died(item.run, None, place);
    }

    /// Adds what a claim changes.
    pub fn claimed(&mut self, run: RunId, stage: StageNo, n: i64) {
        self.add(run, stage, Metric::State(StateKind::Waiting), -n);
        self.add(run, stage, Metric::State(StateKind::Running), n);
    }

    /// Adds what a purge changes: the item stays counted as what it was.
    pub fn purged(&mut self, item: &Item) {
        self.stands(item.run, place(item), -1);
        self.add(item.run, item.stage, Metric::Purged(item.state.kind()), 1);
    }

    /// Adds what it changes that an item is forgotten while its run is not yet.
    pub fn forgotten(&mut self, item: &Item) {
        self.stands(item.run, place(item), -1);
        self.add(item.run, item.stage, Metric::Forgotten(item.state.kind()), 1);
    }

    /// Adds what a transition changes, its children not included.
    pub fn transition(&mut self, transition: &Transition) {
        let run = transition.after.run;
        let to = place(&transition.after);
        if to != transition.from {
            self.stands(run, transition.from, -1);
            self.stands(run, to, 1);
        }
        self.died(run, transition.from.dead, to);
        let (stage, tries) = (transition.from.stage, transition.tries);
        let unpassed_before = unpassed(transition.from.kind, tries).map(|metric| (stage, metric));
        let unpassed_after = unpassed(to.kind, transition.after.tries()).map(|metric| (to.stage, metric));
        if unpassed_before != unpassed_after {
            unpassed_before.into_iter().for_each(|(stage, metric)| self.add(run, stage, metric, -1));
            unpassed_after.into_iter().for_each(|(stage, metric)| self.add(run, stage, metric, 1));
        }
        if let Some(record) = &transition.record {
            self.attempt(run, record, tries, transition.anew);
        }
        if let Some(took) = transition.healed {
            self.healed(run, transition.from.stage, took);
        }
    }

    /// Adds a death, where there is one.
    fn died(&mut self, run: RunId, before: Option<DeadMark>, now: Place) {
        if let (None, Some(dead)) = (before, now.dead) {
            self.add(run, now.stage, Metric::Died(dead.reason), 1);
        }
    }

    fn healed(&mut self, run: RunId, stage: StageNo, took: Duration) {
        let ms = millis(took);
        self.add(run, stage, Metric::HealedIn(HealSpan::number(ms.unsigned_abs())), 1);
        self.add(run, stage, Metric::HealMillis, ms);
    }

    fn attempt(&mut self, run: RunId, record: &AttemptRecord, tries: u32, anew: bool) {
        self.count(run, record, Metric::Outcome(record.outcome));
        if record.outcome.is_try() {
            let ms = millis(record.ended_at.since(record.started_at));
            self.add(run, record.stage, Metric::TookIn(HealSpan::number(ms.unsigned_abs())), 1);
            self.add(run, record.stage, Metric::TookMillis, ms);
        }
        if tries > 0 && anew && record.outcome.is_try() {
            self.count(run, record, Metric::TriedAnew);
        }
        if let Some(failure) = &record.failure {
            self.add(run, record.stage, Metric::Failure(failure.class, failure.kind), 1);
            if let Some(status) = failure.status {
                self.add(run, record.stage, Metric::Status(status), 1);
            }
        }
        if record.outcome.is_pass() {
            let uncalled = record.outcome == Outcome::Reused && tries == 0;
            let tries = if uncalled { 0 } else { bucket(tries.saturating_add(1)) };
            self.add(run, record.stage, Metric::PassedAfter(tries), 1);
        }
        if tries == 0 && record.outcome.is_try() {
            self.count(run, record, Metric::FirstTry);
            if record.outcome.is_pass() {
                self.count(run, record, Metric::FirstPass);
            }
        }
        for (metric, n) in record.usage.iter().flat_map(consumed) {
            self.add(run, record.stage, metric, n);
        }
    }

    fn stands(&mut self, run: RunId, place: Place, n: i64) {
        self.add(run, place.stage, Metric::State(place.kind), n);
        if place.awaited {
            self.add(run, place.stage, Metric::Awaited, n);
        }
        if let Some(verdict) = place.verdict {
            self.add(run, place.stage, Metric::Verdict(verdict), n);
        }
        if let Some(DeadMark { reason, class }) = place.dead {
            self.add(run, place.stage, Metric::DeadReason(reason), n);
            if let Some(class) = class {
                self.add(run, place.stage, Metric::DeadClass(class), n);
            }
        }
    }

    /// The changes that are not zero, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = ((RunId, StageNo, Metric), i64)> + '_ {
        self.by_stage.iter().filter(|(_, n)| **n != 0).map(|(key, n)| (*key, *n))
    }

    /// The same for the counters by configuration mark.
    pub fn by_config(&self) -> impl Iterator<Item = ((RunId, StageNo, i64, Metric), i64)> + '_ {
        self.by_config.iter().map(|(key, n)| (*key, *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::WorkerId;
    use crate::time::Timestamp;

    #[test]
    fn every_metric_survives_its_code() {
        let mut all = vec![Metric::Admitted, Metric::HealMillis];
        all.extend([Metric::TokensIn, Metric::TokensOut, Metric::NanoUsd, Metric::UnpricedTokens]);
        all.extend(StateKind::ALL.map(Metric::State));
        all.extend(StateKind::ALL.map(Metric::Purged));
        all.extend(StateKind::ALL.map(Metric::Forgotten));
        all.extend(DeadReason::ALL.map(Metric::DeadReason));
        all.extend(Class::ALL.map(Metric::DeadClass));
        all.extend(Outcome::ALL.map(Metric::Outcome));
        all.extend(Class::ALL.iter().flat_map(|c| Kind::ALL.map(|k| Metric::Failure(*c, k))));
        all.extend([0, 1, 50, 599].map(Metric::Status));
        all.extend([0, 1, 50].map(Metric::PassedAfter));
        all.extend([0, 1, 64].map(Metric::HealedWithin));
        all.extend([1, 50].map(Metric::DeadAfter));
        all.extend([1, 50].map(Metric::OpenAfter));
        all.extend([Metric::FirstTry, Metric::FirstPass, Metric::TriedAnew, Metric::TookMillis]);
        all.extend([0, 16, 487].map(Metric::HealedIn));
        all.extend([0, 16, 487].map(Metric::TookIn));
        all.extend(Verdict::ALL.map(Metric::Verdict));
        all.extend(DeadReason::ALL.map(Metric::Died));
        all.push(Metric::Awaited);
        let codes: std::collections::BTreeSet<_> = all.iter().map(|m| m.code()).collect();
        assert_eq!(codes.len(), all.len(), "codes are distinct");
        all.sort();
        assert!(all.is_sorted_by_key(|metric| metric.code()), "stores list them by their codes");
        for metric in all {
            assert_eq!(Metric::from_code(metric.code()), Some(metric));
        }
        for unknown in [-1, 200_001, 1_100_004, 2_000_003, 2_100_005, 2_200_001, 9_999_999] {
            assert_eq!(Metric::from_code(unknown), None);
        }
    }

    fn record(attempt: u32, usage: Option<Usage>) -> AttemptRecord {
        AttemptRecord {
            generation: 0,
            stage: StageNo(2),
            attempt,
            started_at: Timestamp(0),
            ended_at: Timestamp(1),
            outcome: Outcome::Failed,
            failure: None,
            wait: None,
            worker: WorkerId(1),
            config: 0,
            usage,
            verdict: None,
        }
    }

    fn counted(usages: &[Option<Usage>]) -> Vec<(Metric, i64)> {
        let mut deltas = Deltas::default();
        for (attempt, usage) in (1..).zip(usages) {
            deltas.attempt(RunId(1), &record(attempt, *usage), 1, false);
        }
        let all =
            deltas.iter().inspect(|((run, stage, _), _)| assert_eq!((*run, *stage), (RunId(1), StageNo(2))));
        let all = all.map(|((_, _, metric), n)| (metric, n));
        let other =
            |metric: &Metric| matches!(metric, Metric::Outcome(_) | Metric::TookIn(_) | Metric::TookMillis);
        all.filter(|(metric, _)| !other(metric)).collect()
    }

    fn used(tokens_in: u64, tokens_out: u64, nano_usd: Option<u64>) -> Option<Usage> {
        Some(Usage { tokens_in, tokens_out, nano_usd })
    }

    #[test]
    fn usage_is_added_up_and_tokens_without_a_price_are_told_apart() {
        assert_eq!(counted(&[None, used(0, 0, None), used(0, 0, Some(0))]), []);
        let mixed =
            [used(100, 20, Some(7)), None, used(5, 1, None), used(3, 0, Some(0)), used(0, 9, Some(2))];
        let expected = [
            (Metric::TokensIn, 108),
            (Metric::TokensOut, 30),
            (Metric::NanoUsd, 9),
            (Metric::UnpricedTokens, 6),
        ];
        assert_eq!(counted(&mixed), expected);
    }

    #[test]
    fn sums_that_cannot_be_held_stay_at_the_largest_number() {
        let most = used(u64::MAX, u64::MAX, Some(u64::MAX));
        let unpriced = used(u64::MAX, u64::MAX, None);
        assert!(counted(&[most, unpriced, most, unpriced]).iter().all(|(_, n)| *n == i64::MAX));
        assert_eq!(counted(&[most, unpriced]).len(), 4);
    }
}
