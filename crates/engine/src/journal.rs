//! What is logged of runs, items and gates: each event where its decision has been committed, whoever asked for it.
//!
//! `redrive::run` and `redrive::gate` tell a life at level info, `redrive::item` at debug; that an item's limit is reached is an
//! error. Fields have the same names everywhere: run, item, key, stage, attempt, class, wait_ms. No content of an item is among
//! them, and what a failure says is redacted when the failure is made. How a source was read and how a run was left is logged by
//! `admit` and `report`, in the same words.

use redrive_core::answer::Handed;
use redrive_core::attempt::AttemptRecord;
use redrive_core::event::Transition;
use redrive_core::gate::Standing;
use redrive_core::id::RunId;
use redrive_core::item::{DeadReason, Item, State};
use redrive_core::plan::Plan;
use redrive_core::policy::{OwnPolicy, Policy};
use redrive_core::status::{Control, RunStatus};
use redrive_core::time::millis;
use redrive_store::{PipelinePause, RunRow};
use tracing::{Level, debug, enabled, error, info, warn};

use crate::pause_words::{resumes, said, what};

/// Logs that somebody begins to work on a run; said before its source is read.
pub fn run_begins(row: &RunRow) {
    let worked_on = row.idle.since.is_some() || row.idle.before_ms > 0;
    let event = match worked_on || (row.reading > 0 && !row.is_handed_over()) {
        true => "run gone on with",
        false => "run started",
    };
    let (run, pipeline, source) = (row.id, &row.spec.pipeline, &row.spec.source);
    info!(target: "redrive::run", %run, %pipeline, %source, edition = row.edition, "{event}");
}

/// A run is kept from going on, or let go on.
pub(crate) fn run_halted(run: RunId, control: Control, why: &str) {
    match control.status() {
        None => info!(target: "redrive::run", %run, why, "run may go on"),
        Some(RunStatus::Cancelled) => info!(target: "redrive::run", %run, why, "run cancelled"),
        Some(status) => info!(target: "redrive::run", %run, %status, why, "run paused"),
    }
}

/// Somebody paused a pipeline, or a stage of it.
pub(crate) fn pipeline_paused(pause: &PipelinePause) {
    let PipelinePause { pipeline, stage, actor: by, why, .. } = pause;
    info!(target: "redrive::run", %pipeline, stage = stage.as_deref(), %by, %why, "pipeline paused");
}

/// Somebody lets a pipeline, or a stage of it, go on.
pub(crate) fn pipeline_resumed(pipeline: &str, stage: Option<&str>, by: &str) {
    info!(target: "redrive::run", pipeline, stage, by, "pipeline may go on");
}

/// Whoever works on a run hears that it is held up.
pub(crate) fn held_up(pause: &PipelinePause) {
    let PipelinePause { pipeline, stage, actor, why, .. } = pause;
    let (said, resumes) = (said(pipeline, stage.as_deref(), actor, why), resumes(pipeline, stage.as_deref()));
    warn!("{said}; `{resumes}` lets it go on");
}

/// Whoever works on a run hears that it goes on.
pub(crate) fn goes_on(pause: &PipelinePause) {
    warn!("{} goes on", what(&pause.pipeline, pause.stage.as_deref()));
}

/// A gate has been closed in one way or another, or is open again.
pub(crate) fn gate_stands(gate: &str, standing: &Standing) {
    let Standing { state, why, since: _, until } = standing;
    let until = until.map(|until| until.to_string());
    let event = if *state == "open" { "gate opened again" } else { "gate closed" };
    info!(target: "redrive::gate", gate, state, why, until, "{event}");
}

/// Whether anybody hears of gates.
pub(crate) fn tells_gates() -> bool {
    enabled!(target: "redrive::gate", Level::INFO)
}

/// Items were claimed.
pub(crate) fn claimed<'a>(plan: &Plan, items: impl Iterator<Item = &'a Item>) {
    if !enabled!(target: "redrive::item", Level::DEBUG) {
        return;
    }
    for item in items {
        let Item { run, id, key, attempt, .. } = item;
        let stage = plan.stage(item.stage).map_or("?", |stage| &stage.name);
        debug!(target: "redrive::item", %run, item = %id, %key, stage, attempt, "claimed");
    }
}

/// A call begins for these items.
pub(crate) fn started<'a>(plan: &Plan, items: impl Iterator<Item = &'a Item>) {
    if !enabled!(target: "redrive::item", Level::DEBUG) {
        return;
    }
    for called in items {
        let Item { run, id: item, key, attempt, .. } = called;
        let stage = plan.stage(called.stage).map_or("?", |stage| &stage.name);
        let of = plan.policy_of(called).and_then(Policy::max_attempts).map(u32::from);
        let event = if *attempt > 1 { "retry started" } else { "initial attempt started" };
        debug!(target: "redrive::item", %run, %item, %key, stage, attempt, max_attempts = of, "{event}");
    }
}

/// What was decided of an item is committed.
pub(crate) fn committed(plan: &Plan, transition: &Transition) {
    // An error is heard by whoever hears anything of items.
    if !enabled!(target: "redrive::item", Level::ERROR) {
        return;
    }
    if let Some(record) = &transition.record {
        ended(plan, transition, record);
    }
    if let Some(handed) = transition.after.handed.as_ref().filter(|_| !transition.from.awaited) {
        handed_over(plan, transition, handed);
    }
    let dead = match transition.after.state {
        State::Dead { reason } => Some(reason),
        _ => None,
    };
    if let Some(reason) = dead {
        died(plan, transition, reason);
    }
}

/// Somebody else has an item now.
fn handed_over(plan: &Plan, transition: &Transition, handed: &Handed) {
    let Item { run, id: item, key, attempt, .. } = &transition.after;
    let stage = plan.stage(transition.from.stage).map_or("?", |stage| &stage.name);
    let until = handed.until.to_string();
    debug!(target: "redrive::item", %run, %item, %key, stage, attempt, until, "handed over");
}

/// How an attempt ended, and what follows.
fn ended(plan: &Plan, transition: &Transition, record: &AttemptRecord) {
    if !enabled!(target: "redrive::item", Level::DEBUG) {
        return;
    }
    let Item { run, id: item, key, failures, .. } = &transition.after;
    let stage = plan.stage(record.stage).map_or("?", |stage| &stage.name);
    let of = max_attempts(plan, transition);
    let (attempt, outcome) = (record.attempt, record.outcome.name());
    let duration_ms = millis(record.ended_at.since(record.started_at));
    let failure = record.failure.as_ref();
    let class = failure.map(|failure| failure.class.name());
    let status = failure.and_then(|failure| failure.status);
    let why = failure.map(|failure| &*failure.message);
    let event = if attempt > 1 { "retry ended" } else { "initial attempt ended" };
    debug!(
        target: "redrive::item",
        %run, %item, %key, stage, attempt, max_attempts = of, outcome, class, status, why, duration_ms, "{event}"
    );
    if let Some((wait, cause)) = record.wait {
        let (wait_ms, cause) = (millis(wait), cause.name());
        debug!(
            target: "redrive::item",
            %run, %item, %key, stage, attempt, max_attempts = of, failures, class, wait_ms, cause, "retry scheduled"
        );
    }
    if let Some(healed) = transition.healed {
        let healed_ms = millis(healed);
        debug!(target: "redrive::item", %run, %item, %key, stage, attempt, healed_ms, "retry succeeded");
    }
}

/// An item is dead: because a limit is reached, which somebody should look at, or for another reason.
fn died(plan: &Plan, transition: &Transition, reason: DeadReason) {
    let Item { run, id: item, key, attempt, failures, crashes, last, .. } = &transition.after;
    let stage = plan.stage(transition.from.stage).map_or("?", |stage| &stage.name);
    let of = max_attempts(plan, transition);
    let class = last.as_ref().map(|last| last.class.name());
    let why = last.as_ref().map(|last| &*last.message);
    let last_attempt_at = transition.record.as_ref().map(|record| record.started_at.to_string());
    let limit = match reason {
        DeadReason::Exhausted => "limit reached: attempts spent",
        DeadReason::Expired => "limit reached: its deadline has passed",
        DeadReason::Quarantined => "limit reached: it crashed too often",
        DeadReason::Final | DeadReason::Operator => {
            let reason = reason.name();
            debug!(
                target: "redrive::item",
                %run, %item, %key, stage, attempt, reason, class, why, "dead"
            );
            return;
        }
    };
    let reason = reason.name();
    error!(
        target: "redrive::item",
        %run, %item, %key, stage, attempt, max_attempts = of, failures, crashes, reason, class, last_attempt_at, why,
        "{limit}; the item is dead"
    );
}

fn max_attempts(plan: &Plan, transition: &Transition) -> Option<u32> {
    let own = transition.under.as_ref().map(OwnPolicy::policy);
    let policy = own.or_else(|| plan.stage(transition.from.stage).map(|stage| &stage.policy));
    policy?.max_attempts().map(u32::from)
}
