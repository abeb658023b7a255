//! What becomes of a call: a function of the plan, the calls before it and the time.
//!
//! The order is fixed: outage, key, shape, credit, concurrency, limits, size, poison, faults in the plan's order. The
//! first that applies decides.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::time::Timestamp;

use crate::asked::Asked;
use crate::call::Call;
use crate::chance::{Purpose, draw};
use crate::fate::{Decision, Fate, Malformed, fits, oversized, refuse};
use crate::hint;
use crate::ledger::Ledger;
use crate::limits::{Gate, Limits};
use crate::plan::{Fault, FaultKind, Hint, How, Plan, default_code};

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
    asked: Asked,
    ledger: Ledger,
}

impl Judge {
    /// Before the first call.
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self {
            limits: Limits::new(&plan.limit, plan.seed),
            plan,
            first: None,
            number: 0,
            open: 0,
            epoch: 0,
            paid: (0, 0),
            exhausted: false,
            hits: HashMap::new(),
            asked: Asked::default(),
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
        let marks = || call.iter().flat_map(|call| call.units.iter().map(|unit| unit.mark));
        self.ledger.arrived(path, now, self.open, self.asked.early(marks(), now));
        let plan = self.plan.clone();
        let mut answer = Answer { now, at, headers: Vec::new(), until: None };
        let (fate, slow) = self.fate(&plan, call.as_ref().copied(), key, &mut answer);
        if let Some(until) = answer.until {
            self.asked.ask(marks(), until);
        }
        let (items, tokens) = call.as_ref().map_or((0, 0), |call| (call.units.len(), call.tokens));
        let delay = if slow { self.delay(&plan, items) } else { Duration::ZERO };
        let mut headers = answer.headers;
        headers.extend(self.limits.headers(plan.limit.headers, tokens, now));
        Decision { fate, delay, headers }
    }

    /// The fate, and whether the call was worked on, which takes time.
    fn fate(
        &mut self,
        plan: &Plan,
        call: Result<&Call<'_>, &Malformed>,
        key: Option<&str>,
        answer: &mut Answer,
    ) -> (Fate, bool) {
        if let Some(down) = self.outage(plan, answer) {
            return (down, false);
        }
        if plan.api_key.as_ref().is_some_and(|expected| key != Some(expected.expose())) {
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
            let (latency, text) = (&plan.latency, "The server is overloaded: too many calls at once");
            answer.ask_to_wait(latency.over_retry_after, Hint::Seconds);
            return (refuse(latency.over_status, default_code(latency.over_status), text), false);
        }
        if let Some(rejected) = self.limited(plan, call, answer) {
            return (rejected, false);
        }
        let mut slow = true;
        let fate = oversized(plan, call).or_else(|| self.poisoned(plan, call)).or_else(|| {
            let fault = self.faulty(plan, call, answer.at)?;
            slow = !fault.quick;
            Some(fate_of(fault, answer))
        });
        let fate = fate.unwrap_or(Fate::Pass);
        if matches!(fate, Fate::Pass | Fate::Fault(FaultKind::Shuffled)) {
            self.paid = (self.paid.0 + 1, self.paid.1 + call.tokens);
        }
        (fate, slow)
    }

    fn outage(&mut self, plan: &Plan, answer: &mut Answer) -> Option<Fate> {
        let is_outage =
            |fault: &&Fault| matches!(fault.kind, FaultKind::Outage(_)) && fault.active(answer.at);
        let fault = plan.faults.iter().find(is_outage)?;
        self.ledger.fault(fault.kind.name());
        match fault.kind {
            FaultKind::Outage(How::Status(status)) => {
                let words = answer.ask_to_wait(fault.wait(answer.at), fault.hint);
                Some(refuse(status, "server_error", format!("The service is down{words}")))
            }
            _ => Some(Fate::Cut),
        }
    }

    /// Whether this call cannot be paid; from then on none can.
    fn out_of_credit(&mut self, plan: &Plan, call: &Call<'_>) -> bool {
        let requests = plan.quota.requests.is_some_and(|most| self.paid.0 + 1 > most);
        let tokens = plan.quota.tokens.is_some_and(|most| self.paid.1 + call.tokens > most);
        self.exhausted |= requests || tokens;
        self.exhausted
    }

    fn limited(&mut self, plan: &Plan, call: &Call<'_>, answer: &mut Answer) -> Option<Fate> {
        match self.limits.pass(&plan.limit, answer.at, call.tokens) {
            Gate::Open => None,
            Gate::Closed { of, per_minute, wait } => {
                let words = answer.ask_to_wait(Some(wait), plan.limit.hint);
                let text = format!("Rate limit reached for {of}: {per_minute} per minute{words}");
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

    fn poisoned(&mut self, plan: &Plan, call: &Call<'_>) -> Option<Fate> {
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

    /// The first fault that hits.
    fn faulty<'p>(&mut self, plan: &'p Plan, call: &Call<'_>, at: Duration) -> Option<&'p Fault> {
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
            return Some(fault);
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
        #[expect(clippy::cast_precision_loss, reason = "numbers of calls at once are small")]
        let crowd =
            plan.latency.capacity.map_or(1.0, |capacity| (self.open as f64 / capacity as f64).max(1.0));
        plan.latency_of(self.number, items).mul_f64(crowd)
    }
}

/// The headers of an answer while it is made.
struct Answer {
    now: Timestamp,
    /// Since the first call.
    at: Duration,
    headers: Vec<(&'static str, String)>,
    /// When its caller may come back, if it was told.
    until: Option<Timestamp>,
}

impl Answer {
    /// Says for how long to stay away; returns what the message has to say of it.
    fn ask_to_wait(&mut self, wait: Option<Duration>, hint: Hint) -> String {
        let Some(wait) = wait else { return String::new() };
        let (more, meant) = hint::headers(hint, self.now, wait);
        self.headers.extend(more);
        self.until = meant;
        hint::words(hint, wait)
    }
}

/// What a fault makes of a call.
fn fate_of(fault: &Fault, answer: &mut Answer) -> Fate {
    match &fault.kind {
        FaultKind::Status { status, code } => {
            let words = answer.ask_to_wait(fault.wait(answer.at), fault.hint);
            let text = format!("The server had an error while processing your request{words}");
            refuse(*status, code, text)
        }
        FaultKind::Cut => Fate::Cut,
        kind => Fate::Fault(kind.clone()),
    }
}
