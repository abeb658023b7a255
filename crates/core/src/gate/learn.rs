//! What a call that ended teaches.

use std::time::Duration;

use super::{Breaker, Gate, LimitKind, Limits, Paused, PausedBy, Permit, window};
use crate::id::ItemId;
use crate::time::Timestamp;

/// How often a parked dependency is tried out when its gate has no breaker.
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// How a call ended, as its gate sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sign<'a> {
    /// It was answered, if only with a refusal that is about the items: the dependency is there.
    Answered,
    /// It was turned away because there were too many.
    Throttled {
        /// How long the dependency wants to be left alone.
        hint: Option<Duration>,
    },
    /// So many calls failed because of the dependency.
    Failed {
        /// How many, where a batch was taken apart.
        calls: u32,
        /// Whether they got lost, as calls do where a dependency is overloaded, and now and then where it is not.
        lost: bool,
        /// Whether items were among them that had not failed before.
        fresh: bool,
    },
    /// Credit is exhausted.
    Quota {
        /// In the dependency's words.
        why: &'a str,
    },
    /// It was refused as if the key were not good, which may be about the items after all.
    Refused {
        /// In the dependency's words.
        why: &'a str,
        /// The items.
        items: &'a [ItemId],
    },
    /// It says nothing about the dependency.
    Neutral,
}

/// What one call taught.
#[derive(Debug, Clone, Copy)]
pub struct Lesson<'a> {
    /// How it ended.
    pub sign: Sign<'a>,
    /// Tokens it consumed, where the dependency said so.
    pub tokens: Option<u64>,
    /// What the dependency said about its limits.
    pub limits: Limits,
}

/// Calls that failed because of the dependency: see [`Sign::Failed`].
#[derive(Debug, Clone, Copy)]
struct Failed {
    calls: u32,
    lost: bool,
    fresh: bool,
}

/// Whether something changed that people should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// It waits for somebody: the reason.
    Paused(String),
    /// The dependency is away.
    Away,
    /// It is back.
    Back,
    /// It asked to be left alone for longer than is granted.
    Parked(Duration),
}

impl Gate {
    /// A call was broken off; it taught nothing.
    pub fn broken_off(&mut self, permit: Permit) {
        self.under_way = self.under_way.saturating_sub(1);
        self.recent.unknown(permit.no);
        self.give_back_probe(permit);
    }

    /// A probe that taught nothing is made again.
    fn give_back_probe(&mut self, permit: Permit) {
        if permit.probe && std::mem::take(&mut self.probing) {
            // Not later than it would be anyway: the clock may have been put back since the call started.
            let at = |until: &mut Timestamp| *until = (*until).min(permit.started);
            at(&mut self.shared.breaker.probe_at);
            self.shared.parked.iter_mut().for_each(|parked| at(&mut parked.until));
        }
    }

    /// A call ended.
    pub fn ended(&mut self, permit: Permit, lesson: &Lesson<'_>, now: Timestamp) -> Option<Notice> {
        let under_way = self.under_way;
        self.under_way = under_way.saturating_sub(1);
        self.dirty = true;
        self.correct_tokens(permit, lesson.tokens);
        self.shared.told.hear(&lesson.limits.within(self.spec.hint_cap), now);
        match lesson.sign {
            Sign::Answered => self.recent.passed(permit.no, now),
            Sign::Throttled { .. } => {}
            Sign::Failed { .. } | Sign::Quota { .. } | Sign::Refused { .. } | Sign::Neutral => {
                self.recent.unknown(permit.no);
            }
        }
        match lesson.sign {
            Sign::Answered => self.answered(permit, under_way, now),
            Sign::Throttled { hint } => self.throttled(permit, hint, now),
            Sign::Failed { calls, lost, fresh } => {
                if lost {
                    self.lost(permit, now);
                } else {
                    self.losses.came_back();
                }
                self.failed(permit, Failed { calls, lost, fresh }, now)
            }
            Sign::Refused { why, items } => {
                self.shared.totals.throttled += 1;
                let back = self.is_there(permit, now);
                let of_key = self.refusals.refused(items, now);
                if of_key { self.pause(why, now) } else { back }
            }
            Sign::Quota { why } => {
                self.shared.totals.throttled += 1;
                self.is_there(permit, now);
                self.pause(why, now)
            }
            Sign::Neutral => {
                self.give_back_probe(permit);
                None
            }
        }
    }

    /// A call passed, beside so many that were under way with it.
    fn answered(&mut self, permit: Permit, under_way: usize, now: Timestamp) -> Option<Notice> {
        let seconds = now.since(permit.started).as_secs_f64();
        self.shared.totals.passed += 1;
        self.losses.came_back();
        self.refusals.passed(permit.started);
        self.passed.count(now);
        let all = 1.0 / self.share(now);
        if let Some(cut) = &mut self.since_cut {
            cut.passed += all;
        }
        if permit.started > self.judged_at {
            self.shared.rate.passed();
        }
        let most = f64::from(self.spec.max_concurrency);
        // Only one that is used up is too small.
        let binding = under_way >= self.places(now);
        #[expect(clippy::cast_precision_loss, reason = "a few thousand calls at most")]
        let under_way = under_way as f64 * all;
        let paced = self.request_rate(now).is_finite();
        let frozen = self.inquiry.is_some() || self.trial.is_some();
        let passed = window::Passed { seconds, under_way, binding: binding && !frozen, most, paced };
        if self.shared.window.passed(&passed, now) {
            self.shared.evidence.find(LimitKind::Overload, now);
        }
        if paced {
            // It is the rate that is known: there are places enough for it.
            let rate = self.request_rate(now) * all;
            self.shared.window.at_least((rate * self.shared.window.rtt * 1.5 + 1.0).min(most));
        }
        self.passed_since_open += all;
        self.shut_since = None;
        self.shared.evidence.meets(false);
        self.shared.breaker.resumed = false;
        if let Some(spec) = &self.spec.breaker {
            self.lately.answered(spec, now);
        }
        self.look_again(now);
        self.is_there(permit, now)
    }

    /// A call got lost: the window shrinks when too many do, or when calls take longer as well.
    fn lost(&mut self, permit: Permit, now: Timestamp) {
        let too_many = self.losses.is_too_many();
        if permit.started > self.shared.window.cut_at && (too_many || self.shared.window.is_slower()) {
            self.shared.window.cut(1.0, now);
            self.losses.forget();
        }
    }

    /// Whether a call for one item that is refused as if the key were not good is so because of the item.
    #[must_use]
    pub fn blames(&self, item: ItemId) -> bool {
        self.refusals.blame(item)
    }

    /// What was estimated before the call is put right afterwards.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn correct_tokens(&mut self, permit: Permit, used: Option<u64>) {
        if let Some(used) = used {
            self.tokens.take(used as f64 - permit.tokens as f64);
            self.shared.totals.tokens = self.shared.totals.tokens.saturating_add(used);
        }
    }

    /// The dependency answered: it is not away.
    pub(super) fn is_there(&mut self, permit: Permit, now: Timestamp) -> Option<Notice> {
        let probe = permit.probe;
        self.probing &= !probe;
        self.shared.closed.take_if(|closed| closed.until <= now);
        let parked = self.shared.parked.take_if(|_| probe);
        if let Some(parked) = &parked {
            self.shared.tried_out = self.shared.tried_out.max(parked.since);
        }
        let parked = parked.is_some();
        // What was on its way before says nothing of what is now.
        let away = self.shared.breaker.away_since.is_some_and(|since| probe || permit.started > since);
        if !away && !parked {
            return None;
        }
        self.shared.breaker.close(now);
        self.lately.forget();
        self.shared.window.ramp(now);
        self.urgent = true;
        away.then_some(Notice::Back)
    }

    fn pause(&mut self, why: &str, now: Timestamp) -> Option<Notice> {
        if self.shared.pause.is_some() {
            return None;
        }
        self.shared.pause = Some(Paused { by: PausedBy::Quota, why: why.to_owned(), since: now });
        self.urgent = true;
        Some(Notice::Paused(why.to_owned()))
    }

    fn failed(&mut self, permit: Permit, failed: Failed, now: Timestamp) -> Option<Notice> {
        let Failed { calls, lost, fresh } = failed;
        self.shared.totals.failed += u64::from(calls.max(1));
        if self.shared.breaker.resumed && !lost {
            // Somebody looked at it and let it go on: what it answers is its answer.
            return self.is_there(permit, now);
        }
        let probe_failed = permit.probe && std::mem::take(&mut self.probing);
        if probe_failed {
            self.shared.breaker.probes = self.shared.breaker.probes.saturating_add(1);
            let wait = self.probe_wait(!lost);
            self.probe_again(self.spread(wait, now), now);
            self.urgent = true;
        }
        let spec = self.spec.breaker.clone()?;
        let was_away = self.shared.breaker.away_since.is_some();
        let opens = self.lately.failed(&spec, calls.max(1), fresh, now) && !was_away;
        if opens {
            let wait = Breaker::default().wait(&spec, false);
            self.shared.breaker.open(self.spread(wait, now), now);
            self.urgent = true;
        }
        opens.then_some(Notice::Away)
    }

    /// How long after a call that tried the dependency out in vain another one does.
    fn probe_wait(&self, answers: bool) -> Duration {
        match &self.spec.breaker {
            Some(spec) if self.shared.breaker.away_since.is_some() => self.shared.breaker.wait(spec, answers),
            _ => self.probe_every(),
        }
    }

    /// How long after a call that tries the dependency out another one may at the latest, whatever became of it.
    pub(super) fn probe_every(&self) -> Duration {
        self.spec.breaker.as_ref().map_or(PROBE_EVERY, |spec| spec.open_for)
    }

    /// The next call that tries the dependency out starts after this time, whoever makes it.
    pub(super) fn probe_again(&mut self, after: Duration, now: Timestamp) {
        let at = now.after(after);
        if self.shared.breaker.away_since.is_some() {
            (self.shared.breaker.probe_at, self.shared.breaker.changed_at) = (at, now);
        }
        if let Some(parked) = &mut self.shared.parked {
            (parked.until, parked.decided_at) = (at, now);
        }
    }

    /// Whether the dependency is to blame for what fails now, rather than the items.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.spec.breaker.is_some() && self.shared.breaker.away_since.is_some()
    }
}
