//! Operations on a set that is frozen first: it can be looked at, and is then done to exactly the items that were seen.

use redrive_core::id::OperationId;
use redrive_core::item::{Item, StateKind};
use redrive_engine::admin::{self, Request, SetPurge, SetRedrive, SetRerun};
use redrive_store::{ItemFilter, ItemQuery, Operation};

use super::start::NAMED;
use super::{OperationView, Start, StartKind, Started, show, unknown, view};
use crate::again::{GatheredAgain, gather_again, gather_rerun};
use crate::dead::{self, Selection, is_paused, touched};
use crate::error::{Error, Result};
use crate::{Floor, Role};

/// Most items of a set.
pub const MOST: u64 = 100_000;
/// Items that are read at a time.
const PAGE: usize = 5_000;
/// Operations that are read at a time.
const OPERATIONS: usize = 200;

/// Freezes the items that are meant; unless it is a dry run, the operation is under way then.
pub(super) async fn start(floor: &Floor, request: &Start) -> Result<Started> {
    if request.from.is_some() || request.kind == StartKind::Rerun {
        return freeze_again(floor, request).await;
    }
    let selection = Selection::of(floor, &request.filter).await?;
    let begins = !request.dry_run;
    let asked = asked(request, selection.clone().into_filters())?;
    if let (true, Request::RedriveSet(set)) = (begins, &asked)
        && let Some(same) = under_way(floor, set).await?
    {
        return Ok(Started { operations: vec![view(floor, same).await?], ..Started::default() });
    }
    let (items, skipped, planned) = match request.kind {
        StartKind::Redrive => {
            if begins && request.is_watched() {
                refuse_paused(floor, &selection.filters).await?;
            }
            let limit = request.limit.unwrap_or(MOST).min(MOST);
            let gathered = dead::gather(floor, &selection, limit).await?;
            if begins && request.limit.is_none() {
                refuse_many(gathered.matching)?;
            }
            let planned = if begins { None } else { Some(dead::plan(floor, &gathered).await?) };
            (gathered.items, gathered.skipped, planned)
        }
        _ => {
            let items = dead_items(floor, &selection.filters).await?;
            refuse_many(items.len() as u64)?;
            (items, 0, None)
        }
    };
    if items.is_empty() {
        selection.refuse_no_such_group(floor).await?;
        let dry_run = request.dry_run.then_some(0);
        let planned = planned.filter(|_| request.dry_run);
        let skipped = dry_run.map(|_| skipped);
        return Ok(Started {
            dry_run: request.dry_run,
            items: dry_run,
            skipped,
            preview: planned,
            ..Started::default()
        });
    }
    if request.dry_run {
        return Ok(Started { preview: planned, ..frozen(floor, &asked, &items, skipped).await? });
    }
    let mut started = Started::default();
    let who = (floor.asker.name.as_str(), None);
    if let Some(begun) = admin::freeze(&*floor.store, &asked, &items, who, true, &floor.env).await? {
        started.operations.push(view(floor, begun).await?);
    }
    Ok(started)
}

/// What is done to the items of the set.
fn asked(request: &Start, filters: Vec<ItemFilter>) -> Result<Request> {
    Ok(match request.kind {
        StartKind::Redrive => Request::RedriveSet(SetRedrive {
            filters,
            limit: request.limit,
            rate: request.rate_per_second,
            canary: request.canary,
            stop_at: request.stop_at,
            retry: dead::own_policy_if_any(request.retry.as_ref())?,
            ..SetRedrive::default()
        }),
        _ => Request::PurgeSet(SetPurge { filters, undo_ms: request.undo_ms, at: None }),
    })
}

/// The operation that sends the same back at the same rate and is under way: said again, it is gone on with. Two of them would
/// go at twice the rate.
async fn under_way(floor: &Floor, set: &SetRedrive) -> Result<Option<Operation>> {
    let mut after = None;
    while set.rate.is_some() {
        let page = floor.store.open_operations(after, OPERATIONS).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        let same = |operation: &Operation| match Request::of(operation) {
            Ok(Request::RedriveSet(known)) => known.as_asked() == *set,
            Ok(_) | Err(_) => false,
        };
        if let Some(same) = page.into_iter().find(same) {
            return Ok(Some(same));
        }
    }
    Ok(None)
}

/// Freezes the items that would be done again from a stage.
async fn freeze_again(floor: &Floor, request: &Start) -> Result<Started> {
    let most = usize::try_from(MOST).unwrap_or(usize::MAX);
    let GatheredAgain { requests, items, skipped } = match &request.from {
        Some(stage) => {
            let selection = Selection::of(floor, &request.filter).await?;
            gather_again(floor, dead::requests_from(floor, &selection, stage).await?, most).await?
        }
        None => gather_rerun(floor, &request.rerun(), most).await?,
    };
    refuse_many(items.len() as u64)?;
    let filters = requests.iter().filter_map(|each| each.dead.clone()).collect();
    let asked = Request::RerunSet(SetRerun { filters, reruns: requests });
    frozen(floor, &asked, &items, skipped).await
}

/// Writes a set down that waits to be started.
async fn frozen(floor: &Floor, asked: &Request, items: &[Item], skipped: u64) -> Result<Started> {
    let who = (floor.asker.name.as_str(), None);
    let operation = admin::freeze(&*floor.store, asked, items, who, false, &floor.env).await?;
    let mut started = Started {
        dry_run: true,
        items: Some(items.len() as u64),
        skipped: Some(skipped),
        ids: Some(items.iter().take(NAMED).map(|item| item.id).collect()),
        ..Started::default()
    };
    if let Some(operation) = operation {
        started.operations.push(view(floor, operation).await?);
    }
    Ok(started)
}

/// Nobody would work on those that go first, and the others would wait for ever.
async fn refuse_paused(floor: &Floor, filters: &[ItemFilter]) -> Result<()> {
    let runs = touched(floor, filters).await?;
    let Some(run) = runs.iter().find(|run| is_paused(run)).map(|run| run.id) else { return Ok(()) };
    Err(Error::paused(format!("run {run} is paused; nothing was sent back"))
        .hint(format!("`redrive resume {run}` lets it go on; then say the same again")))
}

fn refuse_many(items: u64) -> Result<()> {
    if items <= MOST {
        return Ok(());
    }
    Err(Error::wrong(format!("that means {items} items, and a set has at most {MOST}"))
        .hint("narrow the filter, or say how many at most (`limit`, --limit): what is sent back at a rate, after canaries or up to a share that fails is a set"))
}

async fn dead_items(floor: &Floor, filters: &[ItemFilter]) -> Result<Vec<Item>> {
    let mut found: Vec<Item> = Vec::new();
    for filter in filters {
        let filter = ItemFilter { state: Some(StateKind::Dead), ..filter.clone() };
        let mut query = ItemQuery { filter, after: None, limit: PAGE };
        while found.len() as u64 <= MOST {
            let page = floor.store.items(query.clone()).await?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.seq);
            found.extend(page);
        }
    }
    Ok(found)
}

/// Has a frozen operation done from now on. One that is under way already stays so.
///
/// # Errors
/// When there is none, it has ended, one of its runs is paused that it needs, or the store fails.
pub async fn start_frozen(floor: &Floor, operation: OperationId) -> Result<OperationView> {
    floor.require(Role::Operator)?;
    let row = floor.store.operation(operation).await?.ok_or_else(|| unknown(operation))?;
    if let Ok(Request::RedriveSet(set)) = Request::of(&row)
        && set.is_watched()
    {
        refuse_paused(floor, &set.filters).await?;
    }
    if admin::start_frozen(&*floor.store, operation, &floor.env).await?.is_some() {
        return show(floor, operation).await;
    }
    Err(Error::refused(format!("operation {operation} has ended"))
        .hint("freeze the set again: what is dead may be another one by now"))
}
