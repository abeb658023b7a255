//! Items that have ended are done again from a stage that they have passed.

use redrive_core::id::{RunId, StageNo};
use redrive_core::item::Item;
use redrive_core::redact::clean;
use redrive_core::status::Control;
use redrive_engine::admin;
use redrive_engine::report::RunReport;
use redrive_store::{ItemFilter, OperationState};
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};
use crate::index::IndexTarget;
use crate::runs::{KnownRun, Runs, report};
use crate::sources::{Readable, SourceName};
use crate::work::{Observer, work_on};
use crate::{Floor, Role};

/// Operations among which the same request is looked for.
const LATEST: usize = 100;
/// Keys that an error names, and how much of each.
const TOLD: usize = 5;
const TOLD_BYTES: usize = 200;

/// What is to be done again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rerun {
    /// The run; `None`: the newest.
    pub run: Option<RunId>,
    /// The stage that items go again from.
    pub stage: String,
    /// Only items with these keys; empty: all of them.
    pub keys: Vec<String>,
    /// Works on the run until it ends.
    pub work: bool,
}

/// What was done, or would be.
#[derive(Debug, Serialize)]
pub struct Rerunning {
    /// Whether this only says what would be done.
    pub dry_run: bool,
    /// The run.
    pub run: RunId,
    /// The stage.
    pub stage: String,
    /// How many items go again from where, and how many stay as they are.
    #[serde(flatten)]
    pub items: admin::Rerunning,
    /// Why the source cannot be read again, where that would be needed.
    pub unreadable: Option<String>,
    /// Whether nothing was sent because the same was asked before and its work had been broken off: that is gone on with.
    pub goes_on: bool,
    /// How the run stands that was worked on; `null` without work.
    pub report: Option<RunReport>,
    /// Whether the run is paused.
    pub paused: bool,
    /// Whether the work on it was told to stop.
    #[serde(skip)]
    pub interrupted: bool,
}

/// Says what [`rerun`] would do.
///
/// # Errors
/// When the run or the stage does not exist or cannot be done again, or the store fails.
pub async fn preview_rerun(floor: &Floor, request: &Rerun) -> Result<Rerunning> {
    let asked = Asked::of(floor, request).await?;
    let mut told = asked.answer(true);
    for each in asked.requests(request) {
        let found = admin::preview_rerun(&*floor.store, &Readable::of(floor), &each, &floor.env).await?;
        told.add(found);
    }
    asked.refuse_nothing(&told, request)?;
    Ok(told)
}

/// Has items done again from a stage that they have passed, and works on the run where that is asked for.
///
/// # Errors
/// When the run or the stage does not exist or cannot be done again, or the store fails; the same request does the rest.
pub async fn rerun(floor: &Floor, request: &Rerun, observer: &dyn Observer) -> Result<Rerunning> {
    floor.require(Role::Operator)?;
    let asked = Asked::of(floor, request).await?;
    let (store, actor) = (&*floor.store, &floor.asker.name);
    let mut told = asked.answer(false);
    let requests = asked.requests(request);
    told.goes_on = request.work && asked.was_broken_off(floor, &requests).await?;
    if !told.goes_on {
        for each in requests {
            let (found, _) = admin::rerun(store, &Readable::of(floor), &each, actor, &floor.env).await?;
            told.add(found);
        }
        asked.refuse_nothing(&told, request)?;
    }
    if request.work && !told.paused && asked.has_work(floor).await? {
        let worked = work_on(floor, asked.known.row.id, observer).await?;
        (told.report, told.interrupted) = (Some(worked.report), worked.interrupted);
    }
    Ok(told)
}

/// Items that are to be done again, as they are now.
#[derive(Default)]
pub(crate) struct GatheredAgain {
    /// What is done in each run.
    pub(crate) requests: Vec<admin::Rerun>,
    /// The items.
    pub(crate) items: Vec<Item>,
    /// Items that stay as they are.
    pub(crate) skipped: u64,
}

/// Reads the items that these would have done again, at most so many and one more.
pub(crate) async fn gather_again(
    floor: &Floor,
    requests: Vec<admin::Rerun>,
    most: usize,
) -> Result<GatheredAgain> {
    let (store, plans) = (&*floor.store, Readable::of(floor));
    let mut gathered = GatheredAgain::default();
    for each in &requests {
        let room = (most + 1).saturating_sub(gathered.items.len());
        let found = admin::preview_rerun_items(store, &plans, each, room, &floor.env).await?;
        gathered.skipped += found.told.left_alone();
        gathered.items.extend(found.items);
    }
    Ok(GatheredAgain { requests, ..gathered })
}

/// The same for a request.
pub(crate) async fn gather_rerun(floor: &Floor, request: &Rerun, most: usize) -> Result<GatheredAgain> {
    let asked = Asked::of(floor, request).await?;
    let gathered = gather_again(floor, asked.requests(request), most).await?;
    if gathered.items.is_empty() && gathered.skipped == 0 {
        asked.refuse_nothing(&asked.answer(true), request)?;
    }
    Ok(gathered)
}

/// The operations that do what is asked for.
pub(crate) async fn rerun_requests(floor: &Floor, request: &Rerun) -> Result<Vec<admin::Rerun>> {
    Ok(Asked::of(floor, request).await?.requests(request))
}

/// What has dead items of a run done again from a stage.
pub(crate) async fn dead_request(
    floor: &Floor,
    run: RunId,
    stage: &str,
    dead: ItemFilter,
) -> Result<Option<admin::Rerun>> {
    let request = Rerun { run: Some(run), stage: stage.to_owned(), ..Rerun::default() };
    let one = rerun_requests(floor, &request).await?.into_iter().next();
    Ok(one.map(|one| admin::Rerun { dead: Some(dead), ..one }))
}

impl Rerunning {
    fn add(&mut self, found: admin::Rerunning) {
        let all = &mut self.items;
        all.from_stage += found.from_stage;
        all.from_start += found.from_start;
        all.not_kept += found.not_kept;
        all.gone += found.gone;
        all.edited += found.edited;
        all.moved += found.moved;
    }
}

/// A request whose run and stage were found.
struct Asked {
    known: KnownRun,
    stage: StageNo,
    name: String,
    can_reread: bool,
    unreadable: Option<String>,
}

impl Asked {
    async fn of(floor: &Floor, request: &Rerun) -> Result<Self> {
        let known = Runs::of(&*floor.store).find(request.run).await?;
        let run = known.row.id;
        if known.row.control == Control::Cancelled {
            return Err(Error::refused(format!("run {run} was cancelled"))
                .code(Code::RunCancelled)
                .hint("`redrive run FILE --new` starts another run"));
        }
        let (stage, name) = find_stage(&known, &request.stage)?;
        let source = SourceName::of(&known.row);
        if IndexTarget::open(floor, &known.definition, source.name()).await?.is_some() {
            return Err(Error::refused(format!("run {run} makes an index"))
                .hint("`redrive index DIR --rebuild` makes it anew"));
        }
        let mut can_reread = source.can_be_read_again();
        let mut unreadable = (!can_reread).then(|| format!("{} can be read only once", source.name()));
        if can_reread && let Err(error) = source.open(&*floor.wiring, &known.definition, None, None) {
            (can_reread, unreadable) = (false, Some(error.to_string()));
        }
        Ok(Self { known, stage, name, can_reread, unreadable })
    }

    fn answer(&self, dry_run: bool) -> Rerunning {
        Rerunning {
            dry_run,
            run: self.known.row.id,
            stage: self.name.clone(),
            items: admin::Rerunning::default(),
            unreadable: self.unreadable.clone(),
            goes_on: false,
            report: None,
            paused: self.known.row.control != Control::Go,
            interrupted: false,
        }
    }

    /// Whether all of this was sent before, and what was sent has not ended: somebody was at work on it and broke off.
    async fn was_broken_off(&self, floor: &Floor, requests: &[admin::Rerun]) -> Result<bool> {
        if !self.has_work(floor).await? {
            return Ok(false);
        }
        let done = floor.store.operations(None, LATEST).await?;
        let done = done.iter().filter(|operation| operation.state == OperationState::Done);
        let done: Vec<admin::Request> = done.filter_map(|row| admin::Request::of(row).ok()).collect();
        Ok(requests.iter().all(|request| done.contains(&admin::Request::Rerun(request.clone()))))
    }

    /// Whether items of the run have not ended.
    async fn has_work(&self, floor: &Floor) -> Result<bool> {
        let known = Runs::of(&*floor.store).find(Some(self.known.row.id)).await?;
        Ok(known.row.finished_at.is_none() && report(floor, &known).await?.counts.live() > 0)
    }

    /// One request for each key, or one for all items.
    fn requests(&self, request: &Rerun) -> Vec<admin::Rerun> {
        let stages = &self.known.definition.stages;
        let place = stages.iter().position(|stage| stage.name == self.name).unwrap_or(0);
        let (before, from) = stages.split_at(place);
        let one = |key: Option<String>| admin::Rerun {
            run: self.known.row.id,
            key,
            stage: self.stage,
            before: before.iter().map(|stage| stage.reuse_mark()).collect(),
            anew: from.iter().filter_map(|stage| stage.reuse_mark()).collect(),
            can_reread: self.can_reread,
            dead: None,
        };
        match request.keys.is_empty() {
            true => vec![one(None)],
            false => request.keys.iter().map(|key| one(Some(key.clone()))).collect(),
        }
    }

    fn refuse_nothing(&self, told: &Rerunning, request: &Rerun) -> Result<()> {
        let none = told.items == admin::Rerunning::default();
        if !none || request.keys.is_empty() {
            return Ok(());
        }
        let keys = some_of(&request.keys);
        let run = self.known.row.id;
        Err(Error::not_found(format!(
            "no item of run {run} with the key {keys} has ended and passed {}",
            self.name
        ))
        .hint(format!("`redrive items --run {run} --state succeeded` lists those that have")))
    }
}

/// The first of these keys, each as far as it is told.
fn some_of(keys: &[String]) -> String {
    let told: Vec<String> = keys.iter().take(TOLD).map(|key| clean(key.as_bytes(), TOLD_BYTES)).collect();
    match keys.len().saturating_sub(TOLD) {
        0 => told.join(", "),
        others => format!("{} or one of {others} others", told.join(", ")),
    }
}

/// A stage of the list that a run's own items go through.
fn find_stage(known: &KnownRun, name: &str) -> Result<(StageNo, String)> {
    let run = known.row.id;
    let found = known.plan.find(name);
    let Some(no) = found else {
        let names: Vec<&str> = known.definition.stages.iter().map(|stage| stage.name.as_str()).collect();
        return Err(Error::not_found(format!("run {run} has no stage {name:?}"))
            .hint(format!("its stages are {}", names.join(", "))));
    };
    if known.plan.stage(no).is_some_and(|stage| stage.owner.is_some()) {
        return Err(Error::refused(format!(
            "only children run through stage {name:?}, and they stay as they are"
        ))
        .hint("`redrive run FILE --new` makes them anew, in another run"));
    }
    Ok((no, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_a_few_keys_and_not_all_of_them() {
        assert_eq!(some_of(&["a".to_owned(), "b".to_owned()]), "a, b");
        let keys: Vec<String> = (0..200_000).map(|n| format!("k{n}")).collect();
        assert_eq!(some_of(&keys), "k0, k1, k2, k3, k4 or one of 199995 others");
        assert!(some_of(&["x".repeat(1 << 20)]).len() <= TOLD_BYTES);
    }
}
