//! Gates, and the services behind them: limited by rate, away, out of credit, particular about sizes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::{Allowance, BreakerSpec, GateSpec, Limits};
use redrive_core::usage::Usage;
use redrive_engine::recipe::GateWork;

use crate::campaign::is_plain;
use crate::hub::{EPOCH, Hub};
use crate::met::Met;
use crate::rng::{Rng, mix};

/// What some services ask for.
const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How many in a thousand seeds have gates.
const SHARE: u64 = 300;

/// The gates of a run, and what is behind them.
#[derive(Debug, Default)]
pub struct Gated {
    /// The gates.
    pub gates: Vec<GateWork>,
    /// Each stage's gate.
    pub of_stage: Vec<Option<usize>>,
    /// Most tokens in a call of each stage.
    pub batch_tokens: Vec<Option<u64>>,
    /// What is behind each gate.
    pub services: Vec<Service>,
    /// Whether some items are larger than any gate.
    pub huge: bool,
}

/// One service.
#[derive(Debug)]
pub struct Service {
    /// So many requests within so many milliseconds.
    limit: Option<(u64, i64)>,
    hint: Hint,
    /// From when to when it is away, since the beginning.
    outage: (i64, i64),
    /// So many calls until credit is exhausted.
    credit: Option<u64>,
    /// Larger requests fail.
    most: Option<usize>,
    /// It says what its limits are.
    says_limits: bool,
    /// It says what it consumed, and what that costs.
    usage: Option<Option<u64>>,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    window: i64,
    requests: u64,
    calls: u64,
    topped_up: bool,
}

/// What a service says to those it turns away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    Nothing,
    Truth,
    Zero,
    TenYears,
    TooShort,
}

impl Service {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody pays.
    pub fn top_up(&self) {
        self.used().topped_up = true;
    }

    /// Whether the service turns a request of so many items away, or fails.
    pub fn refuse(&self, hub: &Hub, items: usize) -> Option<Failure> {
        let (now, healed) = (hub.now(), hub.healed());
        let mut used = self.used();
        used.calls += 1;
        if !healed && (self.outage.0..self.outage.1).contains(&(now - EPOCH)) {
            let server =
                |status| Failure::new(Class::Retryable, Kind::Server, "unavailable").with_status(status);
            return Some(match self.outage.0 % 4 {
                0 => Failure::new(Class::Retryable, Kind::Connection, "connection refused"),
                1 => server(500),
                2 => server(503).with_hint(Some(Duration::from_millis(700))),
                _ => server(503),
            });
        }
        if !used.topped_up && self.credit.is_some_and(|credit| used.calls > credit) {
            return Some(Failure::new(Class::Quota, Kind::Client, "your credit is used up").with_status(429));
        }
        if let Some((most, width)) = self.limit {
            let window = now / width;
            if window != used.window {
                (used.window, used.requests) = (window, 0);
            }
            used.requests += 1;
            if used.requests > most {
                return Some(self.turn_away(hub, (window + 1) * width - now, healed));
            }
        }
        let too_large = self.most.is_some_and(|most| items > most);
        too_large.then(|| Failure::new(Class::Retryable, Kind::Server, "internal error").with_status(500))
    }

    fn turn_away(&self, hub: &Hub, left: i64, healed: bool) -> Failure {
        let left = Duration::from_millis(left.unsigned_abs());
        let hint = match self.hint {
            Hint::Nothing => None,
            Hint::Zero => Some(Duration::ZERO),
            Hint::TooShort => Some(left / 4),
            Hint::TenYears if !healed => Some(TEN_YEARS),
            Hint::Truth | Hint::TenYears => Some(left),
        };
        hub.meet(if hint.is_some() { Met::Hinted } else { Met::Throttled });
        Failure::new(Class::RateLimited, Kind::Client, "too many requests").with_status(429).with_hint(hint)
    }

    /// What an answer says besides the verdicts.
    pub fn says(&self, hub: &Hub, tokens: u64) -> (Option<Usage>, Limits) {
        let usage = self.usage.map(|price| Usage {
            tokens_in: tokens,
            tokens_out: tokens / 3 + 1,
            nano_usd: price.map(|price| price * tokens),
        });
        let requests = self.limit.filter(|_| self.says_limits).map(|(most, width)| {
            let left = most.saturating_sub(self.used().requests);
            let reset = width - hub.now() % width;
            #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            let (limit, remaining) = (Some(most as f64), left as f64);
            Allowance { limit, remaining, reset: Duration::from_millis(reset.unsigned_abs()) }
        });
        (usage, Limits { requests, tokens: None })
    }
}

/// Draws gates for some of the stages, from chance of its own: what else a seed stands for stays as it is.
#[must_use]
pub fn draw(seed: u64, stages: usize, second: i64, faults: i64) -> Gated {
    let rng = Rng::new(mix(&[seed, 11]));
    if is_plain(seed) || !rng.permille(SHARE) {
        return Gated::default();
    }
    let count = rng.size(1, 2);
    let of_stage: Vec<_> = (0..stages).map(|_| rng.permille(750).then(|| rng.size(0, count - 1))).collect();
    Gated {
        gates: (0..count)
            .map(|no| GateWork { name: Arc::from(format!("g{no}")), spec: spec(&rng, second) })
            .collect(),
        batch_tokens: of_stage.iter().map(|_| rng.permille(250).then(|| rng.range(20, 300))).collect(),
        of_stage,
        services: (0..count).map(|_| service(&rng, second, faults)).collect(),
        huge: rng.permille(200),
    }
}

fn spec(rng: &Rng, second: i64) -> GateSpec {
    let second = second.unsigned_abs();
    let span = |low: u64, high: u64| Duration::from_millis(second * rng.range(low, high));
    let small = |low: u64, high: u64| u32::try_from(rng.range(low, high)).unwrap_or(1);
    GateSpec {
        max_concurrency: small(1, 8),
        requests_per_minute: rng.permille(250).then(|| rng.range(120, 1_200) * 1_000 / second),
        tokens_per_minute: rng.permille(250).then(|| rng.range(6_000, 60_000) * 1_000 / second),
        breaker: rng.permille(800).then(|| BreakerSpec {
            failure_rate: *rng.pick(&[0.3, 0.5, 1.0]),
            min_calls: small(2, 6),
            window: span(2, 20),
            open_for: span(1, 4),
            pause_after: span(3, 20),
        }),
        hint_cap: span(2, 20),
    }
}

fn service(rng: &Rng, second: i64, faults: i64) -> Service {
    let outage = if rng.permille(400) {
        let from = rng.span(0, faults);
        (from, from + rng.span(second, second * 30))
    } else {
        (0, 0)
    };
    Service {
        limit: rng.permille(500).then(|| (rng.range(3, 30), second * rng.span(1, 3))),
        hint: *rng.pick(&[
            Hint::Nothing,
            Hint::Truth,
            Hint::Truth,
            Hint::Zero,
            Hint::TenYears,
            Hint::TooShort,
        ]),
        outage,
        credit: rng.permille(250).then(|| rng.range(1, 60)),
        most: rng.permille(150).then(|| rng.size(1, 4)),
        says_limits: rng.permille(300),
        usage: rng.permille(600).then(|| rng.permille(500).then(|| rng.range(1, 900))),
        used: Mutex::default(),
    }
}
