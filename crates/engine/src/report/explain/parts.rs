//! Why the parts of an item fail: alike failures of its children once, with what to do.

use std::collections::BTreeMap;

use redrive_core::fingerprint::fingerprint;
use redrive_core::id::{ItemId, ItemSeq};
use redrive_core::item::{Item, State, StateKind};
use redrive_core::plan::Plan;
use redrive_core::time::Timestamp;
use redrive_store::{ItemFilter, ItemQuery, Result, Store};
use serde::Serialize;

use super::stage_name;

const PAGE: usize = 500;
/// Most parts that are looked at, and most of those that wait whose last error is read.
const MOST: u64 = 10_000;
const MOST_READ: u64 = 1_000;

/// The parts of an item, and why some fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// How many it has.
    pub total: u64,
    /// Those that are not finished.
    pub live: u64,
    /// Those that passed or were filtered.
    pub done: u64,
    /// Those that are dead.
    pub dead: u64,
    /// Those that were cancelled or superseded.
    pub gone: u64,
    /// Alike failures, those of the most parts first; parts of parts included.
    pub failing: Vec<PartFailure>,
    /// Whether there are more failing parts than were looked at.
    pub more: bool,
}

/// Parts that fail alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartFailure {
    /// The stage they fail at.
    pub stage: String,
    /// The class of their last failure.
    pub class: Option<&'static str>,
    /// Their group of alike errors.
    pub group: Option<String>,
    /// How many parts.
    pub items: u64,
    /// How many of them are dead.
    pub dead: u64,
    /// How many of them are tried again.
    pub waiting: u64,
    /// When the next of them is tried again.
    pub next_at: Option<String>,
    /// What one of the failures said.
    pub message: String,
    /// One of them.
    pub example: Example,
    /// What to do about it.
    pub todo: String,
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Its id.
    pub id: ItemId,
    /// Its key.
    pub key: String,
}

/// Parts that fail alike, while they are counted.
struct Alike {
    example: Item,
    message: String,
    group: Option<String>,
    dead: u64,
    waiting: u64,
    next: Option<Timestamp>,
}

/// Looks at the parts of an item; `None` when it has none.
pub(super) async fn parts(store: &dyn Store, item: &Item, plan: &Plan) -> Result<Option<Parts>> {
    let children = store.children(item.seq).await?;
    let total = children.live + children.done + children.dead + children.gone;
    if total == 0 {
        return Ok(None);
    }
    let mut look = Look { alike: BTreeMap::new(), looked_at: 0, read: 0, more: false };
    let mut parents = vec![item.seq];
    while let Some(parent) = parents.pop() {
        look.below(store, parent, plan, &mut parents).await?;
    }
    let told = look.alike.into_iter().map(|((stage, ..), alike)| alike.told(stage));
    let mut failing: Vec<PartFailure> = told.collect();
    failing.sort_by_key(|failure| std::cmp::Reverse(failure.items));
    Ok(Some(Parts {
        total,
        live: children.live,
        done: children.done,
        dead: children.dead,
        gone: children.gone,
        failing,
        more: look.more,
    }))
}

/// What was seen so far.
struct Look {
    alike: BTreeMap<(String, Option<&'static str>, String), Alike>,
    looked_at: u64,
    read: u64,
    more: bool,
}

impl Look {
    /// Goes through the children of one item, and notes those that have children themselves.
    async fn below(
        &mut self,
        store: &dyn Store,
        parent: ItemSeq,
        plan: &Plan,
        parents: &mut Vec<ItemSeq>,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let filter = ItemFilter { parent: Some(parent), ..ItemFilter::default() };
            let page = store.items(ItemQuery { filter, after, limit: PAGE }).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.seq);
            for child in &page {
                if self.looked_at >= MOST {
                    self.more = true;
                    return Ok(());
                }
                self.looked_at += 1;
                if can_have_children(plan, child) {
                    parents.push(child.seq);
                }
                self.see(store, child, plan).await?;
            }
        }
    }

    async fn see(&mut self, store: &dyn Store, child: &Item, plan: &Plan) -> Result<()> {
        let kind = child.state.kind();
        let failed = child.failures + child.crashes > 0;
        let fails = match kind {
            StateKind::Dead => true,
            StateKind::Waiting | StateKind::Running => failed,
            _ => false,
        };
        if !fails {
            return Ok(());
        }
        let stage = stage_name(plan, child.stage);
        let last = child.last.as_ref();
        let class = last.map(|last| last.class);
        let mut message = last.map(|last| last.message.to_string()).unwrap_or_default();
        // The text of one that waits is in the row of its attempt.
        if message.is_empty() && self.read < MOST_READ {
            self.read += 1;
            let history = store.history(child.seq).await?;
            let failure = history.attempts.iter().rev().find_map(|row| row.failure.as_ref());
            message = failure.map(|failure| failure.message.to_string()).unwrap_or_default();
        }
        let kept = last.map(|last| last.group.to_string()).filter(|group| !group.is_empty());
        let made = || class.map(|class| fingerprint(class, &stage, &message)).filter(|_| !message.is_empty());
        let group = kept.or_else(made);
        let name = (stage, class.map(redrive_core::failure::Class::name), group.clone().unwrap_or_default());
        let alike = self.alike.entry(name).or_insert_with(|| Alike {
            example: child.clone(),
            message,
            group,
            dead: 0,
            waiting: 0,
            next: None,
        });
        match child.state {
            State::Dead { .. } => alike.dead += 1,
            State::Waiting { due, .. } => {
                alike.waiting += 1;
                alike.next = Some(alike.next.map_or(due, |next| next.min(due)));
            }
            _ => alike.waiting += 1,
        }
        Ok(())
    }
}

/// Whether an item can have been taken apart: it is at, or beyond, a stage with children.
fn can_have_children(plan: &Plan, item: &Item) -> bool {
    let of_its_list = plan.stage(item.stage).map(|stage| stage.owner);
    plan.stages().any(|(no, stage)| {
        Some(stage.owner) == of_its_list && stage.first_child.is_some() && no.index() <= item.stage.index()
    })
}

impl Alike {
    fn told(self, stage: String) -> PartFailure {
        let Self { example, message, group, dead, waiting, next } = self;
        let class = example.last.as_ref().map(|last| last.class.name());
        let next_at = next.map(|next| next.to_string());
        let mut todo = Vec::new();
        if waiting > 0 {
            let next = next_at.as_ref().map(|next| format!(", the next at {next}")).unwrap_or_default();
            todo.push(format!("{waiting} will be tried again{next}"));
        }
        if dead > 0 {
            let by = match &group {
                Some(group) => format!("--run {} --group {group}", example.run),
                None => format!("--item {}", example.id),
            };
            let first = if class == Some("final") { "mend the cause, then " } else { "" };
            todo.push(format!("{first}`redrive dead redrive {by}` sends {dead} back"));
        }
        PartFailure {
            stage,
            class,
            group,
            items: dead + waiting,
            dead,
            waiting,
            next_at,
            message,
            example: Example { id: example.id, key: example.key.to_string() },
            todo: todo.join("; "),
        }
    }
}
