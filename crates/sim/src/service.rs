//! Gates, and the services behind them: limited by rate, away, out of credit, particular about sizes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::{Allowance, BreakerSpec, GateSpec, Limits};
use redrive_core::plan::{Plan, StagePlan};
use redrive_core::usage::Usage;
use redrive_engine::handler::Input;
use redrive_engine::recipe::GateWork;

use crate::campaign::is_plain;
use crate::hub::{EPOCH, Hub};
use crate::met::Met;
use crate::rng::{Rng, mix, mix_bytes};

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
    /// So many of a thousand calls are turned away whatever their rate, for ever.
    sheds: u64,
    /// Everything is turned away for the second of these times out of every first, for ever.
    hiccups: Option<(i64, i64)>,
    /// So many calls at once, each of which it has in work for so many milliseconds, for ever.
    at_once: Option<(usize, i64)>,
    /// Calls with such an item fail, so many of a thousand items.
    bad: u64,
    /// They fail for ever: every policy gives up.
    bad_for_ever: bool,
    /// It says 503 to those it turns away without a hint, as some limiters do.
    vague: bool,
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
    /// When calls that are in work end.
    in_work: Vec<i64>,
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

    /// Whether the service turns a request for these items away, or fails.
    pub fn refuse(&self, hub: &Hub, items: &[Input]) -> Option<Failure> {
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
        if mix(&[used.calls, self.sheds, 13]) % 1_000 < self.sheds {
            return Some(self.turn_away(hub, 200, healed));
        }
        if let Some((every, lasts)) = self.hiccups
            && now % every < lasts
        {
            return Some(self.turn_away(hub, lasts - now % every, healed));
        }
        used.in_work.retain(|ends| *ends > now);
        if self.at_once.is_some_and(|(most, _)| used.in_work.len() >= most) {
            hub.meet(Met::TooManyAtOnce);
            return Some(self.turn_away(hub, 200, healed));
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
        used.in_work.extend(self.at_once.map(|(_, takes)| now + takes));
        let too_large = self.most.is_some_and(|most| items.len() > most);
        let bad = |item: &Input| mix(&[mix_bytes(item.key.as_bytes()), 19]) % 1_000 < self.bad;
        let fails = too_large || ((self.bad_for_ever || !healed) && items.iter().any(bad));
        fails.then(|| Failure::new(Class::Retryable, Kind::Server, "internal error").with_status(500))
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
        if self.vague && hint.is_none() {
            return Failure::new(Class::Retryable, Kind::Server, "busy").with_status(503);
        }
        Failure::new(Class::RateLimited, Kind::Client, "too many requests").with_status(429).with_hint(hint)
    }

    /// What an answer says besides the replies.
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
pub fn draw(seed: u64, plan: &Plan, second: i64, faults: i64) -> Gated {
    let rng = Rng::new(mix(&[seed, 11]));
    if is_plain(seed) || !rng.permille(SHARE) {
        return Gated::default();
    }
    let count = rng.size(1, 2);
    let stages = plan.stages().count();
    let gives_up = |stage: &StagePlan| stage.policy.most_failures().is_some_and(|most| most.get() <= 8);
    let bad_for_ever = second == 1_000 && plan.stages().all(|(_, stage)| gives_up(stage));
    let moods = |no| moody(service(&rng, second, faults), seed, no, second);
    let of_stage: Vec<_> = (0..stages).map(|_| rng.permille(750).then(|| rng.size(0, count - 1))).collect();
    Gated {
        gates: (0..count)
            .map(|no| GateWork { name: Arc::from(format!("g{no}")), spec: spec(&rng, second) })
            .collect(),
        batch_tokens: of_stage.iter().map(|_| rng.permille(250).then(|| rng.range(20, 300))).collect(),
        of_stage,
        services: (0..count).map(|no| Service { bad_for_ever, ..moods(no) }).collect(),
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

/// Some services shed calls at random, some turn everything away now and then, take few calls at once, or never bear some items:
/// from chance of their own, too.
fn moody(service: Service, seed: u64, no: usize, second: i64) -> Service {
    let rng = Rng::new(mix(&[seed, 17, no as u64]));
    let sheds = if rng.permille(250) { *rng.pick(&[10, 30, 100, 300]) } else { 0 };
    let every = second * rng.span(4, 12);
    let hiccups = rng.permille(150).then_some((every, every / 5));
    let at_once = rng.permille(150).then(|| (rng.size(1, 3), second * rng.span(1, 4) / 8 + 1));
    let bad = if rng.permille(250) { *rng.pick(&[50, 200, 600, 1_000]) } else { 0 };
    Service { sheds, hiccups, at_once, bad, vague: rng.permille(150), ..service }
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
        sheds: 0,
        hiccups: None,
        at_once: None,
        bad: 0,
        bad_for_ever: false,
        vague: false,
        credit: rng.permille(250).then(|| rng.range(1, 60)),
        most: rng.permille(150).then(|| rng.size(1, 4)),
        says_limits: rng.permille(300),
        usage: rng.permille(600).then(|| rng.permille(500).then(|| rng.range(1, 900))),
        used: Mutex::default(),
    }
}
