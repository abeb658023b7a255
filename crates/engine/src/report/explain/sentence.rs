//! Why an item is not running now, in a sentence.

use std::time::Duration;

use redrive_core::answer::AnswerToken;
use redrive_core::failure::headline;
use redrive_core::item::{Item, State};
use redrive_core::plan::Plan;
use redrive_core::policy::{Cause, Policy};
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::RunRow;

use super::super::crew::Crew;
use super::super::gates::{Concurrency, GateReport, PerMinute};
use super::super::pauses::PauseView;
use super::stage_name;

/// Most characters of an error that a sentence repeats.
const SAID: usize = 200;

/// The line of an error that tells most, for a sentence.
pub(super) fn said(message: &str) -> String {
    let line = headline(message).trim_end_matches(['.', ':']);
    if line.chars().count() <= SAID {
        return line.to_owned();
    }
    let mut cut: String = line.chars().take(SAID - 1).collect();
    cut.push('…');
    cut
}

/// What an item's sentence depends on besides the item.
pub(super) struct Around<'a> {
    /// Its run.
    pub row: &'a RunRow,
    /// Its run's plan.
    pub plan: &'a Plan,
    /// The gate of the stage it is at.
    pub gate: Option<&'a GateReport>,
    /// Whoever paused the stage it is at.
    pub paused: Option<&'a PauseView>,
    /// Who is there to work.
    pub crew: &'a Crew,
    /// The time.
    pub now: Timestamp,
}

/// What an item is doing now, and why.
pub(super) fn sentence(item: &Item, around: &Around<'_>) -> String {
    let stage = stage_name(around.plan, item.stage);
    match &item.state {
        State::Waiting { due, .. } if item.handed.is_some() => awaited(item, around, &stage, *due),
        State::Waiting { due, cause } => waiting(item, around, &stage, (*due, *cause)),
        State::Running { worker, since } if around.crew.has(*worker) => {
            format!("Attempt {} at {stage} runs on {worker} since {since}.", item.attempt)
        }
        State::Running { worker, .. } => {
            let run = around.row.id;
            let then = match around.crew.may_take(run) {
                true => "whoever works on the run takes it over".to_owned(),
                false => format!("nobody works on run {run}; `redrive resume {run}` takes it over"),
            };
            format!("Attempt {} at {stage} was on {worker}, which vanished with it: {then}.", item.attempt)
        }
        State::Joining => "It waits for its children.".to_owned(),
        State::Succeeded => match item.verdict() {
            Some(verdict) => format!("It has passed every stage; its verdict is {verdict}."),
            None => "It has passed every stage.".to_owned(),
        },
        State::Filtered { reason } => format!("Stage {stage} took it out: {reason}."),
        State::Superseded { .. } => {
            "It is not what its source has any more: a newer version took its place, or it was removed."
                .to_owned()
        }
        State::Cancelled => "Its run was cancelled.".to_owned(),
        State::Dead { .. } if item.is_refused() => {
            let why = item.last.as_ref().map(|last| said(&last.message)).unwrap_or_default();
            format!(
                "Its source could not give it: {why}. Mend it there and run again, or import it with other content."
            )
        }
        State::Dead { reason } => {
            let last = item.last.as_ref().map(|last| format!(": {}", said(&last.message)));
            let last = last.unwrap_or_default();
            format!(
                "It is dead ({reason}) at {stage} after {} attempt{}{last}. `redrive dead redrive --item {}` sends it back.",
                item.attempt,
                if item.attempt == 1 { "" } else { "s" },
                item.id
            )
        }
    }
}

fn waiting(
    item: &Item,
    around: &Around<'_>,
    stage: &str,
    (due, cause): (Timestamp, Option<Cause>),
) -> String {
    let Around { row, gate, paused, now, .. } = *around;
    match row.control {
        Control::Go => {}
        Control::Paused | Control::PausedBudget | Control::PausedQuota | Control::PausedOutage => {
            let why = row.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            return format!(
                "It waits at {stage}: run {} is paused{why}. `redrive resume {}` goes on.",
                row.id, row.id
            );
        }
        Control::Cancelled => return format!("Run {} was cancelled.", row.id),
    }
    if let Some(paused) = paused {
        return format!(
            "It waits at {stage}: {}, since {}. `{}` lets it go on; waiting there spends no attempt.",
            paused.said(),
            paused.since,
            paused.resume
        );
    }
    if let Some(gate) = gate.filter(|gate| gate.state != "open") {
        return at_gate(stage, gate);
    }
    if due <= now {
        return is_due(item, around, stage);
    }
    let why = match cause {
        None => "it was scheduled",
        Some(Cause::Immediate) => "it goes on at once",
        Some(Cause::Backoff | Cause::SlowTier) => "its policy backs off after a failure",
        Some(Cause::Hint) => "its answer asked to be left alone that long",
        Some(Cause::Throttle) => "the service asked for less",
        Some(Cause::Parked) => {
            "its answer asked for a longer wait than the policy's hint_cap; it is parked for that long"
        }
        Some(Cause::Quota) => "credit is exhausted or the service does not let us in",
        Some(Cause::Crash) => "its process died",
        Some(Cause::Gate) => "the service turned it away",
        Some(Cause::Answer) => "its answer comes later",
    };
    let found = gate.filter(|gate| cause == Some(Cause::Gate) && !gate.why.is_empty());
    let found = found.map(|gate| format!("; {}", gate.why)).unwrap_or_default();
    format!(
        "It waits at {stage} until {due} (in {}): {why}{found}. Failed {} time{}. `redrive retry {}` has it go now.",
        span(due.since(now)),
        item.failures,
        if item.failures == 1 { "" } else { "s" },
        item.id
    )
}

/// Waiting for an answer. No gate and no pause keeps it from coming.
fn awaited(item: &Item, around: &Around<'_>, stage: &str, due: Timestamp) -> String {
    let Around { row, plan, crew, now, .. } = *around;
    let Some(handed) = &item.handed else { return String::new() };
    let of = plan.policy_of(item).and_then(Policy::max_attempts);
    let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
    let begun = format!("It was handed over at {stage} at {}", handed.at);
    let attempt = format!("attempt {}{of}", item.failures.saturating_add(1));
    let (until, run) = (handed.until, row.id);
    if until <= now {
        let then = match (row.control, crew.may_take(run)) {
            (Control::Cancelled, _) => format!("run {run} was cancelled"),
            (Control::Go, true) => "whoever works on the run counts that as a failure".to_owned(),
            _ => format!(
                "it counts as a failure as soon as somebody works on run {run}: `redrive resume {run}`"
            ),
        };
        return format!("{begun}, and no answer has come until {until} ({attempt}): {then}.");
    }
    let asked = match due < until {
        true => format!(", and is asked for at {due}"),
        false => String::new(),
    };
    format!(
        "{begun}; its answer is awaited until {until} (for {} more){asked}: {attempt}. The token of the answer is {}.",
        span(until.since(now)),
        AnswerToken::of(item)
    )
}

/// Why an item does not run whose time has come.
fn is_due(item: &Item, around: &Around<'_>, stage: &str) -> String {
    let Around { row, plan, gate, crew, .. } = *around;
    if plan.external().contains(&item.stage) {
        return format!(
            "It is due at {stage}, and no external worker asks for it: `POST /v1/work/claim` at a `redrive serve` of this store takes it. \
             Waiting spends no attempt."
        );
    }
    if !crew.may_take(row.id) {
        let run = row.id;
        return format!(
            "It is due at {stage}, and nobody works on run {run}: `redrive resume {run}` goes on."
        );
    }
    if let Some(gate) = gate.filter(|gate| gate.workers > 0) {
        let lets = lets(gate.requests_per_minute, gate.concurrency);
        let why = if gate.why.is_empty() { String::new() } else { format!("; {}", gate.why) };
        return format!(
            "It is due at {stage} and waits its turn at gate {}{lets}{why}. \
             Waiting there spends no attempt.",
            gate.name
        );
    }
    format!(
        "It is due at {stage} and waits for a worker, who takes it as soon as there is room: others go first."
    )
}

/// What a gate lets through. A limit that nobody gave and no answer has shown is none.
fn lets(requests: PerMinute, at_once: Concurrency) -> String {
    match [requests.given, requests.learnt].into_iter().flatten().min() {
        Some(rate) => format!(", which lets {rate} requests a minute pass"),
        None => format!(", where {} of at most {} calls are under way", at_once.now, at_once.limit),
    }
}

/// Waiting at a gate that is not open.
fn at_gate(stage: &str, gate: &GateReport) -> String {
    let GateReport { name, state, why, since, until, .. } = gate;
    let since = since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let until = match until {
        Some(until) => format!(" until {until}"),
        None => format!(", until `redrive gates resume {name}`"),
    };
    format!(
        "It waits at {stage} for gate {name}, which is {state}{since}{until}: {why}. Waiting there spends no attempt."
    )
}

/// A span as people say it, by its two largest parts.
fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_repeats_one_line_of_an_error() {
        assert_eq!(said("HTTP 422: not like this.\nbody"), "HTTP 422: not like this");
        assert_eq!(said(""), "");
        assert_eq!(said(&"x".repeat(500)).chars().count(), SAID);
    }

    #[test]
    fn a_limit_that_was_neither_given_nor_learnt_is_not_named() {
        let at_once = Concurrency { now: 3, limit: 8, most: None };
        let now = PerMinute { now: Some(7_488), ..PerMinute::default() };
        assert_eq!(lets(now, at_once), ", where 3 of at most 8 calls are under way");
        let learnt = PerMinute { learnt: Some(90), ..now };
        assert_eq!(lets(learnt, at_once), ", which lets 90 requests a minute pass");
        let given = PerMinute { given: Some(60), ..learnt };
        assert_eq!(lets(given, at_once), ", which lets 60 requests a minute pass");
    }

    #[test]
    fn spans_are_told_by_their_two_largest_parts() {
        let told = |seconds| span(Duration::from_secs(seconds));
        let all = [told(59), told(3_599), told(86_399), told(200_000)];
        assert_eq!(all, ["59 s", "59 min 59 s", "23 h 59 min", "2 d 7 h"]);
        assert_eq!(span(Duration::from_millis(250)), "250 ms");
    }
}
