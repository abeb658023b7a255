//! `[gate.NAME]`: flow control for one dependency.

use redrive_core::gate::{BreakerSpec, GateSpec};

use crate::problem::Report;
use crate::reader::{Node, Table, join};

const CONCURRENCY_MAX: u32 = 100_000;
const PER_MINUTE_MAX: i64 = 1_000_000_000_000;
const CALLS_MAX: u32 = 1_000_000;

/// Reads one gate.
pub(crate) fn read(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<GateSpec> {
    let mut table = node.table(report)?;
    let per_minute = |node: Option<Node<'_, '_>>, report: &mut Report<'_>| {
        node?.integer(report, 1, PER_MINUTE_MAX).and_then(|number| u64::try_from(number).ok())
    };
    let max_concurrency = table.take("max_concurrency").and_then(|node| node.count(report, CONCURRENCY_MAX));
    let requests_per_minute = per_minute(table.take("requests_per_minute"), report);
    let tokens_per_minute = per_minute(table.take("tokens_per_minute"), report);
    let hint_cap = table.take("hint_cap").and_then(|node| node.duration(report));
    let breaker = match table.take("breaker") {
        None => Some(BreakerSpec::cautious()),
        Some(node) if node.as_bool() == Some(false) => None,
        Some(node) if node.is_table() => breaker(&node, report),
        Some(node) => {
            node.mistyped(report, "a table or false");
            None
        }
    };
    if let (true, Some(limit), Some(breaker)) = (table.has("breaker"), requests_per_minute, &breaker) {
        too_few_calls(&table, limit, breaker, report);
    }
    table.finish(report);
    let defaults = GateSpec::default();
    Some(GateSpec {
        max_concurrency: max_concurrency.unwrap_or(defaults.max_concurrency),
        requests_per_minute,
        tokens_per_minute,
        breaker,
        hint_cap: hint_cap.unwrap_or(defaults.hint_cap),
    })
}

fn breaker(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<BreakerSpec> {
    let mut table = node.table(report)?;
    let defaults = BreakerSpec::default();
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
    let breaker = BreakerSpec {
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
            "pause_after is shorter than open_for: the run pauses before any probe; use a longer pause_after",
        );
    }
    table.finish(report);
    Some(breaker)
}

/// Warns of a breaker whose rate never counts, because so few calls are let through in its window.
#[expect(clippy::cast_precision_loss, reason = "limits far below 2^52")]
fn too_few_calls(table: &Table<'_, '_>, limit: u64, breaker: &BreakerSpec, report: &mut Report<'_>) {
    let (limit, min_calls) = (limit as f64, breaker.min_calls);
    // To a tenth, as it is told.
    let calls = (limit * breaker.window.as_secs_f64() / 6.0).round() / 10.0;
    if calls >= f64::from(min_calls) {
        return;
    }
    let key = "breaker.min_calls";
    let at = table.locate(key).unwrap_or(table.at);
    let (window, needed) = (breaker.window.as_secs_f64(), (f64::from(min_calls) * 60.0 / limit).ceil());
    let fewer = if calls >= 1.0 { format!(", or min_calls = {}", calls.floor()) } else { String::new() };
    let message = format!(
        "failure_rate never counts: at {limit} requests a minute there are {calls} calls in {window} s, fewer than \
         min_calls = {min_calls}, so that only as many failures in a row close the gate; use window = \"{needed}s\"{fewer}"
    );
    report.warn(at, &join(&table.path, key), message);
}

#[cfg(test)]
mod tests {
    use crate::parse;

    /// Warnings about a gate with these keys, which start on line 6.
    fn warned(gate: &str) -> Vec<String> {
        let text =
            format!("name = \"p\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\ngate = \"g\"\n[gate.g]\n{gate}");
        parse(&text, "p.toml").unwrap().warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_breaker_that_never_sees_enough_calls_is_warned_of() {
        let found = warned("requests_per_minute = 10\nbreaker = { window = \"30s\", min_calls = 20 }");
        assert_eq!(
            found,
            [
                "p.toml:8: gate.g.breaker.min_calls: failure_rate never counts: at 10 requests a minute there are 5 calls in \
              30 s, fewer than min_calls = 20, so that only as many failures in a row close the gate; use window = \
              \"120s\", or min_calls = 5"
            ]
        );
        let found = warned("requests_per_minute = 1\n[gate.g.breaker]\nfailure_rate = 0.5");
        assert!(found.len() == 1 && found[0].ends_with("use window = \"1200s\""), "{found:?}");
        for clean in [
            "requests_per_minute = 40\nbreaker = { window = \"30s\", min_calls = 20 }",
            "requests_per_minute = 10",
            "requests_per_minute = 10\nbreaker = false",
            "breaker = { min_calls = 1000 }",
        ] {
            assert_eq!(warned(clean), [""; 0], "{clean}");
        }
    }

    #[test]
    fn a_run_that_pauses_before_any_probe_is_warned_of() {
        let found = warned("breaker = { open_for = \"10m\" }");
        assert!(
            found.len() == 1 && found[0].starts_with("p.toml:7: gate.g.breaker: pause_after is shorter"),
            "{found:?}"
        );
    }
}
