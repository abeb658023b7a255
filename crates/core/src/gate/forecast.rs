//! How long so many items take through a gate, as far as its limits say.
//!
//! Each limit says when the last call can start: that many requests at a rate, that many tokens at a rate, that many calls
//! of some length so many at once (Little's law). The latest of them holds. It is what the gate itself does with limits
//! that are given: never more than a minute's worth in any minute, whether the service counts in windows or in buckets.
//! So 47 texts of 400 tokens in calls of 25, at 3 requests and 10,000 tokens a minute, take 60 s: the second call waits
//! until the 10,000 tokens of the first are paid back. A service whose bucket is full at the beginning would take it after
//! 52.8 s, when the 8,800 tokens it needs are there; one that counts by the minute, not before 60 s.

use std::time::Duration;

use serde::Serialize;

use super::spec::GateSpec;
use super::{REQUEST_BURST, TOKEN_BURST};
use crate::policy::Policy;

/// What a stage asks of its gate. What is not known is left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Items that come to the stage.
    pub items: u64,
    /// Calls that an item takes part in, retries included; may be infinite.
    pub calls_per_item: f64,
    /// Most items of one call.
    pub batch: u32,
    /// Most tokens of one call.
    pub batch_tokens: Option<u64>,
    /// Tokens of one item.
    pub tokens_per_item: Option<u64>,
    /// Most calls at once.
    pub concurrency: Option<u32>,
    /// How long a call takes.
    pub latency: Option<Duration>,
}

/// What holds calls up most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// `requests_per_minute`.
    Requests,
    /// `tokens_per_minute`.
    Tokens,
    /// Calls at once, and how long each takes.
    Concurrency,
}

impl Hold {
    /// The name used in JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Concurrency => "concurrency",
        }
    }
}

/// What is not known, so that the time is only the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// No limit is given: what the service says, or bears, is learnt at run time.
    Limits,
    /// How many tokens an item has.
    TokensPerItem,
    /// How long a call takes.
    Latency,
    /// How many calls run at once.
    Concurrency,
}

/// What to expect of a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// Requests, retries included; infinite when nothing ends them.
    pub requests: f64,
    /// The share of them that are retries.
    pub retried: f64,
    /// Tokens of all requests, where those of an item are known.
    pub tokens: Option<f64>,
    /// Calls at once.
    pub at_once: Option<u32>,
    /// The time that the limit of requests alone would take.
    pub by_requests: Option<Duration>,
    /// The time that the limit of tokens alone would take.
    pub by_tokens: Option<Duration>,
    /// The time that so many calls at once alone would take.
    pub by_concurrency: Option<Duration>,
    /// What holds calls up most; none where nothing does, or nothing is known.
    pub held_by: Option<Hold>,
    /// The longest of those times; none where there is none.
    pub time: Option<Duration>,
    /// What is not known; with nothing in it, the time is what to expect, else the least.
    pub unknown: Vec<Unknown>,
    /// An item has more tokens than can ever pass: it is refused without a call.
    pub refused: bool,
}

impl Work {
    /// Items of one request, as batches are made: no more than `batch`, `batch_tokens` and a minute's tokens hold.
    #[must_use]
    pub fn items_per_request(&self, spec: &GateSpec) -> u64 {
        let by_tokens = self.tokens_per_item.filter(|tokens| *tokens > 0).and_then(|each| {
            let most = [spec.tokens_per_minute, self.batch_tokens].into_iter().flatten().min()?;
            Some(most / each)
        });
        u64::from(self.batch).min(by_tokens.unwrap_or(u64::MAX)).max(1)
    }

    /// Whether an item can never pass: the gate refuses what is twice as much as a minute lets through.
    fn is_refused(&self, spec: &GateSpec) -> bool {
        let most = spec.tokens_per_minute.map(|most| most.saturating_mul(2));
        self.tokens_per_item.zip(most).is_some_and(|(each, most)| each > most)
    }

    #[expect(clippy::cast_precision_loss, reason = "an expectation needs no exact count")]
    fn load(&self, spec: &GateSpec) -> Load {
        let size = self.items_per_request(spec);
        let first = self.items.div_ceil(size);
        // No items need no calls, however often each would fail.
        let times = |n: f64| if self.items == 0 { 0.0 } else { n * self.calls_per_item };
        let last = self.items.saturating_sub(first.saturating_sub(1).saturating_mul(size));
        Load {
            first: first as f64,
            requests: times(first as f64),
            tokens: self.tokens_per_item.map(|each| times(self.items as f64 * each as f64)),
            last_tokens: self.tokens_per_item.map(|each| last as f64 * each as f64),
            busy: self.latency.map(|latency| times(first as f64 * latency.as_secs_f64())),
        }
    }
}

/// A stage's share of the work.
struct Load {
    /// Requests without retries.
    first: f64,
    requests: f64,
    tokens: Option<f64>,
    /// Tokens of the last request.
    last_tokens: Option<f64>,
    /// How long all calls take one after the other, in seconds.
    busy: Option<f64>,
}

/// What to expect when these stages share a gate. They overlap, so the gate's limits are spent on all of them together.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "limits far below 2^52")]
pub fn passage(spec: &GateSpec, works: &[Work]) -> Passage {
    let refused = works.iter().any(|work| work.is_refused(spec));
    let works: Vec<&Work> = works.iter().filter(|work| !work.is_refused(spec)).collect();
    let loads: Vec<Load> = works.iter().map(|work| work.load(spec)).collect();
    let sum = |of: fn(&Load) -> f64| loads.iter().map(of).fold(0.0, |sum, part| sum + part);
    let known = |of: fn(&Load) -> Option<f64>| loads.iter().map(of).sum::<Option<f64>>();
    let (first, requests) = (sum(|load| load.first), sum(|load| load.requests));
    let tokens = known(|load| load.tokens);
    let latency = works.iter().map(|work| work.latency).max().flatten();
    let last_call = latency.unwrap_or_default().as_secs_f64();
    let at_once = works
        .iter()
        .map(|work| work.concurrency)
        .try_fold(0_u32, |sum, each| Some(sum.saturating_add(each?)))
        .map(|sum| sum.min(spec.max_concurrency).max(1));

    let per_second = |limit: u64| limit as f64 / 60.0;
    let by_requests = spec.requests_per_minute.map(per_second).map(|rate| {
        let room = (rate * REQUEST_BURST).max(1.0);
        (requests - room).max(0.0) / rate
    });
    let by_tokens = spec.tokens_per_minute.map(per_second).zip(tokens).map(|(rate, tokens)| {
        let room = (rate * TOKEN_BURST).max(1.0);
        let last = loads.iter().filter_map(|load| load.last_tokens).fold(f64::INFINITY, f64::min);
        // A call starts when as much is there as it needs, or as there ever is.
        (tokens - last + last.min(room) - room).max(0.0) / rate
    });
    let by_concurrency = known(|load| load.busy).zip(at_once).map(|(busy, at_once)| {
        // The last call counts as a whole.
        (busy / f64::from(at_once) - last_call).max(0.0)
    });

    let waits =
        [(by_requests, Hold::Requests), (by_tokens, Hold::Tokens), (by_concurrency, Hold::Concurrency)];
    let longest = waits.into_iter().filter_map(|(wait, hold)| Some((wait?, hold)));
    let longest = longest.reduce(|a, b| if b.0 > a.0 { b } else { a });
    let in_all = |wait: f64| Duration::try_from_secs_f64(wait + last_call).unwrap_or(Duration::MAX);
    Passage {
        requests,
        retried: if requests > 0.0 { 1.0 - first / requests } else { 0.0 },
        tokens,
        at_once,
        by_requests: by_requests.map(in_all),
        by_tokens: by_tokens.map(in_all),
        by_concurrency: by_concurrency.map(in_all),
        held_by: longest.filter(|(wait, _)| *wait > 0.0).map(|(_, hold)| hold),
        time: longest.filter(|_| !works.is_empty()).map(|(wait, _)| in_all(wait)),
        unknown: unknown(spec, tokens, latency, at_once),
        refused,
    }
}

fn unknown(
    spec: &GateSpec,
    tokens: Option<f64>,
    latency: Option<Duration>,
    at_once: Option<u32>,
) -> Vec<Unknown> {
    let checks = [
        (spec.requests_per_minute.is_none() && spec.tokens_per_minute.is_none(), Unknown::Limits),
        (spec.tokens_per_minute.is_some() && tokens.is_none(), Unknown::TokensPerItem),
        (latency.is_none(), Unknown::Latency),
        (latency.is_some() && at_once.is_none(), Unknown::Concurrency),
    ];
    checks.into_iter().filter_map(|(missing, what)| missing.then_some(what)).collect()
}

/// How many items can pass a gate before those that came together with them expire; none where no limit is given.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate; a float is saturated by the cast"
)]
pub fn items_within(spec: &GateSpec, work: &Work, deadline: Duration) -> Option<u64> {
    let minutes = deadline.as_secs_f64() / 60.0;
    let by_requests = spec.requests_per_minute.map(|limit| {
        (limit as f64 * minutes + 1.0).floor() * work.items_per_request(spec) as f64 / work.calls_per_item
    });
    let by_tokens = spec
        .tokens_per_minute
        .zip(work.tokens_per_item.filter(|each| *each > 0))
        .map(|(limit, each)| (limit as f64 * minutes) / (each as f64 * work.calls_per_item));
    [by_requests, by_tokens].into_iter().flatten().reduce(f64::min).map(|items| items as u64)
}

/// A stage that passes a gate, as far as warnings about the gate go.
#[derive(Debug, Clone, Copy)]
pub struct Passing<'a> {
    /// Its name.
    pub stage: &'a str,
    /// Most calls at once.
    pub concurrency: u32,
    /// Most items of one call.
    pub batch: u32,
    /// Most tokens of one call.
    pub batch_tokens: Option<u64>,
    /// Most tokens of an answer, which a call is counted with.
    pub max_tokens: Option<u64>,
    /// Most tokens of an item.
    pub max_item_tokens: Option<u64>,
    /// How it retries.
    pub policy: &'a Policy,
}

#[cfg(test)]
#[path = "forecast_tests.rs"]
mod tests;
