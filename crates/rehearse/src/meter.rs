//! One limit: a bucket that refills all the time, or a window that starts anew.
//!
//! Times are milliseconds since the first call. Amounts are counted in units of 1/60000, so that "so many per minute"
//! refills a whole number of units each millisecond and nothing is rounded.

/// Units of one call or one token.
const UNIT: i128 = 60_000;

/// How a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Refills steadily up to a burst.
    Bucket,
    /// So many in each window, the first of which begins with the first call.
    Window,
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
    /// Window: what was taken from the current one.
    used: i128,
    now: u64,
}

impl Meter {
    /// A full one at the time of the first call.
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, level: i128::from(rate.burst) * UNIT, used: 0, now: 0 }
    }

    /// Lets time pass. Time that stands still or steps back changes nothing.
    pub(crate) fn advance(&mut self, now: u64) {
        if now <= self.now {
            return;
        }
        let gained = i128::from(self.rate.per_minute) * i128::from(now - self.now);
        self.level = (self.level + gained).min(self.capacity());
        // What was taken within the limit is forgotten with its window; only debt is left over.
        let windows = now / self.rate.window - self.now / self.rate.window;
        self.used = (self.used - self.per_window() * i128::from(windows)).max(0);
        self.now = now;
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
            Kind::Window if wanted > self.per_window() => Err(Full::Forever),
            Kind::Window if self.used + wanted <= self.per_window() => Ok(()),
            Kind::Window => {
                let over = self.used + wanted - self.per_window();
                let windows = up(over, self.per_window());
                Err(Full::For((self.now / self.rate.window + windows) * self.rate.window - self.now))
            }
        }
    }

    /// Takes `n`; only after [`Meter::room`] said yes.
    pub(crate) fn take(&mut self, n: u64) {
        self.level -= i128::from(n) * UNIT;
        self.used += i128::from(n) * UNIT;
    }

    /// Takes one although there is no room, down to a debt of so many milliseconds of the rate.
    pub(crate) fn punish(&mut self, debt: u64) {
        let most = i128::from(self.rate.per_minute) * i128::from(debt);
        self.level = (self.level - UNIT).max((-most).min(self.level));
        self.used = (self.used + UNIT).min((self.per_window() + most).max(self.used));
    }

    /// The most that can be taken at once.
    pub(crate) fn limit(&self) -> u64 {
        match self.rate.kind {
            Kind::Bucket => self.rate.burst,
            Kind::Window => whole(self.per_window()),
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
            Kind::Window => whole((self.per_window() - self.used).max(0)),
        }
    }

    /// Milliseconds until all of it can be taken again.
    pub(crate) fn reset(&self) -> u64 {
        match self.rate.kind {
            Kind::Bucket => up(self.capacity() - self.level, i128::from(self.rate.per_minute)),
            Kind::Window if self.used == 0 => 0,
            Kind::Window => (self.now / self.rate.window + 1) * self.rate.window - self.now,
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
