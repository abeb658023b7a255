//! From what is written to what is meant; every problem is told, each with its key.

mod fault;
mod limit;

use std::time::Duration;

use redrive_core::secret::Secret;

use super::file::{LatencyFile, PlanFile, SizeFile};
use super::{Latency, Plan, PlanError, Poison, Problem, Quota, Size};

/// Collects problems under their keys.
struct Checker<'a> {
    file: &'a str,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn bad(&mut self, key: &str, text: impl Into<String>) {
        let (file, key) = (self.file.to_owned(), key.to_owned());
        self.problems.push(Problem { file, line: None, key, text: text.into() });
    }

    fn ensure(&mut self, holds: bool, key: &str, text: &str) {
        if !holds {
            self.bad(key, text);
        }
    }

    fn positive(&mut self, value: Option<u64>, key: &str) -> Option<u64> {
        self.ensure(value != Some(0), key, "must be above zero");
        value
    }

    fn error_status(&mut self, value: Option<u16>, key: &str, default: u16) -> u16 {
        let status = value.unwrap_or(default);
        self.ensure((400..=599).contains(&status), key, "must be a status from 400 to 599");
        status
    }
}

/// Checks a plan as a whole.
pub(crate) fn check(file: PlanFile, name: &str) -> Result<Plan, PlanError> {
    let mut checker = Checker { file: name, problems: Vec::new() };
    let dimensions = file.dimensions.unwrap_or(64);
    checker.ensure((1..=8_192).contains(&dimensions), "dimensions", "must be from 1 to 8192");
    checker.positive(file.tokens_per_text, "tokens_per_text");
    checker.ensure(file.api_key.as_deref() != Some(""), "api_key", "must not be empty");
    let quota = Quota {
        requests: checker.positive(file.quota.requests, "quota.requests"),
        tokens: checker.positive(file.quota.tokens, "quota.tokens"),
    };
    let mut poison = Vec::new();
    for (index, entry) in file.poison.into_iter().enumerate() {
        let key = format!("poison[{index}]");
        checker.ensure(!entry.marker.is_empty(), &format!("{key}.marker"), "must not be empty");
        let status = checker.error_status(entry.status, &format!("{key}.status"), 400);
        let code = entry.code.unwrap_or_else(|| "invalid_value".to_owned());
        poison.push(Poison { marker: entry.marker, status, code });
    }
    let faults = file.fault.iter().enumerate().map(|(index, entry)| fault::fault(&mut checker, index, entry));
    let faults = faults.collect::<Vec<_>>();
    let plan = Plan {
        name: name.to_owned(),
        summary: file.summary,
        seed: file.seed.unwrap_or(1),
        api_key: file.api_key.map(Secret::from),
        dimensions: usize::try_from(dimensions).unwrap_or(64),
        tokens_per_text: file.tokens_per_text,
        limit: limit::limit(&mut checker, &file.limit),
        quota,
        jitter: file.network.jitter.map_or(Duration::ZERO, |span| span.0),
        latency: latency(&mut checker, &file.latency),
        size: size(&mut checker, file.size),
        poison,
        faults,
    };
    if checker.problems.is_empty() { Ok(plan) } else { Err(PlanError { problems: checker.problems }) }
}

fn size(checker: &mut Checker<'_>, file: SizeFile) -> Size {
    Size {
        max_texts: checker.positive(file.max_texts, "size.max_texts"),
        max_tokens_per_request: checker.positive(file.max_tokens_per_request, "size.max_tokens_per_request"),
        max_tokens_per_text: checker.positive(file.max_tokens_per_text, "size.max_tokens_per_text"),
        status: checker.error_status(file.status, "size.status", 400),
        code: file.code.unwrap_or_else(|| "context_length_exceeded".to_owned()),
    }
}

fn latency(checker: &mut Checker<'_>, file: &LatencyFile) -> Latency {
    let jitter = file.jitter.unwrap_or(0.0);
    checker.ensure((0.0..=1.0).contains(&jitter), "latency.jitter", "must be from 0 to 1");
    let base = file.base.map_or(Duration::ZERO, |span| span.0);
    let p99 = file.p99.map(|span| span.0);
    checker.ensure(
        p99.is_none_or(|p99| p99 > base && !base.is_zero()),
        "latency.p99",
        "must be longer than `base`, which must be above zero",
    );
    checker.ensure(p99.is_none() || file.jitter.is_none(), "latency.p99", "say either this or jitter");
    let over_retry_after = file.over_retry_after.map(|span| span.0);
    checker.ensure(
        over_retry_after.is_none() || file.max_concurrency.is_some(),
        "latency.over_retry_after",
        "needs max_concurrency",
    );
    Latency {
        base,
        per_item: file.per_item.map_or(Duration::ZERO, |span| span.0),
        jitter,
        p99,
        capacity: checker.positive(file.capacity, "latency.capacity"),
        max_concurrency: checker.positive(file.max_concurrency, "latency.max_concurrency"),
        over_status: checker.error_status(file.over_status, "latency.over_status", 503),
        over_retry_after,
    }
}

/// The error code that usually goes with a status.
pub(crate) fn default_code(status: u16) -> &'static str {
    match status {
        429 => "rate_limit_exceeded",
        401 => "invalid_api_key",
        402 => "insufficient_quota",
        413 => "context_length_exceeded",
        400..=499 => "invalid_request",
        _ => "server_error",
    }
}
