//! One limit: a bucket that refills all the time, a window that starts anew, or one that slides.
//!
//! Times are milliseconds since the first call. Amounts are counted in units of 1/60000, so that "so many per minute"
//! refills a whole number of units each millisecond and nothing is rounded.

use std::collections::VecDeque;

/// Units of one call or one token.
const UNIT: i128 = 60_000;

/// How a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Refills steadily up to a burst.
    Bucket,
    /// So many in each window, the first of which begins with the first call.
    Window,
    /// So many in any span of a window's length.
    Sliding,
}

/// What a limit is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// So many per minute.
    pub per_minute: u64,
    /// How it counts.
    pub kind: Kind,
    /// The most that a bucket holds.
    pub burst: u64,
    /// The length of a window in milliseconds.
    pub window: u64,
}

impl Rate {
    /// What is left of it without this part, at least one a minute.
    pub(crate) fn without(self, part: f64) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a plan's rates are at most 1e12"
        )]
        let left = (self.per_minute as f64 * (1.0 - part)).round() as u64;
        Self { per_minute: left.max(1), ..self }
    }
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// There will be in so many milliseconds.
    For(u64),
    /// The limit as a whole is smaller than what was asked for.
    Forever,
}

/// A limit with what is left of it.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    rate: Rate,
    /// Bucket: what is left, below zero when in debt.
    level: i128,
    /// Window: what was taken from the current one; sliding: what was taken within the last one.
    used: i128,
    /// Sliding: when how much was taken, the oldest first.
    taken: VecDeque<(u64, i128)>,
    now: u64,
}

impl Meter {
    /// A full one at the time of the first call.
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, level: i128::from(rate.burst) * UNIT, used: 0, taken: VecDeque::new(), now: 0 }
    }

    /// Lets time pass. Time that stands still or steps back changes nothing.
    pub(crate) fn advance(&mut self, now: u64) {
        if now <= self.now {
            return;
        }
        let gained = i128::from(self.rate.per_minute) * i128::from(now - self.now);
        self.level = (self.level + gained).min(self.capacity());
        if self.rate.kind == Kind::Sliding {
            self.slide(now);
        } else {
            // What was taken within the limit is forgotten with its window; only debt is left over.
            let windows = now / self.rate.window - self.now / self.rate.window;
            self.used = (self.used - self.per_window() * i128::from(windows)).max(0);
        }
        self.now = now;
    }

    /// Forgets what was taken more than a window ago.
    fn slide(&mut self, now: u64) {
        while let Some((_, amount)) = self.taken.pop_front_if(|(at, _)| *at + self.rate.window <= now) {
            self.used -= amount;
        }
    }

    /// From now on another rate holds; what is left stays, up to the new burst.
    pub(crate) fn change(&mut self, rate: Rate) {
        self.rate = rate;
        self.level = self.level.min(self.capacity());
    }

    /// Whether `n` can be taken now.
    pub(crate) fn room(&self, n: u64) -> Result<(), Full> {
        let wanted = i128::from(n) * UNIT;
        match self.rate.kind {
            Kind::Bucket if wanted > self.capacity() => Err(Full::Forever),
            Kind::Bucket if wanted <= self.level => Ok(()),
            Kind::Bucket => Err(Full::For(up(wanted - self.level, i128::from(self.rate.per_minute)))),
            Kind::Window | Kind::Sliding if wanted > self.per_window() => Err(Full::Forever),
            Kind::Window | Kind::Sliding if self.used + wanted <= self.per_window() => Ok(()),
            Kind::Sliding => Err(Full::For(self.until_gone(self.used + wanted - self.per_window()))),
            Kind::Window => {
                let over = self.used + wanted - self.per_window();
                let windows = up(over, self.per_window());
                Err(Full::For((self.now / self.rate.window + windows) * self.rate.window - self.now))
            }
        }
    }

    /// Milliseconds until so much of what was taken is more than a window ago.
    fn until_gone(&self, mut amount: i128) -> u64 {
        for (at, taken) in &self.taken {
            amount -= taken;
            if amount <= 0 {
                return (at + self.rate.window).saturating_sub(self.now);
            }
        }
        self.rate.window
    }

    /// Takes `n`; only after [`Meter::room`] said yes.
    pub(crate) fn take(&mut self, n: u64) {
        self.level -= i128::from(n) * UNIT;
        self.used += i128::from(n) * UNIT;
        if self.rate.kind == Kind::Sliding {
            self.taken.push_back((self.now, i128::from(n) * UNIT));
        }
    }

    /// Takes one although there is no room, down to a debt of so many milliseconds of the rate. A window that slides has no
    /// debt: the newest calls count, whatever became of them.
    pub(crate) fn punish(&mut self, debt: u64) {
        if self.rate.kind == Kind::Sliding {
            self.take(1);
            while self.used > self.per_window() {
                self.used -= self.taken.pop_front().map_or(self.used, |(_, amount)| amount);
            }
            return;
        }
        let most = i128::from(self.rate.per_minute) * i128::from(debt);
        self.level = (self.level - UNIT).max((-most).min(self.level));
        self.used = (self.used + UNIT).min((self.per_window() + most).max(self.used));
    }

    /// The most that can be taken at once.
    pub(crate) fn limit(&self) -> u64 {
        match self.rate.kind {
            Kind::Bucket => self.rate.burst,
            Kind::Window | Kind::Sliding => whole(self.per_window()),
        }
    }

    /// The rate per minute that holds now.
    pub(crate) fn per_minute(&self) -> u64 {
        self.rate.per_minute
    }

    /// What could be taken now.
    pub(crate) fn remaining(&self) -> u64 {
        match self.rate.kind {
            Kind::Bucket => whole(self.level.max(0)),
            Kind::Window | Kind::Sliding => whole((self.per_window() - self.used).max(0)),
        }
    }

    /// Milliseconds until all of it can be taken again.
    pub(crate) fn reset(&self) -> u64 {
        match self.rate.kind {
            Kind::Bucket => up(self.capacity() - self.level, i128::from(self.rate.per_minute)),
            Kind::Window | Kind::Sliding if self.used == 0 => 0,
            Kind::Sliding => self.until_gone(self.used),
            Kind::Window => (self.now / self.rate.window + 1) * self.rate.window - self.now,
        }
    }

    /// Milliseconds in which all of the limit comes in.
    pub(crate) fn span(&self) -> u64 {
        match self.rate.kind {
            Kind::Bucket => up(self.capacity(), i128::from(self.rate.per_minute)),
            Kind::Window | Kind::Sliding => self.rate.window,
        }
    }

    fn capacity(&self) -> i128 {
        i128::from(self.rate.burst) * UNIT
    }

    fn per_window(&self) -> i128 {
        i128::from(self.rate.per_minute) * i128::from(self.rate.window)
    }
}

fn whole(units: i128) -> u64 {
    u64::try_from(units / UNIT).unwrap_or(u64::MAX)
}

fn up(amount: i128, per: i128) -> u64 {
    u64::try_from((amount + per - 1).div_euclid(per)).unwrap_or(u64::MAX)
}
