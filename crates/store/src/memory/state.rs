//! The maps, and the verbs about runs, workers, operations and gates.

use std::collections::BTreeMap;
use std::ops::Bound;

use redrive_core::fact::Fact;
use redrive_core::id::{ItemId, ItemSeq, OperationId, RunId, StageNo, WorkerId};
use redrive_core::item::{Item, Payload, StateKind};
use redrive_core::status::Control;
use redrive_core::tally::{Deltas, Metric};
use redrive_core::time::Timestamp;

use crate::pause::{PauseAsk, PauseChange, Pauses, PipelinePause};
use crate::query::{History, Tombstone};
use crate::request::{Applied, Freeze, ItemRev, KeptOutput, OutputKey};
use crate::rule::operation::saved_state;
use crate::rule::run::{ChangedRun, begun_reading, changed_run};
use crate::run::{
    GateRow, Member, Memo, NewRun, NewWorker, Operation, OperationState, Pause, Retired, RunChange,
    RunFilter, RunRow, WorkerRow,
};
use crate::{Error, Result};

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// How often somebody has written.
    pub(super) writes: u64,
    pub(super) runs: BTreeMap<RunId, RunRow>,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    pub(super) items: BTreeMap<ItemSeq, Kept>,
    pub(super) ids: BTreeMap<ItemId, ItemSeq>,
    pub(super) counters: BTreeMap<(RunId, StageNo, Metric), i64>,
    pub(super) config_counters: BTreeMap<(RunId, StageNo, i64, Metric), i64>,
    /// What was counted in runs that are forgotten, by pipeline.
    pub(super) pruned: BTreeMap<(String, StageNo, Metric), i64>,
    /// Each with the run and the item that wrote it last, and is forgotten with either.
    pub(super) outputs: BTreeMap<OutputKey, (RunId, ItemSeq, KeptOutput)>,
    pub(super) outbox: super::outbox::Outbox,
    pub(super) operations: BTreeMap<OperationId, Operation>,
    pub(super) members: BTreeMap<(OperationId, ItemSeq), Member>,
    pub(super) group_notes: BTreeMap<String, crate::run::GroupNote>,
    pub(super) gates: BTreeMap<String, GateRow>,
    pub(super) memos: BTreeMap<String, Memo>,
    pub(super) pauses: Pauses,
    pub(super) index: super::index::Kept,
    pub(super) tombstones: BTreeMap<ItemSeq, Tombstone>,
    next_run: i64,
    next_worker: i64,
    next_operation: i64,
    pub(super) last_item: i64,
}

#[derive(Debug, Clone)]
pub(super) struct Worker {
    pub(super) row: WorkerRow,
    pub(super) retired: Option<Retired>,
}

#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) item: Item,
    pub(super) payload: Payload,
    pub(super) history: History,
}

impl State {
    pub(super) fn create_run(&mut self, new: NewRun, now: Timestamp) -> RunRow {
        self.next_run += 1;
        let row = RunRow {
            id: RunId(self.next_run),
            spec: new,
            control: Control::Go,
            reason: None,
            edition: 0,
            reading: 0,
            cursor: None,
            admitted_all: false,
            duplicates: 0,
            budget: None,
            created_at: now,
            finished_at: None,
            pause: Pause::default(),
            idle: Pause::default(),
            learnt: BTreeMap::new(),
        };
        self.runs.insert(row.id, row.clone());
        self.outbox.tell([Fact::of_created(row.id, now)]);
        row
    }

    pub(super) fn change_run(&mut self, run: RunId, change: RunChange) -> Result<RunRow> {
        let row = self.runs.get(&run).ok_or_else(|| Error::NotFound(format!("run {run}")))?;
        let ChangedRun { row, facts } =
            changed_run(row.clone(), change, || Ok::<_, Error>(self.any_live(run)))?;
        self.outbox.tell(facts);
        self.runs.insert(run, row.clone());
        Ok(row)
    }

    pub(super) fn begin_reading(&mut self, run: RunId, last: u32, position: Option<String>) -> Result<u32> {
        let row = self.runs.get_mut(&run).ok_or_else(|| Error::NotFound(format!("run {run}")))?;
        *row = begun_reading(row.clone(), last, position)?;
        Ok(row.reading)
    }

    /// Whether a run has items that are not finished.
    pub(super) fn any_live(&self, run: RunId) -> bool {
        self.counters.iter().any(|((of, _, metric), n)| {
            *of == run && *n > 0 && matches!(metric, Metric::State(kind) if !kind.is_terminal())
        })
    }

    /// Whether a run has dead items.
    pub(super) fn any_dead(&self, run: RunId) -> bool {
        self.items.values().any(|kept| kept.item.run == run && kept.item.state.kind() == StateKind::Dead)
    }

    pub(super) fn list_runs(&self, filter: &RunFilter, before: Option<RunId>, limit: usize) -> Vec<RunRow> {
        let wanted = |row: &&RunRow| {
            filter.pipeline.as_ref().is_none_or(|name| row.spec.pipeline == *name)
                && filter.source.as_ref().is_none_or(|source| row.spec.source == *source)
                && (!filter.unfinished || (row.finished_at.is_none() && row.control != Control::Cancelled))
                && (!filter.uncancelled || row.control != Control::Cancelled)
                && (!filter.unread || !row.admitted_all)
                && (!filter.with_dead || self.any_dead(row.id))
        };
        let older = self.runs.values().rev().filter(|row| before.is_none_or(|before| row.id < before));
        older.filter(wanted).take(limit).cloned().collect()
    }

    pub(super) fn change_pause(&mut self, change: PauseChange) -> bool {
        let (before, place) =
            (self.pauses.rows.clone(), |row: &PipelinePause| (row.pipeline.clone(), row.stage.clone()));
        let rows = &mut self.pauses.rows;
        match change.ask {
            PauseAsk::Pause(pause) => match rows.iter_mut().find(|row| place(row) == place(&pause)) {
                Some(row) => *row = PipelinePause { since: row.since, ..pause },
                None => rows.push(pause),
            },
            PauseAsk::Resume { pipeline, stage } => {
                rows.retain(|row| place(row) != (pipeline.clone(), stage.clone()));
            }
        }
        rows.sort_by_key(place);
        if *rows == before {
            return false;
        }
        self.pauses.rev += 1;
        self.save_operation(change.by);
        true
    }

    pub(super) fn register(&mut self, new: NewWorker, lease_until: Timestamp, now: Timestamp) -> WorkerId {
        self.next_worker += 1;
        let id = WorkerId(self.next_worker);
        let row = WorkerRow { id, spec: new, lease_until, started_at: now, renewed_at: Some(now) };
        self.workers.insert(id, Worker { row, retired: None });
        id
    }

    pub(super) fn renew(&mut self, worker: WorkerId, lease_until: Timestamp, now: Timestamp) -> bool {
        match self.workers.get_mut(&worker) {
            Some(Worker { row, retired: None }) => {
                (row.lease_until, row.renewed_at) = (lease_until, Some(now));
                true
            }
            Some(Worker { retired: Some(_), .. }) | None => false,
        }
    }

    pub(super) fn retire(&mut self, worker: WorkerId, how: Retired) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.retired.get_or_insert(how);
        }
    }

    pub(super) fn attend(&mut self, worker: WorkerId, runs: Vec<RunId>) {
        if let Some(Worker { row, retired: None }) = self.workers.get_mut(&worker) {
            row.spec.runs = runs;
        }
    }

    pub(super) fn live_workers(&self) -> Vec<WorkerRow> {
        self.workers
            .values()
            .filter(|worker| worker.retired.is_none())
            .map(|worker| worker.row.clone())
            .collect()
    }

    /// Whether what a worker holds is still its own.
    pub(super) fn holds(&self, worker: WorkerId, now: Timestamp) -> bool {
        self.workers
            .get(&worker)
            .is_some_and(|worker| worker.retired.is_none() && worker.row.lease_until >= now)
    }

    pub(super) fn save_operation(&mut self, mut operation: Operation) -> OperationId {
        if operation.id.0 == 0 {
            self.next_operation += 1;
            operation.id = OperationId(self.next_operation);
        }
        let id = operation.id;
        operation.state = saved_state(self.operations.get(&id).map(|kept| kept.state), operation.state);
        self.operations.insert(id, operation);
        id
    }

    pub(super) fn freeze(&mut self, freeze: Freeze) -> Option<OperationId> {
        let Freeze { operation, items, unless_newer_than } = freeze;
        let newer = |than: OperationId| {
            let mut newer = self.operations.range((Bound::Excluded(than), Bound::Unbounded));
            newer.any(|(_, other)| other.actor == operation.actor)
        };
        if unless_newer_than.is_some_and(newer) {
            return None;
        }
        let id = self.save_operation(operation);
        for ItemRev { seq, rev } in items {
            self.members.insert((id, seq), Member { item: seq, rev, sent: None });
        }
        Some(id)
    }

    /// Forgets the items of operations that ended long ago. One that was frozen and never started cannot be any more.
    pub(super) fn forget_members(&mut self, before: Timestamp) {
        let old =
            |operation: &Operation| operation.state != OperationState::Open && operation.updated_at < before;
        self.members.retain(|(operation, _), _| self.operations.get(operation).is_none_or(|it| !old(it)));
        for operation in self.operations.values_mut().filter(|operation| old(operation)) {
            if operation.state == OperationState::Frozen {
                operation.state = OperationState::Cancelled;
            }
        }
    }

    pub(super) fn save_gates(&mut self, gates: Vec<GateRow>) -> Vec<Applied> {
        gates.into_iter().map(|gate| self.save_gate(gate)).collect()
    }

    /// Writes a gate if its change number still is the one it was read with; a gate that is not there has 0.
    fn save_gate(&mut self, gate: GateRow) -> Applied {
        let rev = self.gates.get(&gate.name).map_or(0, |kept| kept.rev);
        if rev != gate.rev {
            return Applied::Stale;
        }
        self.gates.insert(gate.name.clone(), GateRow { rev: rev + 1, ..gate });
        Applied::Done
    }

    pub(super) fn save_memo(&mut self, memo: Memo) -> Applied {
        let rev = self.memos.get(&memo.name).map_or(0, |kept| kept.rev);
        if rev != memo.rev {
            return Applied::Stale;
        }
        if memo.state.is_empty() {
            self.memos.remove(&memo.name);
        } else {
            self.memos.insert(memo.name.clone(), Memo { rev: rev + 1, ..memo });
        }
        Applied::Done
    }

    pub(super) fn count(&mut self, deltas: &Deltas) {
        for (key, n) in deltas.iter() {
            let counter = self.counters.entry(key).or_default();
            *counter = counter.saturating_add(n);
            if *counter == 0 {
                self.counters.remove(&key);
            }
        }
        for (key, n) in deltas.by_config() {
            *self.config_counters.entry(key).or_default() += n;
        }
    }
}
