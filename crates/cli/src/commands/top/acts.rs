//! What is done to the store.

use redrive_core::id::RunId;
use redrive_operate::again::{self, Held, Retry};
use redrive_operate::dead::{self, List, Redrive, Selection, Which};
use redrive_operate::work::Unobserved;
use redrive_operate::{Error, Floor, gates, runs};

use super::model::{Question, going, sent_back};

/// Keys that are shown before a group is sent back.
const FIRST: usize = 5;

/// Stops a run for now.
pub async fn pause_run(floor: &Floor, run: RunId) -> Result<String, Error> {
    let report = runs::pause(floor, run, "").await?;
    Ok(format!("run {run} is {}", report.status))
}

/// Lets a run go on.
pub async fn resume_run(floor: &Floor, run: RunId) -> Result<String, Error> {
    let report = runs::let_go_on(floor, run).await?;
    let nobody = report.workers.is_empty();
    let next = if nobody { format!("; nobody is at it: redrive resume {run}") } else { String::new() };
    Ok(format!("run {run} may go on{next}"))
}

/// Has the waiting items of a run go now, and says what holds them up all the same.
pub async fn retry_run(floor: &Floor, run: RunId) -> Result<String, Error> {
    let which = Which { run: Some(run), ..Which::default() };
    let done = again::retry(floor, &Retry { which, ..Retry::default() }, &Unobserved).await?;
    let held = done.held.first().map(|held| match held {
        Held::Run { run } => format!("; run {run} is paused"),
        Held::Gate { gate, why } => format!("; gate {gate} holds them up: {why}"),
        Held::Pause(pause) => format!("; {}", pause.said()),
        Held::Nobody { run } => format!("; nobody is at it: redrive resume {run}"),
    });
    Ok(match done.items {
        0 => format!("no item of {run} waits for a later time"),
        items => going(items, run) + &held.unwrap_or_default(),
    })
}

/// Stops a gate for now.
pub async fn pause_gate(floor: &Floor, gate: &str) -> Result<String, Error> {
    gates::pause(floor, gate, "paused in `redrive top`").await?;
    Ok(format!("gate {gate} is paused"))
}

/// Lets a gate go on.
pub async fn resume_gate(floor: &Floor, gate: String) -> Result<String, Error> {
    let resumed = gates::resume(floor, Some(gate)).await?;
    let runs: Vec<String> = resumed.runs.iter().map(ToString::to_string).collect();
    let runs = if runs.is_empty() { String::new() } else { format!(", and with it {}", runs.join(", ")) };
    Ok(format!("gate {} goes on{runs}", resumed.gate))
}

/// Sees what would be sent back.
pub async fn preview(floor: &Floor, group: String, run: Option<RunId>) -> Result<Question, Error> {
    let which = which(&group, run);
    let selection = Selection::of(floor, &which).await?;
    let planned = dead::preview(floor, &selection, &Redrive::default()).await?;
    let page = dead::list(floor, &List { which, limit: FIRST, ..List::default() }).await?;
    let first = page.items.into_iter().map(|item| item.key).collect();
    Ok(Question { group, run, items: planned.items, skipped: planned.skipped, first })
}

/// Sends a group back.
pub async fn redrive(floor: &Floor, group: &str, run: Option<RunId>) -> Result<String, Error> {
    let selection = Selection::of(floor, &which(group, run)).await?;
    let done = dead::redrive(floor, &selection, &Redrive::default(), &Unobserved).await?;
    let mut nobody = None;
    for run in done.live.iter().filter(|_| done.items > 0) {
        if nobody.is_none() && runs::show(floor, Some(*run)).await?.workers.is_empty() {
            nobody = Some(*run);
        }
    }
    Ok(sent_back(done.items, done.skipped, nobody))
}

fn which(group: &str, run: Option<RunId>) -> Which {
    Which { group: Some(group.to_owned()), run, ..Which::default() }
}
