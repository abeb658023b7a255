//! A plan in words.

use std::time::Duration;

use super::fault::RetryAfter;
use super::{Fault, FaultKind, Hint, How, Plan};
use crate::meter::{Kind, Rate};

/// What a plan will do, one line for each part.
pub(super) fn describe(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    limits(plan, &mut lines);
    credit_and_time(plan, &mut lines);
    for poison in &plan.poison {
        lines.push(format!(
            "a text with {:?} fails its whole call with {} {}",
            poison.marker, poison.status, poison.code
        ));
    }
    lines.extend(plan.faults.iter().map(fault));
    if lines.is_empty() {
        lines.push("answers everything, at once".to_owned());
    }
    lines
}

fn limits(plan: &Plan, lines: &mut Vec<String>) {
    let limit = &plan.limit;
    if !plan.jitter.is_zero() {
        lines.push(format!("calls arrive up to {} late, and overtake each other", span(plan.jitter)));
    }
    if plan.api_key.is_some() {
        lines.push("asks for its key: 401 without".to_owned());
    }
    lines.extend(limit.requests.map(|rate| format!("lets {} through, then 429", amount(rate, "calls"))));
    lines.extend(limit.tokens.map(|rate| format!("lets {} through, then 429", amount(rate, "tokens"))));
    for step in &limit.steps {
        let rates = [(step.requests, "calls"), (step.tokens, "tokens")];
        let words = rates.into_iter().filter_map(|(rate, what)| rate.map(|rate| amount(rate, what)));
        let words: Vec<String> = words.collect();
        lines.push(format!("from {} on: {}", span(step.after), words.join(", ")));
    }
    lines.extend(limit.neighbours.map(|others| {
        let (most, every) = ((others.share * 1e4).round() / 1e2, span(others.every));
        format!("others take up to {most} % of it, another part every {every}")
    }));
    match limit.requests.map(|rate| rate.kind) {
        _ if !limit.rejected_calls_consume => {}
        Some(Kind::Sliding) => lines.push("a rejected call counts as well".to_owned()),
        _ => lines.push(format!("a rejected call counts as well, up to {} of debt", span(limit.debt))),
    }
    if limit.requests.is_some() || limit.tokens.is_some() {
        lines.push(format!("a 429 {}", hint(limit.hint)));
        lines.extend(limit.headers.name().map(|whose| format!("answers say what is left, as {whose} does")));
    }
}

fn credit_and_time(plan: &Plan, lines: &mut Vec<String>) {
    lines.extend(plan.quota.requests.map(|n| format!("its credit ends after {n} good answers")));
    lines.extend(plan.quota.tokens.map(|n| format!("its credit ends after {n} tokens")));
    let latency = &plan.latency;
    if !(latency.base + latency.per_item).is_zero() {
        let mut line = format!("answers in {}", span(latency.base));
        if !latency.per_item.is_zero() {
            line.push_str(&format!(" and {} for each item", span(latency.per_item)));
        }
        if latency.jitter > 0.0 {
            line.push_str(&format!(", ±{:.0} %", latency.jitter * 100.0));
        }
        lines.extend([line]);
        lines.extend(latency.p99.map(|p99| format!("one in a hundred takes {} or more", span(p99))));
    }
    lines.extend(latency.capacity.map(|n| format!("becomes slower in proportion above {n} calls at once")));
    let over = latency.over_status;
    let wait = latency.over_retry_after.map_or(String::new(), |wait| format!(" for {}", span(wait)));
    lines.extend(latency.max_concurrency.map(|n| format!("answers {over} above {n} calls at once{wait}")));
    let size = &plan.size;
    let sizes = [
        (size.max_texts, "texts in a call"),
        (size.max_tokens_per_request, "tokens in a call"),
        (size.max_tokens_per_text, "tokens in a text"),
    ];
    for (most, what) in sizes {
        lines.extend(most.map(|most| format!("answers {} above {most} {what}", size.status)));
    }
}

fn amount(rate: Rate, what: &str) -> String {
    let (n, unit) = match rate.window {
        60_000 => (rate.per_minute, "minute".to_owned()),
        1_000 if rate.per_minute.is_multiple_of(60) => (rate.per_minute / 60, "second".to_owned()),
        window if rate.kind == Kind::Bucket || window == 1_000 => (rate.per_minute, "minute".to_owned()),
        window => (rate.per_minute * window / 60_000, span(Duration::from_millis(window))),
    };
    match rate.kind {
        Kind::Bucket => format!("{n} {what} a {unit} (burst {})", rate.burst),
        Kind::Window => format!("{n} {what} in each {unit}"),
        Kind::Sliding => format!("{n} {what} in any {unit}"),
    }
}

fn hint(hint: Hint) -> &'static str {
    match hint {
        Hint::None => "does not say when to come back",
        Hint::Seconds => "says when to come back, in whole seconds",
        Hint::Exact => "says when to come back, in seconds with decimals",
        Hint::Text => "says when to come back, but only in its message",
        Hint::Ms => "says when to come back, in milliseconds",
        Hint::Both => "says when to come back, in seconds and in milliseconds",
        Hint::Date => "says when to come back, as a date",
        Hint::Negative => "lies: come back five seconds ago",
        Hint::TenYears => "lies: come back in ten years",
        Hint::Past => "lies: come back at a date in the past",
        Hint::Garbage => "says when to come back in words that mean nothing",
    }
}

fn fault(fault: &Fault) -> String {
    let what = match &fault.kind {
        FaultKind::Status { status, code } => format!("{status} {code}"),
        FaultKind::Outage(How::Status(status)) => format!("down: {status} for every call"),
        FaultKind::Outage(How::Cut) => "down: every connection is closed without an answer".to_owned(),
        FaultKind::Outage(How::Refuse) => "down: connections are refused".to_owned(),
        FaultKind::Slowloris(pace) | FaultKind::Endless(pace) => {
            format!("{}, a byte each {}", fault.kind.name(), span(*pace))
        }
        FaultKind::Huge(bytes) => format!("an answer of {bytes} bytes"),
        kind => kind.name().to_owned(),
    };
    let mut line = what;
    if !matches!(fault.kind, FaultKind::Outage(_)) {
        let whose = if fault.by_item { "items" } else { "calls" };
        line = format!("{line}: {} % of {whose}", (fault.rate * 1e4).round() / 1e2);
    }
    if let Some(times) = fault.times {
        line.push_str(&format!(", {times} times each"));
    }
    if let Some((every, lasts)) = fault.bursts {
        line.push_str(&format!(", for {} of every {}", span(lasts), span(every)));
    }
    match (fault.from, fault.until) {
        (Duration::ZERO, None) => {}
        (from, None) => line.push_str(&format!(", from {} on", span(from))),
        (from, Some(until)) => line.push_str(&format!(", from {} to {}", span(from), span(until))),
    }
    match fault.retry_after {
        None => {}
        Some(RetryAfter::Span(wait)) => line.push_str(&format!("; {} ({})", hint(fault.hint), span(wait))),
        Some(RetryAfter::End) => line.push_str(&format!("; {} (its end)", hint(fault.hint))),
    }
    if let Some(path) = &fault.path {
        line.push_str(&format!(", at {path}"));
    }
    line
}

fn span(span: Duration) -> String {
    humantime::format_duration(span).to_string()
}
