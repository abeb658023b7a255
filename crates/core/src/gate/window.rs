//! How many calls to have under way at once: grows while calls pass, shrinks when they are turned away or take longer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Where it begins, where so many were asked for.
const FIRST: f64 = 20.0;
/// What is left of it after a call was turned away, or the dependency was overloaded.
const CUT: f64 = 0.7;
/// What is left of it when calls suddenly take more than twice as long.
const SLOWER: f64 = 0.9;
/// The logarithm of how much larger it has to be before more calls at once should mean more calls per second.
const STEP: f64 = 0.18;
/// What is left of it to find out whether fewer bring as much.
const FEWER: f64 = 0.75;
/// Less than this part of what was added brings no more.
const MORE: f64 = 0.27;
/// The logarithm of taking half as long again.
const LONGER: f64 = 0.405;
/// The logarithm of taking twice as long.
const TWICE: f64 = 0.693;
/// How long it does not grow after more at once had brought no more.
const HOLD: Duration = Duration::from_secs(20);
/// After so many rounds with as many at once as before it is looked whether fewer bring as much.
const ROUNDS: u32 = 8;
/// The longest.
const LONGEST_HOLD: Duration = Duration::from_secs(300);

/// How many calls a dependency is thought to bear at once, over all workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Window {
    /// The number itself; a fraction grows with every call.
    pub limit: f64,
    /// Nothing has been found against growth yet: it doubles with every round of calls.
    pub(super) slow_start: bool,
    /// When it was last made smaller: of two workers' findings the later one holds.
    pub(super) cut_at: Timestamp,
    /// How long a call takes, in seconds: lately, and in the long run.
    pub(super) rtt: f64,
    /// The logarithm of that, lately and in the long run, and how far single calls stray from it: a few calls that take
    /// very long say nothing.
    log: f64,
    log_long: f64,
    stray: f64,
    /// Not to grow before this: more at once had brought no more.
    hold_until: Timestamp,
    /// How often more at once were turned away, and how many were not.
    held: u32,
    held_at: f64,
    /// Up to there it grows as quickly as in the beginning.
    back_to: f64,
    #[serde(skip)]
    mark: Option<Mark>,
    #[serde(skip)]
    round: Round,
    #[serde(skip)]
    look: Look,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            limit: FIRST,
            slow_start: true,
            cut_at: Timestamp(0),
            rtt: 0.0,
            log: 0.0,
            log_long: 0.0,
            stray: 0.0,
            hold_until: Timestamp(0),
            held: 0,
            held_at: 0.0,
            back_to: 0.0,
            mark: None,
            round: Round::default(),
            look: Look::default(),
        }
    }
}

/// A call that passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Passed {
    /// How long it took.
    pub(super) seconds: f64,
    /// How many calls were under way, over all workers.
    pub(super) under_way: f64,
    /// Whether every place was taken.
    pub(super) binding: bool,
    /// Most calls at once that were asked for.
    pub(super) most: f64,
    /// Whether a rate holds calls back, so that their number says nothing of how many are borne at once.
    pub(super) paced: bool,
}

/// What so many calls at once brought.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mark {
    at_once: f64,
    log: f64,
}

/// What is being measured for the next mark.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Round {
    passed: f64,
    log: f64,
    under_way: f64,
}

/// When it was last looked whether fewer at once bring as much.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Look {
    /// Rounds with as many at once since then.
    rounds: u32,
    /// How often in vain.
    vain: u32,
    /// How many there were at once before, while it is being looked.
    from: Option<f64>,
    /// Calls are still under way that began beside more.
    settles: bool,
}

impl Window {
    /// The clock was put back by so many milliseconds since it was last made smaller.
    pub(super) fn put_back(&mut self, ms: i64) {
        for at in [&mut self.cut_at, &mut self.hold_until] {
            *at = Timestamp(at.0.saturating_sub(ms));
        }
    }

    /// How long a call takes lately, in seconds.
    #[must_use]
    pub fn latency(&self) -> f64 {
        self.rtt
    }

    /// A call passed; `true` when more at once turned out to bring no more.
    pub(super) fn passed(&mut self, passed: &Passed, now: Timestamp) -> bool {
        self.took(passed.seconds);
        let mut no_more = false;
        if passed.paced {
            (self.mark, self.round) = (None, Round::default());
            self.look_no_more();
        } else {
            no_more = self.measure(passed, now);
        }
        if !passed.binding || now < self.hold_until || self.is_slower() {
            return no_more;
        }
        let quickly = self.slow_start || self.limit < self.back_to;
        self.limit += if quickly { 1.0 } else { 1.0 / self.limit.max(1.0) };
        self.limit = self.limit.min(passed.most.max(1.0));
        no_more
    }

    fn took(&mut self, seconds: f64) {
        let log = seconds.max(0.001).ln();
        if self.rtt == 0.0 {
            (self.rtt, self.log, self.log_long) = (seconds, log, log);
        }
        self.rtt += 0.1 * (seconds - self.rtt);
        self.stray += 0.02 * (1.25 * (log - self.log).abs() - self.stray);
        self.log += 0.1 * (log - self.log);
        self.log_long += 0.01 * (log - self.log_long);
        // What has become faster is believed sooner than what has become slower.
        if self.log < self.log_long {
            self.log_long += 0.05 * (self.log - self.log_long);
        }
    }

    /// More at once that brings no more per second only waits elsewhere: back to what brought as much. `true` when that is so.
    fn measure(&mut self, passed: &Passed, now: Timestamp) -> bool {
        self.round.passed += 1.0;
        self.round.log += passed.seconds.max(0.001).ln();
        self.round.under_way += passed.under_way;
        if self.round.passed < (2.0 * self.limit).clamp(8.0, 100.0) {
            return false;
        }
        let mut found = false;
        let Round { passed, log, under_way } = std::mem::take(&mut self.round);
        let new = Mark { at_once: under_way / passed, log: log / passed };
        // Two rounds differ by so much by chance.
        let noise = self.stray * (2.0 / passed).sqrt();
        match self.mark {
            Some(old) if (new.at_once / old.at_once).ln() >= (2.0 * noise).max(STEP) => {
                // What is under way divided by how long it takes is what comes out per second.
                let more = (new.at_once / old.at_once).ln();
                let no_more = more - (new.log - old.log) < MORE * more;
                found = no_more;
                if no_more {
                    // Perhaps fewer still bring as much: there may have been a line from the beginning.
                    self.limit = (old.at_once * FEWER).max(1.0);
                    self.slow_start = false;
                    self.cut_at = now;
                    self.hold_until = now.after(HOLD);
                    self.mark = Some(old);
                } else {
                    self.mark = Some(new);
                }
            }
            // What began among more calls tells nothing of fewer.
            Some(_) if std::mem::take(&mut self.look.settles) => {}
            Some(old) if now < self.hold_until && new.at_once < old.at_once => {
                let fewer = (old.at_once / new.at_once).ln();
                let as_much = (old.log - new.log) - fewer > -MORE * fewer;
                if as_much && fewer >= STEP {
                    found = true;
                    self.limit = (new.at_once * FEWER).max(1.0);
                    self.mark = Some(new);
                    self.hold_until = now.after(HOLD);
                    self.look = Look { settles: true, from: None, ..self.look };
                } else if !as_much {
                    self.limit = self.limit.max(old.at_once);
                    self.look = Look { vain: self.look.vain + 1, ..Look::default() };
                }
            }
            Some(old) if (new.at_once / old.at_once).ln() > -STEP && now >= self.hold_until => {
                self.look.rounds += 1;
                // All of it may have been measured in a crowd: fewer at once might bring as much.
                if self.look.rounds >= ROUNDS << self.look.vain.min(8) && new.at_once >= 4.0 {
                    (self.look.rounds, self.look.from, self.mark) = (0, Some(self.limit), Some(new));
                    self.limit = new.at_once * FEWER;
                    (self.slow_start, self.look.settles) = (false, true);
                    self.hold_until = now.after(HOLD);
                }
            }
            Some(_) | None => self.mark = Some(new),
        }
        if new.log - self.log_long > (3.0 * noise).max(TWICE) {
            self.limit = (self.limit * SLOWER).max(1.0);
            self.slow_start = false;
            self.cut_at = now;
        }
        found
    }

    /// What holds calls back is something else: fewer at once tell nothing.
    fn look_no_more(&mut self) {
        if let Some(from) = self.look.from.take() {
            self.limit = self.limit.max(from);
            (self.look.rounds, self.hold_until) = (0, Timestamp(0));
        }
    }

    /// Whether calls take much longer lately than they do in the long run, and by more than chance explains.
    pub(super) fn is_slower(&self) -> bool {
        self.log - self.log_long > (0.6 * self.stray).max(LONGER)
    }

    /// Whether nothing has ever been found against more calls at once.
    pub(super) fn is_new(&self) -> bool {
        self.slow_start && self.cut_at == Timestamp(0)
    }

    /// Twice as many at once, where calls take so long that none has told yet.
    pub(super) fn double(&mut self, most: f64) {
        self.limit = (self.limit * 2.0).min(most.max(1.0));
    }

    /// A call was turned away, or the dependency was overloaded; `needed` calls at once are needed for the rate that is
    /// known to pass. At most one cut for the calls that were under way together.
    pub(super) fn cut(&mut self, needed: f64, now: Timestamp) {
        self.limit = (self.limit * CUT).max(needed).min(self.limit).max(1.0);
        (self.hold_until, self.held) = (Timestamp(0), 0);
        self.slow_start = false;
        self.cut_at = now;
        (self.mark, self.look.from) = (None, None);
        self.round = Round::default();
    }

    /// No more than so many at once until something else is found.
    pub(super) fn limit_to(&mut self, most: f64, now: Timestamp) {
        self.limit = most.max(1.0);
        self.back_to = 0.0;
        self.slow_start = false;
        self.cut_at = now;
        (self.mark, self.look.from) = (None, None);
        self.round = Round::default();
    }

    /// No fewer than so many.
    pub(super) fn at_least(&mut self, limit: f64) {
        self.limit = self.limit.max(limit);
    }

    /// It soon comes back to so many.
    pub(super) fn back_to(&mut self, limit: f64) {
        self.back_to = limit;
    }

    /// More at once than that were turned away: it is tried again later, each time later than before.
    pub(super) fn hold_at(&mut self, most: f64, now: Timestamp) {
        self.limit_to(most, now);
        (self.held, self.held_at) = (self.held.saturating_add(1), self.limit);
        self.hold_until = now.after((HOLD / 4 * (1 << self.held.min(6))).min(LONGEST_HOLD));
    }

    /// How many at once were borne, where it tries out more.
    pub(super) fn tries_more_than(&self) -> Option<f64> {
        (self.held > 0 && self.limit >= self.held_at + 0.5).then_some(self.held_at)
    }

    /// Goes on as before.
    pub(super) fn restore(&mut self, limit: f64, slow_start: bool, now: Timestamp) {
        self.limit_to(limit.max(self.limit), now);
        self.slow_start = slow_start;
    }

    /// Takes over what another worker found, but for what is measured here.
    pub(super) fn take_over(&mut self, theirs: &Self) {
        *self = Self { mark: None, round: Round::default(), ..theirs.clone() };
    }

    /// Begins with one call at a time after a stop, and grows from there.
    pub(super) fn ramp(&mut self, now: Timestamp) {
        self.cut_at = now;
        self.limit = 1.0;
        self.slow_start = true;
        (self.mark, self.look.from) = (None, None);
        self.round = Round::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a server that does `capacity` calls at once in 100 ms each; more wait in line.
    fn play(window: &mut Window, capacity: f64, seconds: i64, from: i64) {
        let mut now = from;
        while now < from + seconds * 1_000 {
            let at_once = window.limit.floor();
            let took = 0.1 * (at_once / capacity).max(1.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            for _ in 0..at_once as usize {
                window.passed(
                    &Passed { seconds: took, under_way: at_once, binding: true, most: 64.0, paced: false },
                    Timestamp(now),
                );
            }
            #[expect(clippy::cast_possible_truncation, reason = "small")]
            let ms = (took * 1_000.0) as i64;
            now += ms;
        }
    }

    #[test]
    fn it_doubles_until_something_is_found_against_it() {
        let mut window = Window::default();
        play(&mut window, 1_000.0, 3, 0);
        assert!(window.limit >= 63.0, "{}", window.limit);
    }

    #[test]
    fn a_line_in_front_of_the_service_is_not_fed() {
        let mut window = Window::default();
        play(&mut window, 8.0, 120, 0);
        assert!((7.0..=24.0).contains(&window.limit), "{}", window.limit);
    }

    #[test]
    fn calls_of_very_different_length_do_not_shrink_it() {
        let mut window = Window { limit: 32.0, ..Window::default() };
        let mut seed = 7_u64;
        for n in 0..20_000_i64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let took = 0.3 + f64::from(u32::try_from(seed >> 40).unwrap_or(0) % 4_000) / 1_000.0;
            window.passed(
                &Passed {
                    seconds: took,
                    under_way: window.limit.min(32.0),
                    binding: window.limit <= 32.0,
                    most: 64.0,
                    paced: false,
                },
                Timestamp(n * 60),
            );
        }
        // It may just be looking whether fewer bring as much.
        assert!(window.limit >= 32.0 * FEWER, "{}", window.limit);
    }
}
