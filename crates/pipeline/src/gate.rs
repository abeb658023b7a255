//! `[gate.NAME]`: flow control for one dependency.

use crate::definition::{BreakerDef, GateDef};
use crate::problem::Report;
use crate::reader::Node;

const CONCURRENCY_MAX: u32 = 100_000;
const PER_MINUTE_MAX: i64 = 1_000_000_000_000;
const CALLS_MAX: u32 = 1_000_000;

/// Reads one gate.
pub(crate) fn read(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<GateDef> {
    let mut table = node.table(report)?;
    let per_minute = |node: Option<Node<'_, '_>>, report: &mut Report<'_>| {
        node?.integer(report, 1, PER_MINUTE_MAX).and_then(|number| u64::try_from(number).ok())
    };
    let max_concurrency = table.take("max_concurrency").and_then(|node| node.count(report, CONCURRENCY_MAX));
    let requests_per_minute = per_minute(table.take("requests_per_minute"), report);
    let tokens_per_minute = per_minute(table.take("tokens_per_minute"), report);
    let breaker = match table.take("breaker") {
        None => Some(BreakerDef::default()),
        Some(node) if node.as_bool() == Some(false) => None,
        Some(node) if node.is_table() => breaker(&node, report),
        Some(node) => {
            node.mistyped(report, "a table or false");
            None
        }
    };
    table.finish(report);
    Some(GateDef { max_concurrency, requests_per_minute, tokens_per_minute, breaker })
}

fn breaker(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<BreakerDef> {
    let mut table = node.table(report)?;
    let defaults = BreakerDef::default();
    let failure_rate = table.take("failure_rate").and_then(|node| {
        let rate = node.share(report)?;
        if rate == 0.0 {
            node.fail(report, "must be above 0: at 0 every call would close the gate");
        }
        Some(rate)
    });
    let min_calls = table.take("min_calls").and_then(|node| node.count(report, CALLS_MAX));
    let mut duration =
        |key, default| table.take(key).and_then(|node| node.duration(report)).unwrap_or(default);
    let breaker = BreakerDef {
        failure_rate: failure_rate.unwrap_or(defaults.failure_rate),
        min_calls: min_calls.unwrap_or(defaults.min_calls),
        window: duration("window", defaults.window),
        open_for: duration("open_for", defaults.open_for),
        pause_after: duration("pause_after", defaults.pause_after),
    };
    if breaker.pause_after < breaker.open_for {
        report.warn(
            node.at,
            &node.path,
            "pause_after is shorter than open_for: the run pauses before any probe",
        );
    }
    table.finish(report);
    Some(breaker)
}
