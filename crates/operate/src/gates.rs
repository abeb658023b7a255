//! Gates: list them, pause one, let one go on with the runs that waited for it, or have it forget what it found out.

use redrive_core::gate::GateState;
use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_engine::admin::{self, Act};
use redrive_engine::report::{GateReport, gate_report, gate_reports};
use redrive_store::RunFilter;
use serde::Serialize;

use crate::error::{Code, Error, Result};
use crate::pipelines;
use crate::runs::Runs;
use crate::{Floor, Role};

/// Runs that are looked at at a time.
const PAGE: usize = 500;

/// All gates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateList {
    /// How each of them stands, by name.
    pub gates: Vec<GateReport>,
}

impl GateList {
    /// Those that let nothing through for now.
    pub(crate) fn closed(&self) -> impl Iterator<Item = &GateReport> {
        self.gates.iter().filter(|gate| gate.state != "open")
    }
}

/// A gate that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resumed {
    /// The gate.
    pub gate: String,
    /// The runs that were paused for it and may go on.
    pub runs: Vec<RunId>,
}

/// Lists the gates.
///
/// # Errors
/// When the store fails.
pub async fn list(floor: &Floor) -> Result<GateList> {
    Ok(GateList { gates: gate_reports(&*floor.store, floor.now()).await? })
}

/// The gates that a run's stages pass and that are not open. One that a newer version wrote is left out; [`list`] says so.
///
/// # Errors
/// When there is no such run, or the store fails.
pub async fn shut(floor: &Floor, run: RunId) -> Result<Vec<GateReport>> {
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    let now = floor.now();
    let rows = floor.store.gates().await?;
    let own = rows.iter().filter(|row| known.definition.passes(&row.name));
    Ok(own.filter_map(|row| gate_report(row, now).ok()).filter(|gate| gate.state != "open").collect())
}

/// Pauses a gate: what is under way finishes, the rest waits and spends nothing. It may be one that no stage has passed
/// yet, as long as a pipeline names it.
///
/// # Errors
/// When there is no such gate, or the store fails.
pub async fn pause(floor: &Floor, name: &str, why: &str) -> Result<()> {
    floor.require(Role::Operator)?;
    let known = floor.store.gates().await?.iter().any(|row| row.name == name);
    if !known && !is_named_by_a_run(floor, name).await? {
        return Err(unknown(floor, name).await?);
    }
    floor.write_down(Act::PauseGate { gate: name.to_owned(), why: why.to_owned() }).await?;
    let why = floor.said(why);
    let now = floor.now();
    admin::change_gate(&*floor.store, name, true, now, |state| state.stop(why.clone(), now)).await?;
    Ok(())
}

/// Lets a gate go on that was paused, closed or away, and the runs that were paused for it. Without a name, the only one
/// that is not open is meant.
///
/// # Errors
/// When there is no such gate, it is not clear which one is meant, or the store fails.
pub async fn resume(floor: &Floor, name: Option<String>) -> Result<Resumed> {
    floor.require(Role::Operator)?;
    let gate = match name {
        Some(name) => name,
        None => the_one_not_open(floor).await?,
    };
    let now = floor.now();
    refuse_unknown(floor, &gate).await?;
    floor.write_down(Act::ResumeGate { gate: gate.clone() }).await?;
    change(floor, &gate, |state, now| state.resume(now)).await?;
    let mut runs = Vec::new();
    let unfinished = RunFilter { unfinished: true, ..RunFilter::default() };
    for row in Runs::of(&*floor.store).all(unfinished).await? {
        let for_a_gate = matches!(row.control, Control::PausedQuota | Control::PausedOutage);
        if for_a_gate && pipelines::definition_of(&row).is_some_and(|definition| definition.passes(&gate)) {
            admin::resume(&*floor.store, row.id, now).await?;
            runs.push(row.id);
        }
    }
    Ok(Resumed { gate, runs })
}

/// Has a gate forget what was found out about it: rates, sizes, pauses.
///
/// # Errors
/// When there is no such gate, or the store fails.
pub async fn reset(floor: &Floor, name: &str) -> Result<()> {
    floor.require(Role::Operator)?;
    refuse_unknown(floor, name).await?;
    floor.write_down(Act::ResetGate { gate: name.to_owned() }).await?;
    change(floor, name, |state, _| state.reset()).await
}

async fn change(floor: &Floor, name: &str, change: fn(&mut GateState, Timestamp)) -> Result<()> {
    let now = floor.now();
    match admin::change_gate(&*floor.store, name, false, now, |state| change(state, now)).await? {
        Some(_) => Ok(()),
        None => Err(unknown(floor, name).await?),
    }
}

/// Nothing is written down about a gate that is not there.
async fn refuse_unknown(floor: &Floor, name: &str) -> Result<()> {
    match floor.store.gates().await?.iter().any(|row| row.name == name) {
        true => Ok(()),
        false => Err(unknown(floor, name).await?),
    }
}

async fn unknown(floor: &Floor, name: &str) -> Result<Error> {
    let names: Vec<String> = floor.store.gates().await?.into_iter().map(|row| row.name).collect();
    let known = if names.is_empty() { "there are none yet".to_owned() } else { names.join(", ") };
    Ok(Error::not_found(format!("there is no gate {name:?}"))
        .code(Code::GateNotFound)
        .hint(format!("known gates: {known}")))
}

async fn is_named_by_a_run(floor: &Floor, name: &str) -> Result<bool> {
    let mut before = None;
    loop {
        let page = floor.store.runs(RunFilter::default(), before, PAGE).await?;
        let Some(last) = page.last() else { return Ok(false) };
        before = Some(last.id);
        if page.iter().filter_map(pipelines::definition_of).any(|definition| definition.passes(name)) {
            return Ok(true);
        }
    }
}

async fn the_one_not_open(floor: &Floor) -> Result<String> {
    let all = list(floor).await?;
    let mut shut = all.closed().map(|gate| gate.name.clone());
    match (shut.next(), shut.next()) {
        (Some(name), None) => Ok(name),
        (None, _) => Err(Error::refused("every gate is open").hint("`redrive gates` shows them")),
        (Some(first), Some(second)) => {
            let all: Vec<String> = [first, second].into_iter().chain(shut).collect();
            Err(Error::wrong("several gates are not open").hint(format!("say which: {}", all.join(", "))))
        }
    }
}
