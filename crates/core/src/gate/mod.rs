//! Flow control for one dependency, as pure code.
//!
//! A [`Gate`] is asked before every call ([`Gate::admit`]) and told how it ended ([`Gate::ended`]). It holds what its
//! worker knows and what all workers share ([`GateState`]), which is kept in the store: [`Gate::merge`] takes in what
//! others wrote, [`Gate::to_save`] hands out what they should know.
//!
//! | module | what it decides |
//! |---|---|
//! | `window` | how many calls at once |
//! | `rate` | how many per second, found out from being turned away |
//! | `told` | how many per second, from what answers say about limits |
//! | `bucket` | when the next call may start at a rate |
//! | `breaker` | whether the dependency is away, and when to try it out |
//! | `doubt` | what a single bad end of a call does not prove |
//! | `batch` | how many items one request may carry |
//! | `pace` | this worker's share, and so when the next call may start |
//! | `learn` | what a call that ended changes in all of these |
//! | `recent` | what became of the calls around one that was turned away |
//! | `throttle` | what kind of limit turned it away |
//! | `cut` | what follows from that: a measured rate, a pause |
//! | `evidence` | what was found of the kind of limit |
//! | `sync` | what workers tell each other |
//! | `forecast` | how long so many items take, before anything runs |
//! | `standing` | all of it in words |

mod batch;
mod breaker;
mod bucket;
mod cut;
mod doubt;
mod evidence;
mod forecast;
mod learn;
mod limits;
mod meter;
mod pace;
mod rate;
mod recent;
mod spec;
mod standing;
mod state;
mod sync;
mod throttle;
mod told;
mod window;

#[cfg(test)]
mod gate_tests;
#[cfg(test)]
mod lossy_tests;

pub use batch::BatchSize;
pub use breaker::Breaker;
pub use evidence::{Evidence, LimitKind};
pub use forecast::{Hold, Passage, Passing, Unknown, Work, items_within, passage};
pub use learn::{Lesson, Notice, Sign};
pub use limits::{Allowance, Limits};
pub use rate::Rate;
pub use spec::{BreakerSpec, GateSpec};
pub use standing::Standing;
pub use state::{Closed, GateState, Member, Paused, PausedBy, Totals, Unreadable};
pub use told::{Pace, Told};
pub use window::Window;

use breaker::Lately;
use bucket::Bucket;
use cut::SinceCut;
use doubt::{Losses, Refusals};
use meter::Meter;
use pace::Hurdle;
use recent::Recent;
use throttle::{Inquiry, Trial};

use crate::time::Timestamp;

/// A bucket of requests holds what comes in so many seconds, so that bursts stay small.
const REQUEST_BURST: f64 = 0.1;
/// A bucket of tokens.
const TOKEN_BURST: f64 = 1.0;

/// Flow control for one dependency, as one worker has it.
#[derive(Debug, Clone)]
pub struct Gate {
    spec: GateSpec,
    shared: GateState,
    me: String,
    under_way: usize,
    /// Calls that wait to be made, where that is known.
    waiting: Option<usize>,
    probing: bool,
    requests: Bucket,
    tokens: Bucket,
    started: Meter,
    started_at: Timestamp,
    /// When there were last twice as many places because calls take long.
    doubled_at: Timestamp,
    passed: Meter,
    lately: Lately,
    losses: Losses,
    refusals: Refusals,
    since_cut: Option<SinceCut>,
    /// Since when no call has passed, where that closed it.
    shut_since: Option<Timestamp>,
    /// Calls that passed at once when the limit was last found used up: as many are saved up during a pause.
    saved: f64,
    /// Calls that have passed since it was last closed, over all workers.
    passed_since_open: f64,
    recent: Recent,
    /// How fast calls were made at most when most were turned away, which share that was, and when.
    fastest: Option<(f64, f64, Timestamp)>,
    inquiry: Option<Inquiry>,
    trial: Option<Trial>,
    /// When it was last judged what turns calls away: those that had started by then were part of it.
    judged_at: Timestamp,
    synced: Totals,
    dirty: bool,
    urgent: bool,
    saved_at: Timestamp,
}

/// Leave to make one call. It has to be handed back with how the call ended.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use = "a permit that is not handed back is a call that never ends"]
pub struct Permit {
    no: u64,
    started: Timestamp,
    tokens: u64,
    probe: bool,
    made_up: bool,
}

impl Permit {
    /// Whether the call is to find out if the dependency is back.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.probe
    }
}

impl Gate {
    /// A gate as the pipeline describes it, with what is known of it. `me` names the worker.
    #[must_use]
    pub fn new(spec: GateSpec, shared: GateState, me: impl Into<String>, now: Timestamp) -> Self {
        let mut gate = Self {
            synced: shared.totals,
            spec,
            shared,
            me: me.into(),
            under_way: 0,
            waiting: None,
            probing: false,
            requests: Bucket::new(REQUEST_BURST),
            tokens: Bucket::new(TOKEN_BURST),
            started: Meter::default(),
            started_at: now,
            doubled_at: now,
            passed: Meter::default(),
            lately: Lately::default(),
            losses: Losses::default(),
            refusals: Refusals::default(),
            since_cut: None,
            shut_since: None,
            saved: 1.0,
            passed_since_open: 0.0,
            recent: Recent::default(),
            fastest: None,
            inquiry: None,
            trial: None,
            judged_at: Timestamp(i64::MIN),
            dirty: false,
            urgent: false,
            saved_at: now,
        };
        let (requests, tokens) = (gate.request_rate(now), gate.token_rate(now));
        gate.requests.owe_until(gate.shared.requests_free_at, now, requests);
        gate.tokens.owe_until(gate.shared.tokens_free_at, now, tokens);
        gate
    }

    /// What all workers share.
    #[must_use]
    pub fn shared(&self) -> &GateState {
        &self.shared
    }

    /// What was asked for.
    #[must_use]
    pub fn spec(&self) -> &GateSpec {
        &self.spec
    }

    /// Most tokens that one call may take: more can never pass.
    #[must_use]
    pub fn most_tokens(&self) -> Option<u64> {
        self.spec.tokens_per_minute
    }

    /// The sizes of a stage's requests.
    #[must_use]
    pub fn batch(&self, stage: &str) -> BatchSize {
        self.shared.batch.get(stage).copied().unwrap_or_default()
    }

    /// Remembers what was found about the sizes of a stage's requests.
    pub fn learn_batch(&mut self, stage: &str, batch: BatchSize) {
        if self.shared.batch.insert(stage.to_owned(), batch).map(|before| before.largest)
            != Some(batch.largest)
        {
            self.urgent = true;
        }
        self.dirty = true;
    }

    /// Whether it waits for somebody to act, or has been away for too long: why, and whether it is for want of credit.
    #[must_use]
    pub fn needs_somebody(&self, now: Timestamp) -> Option<(Option<PausedBy>, String)> {
        if let Some(pause) = &self.shared.pause {
            return Some((Some(pause.by), pause.why.clone()));
        }
        let away = self.shared.breaker.away_since?;
        self.shared.breaker.is_outage(self.spec.breaker.as_ref(), now).then(|| {
            // It is kept: how long ago that was would not stay true.
            (None, format!("no call has passed since {away}"))
        })
    }

    /// Until when nothing may start, whatever the rates; `None` when something may. [`Timestamp::MAX`] is until
    /// somebody acts.
    #[must_use]
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        if self.shared.pause.is_some() {
            return Some(Timestamp::MAX);
        }
        let away = self.is_away().then_some(self.shared.breaker.probe_at);
        let closed = [&self.shared.closed, &self.shared.parked].into_iter().flatten();
        away.into_iter().chain(closed.map(|closed| closed.until)).filter(|until| *until > now).max()
    }

    /// Only one call at a time, to try the dependency out.
    fn on_probation(&self) -> bool {
        self.is_away() || self.shared.parked.is_some()
    }

    /// Whether the next call is to find out if the dependency is back.
    #[must_use]
    pub fn is_trying_out(&self, now: Timestamp) -> bool {
        self.on_probation() && self.closed_until(now).is_none()
    }

    /// Asks for leave to make a call of about so many tokens.
    ///
    /// # Errors
    /// When the call has to wait: until when, where that is known.
    pub fn admit(&mut self, tokens: u64, now: Timestamp) -> Result<Permit, Option<Timestamp>> {
        self.look_again(now);
        match self.hurdle(tokens, now) {
            Hurdle::None => {}
            Hurdle::Until(at) => return Err(Some(at)),
            Hurdle::Calls | Hurdle::Somebody => return Err(None),
        }
        let (request_rate, token_rate) = (self.request_rate(now), self.token_rate(now));
        if request_rate.is_finite() {
            self.requests.fill(now, request_rate);
        }
        if token_rate.is_finite() {
            self.tokens.fill(now, token_rate);
        }
        let probe = self.on_probation();
        let more = !probe && self.under_way >= self.places(now);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let cost = tokens as f64;
        let made_up = self.requests.has_credit();
        if request_rate.is_finite() {
            self.requests.take(1.0);
        }
        if token_rate.is_finite() {
            self.tokens.take(cost);
        }
        self.under_way += 1;
        let no = self.recent.starts(now);
        if more && self.shared.window.is_new() {
            self.shared.window.double(f64::from(self.spec.max_concurrency));
            self.doubled_at = now;
        } else if more {
            self.shared.window.limit += 1.0;
        }
        if self.shared.totals.calls == self.synced.calls {
            self.doubled_at = now;
        }
        // Others divide places and rates with it from now on.
        self.urgent |= !self.shared.members.contains_key(&self.me);
        self.started_at = now;
        self.started.count(now);
        self.shared.totals.calls += 1;
        self.dirty = true;
        if probe {
            // Others do not try it out at the same time.
            self.probing = true;
            self.probe_again(self.probe_every(), now);
            self.urgent = true;
        }
        Ok(Permit { no, started: now, tokens, probe, made_up })
    }
}
