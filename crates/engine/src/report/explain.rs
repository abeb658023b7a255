//! One item's whole life, and why it is not running now.

mod life;
mod sentence;

use redrive_core::attempt::AttemptRecord;
use redrive_core::id::{ItemId, RunId};
use redrive_core::item::{Item, State, StateKind};
use redrive_core::plan::Plan;
use redrive_core::time::{Timestamp, millis};
use redrive_store::{Content, History, ItemFilter, ItemQuery, Result, RunRow, Store};
use serde::Serialize;
use serde_json::value::RawValue;

use super::gates::gate_report;
pub use life::{Life, explain_life, read_lives};
use sentence::sentence;

use super::usage::usd;

/// An item's life, as `explain --json` prints it.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The item.
    pub item: ItemView,
    /// Its attempts, the running one last.
    pub attempts: Vec<AttemptView>,
    /// What else happened to it.
    pub marks: Vec<MarkView>,
    /// What it is doing now, and why.
    pub now: String,
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
    /// When it is due.
    pub due: Option<String>,
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
            looks_permanent: stage.is_some_and(|stage| stage.policy.looks_permanent(item.failures)),
            due: match item.state {
                State::Waiting { due, .. } => Some(due.to_string()),
                _ => None,
            },
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

/// An attempt, as JSON shows it.
#[derive(Debug, Clone, Serialize)]
pub struct AttemptView {
    /// The stage.
    pub stage: String,
    /// Its number.
    pub attempt: u32,
    /// The item's generation at the time.
    pub generation: u32,
    /// When it was claimed.
    pub started_at: String,
    /// When it ended; `null` while it runs.
    pub ended_at: Option<String>,
    /// How it ended; `running` while it runs.
    pub outcome: &'static str,
    /// Class of its failure.
    pub class: Option<&'static str>,
    /// Kind of its failure.
    pub kind: Option<&'static str>,
    /// HTTP status.
    pub status: Option<u16>,
    /// Text of its failure.
    pub message: Option<String>,
    /// How long the item waits after it.
    pub wait_ms: Option<i64>,
    /// Why.
    pub wait_cause: Option<&'static str>,
    /// Who did it.
    pub worker: String,
    /// Mark of the stage's configuration at the time.
    pub config: String,
    /// Tokens it sent; `null` when nothing is known about them.
    pub tokens_in: Option<u64>,
    /// Tokens it received; `null` when nothing is known about them.
    pub tokens_out: Option<u64>,
    /// What they cost; `null` when that is not known.
    pub usd: Option<f64>,
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

/// Tells an item's whole life. `gate` is the gate of the stage it is at.
///
/// # Errors
/// When the store fails.
pub async fn explain(
    store: &dyn Store,
    row: &RunRow,
    item: &Item,
    plan: &Plan,
    gate: Option<&str>,
    now: Timestamp,
) -> Result<Explanation> {
    let history = store.history(item.seq).await?;
    let parent = match item.parent {
        Some(parent) => store.item(parent).await?.map(|parent| parent.id),
        None => None,
    };
    let content = store.payload(item.seq).await?;
    let sentence = match item.state {
        State::Joining => {
            let children = store.children(item.seq).await?;
            format!(
                "It waits for its children: {} of {} are not finished.",
                children.live,
                children.live + children.done + children.dead + children.gone
            )
        }
        _ => {
            let gates = if gate.is_some() { store.gates().await? } else { Vec::new() };
            let gate = gates.iter().find(|row| Some(row.name.as_str()) == gate);
            let gate = gate.map(|gate| gate_report(gate, now)).transpose()?;
            sentence(item, row, plan, gate.as_ref(), now)
        }
    };
    Ok(Explanation::of(&Life { item: item.clone(), parent, content, history }, plan, sentence))
}

impl Explanation {
    fn of(life: &Life, plan: &Plan, now: String) -> Self {
        let Life { item, parent, content, history } = life;
        let History { attempts, marks } = history;
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
        shown.extend(running_attempt(item, plan));
        let marks = marks.iter().map(|mark| MarkView {
            at: mark.at.to_string(),
            what: mark.what.to_owned(),
            detail: mark.detail.to_string(),
        });
        Self { item: view, attempts: shown, marks: marks.collect(), now }
    }
}

pub(super) fn stage_name(plan: &Plan, no: redrive_core::id::StageNo) -> String {
    plan.stage(no).map_or_else(|| format!("#{}", no.0), |stage| stage.name.clone())
}

fn attempt_view(row: &AttemptRecord, plan: &Plan) -> AttemptView {
    let failure = row.failure.as_ref();
    AttemptView {
        stage: stage_name(plan, row.stage),
        attempt: row.attempt,
        generation: row.generation,
        started_at: row.started_at.to_string(),
        ended_at: Some(row.ended_at.to_string()),
        outcome: row.outcome.name(),
        class: failure.map(|failure| failure.class.name()),
        kind: failure.map(|failure| failure.kind.name()),
        status: failure.and_then(|failure| failure.status),
        message: failure.map(|failure| failure.message.to_string()),
        wait_ms: row.wait.map(|(delay, _)| millis(delay)),
        wait_cause: row.wait.map(|(_, cause)| cause.name()),
        worker: row.worker.to_string(),
        config: format!("{:016x}", row.config),
        tokens_in: row.usage.map(|usage| usage.tokens_in),
        tokens_out: row.usage.map(|usage| usage.tokens_out),
        usd: row.usage.and_then(|usage| usage.nano_usd).map(usd),
    }
}

/// The attempt that is under way: its number is kept with the item from the claim on, its row comes with its end.
fn running_attempt(item: &Item, plan: &Plan) -> Option<AttemptView> {
    let State::Running { worker, since } = item.state else { return None };
    Some(AttemptView {
        stage: stage_name(plan, item.stage),
        attempt: item.attempt,
        generation: item.generation,
        started_at: since.to_string(),
        ended_at: None,
        outcome: "running",
        class: None,
        kind: None,
        status: None,
        message: None,
        wait_ms: None,
        wait_cause: None,
        worker: worker.to_string(),
        config: plan.stage(item.stage).map(|stage| format!("{:016x}", stage.config)).unwrap_or_default(),
        tokens_in: None,
        tokens_out: None,
        usd: None,
    })
}
