//! What must hold whatever happens, as predicates.
//!
//! The same functions are used after every commit of a simulated run, in tests of the real binary, and by
//! `redrive check`. Some laws are about a course of events rather than a state (L7, L8, L9, L12): what a state can show of
//! them is checked here, and the simulation checks the rest.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::attempt::{AttemptRecord, Outcome};
use crate::decide::rescheduled;
use crate::event::{ChildTally, Mark, Place};
use crate::id::{ItemId, RunId, StageNo};
use crate::item::{DeadReason, Item, State, StateKind};
use crate::plan::Plan;
use crate::policy::Cause;
use crate::tally::{Counter, Metric, consumed, place, unpassed};
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// The laws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Law {
    /// Admitted = the sum of the states and of what was purged, and every purged item left its tombstone.
    L1,
    /// Attempt numbers are given at claim, without gaps.
    L2,
    /// An outcome is one transaction: no state without the attempt or mark that led to it.
    L3,
    /// Failures, throttles and crashes are counted apart, and each stays within its limit.
    L4,
    /// A stage's output is durable before the next stage starts.
    L5,
    /// The new version is there before the old one goes.
    L6,
    /// A due item runs without new work having to arrive.
    L7,
    /// No lane starves.
    L8,
    /// A clean stop costs no attempt.
    L9,
    /// A dead item holds nothing.
    L10,
    /// A parent's state follows from its children.
    L11,
    /// No wait is longer than what was decided, whatever the clock does, and every run ends.
    L12,
}

impl Law {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::L1,
        Self::L2,
        Self::L3,
        Self::L4,
        Self::L5,
        Self::L6,
        Self::L7,
        Self::L8,
        Self::L9,
        Self::L10,
        Self::L11,
        Self::L12,
    ];

    /// The law in a sentence.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::L1 => "every admitted item is in exactly one state, or was purged and left its tombstone",
            Self::L2 => "attempt numbers have no gaps",
            Self::L3 => "every state has the attempt or mark that led to it",
            Self::L4 => "failures, throttles and crashes are counted apart and within their limits",
            Self::L5 => "no stage was entered before the one before it was passed",
            Self::L6 => "a superseded version has a successor",
            Self::L7 => "everything that waits has a time at which it goes on",
            Self::L8 => "nothing waits past its deadline",
            Self::L9 => "interrupted attempts spent nothing",
            Self::L10 => "dead items hold nothing",
            Self::L11 => "parents stand as their children do",
            Self::L12 => "no wait is longer than what was decided",
        }
    }
}

impl Law {
    /// What of the law is about a course of events, which a store at rest cannot show; the simulation checks that.
    #[must_use]
    pub fn beyond_a_store_at_rest(self) -> Option<&'static str> {
        match self {
            Self::L1 => Some("that every line of the source was admitted: only the source knows its lines"),
            Self::L7 => Some("that a due item really ran within a tick"),
            Self::L8 => Some("that each lane got its share while both had work"),
            Self::L9 => Some("that a stop left nothing held"),
            Self::L12 => {
                Some("that a wait begins anew where the clock was put back, and that every run ends")
            }
            Self::L2 | Self::L3 | Self::L4 | Self::L5 | Self::L6 | Self::L10 | Self::L11 => None,
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A broken law.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which law.
    pub law: Law,
    /// Whose.
    pub item: Option<ItemId>,
    /// In what way.
    pub what: String,
}

/// Everything the laws look at for one item.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The item.
    pub item: &'a Item,
    /// Its attempts.
    pub attempts: &'a [AttemptRecord],
    /// The other marks in its history.
    pub marks: &'a [Mark],
    /// Its pipeline, where it is known.
    pub plan: Option<&'a Plan>,
    /// How its children stand.
    pub children: ChildTally,
    /// Whether another version of its key is there.
    pub has_successor: bool,
}

/// Checks one item against every law that can be told from it.
#[must_use]
pub fn check_item(case: &Case<'_>) -> Vec<Violation> {
    let mut broken = Vec::new();
    let mut complain = |law: Law, what: Option<String>| {
        broken.extend(what.map(|what| Violation { law, item: Some(case.item.id), what }));
    };
    complain(Law::L2, attempts_without_gaps(case));
    complain(Law::L3, state_with_its_cause(case));
    complain(Law::L3, verdicts_as_found(case));
    complain(Law::L3, handed_over_as_it_stands(case.item));
    complain(Law::L4, counters_apart(case));
    complain(Law::L5, stages_in_order(case));
    complain(Law::L6, superseded_by_another(case));
    complain(Law::L7, waits_for_a_time(case.item));
    complain(Law::L9, interruptions_are_free(case));
    complain(Law::L10, dead_holds_nothing(case));
    complain(Law::L11, parent_as_children(case));
    complain(Law::L12, waits_as_decided(case));
    broken
}

/// The attempts of the present stage and generation.
fn present<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a AttemptRecord> {
    let (stage, generation) = (case.item.stage, case.item.generation);
    case.attempts.iter().filter(move |row| row.stage == stage && row.generation == generation)
}

fn attempts_without_gaps(case: &Case<'_>) -> Option<String> {
    let mut by_place: BTreeMap<(u32, StageNo), Vec<u32>> = BTreeMap::new();
    for row in case.attempts {
        by_place.entry((row.generation, row.stage)).or_default().push(row.attempt);
    }
    for ((generation, stage), mut numbers) in by_place {
        numbers.sort_unstable();
        let gap = numbers.iter().zip(1..).find(|(number, expected)| **number != *expected);
        if let Some((number, expected)) = gap {
            return Some(format!(
                "attempt {number} of stage {} in generation {generation} where {expected} was to come",
                stage.0
            ));
        }
    }
    let running = u32::from(matches!(case.item.state, State::Running { .. }) || case.item.handed.is_some());
    let recorded = u32::try_from(present(case).count()).unwrap_or(u32::MAX);
    (recorded + running != case.item.attempt)
        .then(|| format!("{recorded} attempts recorded and {running} open, but {} given", case.item.attempt))
}

fn state_with_its_cause(case: &Case<'_>) -> Option<String> {
    let last = present(case).max_by_key(|row| row.attempt).map(|row| row.outcome);
    let marked = |names: &[&str]| case.marks.iter().any(|mark| names.contains(&mark.what));
    let fits = match &case.item.state {
        State::Waiting { .. } | State::Running { .. } => true,
        State::Joining => last == Some(Outcome::Expanded) || marked(&["reopened"]),
        State::Succeeded => last.is_some_and(Outcome::is_pass) || marked(&["joined"]),
        State::Filtered { .. } => last == Some(Outcome::Filtered),
        State::Superseded { .. } => marked(&["superseded", "removed", "reconfigured", "rerun"]),
        State::Cancelled => marked(&["cancelled"]),
        State::Dead { reason: DeadReason::Final | DeadReason::Exhausted } => {
            last == Some(Outcome::Failed)
                || marked(&["joined"])
                || (case.item.attempt == 0 && case.item.last.is_some())
        }
        State::Dead { reason: DeadReason::Quarantined } => last == Some(Outcome::Crashed),
        State::Dead { reason: DeadReason::Expired } => last.is_some() || marked(&["expired"]),
        State::Dead { reason: DeadReason::Operator } => marked(&["killed"]),
    };
    (!fits).then(|| format!("it is {}, but its last attempt ended as {last:?}", case.item.state.kind()))
}

/// Only an item that waits for an answer, or is looked after for it, is handed over; and none waits for one that is not.
fn handed_over_as_it_stands(item: &Item) -> Option<String> {
    let fits = match item.state {
        State::Waiting { cause, .. } => (cause == Some(Cause::Answer)) == item.handed.is_some(),
        State::Running { .. } => true,
        State::Joining
        | State::Succeeded
        | State::Filtered { .. }
        | State::Superseded { .. }
        | State::Cancelled
        | State::Dead { .. } => item.handed.is_none(),
    };
    let kind = item.state.kind();
    (!fits).then(|| match item.handed {
        Some(_) => format!("it is {kind}, and still handed over"),
        None => "it waits for an answer, and was not handed over".to_owned(),
    })
}

/// What is kept of what stages found is what their last attempts say, and of a stage that is still to be passed nothing is kept.
fn verdicts_as_found(case: &Case<'_>) -> Option<String> {
    let item = case.item;
    let mut stages: BTreeMap<StageNo, (u32, u32, Option<Verdict>)> = BTreeMap::new();
    for row in case.attempts.iter().filter(|row| row.outcome.is_pass()) {
        let seen = stages.entry(row.stage).or_insert((row.generation, row.attempt, row.verdict));
        if (row.generation, row.attempt) >= (seen.0, seen.1) {
            *seen = (row.generation, row.attempt, row.verdict);
        }
    }
    let found = |stage: StageNo| stages.get(&stage).and_then(|(_, _, verdict)| *verdict);
    let expected = |stage: StageNo| match &item.state {
        _ if stage < item.stage => found(stage),
        State::Succeeded if stage == item.stage => found(stage),
        // What is taken out may have succeeded before, or may have been about to go again.
        State::Superseded { .. } if stage == item.stage => item.verdicts.of(stage),
        _ => None,
    };
    let all = stages.keys().copied().chain(item.verdicts.stages());
    let wrong = all.into_iter().find(|stage| item.verdicts.of(*stage) != expected(*stage))?;
    let (kept, told) = (item.verdicts.of(wrong), expected(wrong));
    Some(format!("the verdict of stage {} is kept as {kept:?}, and its attempts say {told:?}", wrong.0))
}

fn counters_apart(case: &Case<'_>) -> Option<String> {
    let count = |outcome: Outcome| {
        u32::try_from(present(case).filter(|row| row.outcome == outcome).count()).unwrap_or(u32::MAX)
    };
    let item = case.item;
    let told = [
        ("failures", item.failures, count(Outcome::Failed)),
        ("throttles", item.throttles, count(Outcome::Throttled)),
        ("crashes", item.crashes, count(Outcome::Crashed)),
    ];
    if let Some((name, kept, counted)) = told.into_iter().find(|(_, kept, counted)| kept != counted) {
        return Some(format!("{kept} {name} kept, {counted} recorded"));
    }
    let stage = case.plan?.stage(item.stage)?;
    // A stage's policy may have been changed since; the limit then holds from the next failure on.
    if present(case).any(|row| row.config != stage.config) {
        return None;
    }
    let over = stage.policy_of(item).most_failures().is_some_and(|most| item.failures > most.get());
    if over {
        return Some(format!("{} failures, more than max_attempts", item.failures));
    }
    let most = stage.policy_of(item).most_crashes().get();
    (item.crashes > most).then(|| format!("{} crashes, more than {most}", item.crashes))
}

fn stages_in_order(case: &Case<'_>) -> Option<String> {
    let plan = case.plan?;
    let here = plan.stage(case.item.stage)?;
    for (no, stage) in plan.stages() {
        let before = stage.owner == here.owner && no < case.item.stage;
        let passed = || case.attempts.iter().any(|row| row.stage == no && row.outcome.is_pass());
        if before && !passed() {
            return Some(format!("it is at {} without having passed {}", here.name, stage.name));
        }
    }
    None
}

fn superseded_by_another(case: &Case<'_>) -> Option<String> {
    let superseded = matches!(case.item.state, State::Superseded { .. }) && case.item.parent.is_none();
    let gone = superseded && !left_its_source(case.marks) && !case.has_successor;
    gone.then(|| "it was superseded, but no other version of its key is there".to_owned())
}

/// Whether a superseded item needs no successor: it left its source, or is about to be read again.
#[must_use]
pub fn left_its_source(marks: &[Mark]) -> bool {
    marks.last().is_some_and(|mark| matches!(mark.what, "removed" | "reconfigured" | "rerun"))
}

fn waits_for_a_time(item: &Item) -> Option<String> {
    match item.state {
        State::Waiting { due, .. } if due == Timestamp::MAX => Some("it waits for ever".to_owned()),
        _ => None,
    }
}

fn interruptions_are_free(case: &Case<'_>) -> Option<String> {
    let rows = u32::try_from(present(case).count()).unwrap_or(u32::MAX);
    let free =
        present(case).filter(|row| matches!(row.outcome, Outcome::Interrupted | Outcome::Cancelled)).count();
    let spent = case.item.failures + case.item.throttles + case.item.crashes;
    let free = u32::try_from(free).unwrap_or(u32::MAX);
    (spent.saturating_add(free) > rows)
        .then(|| format!("{rows} attempts, {free} of them broken off, but {spent} were charged"))
}

fn dead_holds_nothing(case: &Case<'_>) -> Option<String> {
    let gone = match case.item.state.kind() {
        StateKind::Dead | StateKind::Cancelled | StateKind::Superseded => true,
        StateKind::Waiting
        | StateKind::Running
        | StateKind::Joining
        | StateKind::Succeeded
        | StateKind::Filtered => false,
    };
    (gone && case.children.live > 0)
        .then(|| format!("it is {}, and {} of its children live", case.item.state.kind(), case.children.live))
}

fn parent_as_children(case: &Case<'_>) -> Option<String> {
    match case.item.state.kind() {
        StateKind::Succeeded | StateKind::Filtered if case.children.live > 0 => {
            Some(format!("it is {}, and {} of its children live", case.item.state.kind(), case.children.live))
        }
        _ => None,
    }
}

/// Whether somebody has told it when to go. A clock that was put back since has begun that wait anew.
fn is_rescheduled(case: &Case<'_>) -> bool {
    let stage = case.plan.and_then(|plan| plan.stage(case.item.stage)).map_or("", |stage| &stage.name);
    let last = case.marks.iter().rfind(|mark| mark.what != "stepped");
    last.is_some_and(|mark| {
        mark.what == "rescheduled" && *mark.detail == *rescheduled(stage, case.item.attempt)
    })
}

/// A wait is counted from the item's last change: a clock that was put back begins it anew, and writes that down.
fn waits_as_decided(case: &Case<'_>) -> Option<String> {
    let item = case.item;
    let State::Waiting { due, .. } = item.state else { return None };
    if let Some(handed) = &item.handed {
        let longer = due > handed.until;
        return longer.then(|| "it waits for longer than its answer is awaited".to_owned());
    }
    if is_rescheduled(case) {
        return None;
    }
    let last = present(case).max_by_key(|row| row.attempt);
    let decided = match last {
        Some(row) => row.wait.map_or(Duration::ZERO, |(wait, _)| wait),
        // Whoever sends items back may spread them over any time.
        None if item.generation > 0 => return None,
        None => Duration::ZERO,
    };
    // Times are kept in whole milliseconds.
    let waits = due.since(item.updated_at);
    (waits > decided + Duration::from_millis(1)).then(|| {
        format!(
            "it waits {} ms from its last change, and {} ms were decided",
            waits.as_millis(),
            decided.as_millis()
        )
    })
}

/// Counts items and attempts anew, to be compared with the kept counters (law L1).
#[derive(Debug, Clone, Default)]
pub struct Census {
    counted: BTreeMap<(RunId, StageNo, Metric), i64>,
    tombstones: BTreeMap<RunId, i64>,
    /// Tombstones that do not tell where their item stood.
    unplaced: bool,
}

impl Census {
    /// Counts an item and its attempts.
    pub fn observe(&mut self, item: &Item, attempts: &[AttemptRecord]) {
        let mut add = |stage: StageNo, metric: Metric, n: i64| {
            let sum = self.counted.entry((item.run, stage, metric)).or_default();
            *sum = sum.saturating_add(n);
        };
        let stands = place(item);
        add(item.stage, Metric::State(stands.kind), 1);
        if let Some(unpassed) = unpassed(stands.kind, item.tries()) {
            add(item.stage, unpassed, 1);
        }
        if stands.awaited {
            add(item.stage, Metric::Awaited, 1);
        }
        if let Some(verdict) = stands.verdict {
            add(item.stage, Metric::Verdict(verdict), 1);
        }
        if let Some(dead) = stands.dead {
            add(item.stage, Metric::DeadReason(dead.reason), 1);
            if let Some(class) = dead.class {
                add(item.stage, Metric::DeadClass(class), 1);
            }
        }
        for row in attempts {
            add(row.stage, Metric::Outcome(row.outcome), 1);
            for (metric, n) in row.usage.iter().flat_map(consumed) {
                add(row.stage, metric, n);
            }
        }
    }

    /// Counts a tombstone; `was` is where its item stood, which those of old stores do not tell.
    pub fn observe_tombstone(&mut self, run: RunId, was: Option<Place>) {
        *self.tombstones.entry(run).or_default() += 1;
        match was {
            Some(was) => {
                *self.counted.entry((run, was.stage, Metric::Purged(was.kind))).or_default() += 1;
            }
            None => self.unplaced = true,
        }
    }

    /// Compares with the kept counters of one run.
    #[must_use]
    pub fn compare(&self, run: RunId, kept: &[Counter]) -> Vec<Violation> {
        let sum = |wanted: &dyn Fn(Metric) -> bool| -> i64 {
            kept.iter().filter(|counter| wanted(counter.metric)).map(|counter| counter.n).sum()
        };
        let purged = sum(&|metric| matches!(metric, Metric::Purged(_)));
        let forgotten = sum(&|metric| matches!(metric, Metric::Forgotten(_)));
        let gone = purged + forgotten;
        let mut broken = Vec::new();
        let mut differ = |what: String| broken.push(Violation { law: Law::L1, item: None, what });
        let kept_now: BTreeMap<_, _> =
            kept.iter().map(|counter| ((run, counter.stage, counter.metric), counter.n)).collect();
        let keys = kept_now.keys().chain(self.counted.keys().filter(|(of, _, _)| *of == run));
        let mut keys: Vec<_> = keys.filter(|(_, _, metric)| self.comparable(*metric, gone)).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let (kept, counted) = (kept_now.get(key).unwrap_or(&0), self.counted.get(key).unwrap_or(&0));
            if kept != counted {
                differ(format!("run {run}, stage {}, {:?}: {kept} kept, {counted} counted", key.1.0, key.2));
            }
        }
        if let Some(violation) = check_conserved(run, kept) {
            differ(violation.what);
        }
        let tombstones = self.tombstones.get(&run).copied().unwrap_or(0);
        if tombstones != purged {
            differ(format!("run {run}: {purged} purged, but {tombstones} tombstones"));
        }
        broken
    }

    /// Attempts go with the items that are purged, so their counters can only be compared while none was.
    fn comparable(&self, metric: Metric, gone: i64) -> bool {
        match metric {
            Metric::State(_)
            | Metric::DeadReason(_)
            | Metric::DeadClass(_)
            | Metric::Verdict(_)
            | Metric::Awaited => true,
            Metric::Purged(_) => !self.unplaced,
            Metric::Outcome(_)
            | Metric::DeadAfter(_)
            | Metric::OpenAfter(_)
            | Metric::TokensIn
            | Metric::TokensOut
            | Metric::NanoUsd
            | Metric::UnpricedTokens => gone == 0,
            Metric::Admitted
            | Metric::Forgotten(_)
            | Metric::Failure(..)
            | Metric::Status(_)
            | Metric::PassedAfter(_)
            | Metric::HealedWithin(_)
            | Metric::HealedIn(_)
            | Metric::HealMillis
            | Metric::FirstTry
            | Metric::FirstPass
            | Metric::TriedAnew
            | Metric::TookIn(_)
            | Metric::TookMillis
            | Metric::Died(_) => false,
        }
    }
}

/// Checks by the kept counters of a run alone that what was admitted is in a state or was purged (law L1).
#[must_use]
pub fn check_conserved(run: RunId, kept: &[Counter]) -> Option<Violation> {
    let sum = |wanted: &dyn Fn(Metric) -> bool| -> i64 {
        kept.iter().filter(|counter| wanted(counter.metric)).map(|counter| counter.n).sum()
    };
    let admitted = sum(&|metric| metric == Metric::Admitted);
    let states = sum(&|metric| matches!(metric, Metric::State(_)));
    let gone = sum(&|metric| matches!(metric, Metric::Purged(_) | Metric::Forgotten(_)));
    (admitted != states + gone).then(|| Violation {
        law: Law::L1,
        item: None,
        what: format!("run {run}: {admitted} admitted, but {states} in a state and {gone} purged"),
    })
}

/// Checks that a waiting item is not left past its deadline by a lane that starves (law L8).
#[must_use]
pub fn check_starved(item: &Item, now: Timestamp, grace_ms: i64) -> Option<Violation> {
    let deadline = item.deadline?;
    let left = matches!(item.state, State::Waiting { .. }) && now.0 > deadline.0.saturating_add(grace_ms);
    left.then(|| Violation {
        law: Law::L8,
        item: Some(item.id),
        what: format!("it still waits, though its deadline was {deadline}"),
    })
}
