//! `redrive dead redrive`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use redrive_core::id::{ItemId, ItemSeq, RunId};
use redrive_core::item::StateKind;
use redrive_core::plan::Plan;
use redrive_core::status::{Control, RunStatus};
use redrive_engine::admin::{self, Redrive};
use redrive_store::{ItemFilter, ItemQuery, RunFilter, Store};

use super::filter::resolve;
use crate::args::{RedriveArgs, WorkArgs};
use crate::commands::work::{self, Work, Worked, work_quietly};
use crate::commands::{Answer, Context, actor, known_run};
use crate::exit::{self, Failure};
use crate::output::text::count;
use crate::output::{json, lines, note};
use crate::wiring::{self, Shelf, Stores};

const PAGE: usize = 500;

/// Sends dead items back, from the stage that failed them.
pub async fn redrive(context: &Context, args: RedriveArgs) -> Answer {
    super::said_which(&args.filter, args.all, "sent back")?;
    if args.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(Failure::usage("--rate has to be above 0"));
    }
    let stores = wiring::existing_store(&context.global.store)?;
    let store = stores.store.clone();
    let filters = resolve(&*store, &args.filter, context.env.clock.now()).await?;
    if args.dry_run {
        return dry_run(context, &*store, &filters, args.limit).await;
    }
    let plans = plans(&*store).await?;
    let mut touched: Vec<RunId> = Vec::new();
    for filter in &filters {
        touched.extend(runs_of(&*store, filter).await?);
    }
    touched.sort_unstable();
    touched.dedup();
    let (mut changed, mut skipped) = (0, 0);
    if let Some(first) = args.canary {
        let first = args.limit.map_or(first, |limit| limit.min(first));
        match canary(context, &stores, &filters, &plans, first, &args).await? {
            Canary::Passed(sent) => changed = sent,
            Canary::Failed => return Ok(exit::partial()),
        }
    }
    for filter in &filters {
        let left = args.limit.map(|limit| limit.saturating_sub(changed));
        let request = Redrive { filter: filter.clone(), limit: left, rate: args.rate };
        let plan = |run: RunId| plans.get(&run).cloned();
        let done = admin::redrive(&*store, &plan, &request, &actor(), &context.env).await?;
        changed += done.changed;
        skipped += done.skipped;
    }
    if args.work {
        return work_on(context, &stores, &touched).await;
    }
    super::told(context, changed, skipped, false, "sent back")?;
    for run in touched {
        context.hint(&format!("`redrive resume {run}` works on them"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Says exactly which items the same command without --dry-run would send back.
async fn dry_run(context: &Context, store: &dyn Store, filters: &[ItemFilter], limit: Option<u64>) -> Answer {
    let mut ids: Vec<ItemId> = Vec::new();
    let most = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    for filter in filters {
        let mut after: Option<ItemSeq> = None;
        while ids.len() < most {
            let wanted = PAGE.min(most - ids.len());
            let page = store.items(ItemQuery { filter: filter.clone(), after, limit: wanted }).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.seq);
            ids.extend(page.iter().map(|item| item.id));
        }
    }
    if context.global.json {
        json(&serde_json::json!({ "items": ids.len(), "ids": ids, "dry_run": true }))?;
    } else {
        let listed: Vec<String> = ids.iter().map(ToString::to_string).collect();
        lines(&listed.join("\n"))?;
        note(&format!("{} items would be sent back; at least as many calls", count(ids.len() as u64)));
    }
    Ok(ExitCode::SUCCESS)
}

/// How the first few went.
enum Canary {
    /// All of them passed: so many.
    Passed(u64),
    /// Some did not.
    Failed,
}

/// Sends the first few back and works on them.
async fn canary(
    context: &Context,
    stores: &Stores,
    filters: &[ItemFilter],
    plans: &BTreeMap<RunId, Plan>,
    first: u64,
    args: &RedriveArgs,
) -> Result<Canary, Failure> {
    let store = &stores.store;
    let mut sent: Vec<(RunId, ItemSeq)> = Vec::new();
    for filter in filters {
        let left = first.saturating_sub(sent.len() as u64);
        let limit = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
        if limit == 0 {
            break;
        }
        let page = store.items(ItemQuery { filter: filter.clone(), after: None, limit }).await?;
        sent.extend(page.iter().map(|item| (item.run, item.seq)));
        let request = Redrive { filter: filter.clone(), limit: Some(limit as u64), rate: args.rate };
        let plan = |run: RunId| plans.get(&run).cloned();
        admin::redrive(&**store, &plan, &request, &actor(), &context.env).await?;
    }
    let mut runs: Vec<RunId> = sent.iter().map(|(run, _)| *run).collect();
    runs.dedup();
    for run in runs {
        work_on_one(context, stores, run).await?;
    }
    let mut passed = 0;
    for (_, seq) in &sent {
        let state = store.item(*seq).await?.map(|item| item.state.kind());
        passed += usize::from(matches!(state, Some(StateKind::Succeeded | StateKind::Filtered)));
    }
    if passed == sent.len() {
        note(&format!("{passed} of {} canaries passed; going on", sent.len()));
        return Ok(Canary::Passed(sent.len() as u64));
    }
    note(&format!("only {passed} of {} canaries passed; the others stay dead", sent.len()));
    Ok(Canary::Failed)
}

/// Works on runs one after the other, and tells how all of them stand.
async fn work_on(context: &Context, stores: &Stores, runs: &[RunId]) -> Answer {
    let mut reports = Vec::new();
    let mut interrupted = false;
    for run in runs {
        let worked = work_on_one(context, stores, *run).await?;
        reports.push(worked.report);
        interrupted = worked.interrupted;
        if interrupted {
            break;
        }
    }
    match &reports[..] {
        [report] => {
            work::tell(context, report)?;
        }
        reports if context.global.json => json(&serde_json::json!({ "runs": reports }))?,
        reports => {
            for report in reports {
                work::tell(context, report)?;
            }
        }
    }
    let worst = reports.iter().map(|report| report.status).max_by_key(|status| exit::severity(*status));
    Ok(if interrupted {
        exit::of(RunStatus::Interrupted)
    } else {
        exit::of(worst.unwrap_or(RunStatus::Completed))
    })
}

async fn work_on_one(context: &Context, stores: &Stores, run: RunId) -> Result<Worked, Failure> {
    let Stores { store, index } = stores;
    let known = known_run(&**store, Some(run)).await?;
    if known.row.control != Control::Go {
        return Err(Failure::paused(format!("run {run} is paused; its items were sent back and wait"))
            .hint(format!("`redrive resume {run}` goes on")));
    }
    let (definition, now) = (&known.definition, context.env.clock.now());
    let shelf = Shelf::open(definition, &known.row.spec.source, index, now).await?;
    let recipe = wiring::recipe(definition, Path::new(&known.row.spec.folder), shelf.as_ref())?;
    let args = WorkArgs { results: None, max_wait: None, lease: std::time::Duration::from_secs(30) };
    let source = wiring::source_left(&known.row, definition, shelf.as_ref())?;
    work_quietly(context, Work { store: store.clone(), row: known.row, recipe, source }, &args).await
}

async fn runs_of(store: &dyn Store, filter: &ItemFilter) -> Result<Vec<RunId>, Failure> {
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

async fn plans(store: &dyn Store) -> Result<BTreeMap<RunId, Plan>, Failure> {
    let mut plans = BTreeMap::new();
    let mut before = None;
    loop {
        let page = store.runs(RunFilter::default(), before, PAGE).await?;
        let Some(last) = page.last() else { return Ok(plans) };
        before = Some(last.id);
        plans.extend(page.iter().filter_map(|row| wiring::plan_of(row).map(|plan| (row.id, plan))));
    }
}
