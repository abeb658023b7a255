//! Rules of pipelines: dead items are sent back without somebody asking, by ordinary operations in the name of the rule.
//!
//! Nothing is kept for it but the operations. What a gate has let through again are items that died before it was opened last, so
//! that one which dies again waits until the gate has been closed and opened anew; what a change mends are items whose last
//! attempt was by another configuration of their stage. How many have gone within the hour is counted from the rule's own operations,
//! and of two processes that act at once one is refused by the store.

use std::collections::BTreeMap;

use redrive_core::id::OperationId;
use redrive_core::item::{Item, StateKind};
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_engine::admin::{self, Request, SetRedrive};
use redrive_pipeline::{RuleDef, When};
use redrive_store::{ItemFilter, ItemQuery, Operation, OperationState, RunFilter};

use super::Carrier;
use crate::error::Result;
use crate::runs::{KnownRun, Runs};
use crate::{Floor, Role};

/// Runs that are looked at at a time.
const PAGE: usize = 100;
/// Operations among which those of a rule are looked for.
const LATEST: usize = 1_000;
/// Dead items that are looked at for a rule at a time.
const LOOKED_AT: usize = 5_000;
const HOUR_MS: i64 = 3_600_000;

/// Starts what the rules of all pipelines ask for now; how many operations that were.
///
/// # Errors
/// When the store fails; the next look does the rest.
pub async fn apply(floor: &Floor, carrier: &Carrier) -> Result<usize> {
    floor.require(Role::Operator)?;
    let runs = Runs::of(&*floor.store);
    // However many are newer: a standing run may be the oldest of all.
    let with_dead = RunFilter { with_dead: true, ..RunFilter::default() };
    let (mut begun, mut before) = (0, None);
    loop {
        let page = floor.store.runs(with_dead.clone(), before, PAGE).await?;
        let Some(last) = page.last() else { return Ok(begun) };
        before = Some(last.id);
        for row in &page {
            if row.control != Control::Go || !row.spec.definition.contains("rule") {
                continue;
            }
            let Some(known) = runs.known(row.id).await? else { continue };
            for rule in &known.definition.rules {
                if let Some(operation) = (Acting { floor, known: &known, rule }).act().await? {
                    carrier.take(operation);
                    begun += 1;
                }
            }
        }
    }
}

/// One rule and one run.
struct Acting<'a> {
    floor: &'a Floor,
    known: &'a KnownRun,
    rule: &'a RuleDef,
}

/// What a rule has done so far.
struct SoFar {
    /// Its newest operation.
    newest: OperationId,
    /// When that began, where it was stopped: those that went first failed, or somebody did.
    stopped_at: Option<Timestamp>,
    /// Items that it may still send back in this hour.
    left: u64,
}

impl Acting<'_> {
    async fn act(&self) -> Result<Option<OperationId>> {
        let Some(filter) = self.filter().await? else { return Ok(None) };
        let actor = format!("rule:{}/{}", self.known.definition.name, self.rule.name);
        let hour_ago = Timestamp(self.floor.now().0.saturating_sub(HOUR_MS));
        let SoFar { newest, stopped_at, left } = self.so_far(&actor, hour_ago).await?;
        // What was stopped is tried again when there is a new reason, or after an hour.
        let stopped = stopped_at.is_some_and(|at| at >= filter.until.unwrap_or(hour_ago));
        if left == 0 || stopped {
            return Ok(None);
        }
        let items = self.items(&filter, left).await?;
        if items.is_empty() {
            return Ok(None);
        }
        let request = Request::RedriveSet(SetRedrive {
            filters: vec![filter],
            rate: None,
            canary: self.rule.canary,
            stop_at: None,
            ..SetRedrive::default()
        });
        let (store, env) = (&*self.floor.store, &self.floor.env);
        let begun = admin::freeze(store, &request, &items, (&actor, Some(newest)), true, env).await?;
        if let Some(operation) = &begun {
            let (id, items) = (operation.id, items.len());
            tracing::info!(target: "redrive::operations", operation = %id, %actor, items, "a rule sends items back");
        }
        Ok(begun.map(|operation| operation.id))
    }

    /// The dead items that the rule means now; `None` when it is not time.
    async fn filter(&self) -> Result<Option<ItemFilter>> {
        let RuleDef { class, reason, stage, text, when, .. } = self.rule;
        let stages = match stage {
            None => Vec::new(),
            Some(name) => match self.known.plan.find(name) {
                None => return Ok(None),
                Some(stage) => vec![stage],
            },
        };
        let mut filter = ItemFilter {
            run: Some(self.known.row.id),
            state: Some(StateKind::Dead),
            stages,
            class: *class,
            reason: *reason,
            text: text.clone(),
            ..ItemFilter::default()
        };
        if let When::GateOpen(gate) = when {
            let Some(opened) = self.opened(gate).await? else { return Ok(None) };
            filter.until = Some(opened);
        }
        Ok(Some(filter))
    }

    /// When a gate was last opened again; `None` while it is not open, or never was anything else.
    async fn opened(&self, name: &str) -> Result<Option<Timestamp>> {
        let gates = self.floor.store.gates().await?;
        let Some(row) = gates.iter().find(|row| row.name == name) else { return Ok(None) };
        let now = self.floor.now();
        Ok(redrive_engine::report::gate_opened_at(row, now)?)
    }

    async fn so_far(&self, actor: &str, hour_ago: Timestamp) -> Result<SoFar> {
        let latest = self.floor.store.operations(None, LATEST).await?;
        // Where there are more than are read, what the rule has done is not known: it waits.
        let cut_off = latest.len() == LATEST && latest.last().is_some_and(|last| last.created_at > hour_ago);
        let mine = latest.iter().filter(|operation| operation.actor == actor);
        let mine: Vec<&Operation> = mine.collect();
        let newest = mine.first().map_or(OperationId(0), |operation| operation.id);
        let stopped = mine.first().filter(|operation| operation.state == OperationState::Cancelled);
        let stopped_at = stopped.map(|operation| operation.created_at);
        let mut used = 0;
        for operation in mine {
            match operation.state {
                // One at a time: what it does is not known before it has ended.
                OperationState::Open => return Ok(SoFar { newest, stopped_at, left: 0 }),
                OperationState::Done | OperationState::Cancelled | OperationState::Frozen => {}
            }
            used += if operation.created_at > hour_ago { operation.changed } else { 0 };
        }
        let left = if cut_off { 0 } else { self.rule.at_most.saturating_sub(used) };
        Ok(SoFar { newest, stopped_at, left })
    }

    /// Those that are sent back now.
    async fn items(&self, filter: &ItemFilter, left: u64) -> Result<Vec<Item>> {
        let store = &*self.floor.store;
        let runs = Runs::of(store);
        if let When::GateOpen(_) = self.rule.when {
            let asked = admin::Redrive { limit: Some(left), ..admin::Redrive::of(filter.clone()) };
            return Ok(admin::preview_items(store, &runs, &asked, &self.floor.env).await?.items);
        }
        if !self.has_other_marks().await? {
            return Ok(Vec::new());
        }
        let query = ItemQuery { filter: filter.clone(), after: None, limit: LOOKED_AT };
        let dead = store.items(query).await?;
        let histories = store.histories(dead.iter().map(|item| item.seq).collect(), usize::MAX).await?;
        let changed = dead.into_iter().zip(histories).filter(|(item, history)| {
            let now = self.known.plan.stage(item.stage).map(|stage| stage.config);
            let of_stage = history.attempts.iter().filter(|attempt| attempt.stage == item.stage);
            let last = of_stage.max_by_key(|attempt| (attempt.generation, attempt.attempt));
            !item.is_refused() && last.is_some_and(|last| Some(last.config) != now)
        });
        let changed = changed.map(|(item, _)| item);
        Ok(changed.take(usize::try_from(left).unwrap_or(usize::MAX)).collect())
    }

    /// Whether a stage was ever configured otherwise than it is now, as far as attempts tell.
    async fn has_other_marks(&self) -> Result<bool> {
        let now: BTreeMap<_, _> = self.known.plan.stages().map(|(no, stage)| (no, stage.config)).collect();
        let counted = self.floor.store.config_counters(self.known.row.id).await?;
        Ok(counted.iter().any(|counter| now.get(&counter.counter.stage) != Some(&counter.config)))
    }
}
