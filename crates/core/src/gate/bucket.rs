//! Letting something through at a rate: requests, or tokens.

use crate::time::Timestamp;

/// A bucket that fills at a rate and may be overdrawn by one call: a call larger than the bucket passes when the bucket
/// is full, and what it took too much is waited for afterwards. So nothing waits for room that can never be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bucket {
    level: f64,
    at: Option<Timestamp>,
    /// Room above the usual, for what a pause held back.
    credit: f64,
    /// How many seconds of its rate it holds.
    seconds: f64,
}

impl Bucket {
    pub(super) fn new(seconds: f64) -> Self {
        Self { level: 0.0, at: None, credit: 0.0, seconds }
    }

    fn room(&self, rate: f64) -> f64 {
        (rate * self.seconds).max(1.0)
    }

    /// Fills it up to now. The first look finds it full.
    pub(super) fn fill(&mut self, now: Timestamp, rate: f64) {
        let room = self.room(rate);
        let level = match self.at {
            None => room,
            Some(at) => self.level + rate * now.since(at).as_secs_f64(),
        };
        self.level = level.min(room + self.credit);
        self.credit = self.credit.min((self.level - room).max(0.0));
        // A clock that was put back goes on from there: it must not stand still until it has caught up.
        self.at = Some(now);
    }

    /// The clock was put back, to this moment: it fills up from there, with what is in it.
    pub(super) fn put_back(&mut self, now: Timestamp) {
        self.at = self.at.map(|at| at.min(now));
    }

    /// Gives what a pause held back.
    pub(super) fn give(&mut self, amount: f64) {
        self.credit += amount.max(0.0);
        self.level += amount.max(0.0);
    }

    /// Nothing is left in it: the dependency said so.
    pub(super) fn empty(&mut self) {
        self.level = self.level.min(0.0);
        self.credit = 0.0;
    }

    /// One call may start, whatever the rate.
    pub(super) fn allow_one(&mut self) {
        self.level = self.level.max(1.0);
    }

    /// Whether it holds more than it usually would.
    pub(super) fn has_credit(&self) -> bool {
        self.credit >= 1.0
    }

    /// Seconds until `cost` can be taken; 0 when it can be now. Call [`Bucket::fill`] first.
    pub(super) fn wait(&self, cost: f64, rate: f64) -> f64 {
        let need = cost.min(self.room(rate));
        // A hair less than needed is enough: the rest is rounding.
        if self.level + 1e-6 >= need { 0.0 } else { (need - self.level) / rate }
    }

    /// Takes `cost`, or gives it back when negative.
    pub(super) fn take(&mut self, cost: f64) {
        self.level -= cost;
    }

    /// How many calls of `cost` can start within `seconds`.
    pub(super) fn within(&self, seconds: f64, cost: f64, rate: f64) -> f64 {
        if !rate.is_finite() {
            return f64::INFINITY;
        }
        ((self.level + rate * seconds) / cost.max(1e-9)).max(0.0)
    }

    /// When there is something in it again, if there is not now.
    pub(super) fn free_at(&self, rate: f64) -> Option<Timestamp> {
        let at = self.at?;
        (self.level < 1.0 && rate > 0.0).then(|| after(at, (1.0 - self.level) / rate))
    }

    /// Begins with what somebody else took.
    pub(super) fn owe_until(&mut self, free_at: Timestamp, now: Timestamp, rate: f64) {
        if rate.is_finite() && free_at > now {
            self.level = 1.0 - rate * free_at.since(now).as_secs_f64();
            self.at = Some(now);
        }
    }
}

/// The moment so many seconds later, rounded up to the millisecond.
#[expect(clippy::cast_possible_truncation, reason = "a float is saturated by the cast")]
pub(super) fn after(at: Timestamp, seconds: f64) -> Timestamp {
    Timestamp(at.0.saturating_add((seconds * 1_000.0).ceil().max(0.0) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_kept_and_a_large_call_is_paid_back() {
        let mut bucket = Bucket::new(0.1);
        let mut passed = 0;
        for ms in 0..10_000 {
            bucket.fill(Timestamp(ms), 50.0);
            while bucket.wait(1.0, 50.0) == 0.0 {
                bucket.take(1.0);
                passed += 1;
            }
        }
        assert!((500..=505).contains(&passed), "{passed}");

        let rate = 10_000.0 / 60.0;
        let mut tokens = Bucket::new(1.0);
        tokens.fill(Timestamp(0), rate);
        assert!(
            tokens.wait(10_000.0, rate) < 1e-9,
            "a full bucket lets even a call pass that is larger than it"
        );
        tokens.take(10_000.0);
        let wait = tokens.wait(8_800.0, rate);
        assert!((59.0..=60.5).contains(&wait), "{wait}");
        tokens.fill(Timestamp(61_000), rate);
        assert!(tokens.wait(8_800.0, rate) < 1e-9);
    }

    #[test]
    fn what_a_pause_held_back_is_given_once() {
        let mut bucket = Bucket::new(0.1);
        bucket.fill(Timestamp(0), 50.0);
        bucket.take(5.0);
        bucket.give(50.0);
        bucket.fill(Timestamp(0), 50.0);
        let mut burst = 0;
        while bucket.wait(1.0, 50.0) == 0.0 {
            bucket.take(1.0);
            burst += 1;
            bucket.fill(Timestamp(0), 50.0);
        }
        assert!((45..=50).contains(&burst), "{burst}");
        bucket.fill(Timestamp(60_000), 50.0);
        assert!(bucket.level <= 5.0, "and then it is as small as before: {}", bucket.level);
    }

    #[test]
    fn debts_outlive_the_process() {
        let mut first = Bucket::new(1.0);
        first.fill(Timestamp(0), 10.0);
        first.take(110.0);
        let free_at = first.free_at(10.0).unwrap();
        let mut second = Bucket::new(1.0);
        second.owe_until(free_at, Timestamp(2_000), 10.0);
        second.fill(Timestamp(2_000), 10.0);
        assert!((7.0..=9.0).contains(&second.wait(1.0, 10.0)), "{}", second.wait(1.0, 10.0));
    }
}
