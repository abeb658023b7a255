//! What a call that ended teaches.

use std::time::Duration;

use super::rate::Seen;
use super::{Closed, Gate, Limits, Paused, PausedBy, Permit, window};
use crate::id::ItemId;
use crate::time::{Timestamp, millis};

/// How long it closes by itself at first.
const FIRST_CLOSING: Duration = Duration::from_millis(250);
/// How long it closes by itself at most.
const LONGEST_CLOSING: Duration = Duration::from_secs(60);
/// A shorter time between two calls that were turned away tells nothing of a rate, in seconds.
const SHORTEST_BETWEEN: f64 = 1.0;
/// How often a parked dependency is tried out when its gate has no breaker.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// A pause at least this long makes calls begin slowly afterwards.
const LONG_PAUSE: Duration = Duration::from_secs(10);

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
        let seconds = now.since(permit.started).as_secs_f64();
        match lesson.sign {
            Sign::Answered => {
                self.shared.totals.passed += 1;
                self.losses.came_back();
                self.refusals.passed(permit.started);
                self.passed.count(now);
                let all = 1.0 / self.share(now);
                if let Some((_, passed)) = &mut self.since_cut {
                    *passed += all;
                }
                if permit.started > self.shared.rate.cut_at {
                    self.shared.rate.passed();
                }
                let most = f64::from(self.spec.max_concurrency);
                // Only one that is used up is too small.
                let binding = under_way >= self.places(now);
                #[expect(clippy::cast_precision_loss, reason = "a few thousand calls at most")]
                let under_way = under_way as f64 * all;
                self.shared.window.passed(&window::Passed { seconds, under_way, binding, most }, now);
                if permit.made_up {
                    self.make_up = (self.make_up + 0.002).min(1.0);
                }
                if let Some(spec) = &self.spec.breaker {
                    self.lately.answered(spec, now);
                }
                self.is_there(permit, now)
            }
            Sign::Throttled { hint } => self.throttled(permit, hint, now),
            Sign::Failed { calls, lost, fresh } => {
                if lost {
                    self.lost(permit, now);
                } else {
                    self.losses.came_back();
                }
                self.failed(permit, calls, fresh, now)
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
    fn is_there(&mut self, permit: Permit, now: Timestamp) -> Option<Notice> {
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

    fn throttled(&mut self, permit: Permit, hint: Option<Duration>, now: Timestamp) -> Option<Notice> {
        self.shared.totals.throttled += 1;
        let known = self.shared.parked.is_some() && !permit.probe;
        let back = self.is_there(permit, now);
        let rtt = self.shared.window.rtt;
        let granted = hint.map(|hint| hint.min(self.spec.hint_cap));
        let parked = hint.filter(|hint| *hint > self.spec.hint_cap);
        // Calls that had started before the last cut belong to the burst it was for.
        let seen = self.seen(rtt, granted, now);
        if permit.started > self.shared.rate.cut_at && !self.shared.rate.is_no_use(&seen, now) {
            if permit.made_up {
                self.make_up /= 2.0;
            }
            self.requests.empty();
            let in_a_row = self.shared.rate.cuts_in_a_row;
            if in_a_row > 0 {
                // Not one call has passed since the last cut: going slower does not help, leaving it alone may.
                self.shared.rate.cut_again(now);
                let closing = FIRST_CLOSING * (1 << (in_a_row - 1).min(8));
                // A service that says how long is not second-guessed for much longer than that.
                let most = granted.map_or(LONGEST_CLOSING, |granted| {
                    (granted * 8).clamp(FIRST_CLOSING * 8, LONGEST_CLOSING)
                });
                self.close(closing.min(most), None, now);
            } else if now.since(self.shared.rate.cut_at).as_secs_f64() >= rtt {
                self.cut(seen, now);
            }
            self.urgent = true;
        }
        match (granted, parked) {
            (Some(granted), Some(asked)) => self.park(granted, asked, now),
            (Some(granted), None) => self.close(granted, hint, now),
            (None, _) => {}
        }
        parked.filter(|_| !known).map(Notice::Parked).or(back)
    }

    /// What was seen lately of the dependency.
    fn seen(&self, rtt: f64, pause: Option<Duration>, now: Timestamp) -> Seen {
        let all = 1.0 / self.share(now);
        // Long enough for some calls to have been made, however slow the rate is.
        let some = 20.0 / self.started.per_second(5_000, now).max(2.0);
        let span = (2.0 * rtt).max(some).clamp(1.0, 10.0);
        let lately = millis(Duration::from_secs_f64(span));
        Seen {
            started: self.started.per_second(lately, now) * all,
            passed: self.passed.per_second(lately, now) * all,
            between: None,
            rtt,
            // A pause that cannot be made up for is dear: the limit is then touched more rarely.
            pause: pause.unwrap_or_default().as_secs_f64() * (1.0 + 2.0 * (1.0 - self.make_up)),
        }
    }

    fn cut(&mut self, seen: Seen, now: Timestamp) {
        let seen = Seen { between: self.between(now), ..seen };
        let rtt = seen.rtt;
        let before = self.shared.rate.ceiling;
        self.shared.rate.cut(&seen, now);
        if self.shared.rate.ceiling.zip(before).is_some_and(|(new, old)| new < old * 0.8) {
            // Another limit, another bucket: what could be made up for is found out anew.
            self.make_up = 1.0;
        }
        self.since_cut.get_or_insert((now, 0.0));
        self.shared.window.cut(self.shared.rate.ceiling.unwrap_or(0.0) * rtt * 1.25 + 1.0, now);
    }

    /// What has passed per second since a call was turned away the time before. Begins anew when that is long enough ago.
    fn between(&mut self, now: Timestamp) -> Option<f64> {
        let (since, passed) = self.since_cut?;
        let seconds = now.since(since).as_secs_f64();
        (seconds >= SHORTEST_BETWEEN).then(|| {
            self.since_cut = None;
            passed / seconds
        })
    }

    /// Leaves it alone for as long as is granted, and then lets one call try it out.
    fn park(&mut self, granted: Duration, asked: Duration, now: Timestamp) {
        let until = now.after(granted);
        self.shared.parked =
            Some(Closed { since: now, until, decided_at: now, asked_ms: Some(millis(asked)) });
        self.shared.rate.paused(until);
        self.urgent = true;
    }

    fn close(&mut self, span: Duration, asked: Option<Duration>, now: Timestamp) {
        let until = now.after(span);
        if self.shared.closed.as_ref().is_some_and(|closed| closed.until >= until) {
            return;
        }
        let before = self.shared.closed.as_ref().map_or(now, |closed| closed.until.max(now));
        let rate = self.shared.rate.allowed(now) * self.share(now);
        if asked.is_some() && rate.is_finite() && span < LONG_PAUSE && self.shared.rate.cuts_in_a_row < 2 {
            // What would have passed meanwhile may be made up for: a limit that is a bucket or a window fills up.
            self.requests.fill(now, rate);
            self.requests.give(rate * until.since(before).as_secs_f64() * self.make_up);
        }
        if span >= LONG_PAUSE {
            self.shared.window.ramp(now);
        }
        self.shared.rate.paused(until);
        let since = self
            .shared
            .closed
            .as_ref()
            .filter(|closed| closed.until > now)
            .map_or(now, |closed| closed.since);
        self.shared.closed = Some(Closed { since, until, decided_at: now, asked_ms: asked.map(millis) });
        self.urgent = true;
    }

    fn failed(&mut self, permit: Permit, calls: u32, fresh: bool, now: Timestamp) -> Option<Notice> {
        self.shared.totals.failed += u64::from(calls.max(1));
        let probe_failed = permit.probe && std::mem::take(&mut self.probing);
        if probe_failed {
            self.probe_again(self.probe_every(), now);
            self.urgent = true;
        }
        let spec = self.spec.breaker.clone()?;
        let was_away = self.shared.breaker.away_since.is_some();
        let opens = self.lately.failed(&spec, calls.max(1), fresh, now) && !was_away;
        if opens {
            self.shared.breaker.open(&spec, now);
            self.urgent = true;
        }
        opens.then_some(Notice::Away)
    }

    /// How long after a call that tried the dependency out another one may.
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
