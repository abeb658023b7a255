//! What happened to the calls around one that was turned away.
//!
//! A single call that is turned away says little. A limit that is used up turns away its neighbours too; a service that sheds
//! at random does not; one that takes so many calls at once turns away those that had more beside them than it takes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::{Timestamp, millis};

/// Calls that are remembered.
const KEPT: usize = 192;
/// A call that was not turned away after so many times the time that this usually takes, and a little more, will pass.
const PATIENCE: f64 = 3.0;
/// The little more, in milliseconds.
const LITTLE_MORE: i64 = 20;
/// Calls that pass beside fewer others than those that are turned away before the number beside them is the reason.
const CLEAN: usize = 8;

/// How a call ended, as far as limits go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Passed,
    TurnedAway,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Call {
    no: u64,
    started: Timestamp,
    end: Option<(End, Timestamp)>,
}

impl Call {
    fn was_turned_away(&self) -> bool {
        matches!(self.end, Some((End::TurnedAway, _)))
    }
}

/// How many of some calls passed, and how many were turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) turned_away: usize,
}

impl Counts {
    pub(super) fn all(self) -> usize {
        self.passed + self.turned_away
    }

    /// The share that was turned away.
    #[expect(clippy::cast_precision_loss, reason = "hundreds at most")]
    pub(super) fn share(self) -> f64 {
        self.turned_away as f64 / self.all().max(1) as f64
    }

    /// Whether more were turned away than this share explains, by two standard deviations and half a call.
    #[expect(clippy::cast_precision_loss, reason = "hundreds at most")]
    pub(super) fn exceeds(self, share: f64) -> bool {
        let usual = share * self.all() as f64;
        self.turned_away as f64 > usual + 2.0 * (usual * (1.0 - share)).sqrt() + 0.5
    }
}

/// The last calls of one worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Recent {
    calls: VecDeque<Call>,
    next: u64,
    /// How long it takes to be turned away, in milliseconds.
    refusal: f64,
    /// When a call last passed.
    passed_at: Option<Timestamp>,
}

impl Recent {
    /// A call starts; its number.
    pub(super) fn starts(&mut self, now: Timestamp) -> u64 {
        self.next += 1;
        self.calls.push_back(Call { no: self.next, started: now, end: None });
        if self.calls.len() > KEPT {
            self.calls.pop_front();
        }
        self.next
    }

    fn end(&mut self, no: u64, end: Option<(End, Timestamp)>) {
        let at = self.calls.partition_point(|call| call.no < no);
        let known = self.calls.get_mut(at).filter(|call| call.no == no);
        match (known, end) {
            (Some(call), Some(_)) => call.end = end,
            (Some(_), None) => {
                self.calls.remove(at);
            }
            (None, _) => {}
        }
    }

    /// A call passed.
    pub(super) fn passed(&mut self, no: u64, now: Timestamp) {
        self.end(no, Some((End::Passed, now)));
        self.passed_at = Some(now);
    }

    /// A call was turned away that had started then.
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    pub(super) fn turned_away(&mut self, no: u64, started: Timestamp, now: Timestamp) {
        self.end(no, Some((End::TurnedAway, now)));
        let took = millis(now.since(started)) as f64;
        self.refusal += if took > self.refusal { took - self.refusal } else { 0.1 * (took - self.refusal) };
    }

    /// A call ended in a way that says nothing of limits.
    pub(super) fn unknown(&mut self, no: u64) {
        self.end(no, None);
    }

    /// When a call last passed.
    pub(super) fn passed_at(&self) -> Option<Timestamp> {
        self.passed_at
    }

    /// After how long a call that was not turned away is taken for one that passes.
    #[expect(clippy::cast_possible_truncation, reason = "clamped")]
    pub(super) fn patience(&self) -> Duration {
        let ms = (self.refusal * PATIENCE).clamp(0.0, 2_000.0) as i64 + LITTLE_MORE;
        Duration::from_millis(ms.unsigned_abs())
    }

    fn end_of(&self, call: &Call, now: Timestamp) -> Option<End> {
        let due = || (now >= call.started.after(self.patience())).then_some(End::Passed);
        call.end.map(|(end, _)| end).or_else(due)
    }

    /// How many calls started after that.
    pub(super) fn started_after(&self, at: Timestamp) -> usize {
        self.calls.iter().rev().take_while(|call| call.started > at).count()
    }

    /// What became of the calls that started after that.
    pub(super) fn after(&self, at: Timestamp, now: Timestamp) -> Counts {
        self.count(self.calls.iter().rev().take_while(|call| call.started > at), now)
    }

    /// Whether a call would have been turned away by now, if it were to be.
    fn is_due(&self, call: &Call, now: Timestamp) -> bool {
        call.end.is_some() || now >= call.started.after(self.refused_after())
    }

    /// How long it takes to be turned away.
    #[expect(clippy::cast_possible_truncation, reason = "seconds")]
    fn refused_after(&self) -> Duration {
        Duration::from_millis((self.refusal.max(0.0) as i64).unsigned_abs())
    }

    /// How many calls started after that and would have been turned away by now, if they were to be.
    pub(super) fn due_after(&self, at: Timestamp, now: Timestamp) -> usize {
        let after = self.calls.iter().rev().take_while(|call| call.started > at);
        after.filter(|call| self.is_due(call, now)).count()
    }

    /// What became of the last so many calls of which that is known, or would be if they were turned away.
    pub(super) fn last_due(&self, calls: usize, now: Timestamp) -> Counts {
        let last = self.calls.iter().rev().filter(|call| self.is_due(call, now)).take(calls);
        let (all, turned_away) = last.fold((0, 0), |(all, turned_away), call| {
            (all + 1, turned_away + usize::from(call.was_turned_away()))
        });
        Counts { passed: all - turned_away, turned_away }
    }

    /// What became of the last so many calls that started after `since`, where those that are under way will pass.
    pub(super) fn at_best(&self, calls: usize, since: Timestamp) -> Counts {
        let last = self.calls.iter().rev().filter(|call| call.started > since).take(calls);
        let (all, turned_away) = last.fold((0, 0), |(all, turned_away), call| {
            (all + 1, turned_away + usize::from(call.was_turned_away()))
        });
        Counts { passed: all - turned_away, turned_away }
    }

    /// Whether it is not known yet what becomes of a call that started after the one and not after the other.
    pub(super) fn is_open_between(&self, from: Timestamp, to: Timestamp, now: Timestamp) -> bool {
        let mut calls = self.calls.iter().rev().take_while(|call| call.started > from);
        calls.any(|call| call.started <= to && self.end_of(call, now).is_none())
    }

    /// What became of the last so many calls that started after `since`.
    pub(super) fn last(&self, calls: usize, since: Timestamp, now: Timestamp) -> Counts {
        self.count(self.calls.iter().rev().filter(|call| call.started > since).take(calls), now)
    }

    fn count<'a>(&self, calls: impl Iterator<Item = &'a Call>, now: Timestamp) -> Counts {
        let mut counts = Counts::default();
        for call in calls {
            match self.end_of(call, now) {
                Some(End::Passed) => counts.passed += 1,
                Some(End::TurnedAway) => counts.turned_away += 1,
                None => {}
            }
        }
        counts
    }

    /// How often one of the last so many calls ended otherwise than the one that started before it.
    pub(super) fn changes(&self, calls: usize, now: Timestamp) -> usize {
        let ends: Vec<End> =
            self.calls.iter().rev().filter_map(|call| self.end_of(call, now)).take(calls).collect();
        ends.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    /// Calls that are under way and will pass.
    pub(super) fn worked_on(&self, now: Timestamp) -> usize {
        self.calls.iter().filter(|call| call.end.is_none() && self.end_of(call, now).is_some()).count()
    }

    /// Whether a call has been under way for longer than it takes to be turned away.
    pub(super) fn is_working(&self, now: Timestamp) -> bool {
        let long = self.refused_after() * 2;
        self.calls.iter().any(|call| call.end.is_none() && now > call.started.after(long))
    }

    /// How many calls at once pass, where those that are turned away are the ones beside which as many are being worked on.
    pub(super) fn borne_at_once(&self, now: Timestamp) -> Option<usize> {
        let lately = || self.calls.iter().rev().filter(|call| call.was_turned_away()).take(24);
        let first = lately().last()?.started;
        let most = lately().map(|call| self.beside(call, now)).min().filter(|most| *most > 0)?;
        let (mut below, mut above) = (0, Counts::default());
        for call in self.calls.iter().filter(|call| call.started > first) {
            match (self.end_of(call, now), self.beside(call, now) >= most) {
                (Some(End::Passed), false) => below += 1,
                (Some(End::Passed), true) => above.passed += 1,
                (Some(End::TurnedAway), _) => above.turned_away += 1,
                (None, _) => {}
            }
        }
        let clean = below >= CLEAN.min(2 * most);
        (clean && above.turned_away >= 2 && above.turned_away > 2 * above.passed).then_some(most)
    }

    /// How many calls that pass were being worked on when it was decided about this one, as far as can be told.
    fn beside(&self, call: &Call, now: Timestamp) -> usize {
        let decided = match call.end {
            Some((End::TurnedAway, at)) => at,
            _ => call.started.after(self.refused_after()),
        };
        let passes =
            |other: &&Call| self.is_due(other, now) && !other.was_turned_away() && other.no != call.no;
        let there =
            |other: &&Call| other.started <= decided && other.end.is_none_or(|(_, ended)| ended > decided);
        self.calls.iter().filter(passes).filter(there).count()
    }

    /// Forgets everything but how long it takes to be turned away.
    pub(super) fn forget(&mut self) {
        *self = Self { next: self.next, refusal: self.refusal, ..Self::default() };
    }
}
