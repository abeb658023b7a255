//! Services that limit in every way that is known of real ones. Times are seconds since the first call.

use std::collections::VecDeque;
use std::time::Duration;

use redrive_core::gate::{Allowance, Limits};

use crate::dice::Dice;

/// What a service takes, and what it turns away.
#[derive(Debug, Clone)]
pub enum Limit {
    /// Everything passes.
    None,
    /// A bucket that fills at a rate.
    Bucket { rate: f64, burst: f64 },
    /// The same, whose rate changes: from then on it is that.
    Steps { steps: Vec<(f64, f64)>, burst: f64 },
    /// So many in each window of so many seconds, the first of which begins with the first call.
    Window { most: f64, seconds: f64 },
    /// So many in any span of so many seconds.
    Sliding { most: usize, seconds: f64, rejected_count: bool },
    /// So many calls at once.
    AtOnce { most: usize },
    /// Each call with this chance; or only an item's first.
    Random { share: f64, only_first: bool },
    /// Everything, for the last `lasts` of every `every` seconds.
    Bursts { every: f64, lasts: f64 },
    /// A line of calls, worked on by so many at once; a longer line than `most` is turned away.
    Queue { servers: usize, most: usize },
    /// So many at once go as fast as they can; more take longer by this power of how many times as many they are.
    Crowd { knee: f64, power: f64 },
    /// Calls get lost with this chance.
    Lost { share: f64 },
}

/// What a service says to a call that it turns away.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tell {
    /// Nothing.
    Nothing,
    /// When there is room for one.
    Exactly,
    /// The same, rounded up to whole seconds, at least one.
    Seconds,
    /// A date without fractions, rounded up.
    Date,
    /// Always that.
    Always(f64),
}

/// What answers say about what is left, and when all of it is there again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headers {
    Nothing,
    Exact,
    /// A bucket's limit is told as what comes in a minute, though it holds less.
    PerMinute,
    /// The same, with whole seconds.
    WholePerMinute,
}

/// A service.
#[derive(Debug, Clone)]
pub struct Provider {
    pub limit: Limit,
    pub tell: Tell,
    /// What answers say about what is left.
    pub headers: Headers,
    /// Calls that are turned away take one as well, down to a debt of five seconds.
    pub rejected_cost: bool,
    /// How long a good answer takes.
    pub latency: f64,
    /// The spread of the logarithm of that.
    pub tail: f64,
}

/// How a call was answered.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    pub end: End,
    pub hint: Option<Duration>,
    pub limits: Limits,
    /// How long it took.
    pub took: f64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Passed,
    TurnedAway,
    Lost,
}

/// A service at work.
pub struct Service {
    provider: Provider,
    dice: Dice,
    level: f64,
    at: f64,
    window: f64,
    times: VecDeque<f64>,
    /// When each call that is being worked on ends.
    busy: Vec<f64>,
}

impl Service {
    pub fn new(provider: &Provider, seed: u64) -> Self {
        let level = match provider.limit {
            Limit::Bucket { burst, .. } | Limit::Steps { burst, .. } => burst,
            _ => 0.0,
        };
        Self {
            provider: provider.clone(),
            dice: Dice::new(seed),
            level,
            at: 0.0,
            window: 0.0,
            times: VecDeque::new(),
            busy: Vec::new(),
        }
    }

    /// A call arrives; `tries` it has had before.
    pub fn arrive(&mut self, now: f64, tries: u32) -> Answer {
        self.busy.retain(|end| *end > now);
        let latency = self.provider.latency * (self.provider.tail * self.dice.normal()).exp();
        let (end, wait, took) = self.judge(now, tries, latency);
        if end == End::Passed {
            self.busy.push(now + took);
        }
        let hint = wait.and_then(|wait| self.hint(wait, now)).filter(|_| end == End::TurnedAway);
        let limits = Limits { requests: self.allowance(now), tokens: None };
        Answer { end, hint: hint.map(Duration::from_secs_f64), limits, took }
    }

    /// Whether it passes, how long until there is room, and how long the answer takes.
    fn judge(&mut self, now: f64, tries: u32, latency: f64) -> (End, Option<f64>, f64) {
        const QUICK: f64 = 0.005;
        let judged = |passes: bool, wait: f64| {
            if passes { (End::Passed, None, latency) } else { (End::TurnedAway, Some(wait), QUICK) }
        };
        match self.provider.limit.clone() {
            Limit::None => judged(true, 0.0),
            Limit::Bucket { .. } | Limit::Steps { .. } => {
                let (rate, burst) = self.fill(now);
                let passes = self.level >= 1.0;
                if passes || self.provider.rejected_cost {
                    self.level = (self.level - 1.0).max(-5.0 * rate);
                }
                let _ = burst;
                judged(passes, (1.0 - self.level).max(0.0) / rate)
            }
            Limit::Window { most, seconds } => {
                let window = (now / seconds).floor();
                if window > self.window {
                    (self.window, self.level) = (window, 0.0);
                }
                self.level += 1.0;
                judged(self.level <= most, (window + 1.0) * seconds - now)
            }
            Limit::Sliding { most, seconds, rejected_count } => {
                while self.times.front().is_some_and(|at| *at <= now - seconds) {
                    self.times.pop_front();
                }
                let passes = self.times.len() < most;
                let wait = self.times.len().checked_sub(most).and_then(|over| self.times.get(over));
                let wait = wait.map_or(0.0, |at| at + seconds - now);
                if passes || rejected_count {
                    self.times.push_back(now);
                }
                judged(passes, wait)
            }
            Limit::AtOnce { most } => {
                let free = self.busy.iter().copied().fold(f64::INFINITY, f64::min) - now;
                judged(self.busy.len() < most, free.clamp(0.0, 60.0))
            }
            Limit::Random { share, only_first } => {
                let hit = self.dice.hits(share) && (!only_first || tries == 0);
                judged(!hit, 0.0)
            }
            Limit::Bursts { every, lasts } => {
                let into = now.rem_euclid(every);
                judged(into < every - lasts, every - into)
            }
            Limit::Queue { servers, most } => {
                if self.busy.len() >= most {
                    return judged(false, 0.0);
                }
                let mut ends = self.busy.clone();
                ends.sort_by(f64::total_cmp);
                let starts = ends.len().checked_sub(servers).map_or(now, |first| ends[first]);
                (End::Passed, None, starts - now + latency)
            }
            Limit::Crowd { knee, power } => {
                #[expect(clippy::cast_precision_loss, reason = "dozens")]
                let crowd = (self.busy.len() as f64 + 1.0) / knee;
                (End::Passed, None, latency * crowd.max(1.0).powf(power))
            }
            Limit::Lost { share } => {
                let lost = self.dice.hits(share);
                (if lost { End::Lost } else { End::Passed }, None, latency)
            }
        }
    }

    /// The bucket's rate and size, filled up to now.
    fn fill(&mut self, now: f64) -> (f64, f64) {
        let (rate, burst) = match &self.provider.limit {
            Limit::Bucket { rate, burst } => (*rate, *burst),
            Limit::Steps { steps, burst } => (rate_at(steps, now), *burst),
            _ => (1.0, 1.0),
        };
        self.level = (self.level + rate * (now - self.at)).min(burst);
        self.at = now;
        (rate, burst)
    }

    fn hint(&self, wait: f64, now: f64) -> Option<f64> {
        match self.provider.tell {
            Tell::Nothing => None,
            Tell::Exactly => Some(wait),
            Tell::Seconds => Some(wait.ceil().max(1.0)),
            Tell::Date => Some((now + wait).ceil() - now),
            Tell::Always(seconds) => Some(seconds),
        }
    }

    fn allowance(&self, now: f64) -> Option<Allowance> {
        let headers = self.provider.headers;
        if headers == Headers::Nothing {
            return None;
        }
        let (limit, remaining, reset) = match &self.provider.limit {
            Limit::Bucket { rate, burst } => {
                let limit = if headers == Headers::Exact { *burst } else { rate * 60.0 };
                (limit, self.level.max(0.0).floor(), (burst - self.level) / rate)
            }
            Limit::Window { most, seconds } => {
                (*most, (most - self.level).max(0.0), (self.window + 1.0) * seconds - now)
            }
            _ => return None,
        };
        let reset = if headers == Headers::WholePerMinute { reset.ceil() } else { reset };
        let reset = Duration::from_secs_f64(reset.max(0.0));
        Some(Allowance { limit: Some(limit), remaining, reset })
    }
}

/// The rate that holds at a time.
pub fn rate_at(steps: &[(f64, f64)], now: f64) -> f64 {
    steps.iter().take_while(|(from, _)| *from <= now).last().map_or(1.0, |(_, rate)| *rate)
}
