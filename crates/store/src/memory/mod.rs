//! The store that specifies all others: plain maps behind one lock, written to be read.

mod index;
mod outbox;
mod read;
mod state;
mod vitals;
mod write;

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use redrive_core::attempt::AttemptRecord;
use redrive_core::event::ChildTally;
use redrive_core::id::{FactId, ItemSeq, OperationId, RunId, StoreId, WorkerId};
use redrive_core::item::Item;
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;

use crate::pause::{PauseChange, Pauses};
use crate::query::{
    AttemptPlace, ChangeQuery, ConfigCounter, Content, Damage, Group, History, ItemContent, ItemFilter,
    ItemQuery, NextDue, RunCounters, RunSet, Settled, StageDue, Tombstone, TombstoneQuery,
};
use crate::request::{
    Applied, Claim, Claimed, Commit, CopyHeard, Freeze, ItemRev, KeptFact, KeptOutput, OutputKey, Prune,
    Pruned, Scrub, Scrubbed, Submit, Submitted, Turn, Turned,
};
use crate::run::{
    BegunRun, GateRow, GroupNote, Member, Memo, NewRun, NewWorker, Operation, Retired, RunChange, RunFilter,
    RunRow, WorkerRow,
};
use crate::vitals::{OutboxView, Vitals, VitalsQuery};
use crate::work::{WorkList, WorkQuery};
use crate::{Error, Result, Snapshot, Store};
use state::State;

/// A store in memory. Nothing in it survives the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    frozen: bool,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No verb leaves the maps half changed by a panic, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The maps, for a verb that writes.
    fn change(&self) -> Result<MutexGuard<'_, State>> {
        if self.frozen {
            return Err(Error::ReadOnly("it is a snapshot".to_owned()));
        }
        let mut state = self.lock();
        state.writes += 1;
        Ok(state)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create_run(&self, new: NewRun, now: Timestamp) -> Result<RunRow> {
        Ok(self.change()?.create_run(new, now))
    }

    async fn begin_run(&self, new: NewRun, finished: bool, now: Timestamp) -> Result<BegunRun> {
        let mut state = self.change()?;
        Ok(match state.list_runs(&RunFilter::going_on(&new, finished), None, 1).pop() {
            Some(row) => BegunRun { row, created: false },
            None => BegunRun { row: state.create_run(new, now), created: true },
        })
    }

    async fn change_run(&self, run: RunId, change: RunChange) -> Result<RunRow> {
        self.change()?.change_run(run, change)
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>> {
        Ok(self.lock().runs.get(&run).cloned())
    }

    async fn runs(&self, filter: RunFilter, before: Option<RunId>, limit: usize) -> Result<Vec<RunRow>> {
        Ok(self.lock().list_runs(&filter, before, limit))
    }

    async fn work_list(&self, query: WorkQuery) -> Result<WorkList> {
        Ok(self.lock().work_list(&query))
    }

    async fn begin_reading(&self, run: RunId, last: u32, position: Option<String>) -> Result<u32> {
        self.change()?.begin_reading(run, last, position)
    }

    async fn register(&self, new: NewWorker, lease_until: Timestamp, now: Timestamp) -> Result<WorkerId> {
        Ok(self.change()?.register(new, lease_until, now))
    }

    async fn renew(&self, worker: WorkerId, lease_until: Timestamp, now: Timestamp) -> Result<bool> {
        Ok(self.change()?.renew(worker, lease_until, now))
    }

    async fn retire(&self, worker: WorkerId, how: Retired) -> Result<()> {
        self.change()?.retire(worker, how);
        Ok(())
    }

    async fn stamp(&self) -> Result<u64> {
        Ok(self.lock().writes)
    }

    async fn attend(&self, worker: WorkerId, runs: Vec<RunId>) -> Result<()> {
        self.change()?.attend(worker, runs);
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>> {
        Ok(self.lock().live_workers())
    }

    async fn submit(&self, submit: Submit) -> Result<Vec<Submitted>> {
        self.change()?.submit(submit)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed> {
        Ok(self.change()?.claim(&claim))
    }

    async fn commit(&self, commit: Commit) -> Result<Vec<Applied>> {
        self.change()?.commit(commit)
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        Ok(self.change()?.turn(turn))
    }

    async fn orphans(&self, run: RunId, now: Timestamp, limit: usize) -> Result<Vec<Item>> {
        Ok(self.lock().orphans(run, now, limit))
    }

    async fn held(&self, worker: WorkerId, after: Option<ItemSeq>, limit: usize) -> Result<Vec<Item>> {
        Ok(self.lock().held(worker, after, limit))
    }

    async fn settled(&self, run: RunId, limit: usize) -> Result<Vec<Settled>> {
        Ok(self.lock().settled(run, limit))
    }

    async fn items(&self, query: ItemQuery) -> Result<Vec<Item>> {
        Ok(self.lock().list(&query))
    }

    async fn items_by_change(&self, query: ChangeQuery) -> Result<Vec<Item>> {
        Ok(self.lock().list_by_change(&query))
    }

    async fn item(&self, seq: ItemSeq) -> Result<Option<Item>> {
        Ok(self.lock().items.get(&seq).map(|kept| kept.item.clone()))
    }

    async fn payload(&self, seq: ItemSeq) -> Result<Option<Content>> {
        Ok(self.lock().items.get(&seq).map(|kept| Content::Whole(kept.payload.clone())))
    }

    async fn contents(&self, items: Vec<ItemSeq>, most: usize) -> Result<Vec<ItemContent>> {
        let (state, mut found, mut bytes) = (self.lock(), Vec::new(), 0);
        for kept in items.iter().filter_map(|seq| state.items.get(seq)) {
            let content = Content::Whole(kept.payload.clone());
            found.push(ItemContent { item: kept.item.clone(), content });
            bytes += kept.payload.len();
            if bytes >= most {
                break;
            }
        }
        Ok(found)
    }

    async fn items_of(&self, items: Vec<ItemSeq>) -> Result<Vec<Item>> {
        let state = self.lock();
        Ok(items.iter().filter_map(|seq| state.items.get(seq)).map(|kept| kept.item.clone()).collect())
    }

    async fn history(&self, seq: ItemSeq) -> Result<History> {
        Ok(self.lock().history(seq))
    }

    async fn histories(&self, items: Vec<ItemSeq>, newest: usize) -> Result<Vec<History>> {
        let state = self.lock();
        Ok(items.into_iter().map(|seq| state.newest(seq, newest)).collect())
    }

    async fn attempts(
        &self,
        item: ItemSeq,
        before: Option<AttemptPlace>,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>> {
        Ok(self.lock().attempts(item, before, limit))
    }

    async fn children(&self, parent: ItemSeq) -> Result<ChildTally> {
        Ok(self.lock().children(parent))
    }

    async fn counters(&self, run: RunId) -> Result<Vec<Counter>> {
        Ok(self.lock().counters_of(run))
    }

    async fn counters_of_all(&self, runs: RunSet) -> Result<Vec<RunCounters>> {
        Ok(self.lock().counters_of_all(&runs))
    }

    async fn config_counters(&self, run: RunId) -> Result<Vec<ConfigCounter>> {
        Ok(self.lock().config_counters_of(run))
    }

    async fn ahead(&self, run: RunId, than: Timestamp, limit: usize) -> Result<Vec<Item>> {
        Ok(self.lock().ahead(run, than, limit))
    }

    async fn vitals(&self, query: VitalsQuery) -> Result<Vitals> {
        Ok(self.lock().vitals(&query))
    }

    async fn next_due(&self, run: RunId) -> Result<NextDue> {
        Ok(self.lock().next_due(run))
    }

    async fn due_by_stage(&self, run: RunId) -> Result<Vec<StageDue>> {
        Ok(self.lock().due_by_stage(run))
    }

    async fn groups(&self, filter: ItemFilter, limit: usize) -> Result<Vec<Group>> {
        Ok(self.lock().groups(&filter, limit))
    }

    async fn outputs(&self, keys: Vec<OutputKey>) -> Result<Vec<Option<KeptOutput>>> {
        let state = self.lock();
        Ok(keys.iter().map(|key| state.outputs.get(key).map(|(_, _, output)| output.clone())).collect())
    }

    async fn purge(&self, items: Vec<ItemRev>, operation: Operation, now: Timestamp) -> Result<u64> {
        Ok(self.change()?.purge(&items, operation, now))
    }

    async fn tombstones(&self, query: TombstoneQuery) -> Result<Vec<Tombstone>> {
        Ok(self.lock().tombstones(&query))
    }

    async fn save_operation(&self, operation: Operation) -> Result<OperationId> {
        Ok(self.change()?.save_operation(operation))
    }

    async fn freeze(&self, freeze: Freeze) -> Result<Option<OperationId>> {
        Ok(self.change()?.freeze(freeze))
    }

    async fn members(
        &self,
        operation: OperationId,
        after: Option<ItemSeq>,
        limit: usize,
    ) -> Result<Vec<Member>> {
        let state = self.lock();
        let of = state.members.range((operation, ItemSeq(i64::MIN))..=(operation, ItemSeq(i64::MAX)));
        let later =
            of.map(|(_, member)| *member).filter(|member| after.is_none_or(|after| member.item > after));
        Ok(later.take(limit).collect())
    }

    async fn operations(&self, before: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
        let state = self.lock();
        let older = before.map_or(Bound::Unbounded, Bound::Excluded);
        let older = state.operations.range((Bound::Unbounded, older)).rev();
        Ok(older.take(limit).map(|(_, operation)| operation.clone()).collect())
    }

    async fn operation(&self, operation: OperationId) -> Result<Option<Operation>> {
        Ok(self.lock().operations.get(&operation).cloned())
    }

    async fn open_operations(&self, after: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
        Ok(self.lock().open_operations(after, limit))
    }

    async fn group_notes(&self) -> Result<Vec<GroupNote>> {
        Ok(self.lock().group_notes.values().cloned().collect())
    }

    async fn save_group_note(&self, note: GroupNote) -> Result<()> {
        let mut state = self.change()?;
        if note.is_empty() {
            state.group_notes.remove(&note.group);
        } else {
            state.group_notes.insert(note.group.clone(), note);
        }
        Ok(())
    }

    async fn pauses(&self) -> Result<Pauses> {
        Ok(self.lock().pauses.clone())
    }

    async fn change_pause(&self, change: PauseChange) -> Result<bool> {
        Ok(self.change()?.change_pause(change))
    }

    async fn gates(&self) -> Result<Vec<GateRow>> {
        Ok(self.lock().gates.values().cloned().collect())
    }

    async fn save_gates(&self, gates: Vec<GateRow>) -> Result<Vec<Applied>> {
        Ok(self.change()?.save_gates(gates))
    }

    async fn memos(&self, beginning: String) -> Result<Vec<Memo>> {
        let state = self.lock();
        let named = state.memos.values().filter(|memo| memo.name.starts_with(&beginning));
        Ok(named.cloned().collect())
    }

    async fn save_memo(&self, memo: Memo) -> Result<Applied> {
        Ok(self.change()?.save_memo(memo))
    }

    async fn keep_facts(&self, proposed: StoreId) -> Result<StoreId> {
        Ok(self.change()?.outbox.open(proposed))
    }

    async fn drop_facts(&self) -> Result<()> {
        self.change()?.outbox.close();
        Ok(())
    }

    async fn facts(&self, limit: usize) -> Result<Vec<KeptFact>> {
        Ok(self.lock().outbox.oldest(limit))
    }

    async fn outbox(&self, most: usize) -> Result<OutboxView> {
        Ok(self.lock().outbox.view(most))
    }

    async fn facts_passed_on(&self, facts: Vec<FactId>) -> Result<()> {
        self.change()?.outbox.passed_on(&facts);
        Ok(())
    }

    /// What is removed from memory is gone.
    async fn scrub(&self, _how: Scrub) -> Result<Scrubbed> {
        self.change().map(|_| Scrubbed::default())
    }

    /// There is no file of it that could be copied.
    async fn copy_into(&self, file: PathBuf, _heard: CopyHeard) -> Result<u64> {
        Err(Error::Open(format!("a store in memory cannot be copied into {}", file.display())))
    }

    async fn prune(&self, prune: Prune, by: Option<Operation>) -> Result<Pruned> {
        let mut state = self.change()?;
        let everything = prune.only.is_none().then_some(prune.finished_before);
        let pruned = state.prune(prune);
        everything.into_iter().for_each(|before| state.forget_members(before));
        if let Some(by) = by {
            state.save_operation(Operation { changed: by.changed + pruned.items, ..by });
        }
        Ok(pruned)
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        let frozen = Arc::new(Self { state: Mutex::new(self.lock().clone()), frozen: true });
        Ok(Snapshot { store: frozen.clone(), index: frozen })
    }

    /// What is in memory is as it was written.
    async fn damage(&self, _limit: usize) -> Result<Vec<Damage>> {
        Ok(Vec::new())
    }
}
