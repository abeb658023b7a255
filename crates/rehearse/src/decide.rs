//! What becomes of a call: a function of the plan, the calls before it and the time.
//!
//! The order is fixed: outage, key, shape, credit, concurrency, limits, size, poison, faults in the plan's order. The
//! first that applies decides.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::time::Timestamp;

use crate::call::Call;
use crate::chance::{Purpose, draw};
use crate::hint;
use crate::ledger::Ledger;
use crate::limits::{Gate, Limits};
use crate::plan::{Fault, FaultKind, Hint, How, Plan};
use crate::verdict::{Decision, Malformed, Verdict, fits, oversized, refuse};

/// Items whose faults are counted one by one.
const ITEMS: usize = 200_000;

/// Decides, and remembers what it has to.
#[derive(Debug)]
pub(crate) struct Judge {
    plan: Arc<Plan>,
    limits: Limits,
    first: Option<Timestamp>,
    number: u64,
    open: u64,
    epoch: u64,
    paid: (u64, u64),
    exhausted: bool,
    hits: HashMap<(usize, u64), u32>,
    alone_until: Timestamp,
    ledger: Ledger,
}

impl Judge {
    /// Before the first call.
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self {
            limits: Limits::new(&plan.limit),
            plan,
            first: None,
            number: 0,
            open: 0,
            epoch: 0,
            paid: (0, 0),
            exhausted: false,
            hits: HashMap::new(),
            alone_until: Timestamp(i64::MIN),
            ledger: Ledger::default(),
        }
    }

    /// Forgets everything but the calls that are still open.
    pub(crate) fn reset(&mut self) {
        let (open, epoch) = (self.open, self.epoch + 1);
        *self = Self { open, epoch, ..Self::new(self.plan.clone()) };
    }

    /// Credit is bought: counting begins anew.
    pub(crate) fn top_up(&mut self) {
        self.paid = (0, 0);
        self.exhausted = false;
    }

    /// Which count a call belongs to; another after a reset.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The counts.
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Calls that are not answered yet.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// A call is over.
    pub(crate) fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// How long after the first call this is; `None` before there was one.
    pub(crate) fn since_first(&self, now: Timestamp) -> Option<Duration> {
        self.first.map(|first| now.since(first))
    }

    /// A call comes: counts it and decides.
    pub(crate) fn arrive(
        &mut self,
        path: &str,
        call: Result<&Call<'_>, Malformed>,
        key: Option<&str>,
        now: Timestamp,
    ) -> Decision {
        let at = now.since(*self.first.get_or_insert(now));
        self.number += 1;
        self.open += 1;
        self.ledger.arrived(path, now, self.open, now < self.alone_until);
        let plan = self.plan.clone();
        let mut headers = Vec::new();
        let (verdict, slow) = self.verdict(&plan, call.as_ref().copied(), key, (now, at), &mut headers);
        let items = call.map_or(0, |call| call.units.len());
        let delay = if slow { self.delay(&plan, items) } else { Duration::ZERO };
        if plan.limit.headers {
            headers.extend(self.limits.headers());
        }
        Decision { verdict, delay, headers }
    }

    /// The verdict, and whether the call was worked on, which takes time.
    fn verdict(
        &mut self,
        plan: &Plan,
        call: Result<&Call<'_>, &Malformed>,
        key: Option<&str>,
        (now, at): (Timestamp, Duration),
        headers: &mut Vec<(&'static str, String)>,
    ) -> (Verdict, bool) {
        if let Some(down) = self.outage(plan, now, at, headers) {
            return (down, false);
        }
        if plan.api_key.as_ref().is_some_and(|expected| key != Some(expected.0.as_str())) {
            return (refuse(401, "invalid_api_key", "Incorrect API key provided"), false);
        }
        let call = match call {
            Ok(call) => call,
            Err((status, text)) => return (refuse(*status, "invalid_request", text.clone()), false),
        };
        if self.out_of_credit(plan, call) {
            let text = "You exceeded your current quota, please check your plan and billing details";
            return (refuse(429, "insufficient_quota", text), false);
        }
        if plan.latency.max_concurrency.is_some_and(|most| self.open > most) {
            let text = "The server is overloaded: too many calls at once";
            return (refuse(plan.latency.over_status, "server_error", text), false);
        }
        if let Some(rejected) = self.limited(plan, call, now, at, headers) {
            return (rejected, false);
        }
        let verdict = oversized(plan, call)
            .or_else(|| self.poisoned(plan, call))
            .or_else(|| self.faulty(plan, call, now, at, headers));
        let verdict = verdict.unwrap_or(Verdict::Pass);
        if matches!(verdict, Verdict::Pass | Verdict::Fault(FaultKind::Shuffled)) {
            self.paid = (self.paid.0 + 1, self.paid.1 + call.tokens);
        }
        (verdict, true)
    }

    fn outage(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        at: Duration,
        headers: &mut Vec<(&'static str, String)>,
    ) -> Option<Verdict> {
        let is_outage = |fault: &&Fault| matches!(fault.kind, FaultKind::Outage(_)) && fault.active(at);
        let fault = plan.faults.iter().find(is_outage)?;
        self.ledger.fault(fault.kind.name());
        match fault.kind {
            FaultKind::Outage(How::Status(status)) => {
                self.ask_to_wait(fault.retry_after, Hint::Seconds, now, headers);
                Some(refuse(status, "server_error", "The service is down"))
            }
            _ => Some(Verdict::Cut),
        }
    }

    /// Whether this call cannot be paid; from then on none can.
    fn out_of_credit(&mut self, plan: &Plan, call: &Call<'_>) -> bool {
        let requests = plan.quota.requests.is_some_and(|most| self.paid.0 + 1 > most);
        let tokens = plan.quota.tokens.is_some_and(|most| self.paid.1 + call.tokens > most);
        self.exhausted |= requests || tokens;
        self.exhausted
    }

    fn limited(
        &mut self,
        plan: &Plan,
        call: &Call<'_>,
        now: Timestamp,
        at: Duration,
        headers: &mut Vec<(&'static str, String)>,
    ) -> Option<Verdict> {
        match self.limits.pass(&plan.limit, at, call.tokens) {
            Gate::Open => None,
            Gate::Closed { of, per_minute, wait } => {
                self.ask_to_wait(Some(wait), plan.limit.hint, now, headers);
                let wait = hint::span(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                let text =
                    format!("Rate limit reached for {of}: {per_minute} per minute. Try again in {wait}");
                Some(refuse(429, "rate_limit_exceeded", text))
            }
            Gate::TooLarge { most } => {
                let code = if plan.limit.too_large_status == 429 {
                    "rate_limit_exceeded"
                } else {
                    "context_length_exceeded"
                };
                let text = format!(
                    "Request too large: {} tokens, and the limit lets {most} through at once",
                    call.tokens
                );
                Some(refuse(plan.limit.too_large_status, code, text))
            }
        }
    }

    fn ask_to_wait(
        &mut self,
        wait: Option<Duration>,
        hint: Hint,
        now: Timestamp,
        headers: &mut Vec<(&'static str, String)>,
    ) {
        let Some(wait) = wait else { return };
        let (more, meant) = hint::headers(hint, now, wait);
        headers.extend(more);
        self.alone_until = self.alone_until.max(meant.unwrap_or(self.alone_until));
    }

    fn poisoned(&mut self, plan: &Plan, call: &Call<'_>) -> Option<Verdict> {
        for poison in &plan.poison {
            let Some(unit) = call.units.iter().find(|unit| unit.text.contains(&poison.marker)) else {
                continue;
            };
            let name = match &unit.item {
                Some((_, key)) if !key.is_empty() => key.chars().take(128).collect(),
                _ => format!("{:016x}", unit.mark),
            };
            self.ledger.poison(&poison.marker, name);
            return Some(refuse(poison.status, &poison.code, "The input cannot be processed"));
        }
        None
    }

    fn faulty(
        &mut self,
        plan: &Plan,
        call: &Call<'_>,
        now: Timestamp,
        at: Duration,
        headers: &mut Vec<(&'static str, String)>,
    ) -> Option<Verdict> {
        for (index, fault) in plan.faults.iter().enumerate() {
            let outage = matches!(fault.kind, FaultKind::Outage(_));
            let elsewhere = fault.path.as_ref().is_some_and(|path| !call.path.starts_with(path));
            if outage || elsewhere || !fault.active(at) || !fits(&fault.kind, call) {
                continue;
            }
            if !self.hits(plan.seed, index, fault, call) {
                continue;
            }
            self.ledger.fault(fault.kind.name());
            return Some(match &fault.kind {
                FaultKind::Status { status, code } => {
                    self.ask_to_wait(fault.retry_after, Hint::Seconds, now, headers);
                    refuse(*status, code, "The server had an error while processing your request")
                }
                FaultKind::Cut => Verdict::Cut,
                kind => Verdict::Fault(kind.clone()),
            });
        }
        None
    }

    fn hits(&mut self, seed: u64, index: usize, fault: &Fault, call: &Call<'_>) -> bool {
        if !fault.by_item {
            return draw(seed, Purpose::Fault(index), self.number) < fault.rate;
        }
        let mut hit = false;
        for unit in &call.units {
            if draw(seed, Purpose::Fault(index), unit.mark) >= fault.rate {
                continue;
            }
            let Some(most) = fault.times else { return true };
            let full = self.hits.len() >= ITEMS;
            let known = self.hits.get_mut(&(index, unit.mark));
            match known {
                Some(times) if *times >= most => {}
                Some(times) => {
                    *times += 1;
                    hit = true;
                }
                // Beyond the bound an item cannot be counted, so it is spared.
                None if full => {}
                None if most > 0 => {
                    self.hits.insert((index, unit.mark), 1);
                    hit = true;
                }
                None => {}
            }
        }
        hit
    }

    fn delay(&self, plan: &Plan, items: usize) -> Duration {
        let latency = &plan.latency;
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        let plain = latency.base.saturating_add(latency.per_item.saturating_mul(items));
        if plain.is_zero() {
            return plain;
        }
        let stray = 1.0 + latency.jitter * (2.0 * draw(plan.seed, Purpose::Jitter, self.number) - 1.0);
        #[expect(clippy::cast_precision_loss, reason = "numbers of calls at once are small")]
        let crowd = latency.capacity.map_or(1.0, |capacity| (self.open as f64 / capacity as f64).max(1.0));
        plain.mul_f64(stray * crowd)
    }
}
