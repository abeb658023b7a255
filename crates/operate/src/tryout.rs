//! One call of one stage, to see what it does: the request, the answer, what that is taken for, and what would follow.
//!
//! What follows is what a worker's own desk decides. Nothing is written, neither items nor what gates learn, and the call
//! passes no gate: one that a store knows to be shut is told as a warning.

use std::sync::Arc;

use redrive_core::event::{ItemReply, Transition};
use redrive_core::failure::{Class, Failure};
use redrive_core::fingerprint::fingerprint;
use redrive_core::id::{ContentHash, ItemId, ItemSeq, RunId, StageNo, WorkerId};
use redrive_core::item::{Entry, Item, NewItem, Payload, State, StateKind};
use redrive_core::plan::{Plan, StagePlan};
use redrive_core::time::millis;
use redrive_core::usage::Usage;
use redrive_core::verdict::Verdict;
use redrive_engine::handler::{Answer, Reply};
use redrive_engine::report::PauseView;
use redrive_engine::source;
use redrive_engine::tap::{Tap, Wire};
use redrive_engine::worker::{Halt, Tryout, try_once};
use redrive_pipeline::{StageDef, StageKind};
use redrive_store::{ClaimedItem, Content};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::items::{self, ItemName};
use crate::pipelines::{Pipeline, recipe_with};
use crate::{Floor, Role};

/// Most children that are shown.
const MOST_CHILDREN: usize = 20;
/// The key of a payload that comes without one.
const KEY: &str = "try";

/// What a stage is tried with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum With {
    /// This content, under this key.
    Payload {
        /// JSON.
        text: String,
        /// The key; `None`: one that says what it is for.
        key: Option<String>,
    },
    /// The content that an item has now.
    Item(ItemName),
}

/// What came of a call, and what would follow.
#[derive(Debug, Serialize)]
pub struct Tried {
    /// The pipeline.
    pub pipeline: String,
    /// The stage.
    pub stage: String,
    /// What it does.
    pub kind: &'static str,
    /// The key of what it was tried with.
    pub key: String,
    /// What it was tried with.
    pub payload: Option<Box<RawValue>>,
    /// What went over the wire, without secrets; `null` for a stage that asks nobody, or where it came to no call.
    pub wire: Option<Wire>,
    /// How long the call took; `null` when none was made.
    pub duration_ms: Option<i64>,
    /// What the call consumed, where the service said so.
    pub usage: Option<Usage>,
    /// How the attempt ended.
    pub outcome: &'static str,
    /// What the stage found of the item, where it said so.
    pub verdict: Option<Verdict>,
    /// How it failed.
    pub failure: Option<FailureView>,
    /// The content that the next stage would get, where it passed.
    pub output: Option<Box<RawValue>>,
    /// Why it was taken out.
    pub filtered: Option<String>,
    /// What it would become, at most twenty of them.
    pub children: Vec<Child>,
    /// What would follow.
    pub follows: Follows,
    /// What is known to be in the way of a real call.
    pub warnings: Vec<String>,
}

impl Tried {
    /// Whether the item would go on, or was taken out as it should.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.failure.is_none()
    }
}

/// How an attempt failed, and what that is taken for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureView {
    /// What it means.
    pub class: &'static str,
    /// Where it came from.
    pub kind: &'static str,
    /// The group of alike errors it would be in.
    pub group: String,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// What it says.
    pub message: String,
    /// How long the service asked to be left alone.
    pub hint_ms: Option<i64>,
}

/// A child that an item would become.
#[derive(Debug, Serialize)]
pub struct Child {
    /// Its key.
    pub key: String,
    /// Its content.
    pub payload: Option<Box<RawValue>>,
}

/// What would follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Follows {
    /// The state it would be in.
    pub state: StateKind,
    /// The stage it would be at.
    pub stage: String,
    /// Which failure of its kind this would be.
    pub failures: u32,
    /// How many of them are its end; `null`: no number of them.
    pub of: Option<u32>,
    /// How long it would wait, with the luck of this one call.
    pub wait_ms: Option<i64>,
    /// Why so long.
    pub wait_cause: Option<&'static str>,
    /// Why it would be dead.
    pub dead_because: Option<&'static str>,
    /// Why the whole run would be paused.
    pub pauses_run: Option<String>,
}

/// Calls one stage of a pipeline once.
///
/// # Errors
/// When there is no such stage, it cannot be tried by itself, or what it is to be tried with is not there.
pub async fn try_stage(floor: &Floor, pipeline: &Pipeline, stage: &str, with: &With) -> Result<Tried> {
    floor.require(Role::Operator)?;
    let definition = &pipeline.definition;
    let (no, def) = find(pipeline, stage)?;
    if matches!(def.kind, StageKind::External { .. }) {
        return Err(Error::refused(format!(
            "stage {} is done by external workers: there is nobody to call",
            def.name
        ))
        .hint("start `redrive serve` and have a worker ask for it at /v1/work/claim"));
    }
    let tap = Arc::new(Tap::default());
    let handler = floor.wiring.tapped_handler(def, &pipeline.folder, tap.clone()).map_err(|problem| {
        let error = Error::wrong(format!("stage {stage}: {problem}"));
        match def.kind.indexes() {
            true => error.hint("a stage that writes into an index cannot be tried by itself"),
            false => error,
        }
    })?;
    // Only this one is called.
    let recipe = Arc::new(recipe_with(definition, |_| Ok(handler.clone()))?);
    let plan = recipe.plan.clone();
    let claimed = claimed(floor, no, with).await?;
    let (item, payload) = (claimed.item.clone(), claimed.payload.clone());
    let warnings = warnings(floor, &definition.name, def).await?;
    let tried = try_once(recipe.clone(), claimed, &floor.env).await;
    handler.close().await;
    let Tryout { call, transition, halt } = tried?;
    let wire = tap.seen().into_iter().last();
    let failed = call.as_ref().and_then(|call| failure_of(&call.answer));
    let follows = follows(&plan, no, &transition, halt.as_ref(), failed.as_ref());
    let children = transition.children.iter().flat_map(|children| &children.items).take(MOST_CHILDREN);
    Ok(Tried {
        pipeline: definition.name.clone(),
        stage: def.name.clone(),
        kind: def.kind.name(),
        key: item.key.to_string(),
        payload: raw(&payload),
        wire,
        duration_ms: call.as_ref().map(|call| millis(call.took)),
        usage: call.as_ref().and_then(|call| call.answer.usage),
        verdict: transition.record.as_ref().and_then(|record| record.verdict),
        outcome: match (&transition.record, &transition.after.handed) {
            (Some(record), _) => record.outcome.name(),
            (None, Some(_)) => "handed_over",
            (None, None) => "expired",
        },
        failure: failure_view(&transition, &def.name, failed.as_ref()),
        output: output(&transition, &payload),
        filtered: match &transition.after.state {
            State::Filtered { reason } => Some(reason.clone()),
            _ => None,
        },
        children: children
            .map(|child| Child { key: child.key.to_string(), payload: raw(&child.payload) })
            .collect(),
        follows,
        warnings,
    })
}

fn find<'a>(pipeline: &'a Pipeline, stage: &str) -> Result<(StageNo, &'a StageDef)> {
    let all = || pipeline.definition.all_stages();
    let found = all().enumerate().find(|(_, def)| def.name == stage);
    let (no, def) = found.ok_or_else(|| {
        let names: Vec<&str> = all().map(|def| def.name.as_str()).collect();
        Error::not_found(format!("the pipeline has no stage {stage:?}"))
            .hint(format!("its stages are {}", names.join(", ")))
    })?;
    Ok((StageNo(u16::try_from(no).unwrap_or(u16::MAX)), def))
}

/// What a worker would hold: an item that was just claimed at the stage.
async fn claimed(floor: &Floor, stage: StageNo, with: &With) -> Result<ClaimedItem> {
    let now = floor.now();
    let (key, payload, before) = match with {
        With::Payload { text, key } => {
            let read = source::document(text.as_bytes(), 1, None);
            let read = read.map_err(|why| Error::wrong(format!("the payload {why}")))?;
            (key.clone().unwrap_or_else(|| KEY.to_owned()), read.payload, None)
        }
        With::Item(name) => {
            let item = items::find(&*floor.store, name).await?;
            let payload = content(floor, &item).await?;
            (item.key.to_string(), payload, Some(item))
        }
    };
    let new = NewItem::new(key, payload.clone(), 1);
    let run = before.as_ref().map_or(RunId(0), |item| item.run);
    let id = fresh_id(floor, &new);
    let entry = Entry { run, parent: None, stage, reading: 0, deadline: None, now };
    let mut item = entry.item(&new, ItemSeq(0), id, new.version());
    if let Some(before) = before.filter(|before| before.stage == stage) {
        let Item { failures, throttles, crashes, earlier, attempt, last, .. } = before;
        // What is dead was tried to its end; sent back, it would begin anew.
        if !matches!(before.state, State::Dead { .. }) {
            (item.failures, item.throttles, item.crashes, item.earlier) =
                (failures, throttles, crashes, earlier);
            (item.attempt, item.last) = (attempt, last);
        }
    }
    item.attempt = item.attempt.saturating_add(1);
    item.state = State::Running { worker: WorkerId(0), since: now };
    Ok(ClaimedItem { item, payload })
}

/// An id that no item and no other call has: a service that knows repetitions by it takes this for none, neither of the item's
/// real work nor of the try before.
fn fresh_id(floor: &Floor, new: &NewItem) -> ItemId {
    let chance = || floor.env.dice.draw().value().to_be_bytes();
    let version = ContentHash::of(&[&new.version().0, &chance()]);
    // An id has few bits of a version, and many of its place.
    let nowhere = ItemId::derive(RunId(0), None, "", ContentHash::of(&[&chance()]));
    ItemId::derive(RunId(0), Some(nowhere), &new.key, version)
}

async fn content(floor: &Floor, item: &Item) -> Result<Payload> {
    match floor.store.payload(item.seq).await? {
        Some(Content::Whole(payload)) => Ok(payload),
        Some(Content::Damaged(what)) => {
            Err(Error::refused(format!("the content of item {} is damaged: {what}", item.id)))
        }
        None => Err(Error::refused(format!("the content of item {} is not kept any more", item.id))),
    }
}

/// What keeps real calls of the stage from being made.
async fn warnings(floor: &Floor, pipeline: &str, def: &StageDef) -> Result<Vec<String>> {
    let pauses = floor.store.pauses().await?;
    let paused = pauses.stops(pipeline, &def.name).map(|pause| PauseView::from(pause).said());
    let Some(name) = def.gate_name() else { return Ok(paused.into_iter().collect()) };
    let gates = crate::gates::list(floor).await?.gates;
    let shut = gates.into_iter().filter(|gate| gate.name == name && gate.state != "open");
    let shut = shut.map(|gate| format!("gate {name} is {}: {}", gate.state, gate.why));
    Ok(paused.into_iter().chain(shut).collect())
}

/// The failure as the handler told it, with what the service asked for.
fn failure_of(answer: &Answer) -> Option<Failure> {
    match &answer.reply {
        Reply::Whole(failure) => Some(failure.clone()),
        Reply::Items(replies) => replies.iter().find_map(|reply| match reply {
            ItemReply::Failed { failure, .. } => Some(failure.clone()),
            _ => None,
        }),
        // Only work for others is given back, and that is not tried.
        Reply::Part { .. } => None,
    }
}

fn failure_view(transition: &Transition, stage: &str, told: Option<&Failure>) -> Option<FailureView> {
    let failure = transition.record.as_ref()?.failure.as_ref()?;
    Some(FailureView {
        class: failure.class.name(),
        kind: failure.kind.name(),
        group: fingerprint(failure.class, stage, &failure.message),
        status: failure.status,
        message: failure.message.to_string(),
        hint_ms: told.and_then(|failure| failure.hint).map(millis),
    })
}

/// What would be handed on: the new content, or the old one where it stays the same.
fn output(transition: &Transition, payload: &Payload) -> Option<Box<RawValue>> {
    let passed = transition.record.as_ref().is_some_and(|record| record.outcome.is_pass());
    let handed_on = passed && transition.children.is_none();
    handed_on.then(|| raw(transition.payload.as_ref().unwrap_or(payload))).flatten()
}

fn follows(
    plan: &Plan,
    at: StageNo,
    transition: &Transition,
    halt: Option<&Halt>,
    told: Option<&Failure>,
) -> Follows {
    let (after, record) = (&transition.after, transition.record.as_ref());
    let name = |no| plan.stage(no).map_or_else(String::new, |stage| stage.name.clone());
    let wait = record.and_then(|record| record.wait);
    let class = record.and_then(|record| record.failure.as_ref()).map(|failure| failure.class);
    let (failures, of) = match (class, plan.stage(at)) {
        (Some(Class::Crash), Some(stage)) => (after.crashes, Some(stage.policy.most_crashes().get())),
        (Some(_), Some(stage)) => (after.failures, limit(stage, told)),
        _ => (0, None),
    };
    Follows {
        state: after.state.kind(),
        stage: name(after.stage),
        failures,
        of,
        wait_ms: wait.map(|(delay, _)| millis(delay)),
        wait_cause: wait.map(|(_, cause)| cause.name()),
        dead_because: match after.state {
            State::Dead { reason } => Some(reason.name()),
            _ => None,
        },
        pauses_run: match halt {
            Some(Halt::Quota(why) | Halt::Outage(why)) => Some(why.clone()),
            Some(Halt::Budget(breach)) => Some(breach.to_string()),
            Some(Halt::Asked(_) | Halt::DeadLetters { .. } | Halt::Outdated | Halt::Stopping) | None => None,
        },
    }
}

/// How many failures like this one are an item's end.
fn limit(stage: &StagePlan, told: Option<&Failure>) -> Option<u32> {
    let failure = stage.policy.reclassify(told?.clone());
    match failure.class {
        Class::Final | Class::Oversized => Some(1),
        _ => stage.policy.most_failures_like(&failure).map(std::num::NonZeroU32::get),
    }
}

fn raw(payload: &Payload) -> Option<Box<RawValue>> {
    let text = String::from_utf8(payload.to_vec()).ok()?;
    RawValue::from_string(text).ok()
}
