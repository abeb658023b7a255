//! `retry`: the policy of a stage.

use std::time::Duration;

use redrive_core::classify::Matcher;
use redrive_core::policy::{Backoff, Jitter, Limit, OverrideSpec, Policy, PolicySpec, RetryOn, TierSpec};

use crate::problem::Report;
use crate::reader::{Node, Table, join};
use crate::suggest;

const BACKOFFS: [&str; 5] = ["none", "fixed", "linear", "exponential", "schedule"];
const BASE: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(60);
const FACTOR: f64 = 2.0;

/// Reads a policy; the default one where it is wrong, which is reported.
pub(crate) fn read(node: &Node<'_, '_>, report: &mut Report<'_>) -> Policy {
    if let Some(word) = node.as_str() {
        let hint = format!("write retry = {{ preset = {word:?} }}");
        node.fail_with(report, "expected a table, found a string", hint);
        return Policy::default();
    }
    let Some(mut table) = node.table(report) else { return Policy::default() };
    let before = report.problems.len();
    let spec = spec(&mut table, report);
    let built = spec.build();
    for problem in built.as_ref().err().into_iter().flatten() {
        let below = written(&table, &problem.key);
        let key = join(&table.path, &below);
        // A value that could not be read is missing from the policy; that is not told twice.
        if !report.problems[before..].iter().any(|known| known.key.starts_with(&key)) {
            let at = table.locate(&below).unwrap_or(node.at);
            report.problem(at, &key, problem.message.clone(), None);
        }
    }
    table.finish(report);
    built.unwrap_or_default()
}

/// The key as it is written in a file: there a jitter may stand in its backoff.
fn written(table: &Table<'_, '_>, key: &str) -> String {
    match key.strip_suffix("jitter") {
        Some("") if table.has("jitter") => key.to_owned(),
        Some(above) => format!("{above}backoff.jitter"),
        None => key.to_owned(),
    }
}

fn spec(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> PolicySpec {
    let preset = table.take("preset").and_then(|node| node.string(report)).map(str::to_owned);
    let max_attempts = table.take("max_attempts").and_then(|node| limit(&node, report));
    let (backoff, inner) = table.take("backoff").and_then(|node| backoff(&node, report)).unzip();
    let outer = table.take("jitter").and_then(|node| jitter(&node, report));
    let tiers = table.take("tiers").and_then(|node| tiers(&node, report));
    let retry_on = table.take("retry_on").and_then(|node| retry_on(&node, report));
    let final_on = table.take("final_on").and_then(|node| matchers(&node, report));
    let overrides = table.take("on").and_then(|node| overrides(&node, report)).unwrap_or_default();
    PolicySpec {
        preset,
        max_attempts,
        backoff,
        jitter: outer.or(inner.flatten()),
        tiers,
        retry_on,
        final_on,
        overrides,
        deadline: table.take("deadline").and_then(|node| node.duration(report)),
        crash_limit: table.take("crash_limit").and_then(|node| attempts(&node, report)),
        worker_limit: table.take("worker_limit").and_then(|node| attempts(&node, report)),
        unknown_limit: table.take("unknown_limit").and_then(|node| limit(&node, report)),
        hint_cap: table.take("hint_cap").and_then(|node| node.duration(report)),
        timeout_growth: table.take("timeout_growth").and_then(|node| node.float(report)),
        flag_after: table.take("flag_after").and_then(|node| attempts(&node, report)),
    }
}

/// A count whose range the policy itself checks, so that its reasons are given.
fn attempts(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<u32> {
    let number = node.integer(report, 0, i64::MAX)?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

fn limit(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Limit> {
    match node.as_str() {
        Some("endless") => Some(Limit::Endless),
        Some(word) => {
            node.fail(report, format!("expected an integer or \"endless\", found {word:?}"));
            None
        }
        None => attempts(node, report).map(Limit::Attempts),
    }
}

fn jitter(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Jitter> {
    match node.as_str() {
        Some("none") => Some(Jitter::None),
        Some("full") => Some(Jitter::Full),
        Some("equal") => Some(Jitter::Equal),
        None if node.is_number() => node.float(report).map(Jitter::Proportional),
        _ => {
            node.fail(report, "expected a fraction such as 0.25, or \"none\", \"full\", \"equal\"");
            None
        }
    }
}

/// A backoff and the jitter that stands in it.
fn backoff(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<(Backoff, Option<Jitter>)> {
    let mut table = node.table(report)?;
    let kind = table.require("kind", report)?;
    let word = kind.string(report)?;
    let spread = table.take("jitter").and_then(|node| jitter(&node, report));
    let duration = |key, table: &mut Table<'_, '_>, report: &mut Report<'_>| {
        table.take(key).and_then(|node: Node<'_, '_>| node.duration(report))
    };
    let backoff = match word {
        "none" => Some(Backoff::None),
        "fixed" => {
            let delay = table.require("delay", report).and_then(|node| node.duration(report));
            delay.map(|delay| Backoff::Fixed { delay })
        }
        "linear" | "exponential" => {
            let base = duration("base", &mut table, report).unwrap_or(BASE);
            let max = duration("max", &mut table, report).unwrap_or(MAX.max(base));
            if word == "linear" {
                Some(Backoff::Linear { base, max })
            } else {
                let factor = table.take("factor").and_then(|node| node.float(report)).unwrap_or(FACTOR);
                Some(Backoff::Exponential { base, factor, max })
            }
        }
        "schedule" => {
            let nodes = table.require("delays", report).and_then(|node| node.array(report));
            nodes.map(|nodes| Backoff::Schedule {
                delays: nodes.iter().filter_map(|node| node.duration(report)).collect(),
            })
        }
        _ => {
            let message = format!("unknown backoff {word:?}; known are {}", BACKOFFS.join(", "));
            kind.fail_with(report, message, suggest::hint(word, &BACKOFFS));
            return None;
        }
    };
    table.finish(report);
    backoff.map(|backoff| (backoff, spread))
}

fn tiers(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Vec<TierSpec>> {
    let nodes = node.array(report)?;
    let mut tiers = Vec::new();
    for node in nodes {
        let Some(mut table) = node.table(report) else { continue };
        let count = table.take("attempts").and_then(|node| attempts(&node, report));
        let waits = table.require("backoff", report).and_then(|node| backoff(&node, report));
        table.finish(report);
        // A tier that could not be read keeps its place, so that the others keep their numbers.
        let (backoff, jitter) = waits.unwrap_or((Backoff::None, None));
        tiers.push(TierSpec { attempts: count, backoff, jitter });
    }
    Some(tiers)
}

fn retry_on(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<RetryOn> {
    match node.as_str() {
        Some("all") => Some(RetryOn::All),
        Some("none") => Some(RetryOn::None),
        Some(word) => {
            let message = format!("expected \"all\", \"none\" or a list, found {word:?}");
            node.fail_with(report, message, format!("write a list: [{word:?}]"));
            None
        }
        None => matchers(node, report).map(RetryOn::List),
    }
}

fn matchers(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Vec<Matcher>> {
    let nodes = node.array(report)?;
    Some(nodes.iter().filter_map(|node| matcher(node, report)).collect())
}

fn matcher(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Matcher> {
    if node.is_table() {
        let mut table = node.table(report)?;
        let text = table.require("text", report).and_then(|node| {
            let text = node.string(report)?;
            if text.is_empty() {
                node.fail(report, "an empty text would match everything");
            }
            Some(text.to_owned())
        });
        table.finish(report);
        return text.map(Matcher::Text);
    }
    let word = match (node.as_integer(), node.as_str()) {
        (Some(status), _) => status.to_string(),
        (None, Some(word)) => word.to_owned(),
        (None, None) => {
            node.mistyped(report, "a status, a word or { text = \"…\" }");
            return None;
        }
    };
    read_word(&word, node, report)
}

fn read_word(word: &str, node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Matcher> {
    match Matcher::from_word(word) {
        Ok(matcher) => Some(matcher),
        Err(error) => {
            let near = suggest::nearest(word, Matcher::words()).map(|near| format!("did you mean {near:?}?"));
            report.problem(node.at, &node.path, error.to_string(), near);
            None
        }
    }
}

/// `on.WORD = { … }`: figures for some failures.
fn overrides(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Vec<OverrideSpec>> {
    let table = node.table(report)?;
    let mut overrides = Vec::new();
    for (word, node) in table.all() {
        let matcher = read_word(word, &node, report);
        let Some(mut table) = node.table(report) else { continue };
        let max_attempts = table.take("max_attempts").and_then(|node| attempts(&node, report));
        let waits = table.take("backoff").and_then(|node| {
            let (waits, spread) = backoff(&node, report)?;
            if spread.is_some() {
                node.fail(report, "jitter is the policy's; leave it out here");
            }
            Some(waits)
        });
        table.finish(report);
        if let Some(matcher) = matcher {
            overrides.push(OverrideSpec { matcher, max_attempts, backoff: waits });
        }
    }
    Some(overrides)
}
