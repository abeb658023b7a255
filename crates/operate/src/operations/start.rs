//! An operation is written down, to be carried on by whoever stays.

use redrive_core::id::{ItemId, ItemSeq};
use redrive_core::item::Item;
use redrive_engine::admin::{self, Request};
use redrive_store::{ItemFilter, ItemQuery};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{OperationView, view};
use crate::again::{Rerun, Retry, preview_rerun, preview_retry, rerun_requests, retry_requests};
use crate::dead::{Redrive, Selection, Which, is_paused, preview, preview_purge, touched};
use crate::error::{Error, Result};
use crate::runs::{Runs, refuse_cancelling};
use crate::{Floor, Role};

/// Most operations that one request makes: a stage or a pipeline is another one in every run.
const MOST: usize = 100;
/// Most items that are sent first, and most that a dry run names.
const NAMED: usize = 1_000;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartKind {
    /// Sends dead items back.
    Redrive,
    /// Removes dead items.
    Purge,
    /// Tells waiting items to go.
    Retry,
    /// Has ended items done again from a stage.
    Rerun,
    /// Takes a run out.
    Cancel,
}

/// What is to be done to many items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// What is done.
    pub kind: StartKind,
    /// To which items.
    #[serde(default, deserialize_with = "object")]
    pub filter: Which,
    /// To all of them, where the filter narrows nothing down.
    #[serde(default)]
    pub all: bool,
    /// At most so many are sent back.
    #[serde(default)]
    pub limit: Option<u64>,
    /// So many a second are sent back.
    #[serde(default)]
    pub rate_per_second: Option<f64>,
    /// So many are sent back first, and the others only when all of these have passed.
    #[serde(default)]
    pub canary: Option<u64>,
    /// Waiting items go in so many milliseconds; 0: now.
    #[serde(default)]
    pub in_ms: i64,
    /// Only items with these keys are done again; empty: all of them.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Says what would be done, and does nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Reads a filter. By serde's rules a list would do for an object, and of a map the last of two words would count.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Which, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    match text.get().starts_with('{') {
        true => serde_json::from_str(text.get()).map_err(D::Error::custom),
        false => Err(D::Error::custom("`filter` has to be a JSON object")),
    }
}

/// What was written down to be done, or would be done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Started {
    /// Whether this only says what would be done.
    pub dry_run: bool,
    /// How many items would be changed; `null` unless it is a dry run.
    pub items: Option<u64>,
    /// How many would be left alone; `null` unless it is a dry run.
    pub skipped: Option<u64>,
    /// The first of those that would be sent back; `null` where they are not named.
    pub ids: Option<Vec<ItemId>>,
    /// The operations, which are carried on from now on.
    pub operations: Vec<OperationView>,
}

/// Writes down what is to be done; whoever stays carries it on ([`carry_on`](super::carry_on)).
///
/// # Errors
/// When the request makes no sense, what it names does not exist, or the store fails.
pub async fn start(floor: &Floor, request: &Start) -> Result<Started> {
    floor.require(Role::Operator)?;
    request.check()?;
    if request.dry_run {
        return foresee(floor, request).await;
    }
    let mut asked = requests(floor, request).await?;
    if asked.len() > MOST {
        return Err(Error::wrong(format!("that reaches into {} runs, at most {MOST} at once", asked.len()))
            .hint("name a run, or leave the stage and the pipeline out of the filter"));
    }
    let mut started = Started::default();
    if let Some(first) = request.canary {
        started.operations.push(send_canary(floor, &mut asked, first).await?);
    }
    for request in &asked {
        let begun = admin::begin(&*floor.store, request, &floor.asker.name, &floor.env).await?;
        started.operations.push(view(floor, begun).await?);
    }
    Ok(started)
}

impl Start {
    fn check(&self) -> Result<()> {
        let Self { kind, filter, limit, rate_per_second, canary, in_ms, keys, .. } = self;
        let redrive = *kind == StartKind::Redrive;
        let foreign = [
            ("limit", !redrive && limit.is_some()),
            ("rate_per_second", !redrive && rate_per_second.is_some()),
            ("canary", !redrive && canary.is_some()),
            ("in_ms", *kind != StartKind::Retry && *in_ms != 0),
            ("keys", *kind != StartKind::Rerun && !keys.is_empty()),
        ];
        if let Some((name, _)) = foreign.iter().find(|(_, given)| *given) {
            return Err(Error::wrong(format!("`{name}` means nothing to this kind of operation")));
        }
        if *in_ms < 0 {
            return Err(Error::wrong("`in_ms` is a number from 0 on"));
        }
        self.redrive().check()?;
        if canary.is_some_and(|first| first == 0 || first > NAMED as u64) {
            return Err(Error::wrong(format!("`canary` is between 1 and {NAMED}")));
        }
        match kind {
            StartKind::Redrive => Selection::said_which(filter, self.all, "sent back"),
            StartKind::Purge => Selection::said_which(filter, self.all, "removed"),
            StartKind::Retry => self.retry().said_which(),
            StartKind::Rerun | StartKind::Cancel => self.only_run(),
        }
    }

    /// What a run is enough for names nothing else.
    fn only_run(&self) -> Result<()> {
        let stage = self.filter.stage.clone().filter(|_| self.kind == StartKind::Rerun);
        if self.kind == StartKind::Rerun && stage.is_none() {
            return Err(Error::wrong("from which stage? say it in `filter.stage`"));
        }
        let expected = Which { run: self.filter.run, stage, ..Which::default() };
        match self.filter.run.is_some() && self.filter == expected {
            true => Ok(()),
            false => Err(Error::wrong("`filter` names a run here, and nothing but that")
                .hint("of a rerun, `filter.stage` is the stage and `keys` are the items")),
        }
    }

    fn redrive(&self) -> Redrive {
        Redrive { limit: self.limit, rate: self.rate_per_second, canary: self.canary, work: false }
    }

    fn retry(&self) -> Retry {
        Retry { which: self.filter.clone(), in_ms: self.in_ms, work: false }
    }

    fn rerun(&self) -> Rerun {
        let stage = self.filter.stage.clone().unwrap_or_default();
        Rerun { run: self.filter.run, stage, keys: self.keys.clone(), work: false }
    }
}

async fn requests(floor: &Floor, request: &Start) -> Result<Vec<Request>> {
    Ok(match request.kind {
        StartKind::Redrive => {
            let filters = Selection::of(floor, &request.filter).await?.into_filters();
            if filters.len() > 1 && (request.limit.is_some() || request.canary.is_some()) {
                return Err(Error::wrong("a limit or a canary is of one run")
                    .hint("name a run, or leave the stage and the pipeline out of the filter"));
            }
            let one = |filter| admin::Redrive {
                filter,
                limit: request.limit,
                rate: request.rate_per_second,
                canary: Vec::new(),
            };
            filters.into_iter().map(|filter| Request::Redrive(one(filter))).collect()
        }
        StartKind::Purge => {
            let filters = Selection::of(floor, &request.filter).await?.into_filters();
            filters.into_iter().map(|filter| Request::Purge { filter }).collect()
        }
        StartKind::Retry => {
            retry_requests(floor, &request.retry()).await?.into_iter().map(Request::Retry).collect()
        }
        StartKind::Rerun => {
            rerun_requests(floor, &request.rerun()).await?.into_iter().map(Request::Rerun).collect()
        }
        StartKind::Cancel => {
            let known = Runs::of(&*floor.store).find(request.filter.run).await?;
            refuse_cancelling(&known)?;
            vec![Request::Cancel { run: known.row.id }]
        }
    })
}

/// Sends the first few back at once, and has the others wait for how they go.
async fn send_canary(floor: &Floor, asked: &mut [Request], first: u64) -> Result<OperationView> {
    let Some(Request::Redrive(rest)) = asked.first_mut() else {
        return Err(Error::wrong("there is nothing to be sent back"));
    };
    if let Some(run) =
        touched(floor, std::slice::from_ref(&rest.filter)).await?.iter().find(|run| is_paused(run))
    {
        return Err(Error::paused(format!("run {} is paused; nothing was sent back", run.id))
            .hint("let it go on first; then say the same again"));
    }
    let few = rest.limit.map_or(first, |limit| limit.min(first));
    let ahead = admin::Redrive { limit: Some(few), ..rest.clone() };
    let (store, runs) = (&*floor.store, Runs::of(&*floor.store));
    let mut before: Vec<Item> = Vec::new();
    for id in admin::preview(store, &runs, &ahead, &floor.env).await?.items {
        let filter = ItemFilter { ids: Some((id, id)), ..ItemFilter::default() };
        before.extend(store.items(ItemQuery { filter, after: None, limit: 1 }).await?);
    }
    let begun = admin::begin(store, &Request::Redrive(ahead), &floor.asker.name, &floor.env).await?;
    admin::go_on(store, begun.id, &runs, &floor.env).await?;
    let mut sent: Vec<ItemSeq> = Vec::new();
    for item in before {
        let now = store.item(item.seq).await?;
        sent.extend(now.filter(|now| now.rev != item.rev).map(|now| now.seq));
    }
    rest.limit = rest.limit.map(|limit| limit.saturating_sub(sent.len() as u64));
    rest.canary = sent;
    super::show(floor, begun.id).await
}

async fn foresee(floor: &Floor, request: &Start) -> Result<Started> {
    let told = |items, skipped, ids: Option<Vec<ItemId>>| Started {
        dry_run: true,
        items: Some(items),
        skipped: Some(skipped),
        ids,
        operations: Vec::new(),
    };
    Ok(match request.kind {
        StartKind::Redrive => {
            let selection = Selection::of(floor, &request.filter).await?;
            let found = preview(floor, &selection, request.redrive()).await?;
            let ids = found.ids.map(|ids| ids.into_iter().take(NAMED).collect());
            told(found.items, found.skipped, ids)
        }
        StartKind::Purge => {
            let found = preview_purge(floor, &Selection::of(floor, &request.filter).await?).await?;
            told(found.items, found.skipped, None)
        }
        StartKind::Retry => {
            let found = preview_retry(floor, &request.retry()).await?;
            told(found.items, found.skipped, None)
        }
        StartKind::Rerun => {
            let found = preview_rerun(floor, &request.rerun()).await?.items;
            told(found.sent(), found.not_kept + found.edited + found.moved, None)
        }
        StartKind::Cancel => {
            let known = Runs::of(&*floor.store).find(request.filter.run).await?;
            refuse_cancelling(&known)?;
            told(redrive_engine::report::live_items(&*floor.store, known.row.id).await?, 0, None)
        }
    })
}
