//! Policies in words and tables.

use std::time::Duration;

use redrive_core::classify::Matcher;
use redrive_core::policy::{Backoff, Jitter, Policy, RetryOn, Step, Tier};
use redrive_operate::policies::{Forecast, View, first_waits};
use serde_json::Value;

use crate::output::plot::{exact, figure, percent};
use crate::output::screen::Screen;
use crate::output::table::{Column, Table};
use crate::output::text::{count, safe, things};

/// The longest name of a limit, and a little room.
const NAME: usize = 17;

/// A policy with its timeline, its limits and, where asked for, its outlook.
pub fn view(view: &View, screen: &Screen) -> String {
    let title = safe(&view.subject.title());
    let heading = view.subject.summary.map_or_else(|| title.clone(), |summary| format!("{title}: {summary}"));
    let mut table = Table::new([
        Column::number("attempt"),
        Column::whole("wait"),
        Column::number("starts at"),
        Column::number("tier").rank(1),
    ]);
    for step in &view.steps {
        let attempt = count(step.attempt.into());
        table.row([attempt, wait(step), exact(step.starts_at_nominal), step.tier.to_string()]);
    }
    let mut parts = vec![heading, table.on(screen) + "\n" + &ending(view), limits(view, screen)];
    parts.extend(view.outlook.as_ref().map(|forecast| outlook(forecast, screen)));
    parts.join("\n\n")
}

/// The number of attempts.
pub fn attempts(policy: &Policy) -> String {
    policy.max_attempts().map_or_else(|| "∞".to_owned(), |max| max.to_string())
}

/// The first waits, equal ones together.
pub fn waits(policy: &Policy) -> String {
    let waits = first_waits(policy);
    let runs: Vec<&[Duration]> = waits.chunk_by(|a, b| a == b).collect();
    let goes_on =
        policy.max_attempts().is_none_or(|max| usize::try_from(max.get()).is_ok_and(|n| n > waits.len() + 1));
    let mut words: Vec<String> = runs
        .iter()
        .enumerate()
        .map(|(index, run)| match (run, index + 1 == runs.len() && goes_on) {
            ([wait, ..], true) => format!("{} …", exact(*wait)),
            ([wait], false) => exact(*wait),
            ([wait, ..], false) => format!("{} ×{}", exact(*wait), run.len()),
            ([], _) => String::new(),
        })
        .collect();
    if words.is_empty() {
        words.push("none".to_owned());
    }
    words.join(", ")
}

/// How long an item that always fails lives.
pub fn time_to_dead(outlook: &Forecast) -> String {
    match (outlook.time_to_dead_ms, outlook.dead_reason) {
        (Some(ms), Some(reason)) => format!("{} ({reason})", exact(span(ms))),
        _ => "never".to_owned(),
    }
}

fn span(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// The least, the usual and the longest wait; one figure where they are the same.
fn wait(step: &Step) -> String {
    if step.wait_min == step.wait_max {
        return exact(step.wait_nominal);
    }
    [step.wait_min, step.wait_nominal, step.wait_max].map(exact).join(" – ")
}

/// What comes after the attempts that are shown.
fn ending(view: &View) -> String {
    let policy = &view.subject.policy;
    let next =
        || first_after(view).map_or_else(String::new, |wait| format!(", the next after {}", exact(wait)));
    match (&view.cut, policy.max_attempts(), view.is_whole()) {
        (Some(_), _, true) => {
            let deadline = view.subject.deadline.unwrap_or_default();
            format!("then dead (expired): the next wait would end after the deadline of {}", exact(deadline))
        }
        (None, Some(_), true) => "then dead (exhausted)".to_owned(),
        (Some(cut), _, false) => {
            let at = exact(cut.last_start);
            format!("… up to attempt {} at {at}{}; then dead (expired)", count(cut.attempts), next())
        }
        (None, Some(max), false) => format!("… up to attempt {}{}; then dead (exhausted)", max.get(), next()),
        (None, None, _) => format!("… and so on without end{}", next()),
    }
}

/// The wait before the first attempt that is not shown.
fn first_after(view: &View) -> Option<Duration> {
    let shown = view.steps.len();
    let steps = redrive_core::policy::timeline(&view.subject.policy, shown + 1);
    steps.get(shown).map(|step| step.wait_nominal)
}

fn limits(view: &View, screen: &Screen) -> String {
    let policy = &view.subject.policy;
    // Figures without an accessor of their own are read from the policy's JSON, which is public.
    let json = serde_json::to_value(policy).unwrap_or_default();
    let mut lines = vec![(
        "attempts",
        policy.max_attempts().map_or_else(|| "without end".to_owned(), |max| max.to_string()),
    )];
    lines.extend(policy.tiers().iter().map(|tier| ("waits", tier_words(tier, policy.tiers().len() > 1))));
    lines.push(("retry on", retry_on(policy.retry_on())));
    let final_on: Vec<Matcher> = serde_json::from_value(json["final_on"].clone()).unwrap_or_default();
    if !final_on.is_empty() {
        lines.push(("final on", listed(&final_on)));
    }
    lines.extend(json["overrides"].as_array().into_iter().flatten().map(|rule| ("on", special(rule))));
    lines.push((
        "crash limit",
        format!("{}, then dead (quarantined)", crashes(policy.crash_limit().get().into())),
    ));
    if let Some(limit) = policy.worker_limit() {
        lines.push((
            "worker limit",
            format!(
                "{} of a worker that held it, then dead (quarantined)",
                things(limit.get().into(), "death")
            ),
        ));
    }
    let unknown = policy.unknown_limit().map_or_else(
        || "none: failures of unknown kind count like others".to_owned(),
        |limit| format!("{} for failures of unknown kind", things(limit.get().into(), "attempt")),
    );
    lines.push(("unknown limit", unknown));
    let hint_cap = match view.subject.gate.as_ref().filter(|_| view.subject.stage.is_some()) {
        Some(gate) => format!("{}, of gate {}; a longer hint parks it", exact(gate.spec.hint_cap), gate.name),
        None => format!("{}; a longer hint parks the item", exact(policy.hint_cap())),
    };
    lines.push(("hint cap", hint_cap));
    if let Some(growth) = json["timeout_growth"].as_f64() {
        let growth = if growth > 1.0 {
            format!("×{growth} after each timeout, at most ×4")
        } else {
            "off".to_owned()
        };
        lines.push(("timeout growth", growth));
    }
    if let Some(flag) = json["flag_after"].as_u64() {
        lines.push(("flagged", format!("as permanent-looking after {}", things(flag, "failure"))));
    }
    lines.push(("deadline", deadline(view)));
    aligned(screen, lines)
}

fn crashes(n: u64) -> String {
    if n == 1 { "1 crash".to_owned() } else { format!("{} crashes", count(n)) }
}

fn deadline(view: &View) -> String {
    match (view.subject.deadline, &view.subject.stage) {
        (Some(deadline), _) => exact(deadline),
        (None, Some(_)) => "none".to_owned(),
        (None, None) => "the pipeline's (24h unless the file says otherwise)".to_owned(),
    }
}

fn aligned<'a>(screen: &Screen, lines: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let line = |(name, text): (&str, String)| screen.hung(&format!("{name:NAME$}{}", safe(&text)), NAME);
    lines.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

fn tier_words(tier: &Tier, with_attempts: bool) -> String {
    let jitter = match tier.jitter {
        Jitter::None => String::new(),
        Jitter::Proportional(fraction) => format!(", ±{}", percent(fraction)),
        Jitter::Full => ", anywhere between zero and that".to_owned(),
        Jitter::Equal => ", anywhere between half of that and that".to_owned(),
    };
    let waits = backoff_words(&tier.backoff) + &jitter;
    match tier.attempts {
        _ if !with_attempts => waits,
        Some(attempts) => format!("{}: {waits}", things(attempts.get().into(), "attempt")),
        None => format!("then: {waits}"),
    }
}

fn backoff_words(backoff: &Backoff) -> String {
    match backoff {
        Backoff::None => "none".to_owned(),
        Backoff::Fixed { delay } => exact(*delay),
        Backoff::Linear { base, max } => format!("{} more each time, at most {}", exact(*base), exact(*max)),
        Backoff::Exponential { base, factor, max } => {
            format!("{}, each ×{factor} the one before, at most {}", exact(*base), exact(*max))
        }
        Backoff::Schedule { delays } => {
            let delays = delays.iter().map(|delay| exact(*delay)).collect::<Vec<_>>().join(", ");
            format!("{delays}; the last one repeats")
        }
    }
}

fn retry_on(retry_on: Option<&RetryOn>) -> String {
    match retry_on {
        None => "as classified".to_owned(),
        Some(RetryOn::All) => "every failure".to_owned(),
        Some(RetryOn::None) => "no failure".to_owned(),
        Some(RetryOn::List(matchers)) => listed(matchers),
    }
}

fn listed(matchers: &[Matcher]) -> String {
    matchers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A rule for some failures, from its JSON.
fn special(rule: &Value) -> String {
    let matcher = serde_json::from_value::<Matcher>(rule["matcher"].clone());
    let mut parts = Vec::new();
    if let Some(max) = rule["max_attempts"].as_u64() {
        parts.push(things(max, "attempt"));
    }
    if let Some(backoff) = rule["backoff"].as_object() {
        let figure = |(key, value): (&String, &Value)| match (key.strip_suffix("_ms"), value) {
            (None, Value::String(kind)) if kind == "none" => "no wait".to_owned(),
            (None, Value::String(kind)) => format!("{kind} waits"),
            (Some(key), Value::Number(ms)) => format!("{key} {}", exact(span(ms.as_i64().unwrap_or(0)))),
            (_, Value::Array(all)) => {
                all.iter().map(|ms| exact(span(ms.as_i64().unwrap_or(0)))).collect::<Vec<_>>().join(", ")
            }
            (_, value) => format!("{key} {value}"),
        };
        let (kind, rest): (Vec<_>, Vec<_>) = backoff.iter().partition(|(key, _)| *key == "kind");
        parts.push(kind.into_iter().chain(rest).map(figure).collect::<Vec<_>>().join(" "));
    }
    format!("{}: {}", matcher.map(|matcher| matcher.to_string()).unwrap_or_default(), parts.join(", "))
}

fn outlook(outlook: &Forecast, screen: &Screen) -> String {
    let calls = format!(
        "{} per item, {} in all",
        figure(outlook.expected_calls_per_item),
        figure(outlook.expected_calls)
    );
    let items = count(outlook.items);
    let dead = format!("{} of items, {} of {items}", percent(outlook.p_dead), figure(outlook.expected_dead));
    let budget = match (outlook.paused_after, &outlook.pause_reason) {
        (Some(after), Some(reason)) => {
            format!("pauses the run after about {} items of the stage: {reason}", count(after))
        }
        _ => "is not spent".to_owned(),
    };
    let lines = [
        ("expected calls", calls),
        ("expected dead", dead),
        ("time until dead", time_to_dead(outlook)),
        ("failure budget", budget),
    ];
    let rate = percent(outlook.failure_rate);
    format!(
        "when {items} items come and each attempt fails with a chance of {rate}:\n{}",
        aligned(screen, lines)
    )
}
