//! Dead items are sent back, from the stage that failed them.

use std::collections::BTreeMap;

use redrive_core::id::{ItemId, OperationId, RunId, StageNo};
use redrive_core::item::{Item, StateKind};
use redrive_core::status::Control;
use redrive_engine::admin;
use redrive_engine::report::RunReport;
use redrive_store::{ItemFilter, ItemQuery, RunRow};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::selection::finds_any;
use super::{Selection, own_policy_if_any, under_way};
use crate::error::{Error, Result};
use crate::pipelines;
use crate::runs::Runs;
use crate::work::{Observer, work_on};
use crate::{Floor, Role};

/// The lowest rate: one an hour.
const SLOWEST: f64 = 1.0 / 3_600.0;
/// The highest rate.
const FASTEST: f64 = 1e6;
/// Items that are looked at a time.
const PAGE: usize = 500;

/// How dead items are sent back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redrive {
    /// At most so many are sent back.
    pub limit: Option<u64>,
    /// Sends this many first and works on them; goes on only if all of them pass.
    pub canary: Option<u64>,
    /// Works on the runs they belong to until those end.
    pub work: bool,
    /// The policy that they go under at the stage that failed them, in place of the stage's own: a preset's name, or an object with
    /// the keys of `retry`.
    pub retry: Option<Value>,
}

impl Redrive {
    /// Looks whether the request makes sense, before a store is opened.
    ///
    /// # Errors
    /// When it does not.
    pub fn check(&self) -> Result<()> {
        own_policy_if_any(self.retry.as_ref()).map(drop)
    }

    fn of(&self, filter: &ItemFilter, limit: Option<u64>) -> Result<admin::Redrive> {
        let retry = own_policy_if_any(self.retry.as_ref())?;
        Ok(admin::Redrive { limit, retry, ..admin::Redrive::of(filter.clone()) })
    }

    fn left(&self, sent: u64) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(sent))
    }
}

/// Refuses a rate that cannot be kept.
pub(crate) fn check_rate(rate: Option<f64>) -> Result<()> {
    match rate {
        Some(rate) if !(SLOWEST..=FASTEST).contains(&rate) => {
            Err(Error::wrong(format!("a rate (--rate, `rate_per_second`) of {rate} a second cannot be kept"))
                .hint("between one an hour, 0.0003, and 1,000,000 a second"))
        }
        _ => Ok(()),
    }
}

/// What was done, or would be.
#[derive(Debug, Default, Serialize)]
pub struct Redriven {
    /// Whether this only says what would be done.
    pub dry_run: bool,
    /// Items sent back, or that would be.
    pub items: u64,
    /// Items that were left alone: something happened to them meanwhile, only their source can mend them, or their run was
    /// cancelled.
    pub skipped: u64,
    /// Which items would be sent back; `null` unless it is a dry run.
    pub ids: Option<Vec<ItemId>>,
    /// Calls for these, with full batches and nothing tried again; `null` unless it is a dry run.
    pub calls: Option<u64>,
    /// How those that were sent first went; `null` without a canary.
    pub canary: Option<Canary>,
    /// How the runs stand that were worked on.
    pub runs: Vec<RunReport>,
    /// The operation that is under way and sends the others back; `null` when there is none.
    pub operation: Option<OperationId>,
    /// Runs with such items that go on.
    #[serde(skip)]
    pub live: Vec<RunId>,
    /// Runs with such items that were cancelled: those stay dead.
    #[serde(skip)]
    pub cancelled: Vec<RunId>,
    /// Whether nothing was sent back now, and what was sent back before is worked on.
    #[serde(skip)]
    pub gone_on_with: bool,
    /// Whether the work on the runs was told to stop.
    #[serde(skip)]
    pub interrupted: bool,
}

/// How the first few went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Canary {
    /// So many were sent back.
    pub sent: u64,
    /// So many of them passed.
    pub passed: u64,
    /// Whether the others were sent back after them.
    pub went_on: bool,
}

/// Says exactly which items [`redrive`] would send back.
///
/// # Errors
/// When the store fails.
pub async fn preview(floor: &Floor, selection: &Selection, request: &Redrive) -> Result<Redriven> {
    let (mut ids, mut skipped, mut begin) = (Vec::new(), 0, BTreeMap::new());
    let runs = Runs::of(&*floor.store);
    for filter in &selection.filters {
        let asked = request.of(filter, request.left(ids.len() as u64))?;
        let found = admin::preview(&*floor.store, &runs, &asked, &floor.env).await?;
        ids.extend(found.items);
        skipped += found.skipped;
        for (at, n) in found.begin {
            *begin.entry(at).or_default() += n;
        }
    }
    let calls = Some(calls(floor, &begin).await?);
    let items = ids.len() as u64;
    if items + skipped == 0 {
        selection.refuse_no_such_group(floor).await?;
    }
    Ok(Redriven { dry_run: true, items, skipped, ids: Some(ids), calls, ..Redriven::default() })
}

/// The fewest calls for so many items at these stages: one for each full batch.
async fn calls(floor: &Floor, begin: &BTreeMap<(RunId, StageNo), u64>) -> Result<u64> {
    let mut calls = 0;
    for ((run, stage), n) in begin {
        let row = floor.store.run(*run).await?;
        let definition = row.as_ref().and_then(pipelines::definition_of);
        let batch = definition.and_then(|it| Some(it.all_stages().nth(stage.index())?.batch)).unwrap_or(1);
        calls += n.div_ceil(u64::from(batch.max(1)));
    }
    Ok(calls)
}

/// Sends dead items back, and works on their runs where that is asked for.
///
/// # Errors
/// When a run is paused that a canary or work needs, or the store fails; what was sent back before stays so.
pub async fn redrive(
    floor: &Floor,
    selection: &Selection,
    request: &Redrive,
    observer: &dyn Observer,
) -> Result<Redriven> {
    floor.require(Role::Operator)?;
    let runs = Runs::of(&*floor.store);
    let touched = touched(floor, &selection.filters).await?;
    let mut done = Redriven::default();
    if let Some(first) = request.canary {
        // Nobody would work on them, and the next try would send as many again.
        if let Some(run) = touched.iter().find(|run| is_paused(run)).map(|run| run.id) {
            return Err(Error::paused(format!("run {run} is paused; nothing was sent back"))
                .hint(format!("`redrive resume {run}` lets it go on; then say the same again")));
        }
        let First { canary, new, runs } = send_canary(floor, selection, request, first, observer).await?;
        (done.items, done.canary) = (new, Some(canary));
        if !canary.went_on {
            return Ok(done);
        }
        let others = runs.into_iter().filter(|run| touched.iter().all(|row| row.id != *run));
        done.live.extend(others);
    }
    for filter in &selection.filters {
        let asked = request.of(filter, request.left(done.items))?;
        // What finds nothing is no operation that anybody would look for.
        if !finds_any(floor, filter).await? {
            continue;
        }
        let sent = admin::redrive(&*floor.store, &runs, &asked, &floor.asker.name, &floor.env).await?;
        done.items += sent.changed;
        done.skipped += sent.skipped;
    }
    if done.items + done.skipped == 0 && !request.work && request.canary.is_none() {
        selection.refuse_no_such_group(floor).await?;
    }
    for run in touched {
        let list = if run.control == Control::Cancelled { &mut done.cancelled } else { &mut done.live };
        list.push(run.id);
    }
    if request.work {
        // What an earlier redrive sent back, and nobody worked on to its end, is gone on with.
        // Whether it was for the same reason cannot be told any more: with a narrow choice only where there is nothing else.
        if done.items == 0 || under_way::is_all_that_was_asked(selection) {
            let left = under_way::runs(floor, selection).await?;
            done.gone_on_with = done.items == 0 && !left.is_empty();
            let added = left.iter().map(|row| row.id).filter(|run| !done.live.contains(run));
            done.live.extend(added.collect::<Vec<_>>());
        }
        for run in &done.live {
            let worked = work_on(floor, *run, observer).await?;
            done.runs.push(worked.report);
            done.interrupted = worked.interrupted;
            if worked.interrupted {
                break;
            }
        }
    }
    Ok(done)
}

pub(crate) fn is_paused(run: &RunRow) -> bool {
    !matches!(run.control, Control::Go | Control::Cancelled)
}

/// The first few, when they were worked on.
struct First {
    canary: Canary,
    /// So many were sent back now.
    new: u64,
    /// Their runs.
    runs: Vec<RunId>,
}

/// Sends the first few back and works on them. Where nothing is dead, those that an earlier canary sent back, and nobody
/// worked on to their end, are the first few.
async fn send_canary(
    floor: &Floor,
    selection: &Selection,
    request: &Redrive,
    first: u64,
    observer: &dyn Observer,
) -> Result<First> {
    let (store, runs) = (&*floor.store, Runs::of(&*floor.store));
    let first = request.limit.map_or(first, |limit| limit.min(first));
    let mut sent: Vec<Item> = Vec::new();
    for filter in &selection.filters {
        let left = Some(first.saturating_sub(sent.len() as u64));
        let asked = admin::Redrive { goes_first: true, ..request.of(filter, left)? };
        let mut before = Vec::new();
        for id in admin::preview(store, &runs, &asked, &floor.env).await?.items {
            let filter = ItemFilter { ids: Some((id, id)), ..ItemFilter::default() };
            before.extend(store.items(ItemQuery { filter, after: None, limit: 1 }).await?);
        }
        if before.is_empty() {
            continue;
        }
        admin::redrive(store, &runs, &asked, &floor.asker.name, &floor.env).await?;
        for before in before {
            let now = store.item(before.seq).await?;
            sent.extend(now.filter(|now| now.rev != before.rev));
        }
    }
    let new = sent.len() as u64;
    if sent.is_empty() {
        sent = under_way::items(floor, selection, usize::try_from(first).unwrap_or(usize::MAX)).await?;
    }
    let mut ids: Vec<RunId> = sent.iter().map(|item| item.run).collect();
    ids.sort_unstable();
    ids.dedup();
    for run in &ids {
        work_on(floor, *run, observer).await?;
    }
    let mut passed = 0;
    for item in &sent {
        let state = store.item(item.seq).await?.map(|item| item.state.kind());
        passed += u64::from(matches!(state, Some(StateKind::Succeeded | StateKind::Filtered)));
    }
    let sent = sent.len() as u64;
    if sent == 0 {
        selection.refuse_no_such_group(floor).await?;
    }
    Ok(First { canary: Canary { sent, passed, went_on: passed == sent }, new, runs: ids })
}

/// The runs that these reach into.
pub(crate) async fn touched(floor: &Floor, filters: &[ItemFilter]) -> Result<Vec<RunRow>> {
    let mut ids: Vec<RunId> = Vec::new();
    for filter in filters {
        ids.extend(runs_of(floor, filter).await?);
    }
    ids.sort_unstable();
    ids.dedup();
    let mut rows = Vec::new();
    for id in ids {
        rows.extend(floor.store.run(id).await?);
    }
    Ok(rows)
}

async fn runs_of(floor: &Floor, filter: &ItemFilter) -> Result<Vec<RunId>> {
    if let Some(run) = filter.run {
        return Ok(vec![run]);
    }
    let mut runs: Vec<RunId> = Vec::new();
    let mut after = None;
    loop {
        let query = ItemQuery { filter: filter.clone(), after, limit: PAGE };
        let page = floor.store.items(query).await?;
        let Some(last) = page.last() else { return Ok(runs) };
        after = Some(last.seq);
        runs.extend(page.iter().map(|item| item.run));
        runs.sort_unstable();
        runs.dedup();
    }
}
