//! Waiting items are told when to go.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::item::{Item, State, StateKind};
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_engine::admin;
use redrive_engine::report::{Crew, PauseView, RunReport, pauses_on};
use redrive_store::{ItemFilter, ItemQuery, RunRow};
use serde::{Deserialize, Serialize};

use crate::dead::{Selection, Which};
use crate::error::{Code, Error, Result};
use crate::items::{self, ItemName};
use crate::runs::Runs;
use crate::work::{Observer, work_on_due};
use crate::{Floor, Role};

/// Which waiting items go when.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Which of the items that wait.
    pub which: Which,
    /// In so many milliseconds; 0: now.
    pub in_ms: i64,
    /// Works on their runs until what is told to go has ended or waits again, and nothing else is due either.
    pub work: bool,
}

/// What was done, or would be.
#[derive(Debug, Default, Serialize)]
pub struct Retried {
    /// Whether this only says what would be done.
    pub dry_run: bool,
    /// Items that were told to go, or would be.
    pub items: u64,
    /// Items that were left alone: they are due then already, it would be past their deadline, or something happened to
    /// them meanwhile.
    pub skipped: u64,
    /// When they go.
    pub due: String,
    /// What holds them up all the same.
    pub held: Vec<Held>,
    /// How the runs stand that were worked on.
    pub runs: Vec<RunReport>,
    /// Runs that have such items and go on.
    #[serde(skip)]
    pub live: Vec<RunId>,
    /// Whether the work on the runs was told to stop.
    #[serde(skip)]
    pub interrupted: bool,
}

/// Something that keeps items from going though they are due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Held {
    /// Their run is paused.
    Run {
        /// The run.
        run: RunId,
    },
    /// A gate that they have to pass lets nothing through.
    Gate {
        /// The gate.
        gate: String,
        /// Why, in one sentence.
        why: String,
    },
    /// Somebody paused their pipeline, or a stage of it.
    Pause(PauseView),
    /// Nobody works on their run.
    Nobody {
        /// The run.
        run: RunId,
    },
}

impl Retry {
    /// Refuses to take "no filter" for "everything": asked before a store is opened.
    ///
    /// # Errors
    /// When nothing says which.
    pub fn said_which(&self) -> Result<()> {
        if self.which.is_narrow() || self.which.run.is_some() || self.which.pipeline.is_some() {
            return Ok(());
        }
        Err(Error::wrong("which waiting items are to go?")
            .hint("name an item, a run, a pipeline, a stage, a group, a class …"))
    }

    fn later(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.in_ms).unwrap_or(0))
    }

    fn due(&self, floor: &Floor) -> Option<Timestamp> {
        let later = self.later();
        (!later.is_zero()).then(|| floor.now().after(later))
    }

    async fn filters(&self, floor: &Floor) -> Result<Vec<ItemFilter>> {
        let mut which = self.which.clone();
        if let Some(name) = which.item.take() {
            let item = meant(floor, ItemName { item: name, run: which.run }).await?;
            refuse_other(&item)?;
            which.item = Some(item.id.to_string());
        }
        Ok(Selection::in_state(floor, &which, StateKind::Waiting).await?.into_filters())
    }
}

/// The item that is meant. Where several runs have one of that key and only one of these waits, it is that one.
async fn meant(floor: &Floor, name: ItemName) -> Result<Item> {
    let found = items::find(&*floor.store, &name).await;
    if found.as_ref().is_err_and(|error| error.code == Code::ItemAmbiguous) {
        let (run, state, key) = (name.run, Some(StateKind::Waiting), Some(name.item));
        let filter = ItemFilter { run, state, key, ..ItemFilter::default() };
        let mut waiting = floor.store.items(ItemQuery { filter, after: None, limit: 2 }).await?;
        if waiting.len() == 1 {
            return Ok(waiting.remove(0));
        }
    }
    found
}

/// The operations that do what is asked for.
pub(crate) async fn retry_requests(floor: &Floor, request: &Retry) -> Result<Vec<admin::Retry>> {
    let due = request.due(floor);
    let filters = request.filters(floor).await?;
    Ok(filters.into_iter().map(|filter| admin::Retry { filter, due }).collect())
}

/// One item that is named and does not wait: what can be done about it instead.
fn refuse_other(item: &Item) -> Result<()> {
    let id = item.id;
    let (state, way) = match item.state {
        State::Waiting { .. } => return Ok(()),
        State::Running { .. } => ("running now", format!("`redrive explain {id}` tells since when")),
        State::Joining => ("waiting for its children", format!("`redrive explain {id}` tells for which")),
        State::Succeeded | State::Filtered { .. } => {
            ("finished", format!("`redrive rerun {} --stage STAGE --key KEY` does it again", item.run))
        }
        State::Superseded { .. } => ("superseded", format!("`redrive explain {id}` tells by what")),
        State::Cancelled => ("cancelled", "`redrive run FILE --new` starts another run".to_owned()),
        State::Dead { .. } => ("dead", format!("`redrive dead redrive --item {id}` sends it back")),
    };
    Err(Error::refused(format!("item {id} is {state}; only waiting items can be told to go")).hint(way))
}

/// Says how many items [`retry`] would tell to go, and what would hold them up all the same.
///
/// # Errors
/// When what is named does not exist or does not wait, or the store fails.
pub async fn preview_retry(floor: &Floor, request: &Retry) -> Result<Retried> {
    let due = request.due(floor);
    let mut told = Retried { dry_run: true, due: due_text(floor, due), ..Retried::default() };
    let runs = Runs::of(&*floor.store);
    let mut of = BTreeSet::new();
    for filter in request.filters(floor).await? {
        let asked = admin::Retry { filter, due };
        let found = admin::preview_retry(&*floor.store, &runs, &asked, &floor.env).await?;
        told.items += found.items;
        told.skipped += found.skipped;
        of.extend(found.runs);
    }
    let mut rows = Vec::new();
    for run in of {
        rows.extend(floor.store.run(run).await?);
    }
    told.held = held(floor, &rows, !request.work).await?;
    Ok(told)
}

/// Tells waiting items to go, now or later, and works on their runs where that is asked for.
///
/// # Errors
/// When what is named does not exist or does not wait, or the store fails; the same request does the rest.
pub async fn retry(floor: &Floor, request: &Retry, observer: &dyn Observer) -> Result<Retried> {
    floor.require(Role::Operator)?;
    let due = request.due(floor);
    let mut told = Retried { due: due_text(floor, due), ..Retried::default() };
    let runs = Runs::of(&*floor.store);
    let filters = request.filters(floor).await?;
    let mut rows = Vec::new();
    for filter in filters {
        let asked = admin::Retry { filter, due };
        let (done, of) = admin::retry(&*floor.store, &runs, &asked, &floor.asker.name, &floor.env).await?;
        told.items += done.changed;
        told.skipped += done.skipped;
        for run in of {
            rows.extend(floor.store.run(run).await?);
        }
    }
    rows.sort_by_key(|row| row.id);
    rows.dedup_by_key(|row| row.id);
    told.live = rows.iter().filter(|row| row.control == Control::Go).map(|row| row.id).collect();
    if request.work {
        for run in told.live.clone() {
            let worked = work_on_due(floor, run, request.later(), observer).await?;
            told.runs.push(worked.report);
            told.interrupted = worked.interrupted;
            if worked.interrupted {
                break;
            }
        }
    }
    told.held = held(floor, &rows, !request.work).await?;
    Ok(told)
}

fn due_text(floor: &Floor, due: Option<Timestamp>) -> String {
    due.unwrap_or_else(|| floor.now()).to_string()
}

/// What keeps the items of these runs from going.
async fn held(floor: &Floor, rows: &[RunRow], nobody: bool) -> Result<Vec<Held>> {
    let crew = Crew::read(&*floor.store, &floor.env).await?;
    let gates = crate::gates::list(floor).await?;
    let pauses = floor.store.pauses().await?;
    let mut held = Vec::new();
    for row in rows {
        let attended = crew.may_take(row.id);
        match row.control {
            Control::Cancelled => {}
            Control::Go if attended || !nobody => {}
            Control::Go => held.push(Held::Nobody { run: row.id }),
            Control::Paused | Control::PausedBudget | Control::PausedQuota | Control::PausedOutage => {
                held.push(Held::Run { run: row.id });
            }
        }
        for pause in pauses_on(&pauses, &row.spec.pipeline).into_iter().map(Held::Pause) {
            if !held.contains(&pause) {
                held.push(pause);
            }
        }
        let Some(definition) = crate::pipelines::definition_of(row) else { continue };
        for gate in gates.closed().filter(|gate| definition.passes(&gate.name)) {
            let why = Held::Gate { gate: gate.name.clone(), why: gate.why.clone() };
            if !held.contains(&why) {
                held.push(why);
            }
        }
    }
    Ok(held)
}
