//! From what is written to what is meant; every problem is told, each with its key.

use std::time::Duration;

use super::fault::{Fault, FaultKind, How};
use super::file::{
    ByWord, FaultFile, FaultWord, HowWord, KindWord, LatencyFile, LimitFile, PlanFile, SizeFile, StepFile,
};
use super::{Hint, Latency, Limit, Plan, PlanError, Poison, Problem, Quota, Secret, Size, Step};
use crate::meter::{Kind, Rate};

/// The most that a limit can be set to, per minute.
const MOST: f64 = 1e12;

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
    let faults = file.fault.iter().enumerate().map(|(index, entry)| fault(&mut checker, index, entry));
    let faults = faults.collect::<Vec<_>>();
    let plan = Plan {
        name: name.to_owned(),
        summary: file.summary,
        seed: file.seed.unwrap_or(1),
        api_key: file.api_key.map(Secret),
        dimensions: usize::try_from(dimensions).unwrap_or(64),
        tokens_per_text: file.tokens_per_text,
        limit: limit(&mut checker, &file.limit),
        quota,
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
    Latency {
        base: file.base.map_or(Duration::ZERO, |span| span.0),
        per_item: file.per_item.map_or(Duration::ZERO, |span| span.0),
        jitter,
        capacity: checker.positive(file.capacity, "latency.capacity"),
        max_concurrency: checker.positive(file.max_concurrency, "latency.max_concurrency"),
        over_status: checker.error_status(file.over_status, "latency.over_status", 503),
    }
}

fn limit(checker: &mut Checker<'_>, file: &LimitFile) -> Limit {
    let requests = requests(checker, file, file.requests_per_second, file.requests_per_minute, "limit");
    let tokens = tokens(checker, file, file.tokens_per_minute, "limit");
    checker.positive(file.burst, "limit.burst");
    checker.positive(file.token_burst, "limit.token_burst");
    let windows = file.kind == Some(KindWord::Window);
    checker.ensure(!(windows && file.burst.is_some()), "limit.burst", "is for kind = \"bucket\" only");
    checker.ensure(
        !(windows && file.token_burst.is_some()),
        "limit.token_burst",
        "is for kind = \"bucket\" only",
    );
    checker.ensure(file.burst.is_none() || requests.is_some(), "limit.burst", "needs a limit of requests");
    checker.ensure(
        file.token_burst.is_none() || tokens.is_some(),
        "limit.token_burst",
        "needs tokens_per_minute",
    );
    let consumes = file.rejected_calls_consume;
    checker.ensure(
        !consumes || requests.is_some(),
        "limit.rejected_calls_consume",
        "needs a limit of requests",
    );
    let too_large_status = file.too_large_status.unwrap_or(429);
    checker.ensure(
        [400, 413, 429].contains(&too_large_status),
        "limit.too_large_status",
        "must be 400, 413 or 429",
    );
    let mut steps: Vec<Step> = Vec::new();
    for (index, entry) in file.steps.iter().enumerate() {
        let key = format!("limit.steps[{index}]");
        let step = step(checker, file, entry, &key);
        checker.ensure(
            step.requests.is_none() || requests.is_some(),
            &key,
            "the plan has no limit of requests to change",
        );
        checker.ensure(
            step.tokens.is_none() || tokens.is_some(),
            &key,
            "the plan has no limit of tokens to change",
        );
        let later = steps.last().is_none_or(|last| last.after < step.after);
        checker.ensure(later, &format!("{key}.after"), "must be later than the step before");
        steps.push(step);
    }
    Limit {
        requests,
        tokens,
        steps,
        rejected_calls_consume: consumes,
        debt: file.debt.map_or(Duration::from_secs(5), |span| span.0),
        headers: file.headers,
        hint: file.hint.unwrap_or(Hint::Seconds),
        too_large_status,
    }
}

fn step(checker: &mut Checker<'_>, file: &LimitFile, entry: &StepFile, key: &str) -> Step {
    let requests = requests(checker, file, entry.requests_per_second, entry.requests_per_minute, key);
    let tokens = tokens(checker, file, entry.tokens_per_minute, key);
    checker.ensure(requests.is_some() || tokens.is_some(), key, "changes nothing");
    Step { after: entry.after.0, requests, tokens }
}

fn requests(
    checker: &mut Checker<'_>,
    file: &LimitFile,
    per_second: Option<f64>,
    per_minute: Option<f64>,
    key: &str,
) -> Option<Rate> {
    let (value, window, word) = match (per_second, per_minute) {
        (Some(_), Some(_)) => {
            checker.bad(&format!("{key}.requests_per_minute"), "say either this or requests_per_second");
            return None;
        }
        (Some(value), None) => (value * 60.0, 1_000, "requests_per_second"),
        (None, Some(value)) => (value, 60_000, "requests_per_minute"),
        (None, None) => return None,
    };
    // The default burst of calls is what a second brings.
    rate(checker, file, value, window, file.burst, 60, &format!("{key}.{word}"))
}

fn tokens(checker: &mut Checker<'_>, file: &LimitFile, per_minute: Option<f64>, key: &str) -> Option<Rate> {
    // The default burst of tokens is what a minute brings: a call may well need more than a second's.
    rate(checker, file, per_minute?, 60_000, file.token_burst, 1, &format!("{key}.tokens_per_minute"))
}

fn rate(
    checker: &mut Checker<'_>,
    file: &LimitFile,
    per_minute: f64,
    window: u64,
    burst: Option<u64>,
    burst_share: u64,
    key: &str,
) -> Option<Rate> {
    if !(1.0..=MOST).contains(&per_minute) {
        checker.bad(key, "must be at least one a minute, and at most 1e12");
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked above")]
    let per_minute = per_minute.round() as u64;
    let kind = match file.kind {
        Some(KindWord::Window) => Kind::Window,
        Some(KindWord::Bucket) | None => Kind::Bucket,
    };
    if kind == Kind::Window && !(per_minute * window).is_multiple_of(60_000) {
        checker.bad(key, "a window needs a whole number");
        return None;
    }
    let burst = burst.unwrap_or_else(|| (per_minute / burst_share).max(1));
    Some(Rate { per_minute, kind, burst, window })
}

fn fault(checker: &mut Checker<'_>, index: usize, entry: &FaultFile) -> Fault {
    let key = |name: &str| format!("fault[{index}].{name}");
    let rate = entry.rate.unwrap_or(1.0);
    checker.ensure((0.0..=1.0).contains(&rate), &key("rate"), "must be from 0 to 1");
    let by_item = entry.by == Some(ByWord::Item);
    checker.ensure(entry.times.is_none() || by_item, &key("times"), "needs by = \"item\"");
    let from = entry.from.map_or(Duration::ZERO, |span| span.0);
    let until = entry.until.map(|span| span.0);
    checker.ensure(until.is_none_or(|until| from < until), &key("until"), "must be later than `from`");
    let bursts = match (entry.every, entry.lasts) {
        (Some(every), Some(lasts)) => {
            checker.ensure(
                !lasts.0.is_zero() && lasts.0 < every.0,
                &key("lasts"),
                "must be above zero and shorter than `every`",
            );
            Some((every.0, lasts.0))
        }
        (None, None) => None,
        _ => {
            checker.bad(&key("every"), "`every` and `lasts` go together");
            None
        }
    };
    let kind = fault_kind(checker, index, entry);
    let status_like = matches!(kind, FaultKind::Status { .. } | FaultKind::Outage(How::Status(_)));
    checker.ensure(
        entry.retry_after.is_none() || status_like,
        &key("retry_after"),
        "needs a status to go with",
    );
    if matches!(kind, FaultKind::Outage(_)) {
        checker.ensure(
            entry.rate.is_none() && entry.by.is_none(),
            &key("rate"),
            "an outage hits every call; use kind = \"status\"",
        );
        checker.ensure(
            entry.path.is_none(),
            &key("path"),
            "an outage hits every path; use kind = \"status\"",
        );
    }
    // A period of no length would be one for ever.
    let bursts = bursts.filter(|(every, _)| !every.is_zero());
    Fault {
        kind,
        rate,
        by_item,
        times: entry.times,
        from,
        until,
        bursts,
        path: entry.path.clone(),
        retry_after: entry.retry_after.map(|span| span.0),
    }
}

fn fault_kind(checker: &mut Checker<'_>, index: usize, entry: &FaultFile) -> FaultKind {
    let key = |name: &str| format!("fault[{index}].{name}");
    let word = entry.kind;
    let outage = word == FaultWord::Outage;
    let by_status = outage && matches!(entry.how, None | Some(HowWord::Status));
    let only = [
        (entry.status.is_some(), "status", word == FaultWord::Status || by_status),
        (entry.code.is_some(), "code", word == FaultWord::Status),
        (entry.how.is_some(), "how", outage),
        (entry.pace.is_some(), "pace", matches!(word, FaultWord::Slowloris | FaultWord::Endless)),
        (entry.bytes.is_some(), "bytes", word == FaultWord::Huge),
    ];
    for (given, name, fits) in only {
        checker.ensure(!given || fits, &key(name), "does not go with this kind");
    }
    let pace = entry.pace.map_or(Duration::from_millis(100), |span| span.0);
    match word {
        FaultWord::Status => {
            let status = checker.error_status(entry.status, &key("status"), 500);
            let code = entry.code.clone().unwrap_or_else(|| default_code(status).to_owned());
            FaultKind::Status { status, code }
        }
        FaultWord::Outage => FaultKind::Outage(match entry.how {
            Some(HowWord::Cut) => How::Cut,
            Some(HowWord::Refuse) => How::Refuse,
            Some(HowWord::Status) | None => {
                How::Status(checker.error_status(entry.status, &key("status"), 503))
            }
        }),
        FaultWord::Cut => FaultKind::Cut,
        FaultWord::CutInside => FaultKind::CutInside,
        FaultWord::Hang => FaultKind::Hang,
        FaultWord::Slowloris => FaultKind::Slowloris(pace),
        FaultWord::Endless => FaultKind::Endless(pace),
        FaultWord::Garbage => FaultKind::Garbage,
        FaultWord::Huge => FaultKind::Huge(entry.bytes.unwrap_or(256 << 20)),
        FaultWord::TooFew => FaultKind::TooFew,
        FaultWord::TooMany => FaultKind::TooMany,
        FaultWord::Shuffled => FaultKind::Shuffled,
        FaultWord::WrongDimension => FaultKind::WrongDimension,
        FaultWord::Nan => FaultKind::Nan,
        FaultWord::Null => FaultKind::Null,
        FaultWord::Empty => FaultKind::Empty,
    }
}

fn default_code(status: u16) -> &'static str {
    match status {
        429 => "rate_limit_exceeded",
        401 => "invalid_api_key",
        402 => "insufficient_quota",
        413 => "context_length_exceeded",
        400..=499 => "invalid_request",
        _ => "server_error",
    }
}
