//! `redrive dead redrive`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use redrive_core::id::{ItemId, ItemSeq, RunId};
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_core::status::{Control, RunStatus};
use redrive_engine::admin::{self, Redrive};
use redrive_engine::report::RunReport;
use redrive_operate::Error;
use redrive_store::{ItemFilter, ItemQuery, RunFilter, RunRow, Store};
use serde::Serialize;

use super::filter::resolve;
use crate::args::{RedriveArgs, WorkArgs};
use crate::commands::work::{self, Work, Worked, work_quietly, write_results};
use crate::commands::{Answer, Context, actor, known_run};
use crate::exit;
use crate::output::target::{Existing, Guard, Target};
use crate::output::text::count;
use crate::output::{json, lines, note, summary};
use crate::wiring::{self, Shelf, Stores};

const PAGE: usize = 500;

/// What was done, as `--json` prints it in every case.
#[derive(Default, Serialize)]
struct Done {
    /// Whether this only says what would be done.
    dry_run: bool,
    /// Items sent back, or that would be.
    items: u64,
    /// Items that were left alone: something happened to them meanwhile, or their run was cancelled.
    skipped: u64,
    /// Which items would be sent back; `null` unless it is a dry run.
    ids: Option<Vec<ItemId>>,
    /// How those that were sent first went; `null` without `--canary`.
    canary: Option<Canary>,
    /// How the runs stand that were worked on.
    runs: Vec<RunReport>,
}

/// How the first few went.
#[derive(Serialize)]
struct Canary {
    /// So many were sent back.
    sent: u64,
    /// So many of them passed.
    passed: u64,
    /// Whether the others were sent back after them.
    went_on: bool,
}

/// Sends dead items back, from the stage that failed them.
pub async fn redrive(context: &Context, args: RedriveArgs) -> Answer {
    super::said_which(&args.filter, args.all, "sent back")?;
    if args.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(Error::wrong("--rate has to be above 0"));
    }
    let mut results = match &args.results {
        Some(path) => {
            let guard = Guard::of_store(&context.global.store)?;
            Some(Target::look("--results", path, Existing::Replaced, guard)?)
        }
        None => None,
    };
    let opened = if args.dry_run { wiring::store_to_read } else { wiring::existing_store };
    let stores = opened(&context.global.store)?;
    let store = stores.store.clone();
    if let Some(results) = &mut results {
        results.spare_runs(&*store).await?;
    }
    let filters = resolve(&*store, &args.filter, context.env.clock.now()).await?;
    if args.dry_run {
        return dry_run(context, &*store, &filters, args.limit).await;
    }
    let plans = plans(&*store).await?;
    let touched = touched(&*store, &filters).await?;
    let mut done = Done::default();
    if let Some(first) = args.canary {
        // Nobody would work on them, and the next try would send as many again.
        if let Some(run) = touched.iter().find(|run| is_paused(run)).map(|run| run.id) {
            return Err(Error::paused(format!("run {run} is paused; nothing was sent back"))
                .hint(format!("`redrive resume {run}` lets it go on; then say the same again")));
        }
        let first = args.limit.map_or(first, |limit| limit.min(first));
        let canary = canary(context, &stores, &filters, &plans, first, args.rate).await?;
        done.items = canary.sent;
        let went_on = canary.went_on;
        done.canary = Some(canary);
        if !went_on {
            told(context, &done)?;
            return Ok(exit::partial());
        }
    }
    for filter in &filters {
        let left = args.limit.map(|limit| limit.saturating_sub(done.items));
        let request = Redrive { filter: filter.clone(), limit: left, rate: args.rate };
        let plan = |run: RunId| plans.get(&run).cloned();
        let sent = admin::redrive(&*store, &plan, &request, &actor(), &context.env).await?;
        done.items += sent.changed;
        done.skipped += sent.skipped;
    }
    let (cancelled, live): (Vec<RunRow>, Vec<RunRow>) =
        touched.into_iter().partition(|run| run.control == Control::Cancelled);
    for run in cancelled {
        note(&format!("run {} was cancelled: its dead items stay dead", run.id));
    }
    if args.work {
        return work_on(context, &stores, &live, done, results.as_ref()).await;
    }
    told(context, &done)?;
    for run in live.iter().filter(|_| done.items > 0) {
        context.hint(&format!("`redrive resume {}` works on them", run.id));
    }
    Ok(ExitCode::SUCCESS)
}

fn is_paused(run: &RunRow) -> bool {
    !matches!(run.control, Control::Go | Control::Cancelled)
}

/// Tells what was done, as a document or in words.
fn told(context: &Context, done: &Done) -> Result<(), Error> {
    if context.global.json {
        return json(done);
    }
    let left = match done.skipped {
        0 => String::new(),
        n => format!("; {} were left alone", count(n)),
    };
    lines(&format!("{} items sent back{left}", count(done.items)))
}

/// Says exactly which items the same command without --dry-run would send back.
async fn dry_run(context: &Context, store: &dyn Store, filters: &[ItemFilter], limit: Option<u64>) -> Answer {
    let (mut ids, mut skipped): (Vec<ItemId>, u64) = (Vec::new(), 0);
    let most = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    for filter in filters {
        let mut after: Option<ItemSeq> = None;
        while ids.len() < most {
            let wanted = PAGE.min(most - ids.len());
            let page = store.items(ItemQuery { filter: filter.clone(), after, limit: wanted }).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.seq);
            // What its source refused can be sent back with other content only.
            ids.extend(page.iter().filter(|item| !item.is_refused()).map(|item| item.id));
            skipped += page.iter().filter(|item| item.is_refused()).count() as u64;
        }
    }
    if context.global.json {
        json(&Done { dry_run: true, items: ids.len() as u64, skipped, ids: Some(ids), ..Done::default() })?;
    } else {
        let listed: Vec<String> = ids.iter().map(ToString::to_string).collect();
        lines(&listed.join("\n"))?;
        note(&format!("{} items would be sent back; at least as many calls", count(ids.len() as u64)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends the first few back and works on them.
async fn canary(
    context: &Context,
    stores: &Stores,
    filters: &[ItemFilter],
    plans: &BTreeMap<RunId, Plan>,
    first: u64,
    rate: Option<f64>,
) -> Result<Canary, Error> {
    let store = &stores.store;
    let mut sent: Vec<Item> = Vec::new();
    for filter in filters {
        let left = first.saturating_sub(sent.len() as u64);
        let limit = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
        if limit == 0 {
            break;
        }
        let page = store.items(ItemQuery { filter: filter.clone(), after: None, limit }).await?;
        let request = Redrive { filter: filter.clone(), limit: Some(limit as u64), rate };
        let plan = |run: RunId| plans.get(&run).cloned();
        admin::redrive(&**store, &plan, &request, &actor(), &context.env).await?;
        for before in page {
            // Those of a cancelled run are where they were.
            let now = store.item(before.seq).await?;
            sent.extend(now.filter(|now| now.rev != before.rev));
        }
    }
    let mut runs: Vec<RunId> = sent.iter().map(|item| item.run).collect();
    runs.sort_unstable();
    runs.dedup();
    for run in runs {
        work_on_one(context, stores, run).await?;
    }
    let mut passed = 0;
    for item in &sent {
        let state = store.item(item.seq).await?.map(|item| item.state.kind());
        passed += u64::from(matches!(state, Some(StateKind::Succeeded | StateKind::Filtered)));
    }
    let all = sent.len() as u64;
    match all {
        0 => note("there is nothing to send back"),
        _ if passed == all => note(&format!("{passed} of {all} canaries passed; going on")),
        _ => note(&format!("only {passed} of {all} canaries passed; the others stay dead")),
    }
    Ok(Canary { sent: all, passed, went_on: passed == all })
}

/// Works on runs one after the other, and tells how all of them stand.
async fn work_on(
    context: &Context,
    stores: &Stores,
    runs: &[RunRow],
    mut done: Done,
    results: Option<&Target>,
) -> Answer {
    let mut interrupted = false;
    for run in runs {
        let worked = work_on_one(context, stores, run.id).await?;
        done.runs.push(worked.report);
        interrupted = worked.interrupted;
        if interrupted {
            break;
        }
    }
    let whole = match results {
        Some(target) => {
            let runs: Vec<RunId> = runs.iter().map(|run| run.id).collect();
            write_results(context, &*stores.store, &runs, target).await?
        }
        None => true,
    };
    if context.global.json {
        json(&done)?;
        for hint in done.runs.iter().filter_map(summary::hint) {
            context.hint(&hint);
        }
    } else {
        for report in &done.runs {
            work::tell(context, report)?;
        }
    }
    let worst = done.runs.iter().map(|report| report.status).max_by_key(|status| exit::severity(*status));
    Ok(match (interrupted, whole) {
        (true, _) => exit::of(RunStatus::Interrupted),
        (false, true) => exit::of(worst.unwrap_or(RunStatus::Completed)),
        (false, false) => exit::broken(),
    })
}

async fn work_on_one(context: &Context, stores: &Stores, run: RunId) -> Result<Worked, Error> {
    let Stores { store, index } = stores;
    let known = known_run(&**store, Some(run)).await?;
    if known.row.control != Control::Go {
        return Err(Error::paused(format!("run {run} is paused; its items were sent back and wait"))
            .hint(format!("`redrive resume {run}` goes on")));
    }
    let (definition, now) = (&known.definition, context.env.clock.now());
    let shelf = Shelf::open(definition, &known.row.spec.source, index, now).await?;
    let recipe = wiring::recipe(definition, Path::new(&known.row.spec.folder), shelf.as_ref())?;
    let args = WorkArgs { results: None, max_wait: None, lease: std::time::Duration::from_secs(30) };
    let source = wiring::source_left(&known.row, definition, shelf.as_ref())?;
    work_quietly(context, Work { store: store.clone(), row: known.row, recipe, source }, &args).await
}

/// The runs that the filters reach into.
async fn touched(store: &dyn Store, filters: &[ItemFilter]) -> Result<Vec<RunRow>, Error> {
    let mut ids: Vec<RunId> = Vec::new();
    for filter in filters {
        ids.extend(runs_of(store, filter).await?);
    }
    ids.sort_unstable();
    ids.dedup();
    let mut rows = Vec::new();
    for id in ids {
        rows.extend(store.run(id).await?);
    }
    Ok(rows)
}

async fn runs_of(store: &dyn Store, filter: &ItemFilter) -> Result<Vec<RunId>, Error> {
    if let Some(run) = filter.run {
        return Ok(vec![run]);
    }
    let mut runs: Vec<RunId> = Vec::new();
    let mut after = None;
    loop {
        let page = store.items(ItemQuery { filter: filter.clone(), after, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(runs) };
        after = Some(last.seq);
        runs.extend(page.iter().map(|item| item.run));
        runs.sort_unstable();
        runs.dedup();
    }
}

async fn plans(store: &dyn Store) -> Result<BTreeMap<RunId, Plan>, Error> {
    let mut plans = BTreeMap::new();
    let mut before = None;
    loop {
        let page = store.runs(RunFilter::default(), before, PAGE).await?;
        let Some(last) = page.last() else { return Ok(plans) };
        before = Some(last.id);
        plans.extend(page.iter().filter_map(|row| wiring::plan_of(row).map(|plan| (row.id, plan))));
    }
}
