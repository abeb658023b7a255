//! One item's whole life, and why it is not running now.

mod attempt;
mod life;
mod parts;
mod sentence;

use redrive_core::answer::{AnswerToken, Handed};
use redrive_core::id::{ItemId, RunId};
use redrive_core::item::{Item, State, StateKind};
use redrive_core::plan::Plan;
use redrive_core::verdict::Verdict;
use redrive_store::{Content, Earlier, History, ItemFilter, ItemQuery, Result, RunRow, Store};
use serde::Serialize;
use serde_json::value::RawValue;

use super::crew::Crew;
use super::gates::gate_report;
use super::pauses::PauseView;
use crate::env::Env;
use attempt::{attempt_view, open_attempt};
pub use life::{Life, explain_life, read_lives};
use sentence::{Around, said, sentence};

pub use attempt::{AttemptView, attempts_before};
pub use parts::{Example, PartFailure, Parts};

/// So many of the newest attempts and marks of an item are told where it is one of many, or the answer has to be bounded.
pub const NEWEST: usize = 200;

/// An item's life, as `explain --json` prints it.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The item.
    pub item: ItemView,
    /// Its attempts, the running one last.
    pub attempts: Vec<AttemptView>,
    /// What else happened to it.
    pub marks: Vec<MarkView>,
    /// Its parts, and why some fail; `null` when it has none.
    pub parts: Option<Parts>,
    /// What it is doing now, and why.
    pub now: String,
    /// How much of its history is older, and not told here. Not there where all is told.
    #[serde(skip_serializing_if = "Earlier::is_nothing")]
    pub left_off: Earlier,
}

/// An item, as JSON shows it.
#[derive(Debug, Clone, Serialize)]
pub struct ItemView {
    /// Its id.
    pub id: ItemId,
    /// Its key.
    pub key: String,
    /// Its run.
    pub run: RunId,
    /// The id of the item it came from.
    pub parent: Option<ItemId>,
    /// Its stage.
    pub stage: String,
    /// Its state.
    pub state: StateKind,
    /// Its verdict, where it succeeded and a stage gave one.
    pub verdict: Option<Verdict>,
    /// Why it is dead, or was filtered.
    pub reason: Option<String>,
    /// Class of the last failure.
    pub class: Option<&'static str>,
    /// Text of the last failure.
    pub message: Option<String>,
    /// Group of alike errors.
    pub group: Option<String>,
    /// Attempts at the present stage.
    pub attempts: u32,
    /// Failures at the present stage.
    pub failures: u32,
    /// Throttles at the present stage.
    pub throttles: u32,
    /// Crashes at the present stage.
    pub crashes: u32,
    /// How often it was redriven.
    pub generation: u32,
    /// Whether it has failed so often that it looks permanent.
    pub looks_permanent: bool,
    /// The policy of its own that it goes under at this stage, or died under, as it was asked for: a preset's name, or the keys of a
    /// policy. Not there where it is the stage's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<serde_json::Value>,
    /// When it is due.
    pub due: Option<String>,
    /// What is known of its answer, while one is awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaited: Option<AwaitedView>,
    /// When it was submitted.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
    /// When it stops being worth a try.
    pub deadline: Option<String>,
    /// Its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    /// In what way its content is damaged, where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// What is known of an answer that is awaited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AwaitedView {
    /// When the item was handed over.
    pub since: String,
    /// Until when the answer is awaited.
    pub until: String,
    /// What the answer names.
    pub token: String,
    /// What it is asked for by, where the service gave something.
    pub ticket: Option<String>,
    /// The name of the event by which the item was handed over, where it was by one.
    pub event: Option<String>,
}

impl AwaitedView {
    /// Shows what is known of the answer of an item.
    #[must_use]
    pub fn new(item: &Item, handed: &Handed) -> Self {
        Self {
            since: handed.at.to_string(),
            until: handed.until.to_string(),
            token: AnswerToken::of(item).to_string(),
            ticket: handed.ticket.as_deref().map(str::to_owned),
            event: handed.route.as_deref().map(str::to_owned),
        }
    }
}

impl ItemView {
    /// Shows an item without its content.
    #[must_use]
    pub fn new(item: &Item, plan: &Plan) -> Self {
        let stage = plan.stage(item.stage);
        let last = item.last.as_ref();
        Self {
            id: item.id,
            key: item.key.to_string(),
            run: item.run,
            parent: None,
            stage: stage.map_or_else(|| format!("#{}", item.stage.0), |stage| stage.name.clone()),
            state: item.state.kind(),
            verdict: item.verdict(),
            reason: match &item.state {
                State::Dead { reason } => Some(reason.name().to_owned()),
                State::Filtered { reason } => Some(reason.clone()),
                _ => None,
            },
            class: last.map(|last| last.class.name()),
            message: last.map(|last| last.message.to_string()).filter(|text| !text.is_empty()),
            group: last.map(|last| last.group.to_string()).filter(|group| !group.is_empty()),
            attempts: item.attempt,
            failures: item.failures,
            throttles: item.throttles,
            crashes: item.crashes,
            generation: item.generation,
            looks_permanent: plan.policy_of(item).is_some_and(|policy| policy.looks_permanent(item.failures)),
            retry: item.policy.as_ref().map(|own| own.said().clone()),
            due: match item.state {
                State::Waiting { due, .. } => Some(due.to_string()),
                _ => None,
            },
            awaited: item.handed.as_ref().map(|handed| AwaitedView::new(item, handed)),
            created_at: item.created_at.to_string(),
            updated_at: item.updated_at.to_string(),
            deadline: item.deadline.map(|deadline| deadline.to_string()),
            payload: None,
            damage: None,
        }
    }

    /// Adds the content, or what is wrong with it.
    fn with_content(&mut self, content: &Content) {
        match content {
            Content::Damaged(what) => self.damage = Some(what.clone()),
            Content::Whole(payload) => {
                let text = String::from_utf8(payload.to_vec()).ok();
                self.payload = text.and_then(|text| RawValue::from_string(text).ok());
                if self.payload.is_none() {
                    self.damage = Some("it is no longer JSON".to_owned());
                }
            }
        }
    }
}

/// Something that was not an attempt, as JSON shows it.
#[derive(Debug, Clone, Serialize)]
pub struct MarkView {
    /// When.
    pub at: String,
    /// What.
    pub what: String,
    /// More about it.
    pub detail: String,
}

/// Finds an item by id, by the beginning of its id, or by its key. Several may match; at most `limit` are returned.
///
/// # Errors
/// When the store fails.
pub async fn find_item(store: &dyn Store, name: &str, run: Option<RunId>, limit: usize) -> Result<Vec<Item>> {
    if let Some(ids) = ItemId::with_prefix(name).filter(|_| name.len() >= 4) {
        let filter = ItemFilter { run, ids: Some(ids), ..ItemFilter::default() };
        let found = store.items(ItemQuery { filter, after: None, limit }).await?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let filter = ItemFilter { run, key: Some(name.to_owned()), ..ItemFilter::default() };
    let found = store.items(ItemQuery { filter, after: None, limit }).await?;
    // A key means what is there now, if that is one item.
    let present: Vec<Item> =
        found.iter().filter(|item| item.state.kind() != StateKind::Superseded).cloned().collect();
    Ok(if present.len() == 1 { present } else { found })
}

/// Tells what has happened to an item so far, without its content, its parts and what it is doing now.
pub(super) async fn so_far(
    store: &dyn Store,
    item: &Item,
    plan: &Plan,
    newest: usize,
) -> Result<Explanation> {
    let history = store.histories(vec![item.seq], newest).await?.pop().unwrap_or_default();
    let parent = match item.parent {
        Some(parent) => store.item(parent).await?.map(|parent| parent.id),
        None => None,
    };
    let life = Life { item: item.clone(), parent, content: None, history };
    Ok(Explanation::of(&life, plan, String::new()))
}

/// Tells an item's life, with so many of its newest attempts and marks. `gate` is the gate of the stage it is at.
///
/// # Errors
/// When the store fails.
pub async fn explain(
    store: &dyn Store,
    row: &RunRow,
    item: &Item,
    plan: &Plan,
    gate: Option<&str>,
    newest: usize,
    env: &Env,
) -> Result<Explanation> {
    let now = env.clock.now();
    let told = so_far(store, item, plan, newest).await?;
    let mut view = told.item;
    if let Some(content) = store.payload(item.seq).await? {
        view.with_content(&content);
    }
    let parts = parts::parts(store, item, plan).await?;
    let sentence = match (&item.state, &parts) {
        (State::Joining, Some(parts)) => joining(parts),
        _ => {
            let gates = if gate.is_some() { store.gates().await? } else { Vec::new() };
            let gate = gates.iter().find(|row| Some(row.name.as_str()) == gate);
            let gate = gate.map(|gate| gate_report(gate, now)).transpose()?;
            let crew = Crew::read(store, env).await?;
            let pauses = store.pauses().await?;
            let stage = stage_name(plan, item.stage);
            let paused = pauses.stops(&row.spec.pipeline, &stage).map(PauseView::from);
            let (gate, paused) = (gate.as_ref(), paused.as_ref());
            sentence(item, &Around { row, plan, gate, paused, crew: &crew, now })
        }
    };
    Ok(Explanation { item: view, parts, now: sentence, ..told })
}

/// What an item waits for that was taken apart, and what most of its parts that fail have met.
fn joining(parts: &Parts) -> String {
    let mut text = format!("It waits for its children: {} of {} are not finished", parts.live, parts.total);
    if let Some(most) = parts.failing.first() {
        let all: u64 = parts.failing.iter().map(|failure| failure.items).sum();
        text.push_str(&format!(
            "; {all} failed, {} of them at {}: {}",
            most.items,
            most.stage,
            said(&most.message)
        ));
    }
    text.push('.');
    text
}

impl Explanation {
    fn of(life: &Life, plan: &Plan, now: String) -> Self {
        let Life { item, parent, content, history } = life;
        let History { attempts, marks, earlier } = history;
        let mut view = ItemView::new(item, plan);
        view.parent = *parent;
        if let Some(content) = content {
            view.with_content(content);
        }
        if let (None, Some(_)) = (&view.message, &item.last) {
            let failed = attempts.iter().rev().find_map(|row| row.failure.as_ref());
            view.message = failed.map(|failure| failure.message.to_string());
        }
        let mut shown: Vec<AttemptView> = attempts.iter().map(|row| attempt_view(row, plan)).collect();
        shown.extend(open_attempt(item, plan));
        let marks = marks.iter().map(|mark| MarkView {
            at: mark.at.to_string(),
            what: mark.what.to_owned(),
            detail: mark.detail.to_string(),
        });
        let marks = marks.collect();
        Self { item: view, attempts: shown, marks, parts: None, now, left_off: *earlier }
    }
}

pub(super) fn stage_name(plan: &Plan, no: redrive_core::id::StageNo) -> String {
    plan.stage(no).map_or_else(|| format!("#{}", no.0), |stage| stage.name.clone())
}
