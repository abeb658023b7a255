//! What a call that was turned away changes.
//!
//! First its neighbours are looked at (`recent`). Where most of them were turned away too, a limit is used up: a wait that
//! the dependency asks for is then everybody's. Where few were, it may be chance, and going slower for a while tells: what
//! a limit turns away it no longer does, what chance turns away it still does. Meanwhile only the item waits.

use std::time::Duration;

use super::cut::{LEAST_LEFT, LEAST_LEFT_OF_MOST, SinceCut};
use super::evidence::LimitKind;
use super::learn::Notice;
use super::rate::Rate;
use super::recent::Counts;
use super::{Gate, Permit};
use crate::time::Timestamp;

/// How long it closes by itself at first.
const FIRST_CLOSING: Duration = Duration::from_millis(250);
/// How long it closes by itself at most.
const LONGEST_CLOSING: Duration = Duration::from_secs(60);
/// Who asks to be left alone for so long means everybody: no other calls are made to find out.
pub(super) const LONG_HINT: Duration = Duration::from_secs(30);
/// So many calls around one that was turned away tell what it was.
pub(super) const ENOUGH: usize = 8;
/// Longer than this is not waited for them.
const LONGEST_INQUIRY: Duration = Duration::from_secs(1);
/// What is left of the rate or the window while it is found out whether going slower helps, beside what was turned away.
const SLOWER: f64 = 0.95;
/// So many calls would have been turned away meanwhile, were it chance: none is when it helped.
const TRIAL: f64 = 4.0;
/// Longer than this is not gone slowly to find that out: at a slow rate there are few calls to tell.
const LONGEST_TRIAL: Duration = Duration::from_secs(10);
/// The least share that is looked for.
const LEAST_SHARE: f64 = 0.04;
/// A rate that was found turns away a smaller share of so many calls.
const MUCH: f64 = 0.15;
/// See above.
const LATELY: usize = 64;
/// Where a larger share is still turned away it is not the number of calls at once.
const NOT_AT_ONCE: f64 = 0.3;
/// Before any call.
const LONG_AGO: Timestamp = Timestamp(i64::MIN);

/// A call was turned away, and it is not known yet what that means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Inquiry {
    /// When the call had started.
    pub(super) since: Timestamp,
    /// When it was turned away.
    asked_at: Timestamp,
    /// The longest wait that was asked for since, as far as it is granted.
    hint: Option<Duration>,
    /// The same in full.
    asked: Option<Duration>,
    /// What is used up, if it is a limit.
    of: LimitKind,
}

/// Going slower to find out whether fewer are turned away then.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trial {
    /// The share that was turned away before.
    share: f64,
    began: Timestamp,
    /// The rate, and the calls at once, before.
    before: (Rate, f64, bool),
}

/// What the calls around one that was turned away say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// Most of them were turned away too.
    Most,
    /// Few were.
    Few,
}

impl Gate {
    pub(super) fn throttled(
        &mut self,
        permit: Permit,
        hint: Option<Duration>,
        now: Timestamp,
    ) -> Option<Notice> {
        self.shared.totals.throttled += 1;
        self.shared.evidence.meets(true);
        self.recent.turned_away(permit.no, permit.started, now);
        let known = self.shared.parked.is_some() && !permit.probe;
        let back = self.is_there(permit, now);
        if permit.made_up {
            // What was saved up is used up: no more of it is taken.
            self.requests.empty();
        }
        let granted = hint.map(|hint| hint.min(self.spec.hint_cap));
        // What is said to one while others pass is said to that one, however absurd it is.
        let others_pass = self.is_passing(now) && !permit.probe;
        if let Some(asked) = hint.filter(|hint| *hint > self.spec.hint_cap && !others_pass) {
            self.park(granted.unwrap_or_default(), asked, now);
            return Some(Notice::Parked(asked)).filter(|_| !known).or(back);
        }
        let judged = permit.started <= self.judged_at;
        let closed = self.shared.closed.as_ref().is_some_and(|closed| closed.until > now);
        let long = granted.is_some_and(|granted| granted >= LONG_HINT) && !others_pass;
        if let Some(granted) = granted.filter(|_| long || (judged && closed)) {
            // Else it is part of what the gate was closed for.
            self.close(granted, hint, now);
        }
        let of = self.used_up(permit, now);
        if of == LimitKind::Window {
            self.shared.evidence.find(of, now);
        } else if !judged && !long && !self.is_explained(now) {
            let new = Inquiry { since: permit.started, asked_at: now, hint: None, asked: None, of };
            let inquiry = self.inquiry.get_or_insert(new);
            (inquiry.hint, inquiry.asked) = (inquiry.hint.max(granted), inquiry.asked.max(hint));
        }
        self.look_again(now);
        back
    }

    /// Whether no more calls are turned away than is known to happen anyway.
    fn is_explained(&self, now: Timestamp) -> bool {
        let (share, since) = match &self.trial {
            Some(trial) => (trial.share, trial.began),
            None => (self.shared.evidence.expected(now), LONG_AGO),
        };
        let (known, due) = (self.recent.after(since, now), self.recent.due_after(since, now));
        let nearly_all = due >= 2 * ENOUGH && known.turned_away * 4 > due * 3;
        let usual = |calls: &usize| !self.recent.at_best(*calls, since).exceeds(share);
        share > 0.0 && !nearly_all && [8, 24, LATELY].iter().all(usual)
    }

    /// What answers say is used up. Of a window they say when there is more: nothing has to be found out then.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn used_up(&self, permit: Permit, now: Timestamp) -> LimitKind {
        let told = &self.shared.told;
        if told.requests.is_some_and(|pace| pace.is_used_up(now)) {
            LimitKind::Window
        } else if told.tokens.is_some_and(|pace| pace.is_short_of(permit.tokens as f64, now)) {
            LimitKind::Tokens
        } else {
            LimitKind::Rate
        }
    }

    /// Draws from the calls that ended what can be drawn from them by now.
    pub(super) fn look_again(&mut self, now: Timestamp) {
        if let Some(inquiry) = self.inquiry
            && let Some(finding) = self.finding(&inquiry, now)
        {
            self.inquiry = None;
            self.judge(&inquiry, finding, now);
        }
        if let Some(trial) = self.trial.take() {
            self.trial = self.go_on_with(trial, now);
        }
    }

    fn finding(&self, inquiry: &Inquiry, now: Timestamp) -> Option<Finding> {
        let around = self.recent.after(inquiry.since, now);
        let unknown = self.under_way > 0;
        let before = self.recent.last(ENOUGH, LONG_AGO, now);
        let most = |counts: Counts| counts.turned_away > counts.passed;
        // What had started before it tells whether anything passes at all.
        let open = self.recent.is_open_between(self.judged_at, inquiry.since, now);
        // Those that are turned away are known sooner than those that pass.
        let due = self.recent.due_after(inquiry.since, now).max(around.all());
        let others = due - around.turned_away;
        if around.turned_away > ENOUGH / 2 && around.turned_away >= 3 * others {
            return Some(Finding::Most).filter(|_| !open);
        }
        if around.all() >= ENOUGH && around.passed >= due - around.passed {
            return Some(Finding::Few).filter(|_| !open);
        }
        if around.all() >= 3 * ENOUGH && around.turned_away > others {
            return Some(Finding::Most).filter(|_| !open);
        }
        if !unknown && most(before) {
            return Some(Finding::Most);
        }
        if self.touches(now) {
            return Some(Finding::Few);
        }
        let late = now.since(inquiry.asked_at) >= LONGEST_INQUIRY;
        let most = around.turned_away >= 3 && around.turned_away >= 3 * around.passed;
        late.then_some(if most { Finding::Most } else { Finding::Few })
    }

    /// Until when no more calls start because it is looked at what becomes of those around one that was turned away.
    pub(super) fn inquires_until(&self, now: Timestamp) -> Option<Timestamp> {
        let inquiry = self.inquiry?;
        let around = self.recent.after(inquiry.since, now);
        let unclear = around.all() >= ENOUGH && around.turned_away > around.passed;
        let enough = if unclear { 3 * ENOUGH } else { ENOUGH };
        let enough = self.recent.started_after(inquiry.since) >= enough;
        let most = around.turned_away > ENOUGH / 2 && around.passed == 0;
        let until = inquiry.asked_at.after(self.recent.patience().min(LONGEST_INQUIRY));
        (until > now && (most || (enough && self.request_rate(now).is_infinite()))).then_some(until)
    }

    /// Whether the rate is where calls were turned away before, or above.
    fn touches(&self, now: Timestamp) -> bool {
        self.shared.rate.is_at_ceiling(now)
    }

    fn judge(&mut self, inquiry: &Inquiry, finding: Finding, now: Timestamp) {
        let rtt = self.shared.window.rtt;
        let seen = self.seen(rtt, inquiry.hint, now);
        let at_once = self.borne_at_once(now).filter(|_| self.may_be_at_once(inquiry.hint, now));
        let touches = self.touches(now);
        let since = self.judged_at;
        let first = self.since_cut.is_none() && self.shared.rate.ceiling.is_none();
        (self.judged_at, self.urgent) = (now, true);
        self.trial = None;
        if let Some(most) = at_once {
            self.find_at_once(most, now);
            return;
        }
        match finding {
            Finding::Few if self.is_most_lately(now) => self.cut(seen, LEAST_LEFT_OF_MOST, inquiry.of, now),
            Finding::Few if touches && !self.is_much_at_any_rate(now) => {
                self.fastest = None;
                self.cut(seen, LEAST_LEFT, inquiry.of, now);
            }
            Finding::Few => self.try_slower(since, now),
            Finding::Most if self.is_chance_all_the_same(now) => {
                let share = self.recent.last(LATELY, LONG_AGO, now).share();
                self.shared.evidence.find_background(share, share, now);
                self.shared.rate.lift(now);
                (self.since_cut, self.fastest) = (None, None);
            }
            Finding::Most => {
                if self.fastest.is_none_or(|(pace, ..)| pace < seen.started) {
                    let share = self.recent.last(LATELY, LONG_AGO, now).share();
                    self.fastest = Some((seen.started, share, now));
                }
                self.shared.evidence.forget_background();
                self.requests.empty();
                let worked_on = self.recent.worked_on(now);
                // As many were there at once when it opened, and will be again.
                let at_once = self.passed_since_open + self.everywhere(worked_on, now);
                let saved = std::mem::replace(&mut self.saved, (at_once - 1.0).max(0.0));
                if let Some(cut) = &mut self.since_cut {
                    cut.saved += saved;
                }
                if self.recent.last(usize::MAX, since, now).passed == 0 {
                    self.nothing_passes(inquiry.hint, now);
                } else if self.has_just_measured(now) {
                    // What was taken too much is being paid for, which says nothing of the rate.
                    self.shared.rate.stay_below(now);
                    self.close(self.spread(FIRST_CLOSING, now), None, now);
                } else if first && worked_on > 0 {
                    // As many as are being worked on are borne at once; whether it is that, or a rate, the next ones tell.
                    self.since_cut = Some(SinceCut::new(now));
                    self.shared.window.limit_to(self.everywhere(worked_on, now), now);
                } else {
                    self.cut(seen, LEAST_LEFT_OF_MOST, inquiry.of, now);
                }
                match (inquiry.hint, inquiry.asked) {
                    (Some(granted), Some(asked)) if asked > self.spec.hint_cap => {
                        self.park(granted, asked, now);
                    }
                    (Some(hint), _) => self.close(hint, Some(hint), now),
                    (None, _) => {}
                }
            }
        }
    }

    /// How many calls at once pass, over all workers, where it is their number that turns others away.
    fn borne_at_once(&self, now: Timestamp) -> Option<f64> {
        let known = || {
            let found = self.shared.evidence.kind == Some(LimitKind::AtOnce);
            self.shared.window.tries_more_than().filter(|_| found)
        };
        self.recent.borne_at_once(now).map(|most| self.everywhere(most, now)).or_else(known)
    }

    /// Whether as large a share is turned away as when calls were made much faster, here and there among those that pass: a limit
    /// would turn fewer away, and one that is used up turns away all for a while.
    fn is_chance_all_the_same(&self, now: Timestamp) -> bool {
        // Each of several workers sees its own calls only: what was turned away then may have been for the others'.
        let alone = self.shared.live_members(now).all(|(name, _)| *name == self.me);
        let Some((pace, share, since)) = self.fastest.filter(|_| alone) else { return false };
        let calls = 2 * ENOUGH;
        let counts = self.recent.last(calls, since, now);
        let mixed = 4 * self.recent.changes(calls, now) >= calls;
        let as_many = counts.all() >= calls && counts.share() >= 0.6 * share;
        4.0 * self.shared.rate.allowed(now) <= pace && mixed && as_many
    }

    /// Whether the number of calls at once may be what turns them away: no rate is known, and as many as were found to be borne
    /// are borne. Who asks for less time than a call takes has something else in mind than that one of them ends.
    fn may_be_at_once(&self, hint: Option<Duration>, now: Timestamp) -> bool {
        if hint.is_some_and(|hint| hint.as_secs_f64() < self.shared.window.rtt) {
            return false;
        }
        let since = self.recent.last(usize::MAX, self.judged_at, now);
        let found = self.shared.evidence.kind == Some(LimitKind::AtOnce) && since.all() >= ENOUGH;
        self.shared.rate.allowed(now).is_infinite() && !(found && since.share() > NOT_AT_ONCE)
    }

    /// Whether most of all calls that are remembered were turned away, which no chance does.
    fn is_most_lately(&self, now: Timestamp) -> bool {
        let (known, due) = (self.recent.after(LONG_AGO, now), self.recent.due_after(LONG_AGO, now));
        due >= LATELY && 2 * known.turned_away > due
    }

    /// Whether so many of the last calls were turned away, through several cuts, that going slower does not seem to help.
    fn is_much_at_any_rate(&self, now: Timestamp) -> bool {
        let lately = self.recent.last(LATELY, LONG_AGO, now);
        lately.all() >= LATELY / 2 && lately.share() >= MUCH
    }

    fn find_at_once(&mut self, most: f64, now: Timestamp) {
        self.shared.window.hold_at(most, now);
        self.shared.rate.lift(now);
        self.since_cut = None;
        self.shared.evidence.find(LimitKind::AtOnce, now);
    }

    /// Not one call has passed since the last cut: going slower does not help, leaving it alone may.
    fn nothing_passes(&mut self, hint: Option<Duration>, now: Timestamp) {
        self.shared.rate.cut_again(now);
        let since = *self.shut_since.get_or_insert(now);
        let alone = now.since(self.recent.passed_at().unwrap_or(since).min(now)) / 2;
        // A service that says how long is not second-guessed for much longer than that.
        let most = hint.map_or(LONGEST_CLOSING, |hint| (hint * 2).clamp(FIRST_CLOSING * 8, LONGEST_CLOSING));
        let closing = self.spread(alone.clamp(FIRST_CLOSING, LONGEST_CLOSING), now);
        self.close(closing.min(most), None, now);
        if self.spec.requests_per_minute.is_none() {
            // It is tried again when it opens: at a slow rate that would be always at the same time, in step with whatever it is.
            self.requests.allow_one();
        }
        self.shared.evidence.find(LimitKind::Shut, now);
    }

    /// Goes slower by what was turned away, and a little more, to find out whether fewer are then.
    fn try_slower(&mut self, since: Timestamp, now: Timestamp) {
        let share = self.recent.last(100, since, now).share().clamp(LEAST_SHARE, 0.5);
        let window = &mut self.shared.window;
        let before = (self.shared.rate.clone(), window.limit, window.slow_start);
        if self.shared.rate.allowed(now).is_finite() {
            self.shared.rate.lower((1.0 - share) * SLOWER, now);
        } else {
            let slower = (window.limit * (1.0 - share) * SLOWER).min(window.limit - 1.0);
            window.limit_to(slower, now);
            window.back_to(before.1 * SLOWER);
        }
        self.trial = Some(Trial { share, began: now, before });
    }

    /// What the calls say that started since it goes slower: a limit turns none of them away, chance as many as before.
    fn go_on_with(&mut self, trial: Trial, now: Timestamp) -> Option<Trial> {
        let since = self.recent.last(usize::MAX, trial.began, now);
        #[expect(clippy::cast_precision_loss, reason = "hundreds at most")]
        let calls = since.all() as f64;
        // Where most are turned away it is no chance, whatever was thought before.
        let more = since.all() >= ENOUGH && since.turned_away > since.passed;
        // Those that are turned away are known sooner than those that pass.
        let due = self.recent.due_after(trial.began, now).max(since.all());
        #[expect(clippy::cast_precision_loss, reason = "hundreds at most")]
        let enough_due = due as f64 >= 2.0 / trial.share;
        let chance = since.turned_away >= 2 && enough_due && !more && 4 * since.turned_away <= 3 * due;
        let enough = TRIAL / trial.share * if since.turned_away > 0 { 2.0 } else { 1.0 };
        let late = now.since(trial.began) >= LONGEST_TRIAL;
        if !chance && !more && calls < enough && !late {
            self.shared.rate.stay(now);
            return Some(trial);
        }
        self.urgent = true;
        if chance {
            let (rate, limit, slow_start) = trial.before;
            let lately = self.recent.last(usize::MAX, LONG_AGO, now).share();
            self.shared.evidence.find_background(since.share().max(trial.share), lately, now);
            self.shared.window.restore(limit, slow_start, now);
            self.shared.rate.restore(rate, now);
        } else {
            self.shared.evidence.forget_background();
            self.shared.evidence.find(LimitKind::Rate, now);
        }
        None
    }
}
