//! The trait itself.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::attempt::AttemptRecord;
use redrive_core::event::ChildTally;
use redrive_core::id::{FactId, ItemSeq, OperationId, RunId, StoreId, WorkerId};
use redrive_core::item::Item;
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;

use crate::Result;
use crate::index::Index;
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

/// Where items are kept. Every writing verb is one transaction and durable when it answers `Ok`.
///
/// [`MemoryStore`](crate::MemoryStore) is the specification; the conformance suite holds every other store to it.
#[async_trait]
pub trait Store: Send + Sync {
    /// Creates a run.
    async fn create_run(&self, new: NewRun, now: Timestamp) -> Result<RunRow>;
    /// Finds the newest run of the same pipeline and source that can be gone on with, or creates it. A finished run can be gone on with only where `finished` says so, a cancelled one never.
    ///
    /// Both are one transaction, so that two that begin at the same moment work on one run.
    async fn begin_run(&self, new: NewRun, finished: bool, now: Timestamp) -> Result<BegunRun>;
    /// Changes a run and returns it as it then is. A cancelled run stays cancelled, and a run with unfinished items is
    /// not marked as finished, whatever is asked.
    async fn change_run(&self, run: RunId, change: RunChange) -> Result<RunRow>;
    /// Reads a run.
    async fn run(&self, run: RunId) -> Result<Option<RunRow>>;
    /// Reads runs, newest first, older than `before`.
    async fn runs(&self, filter: RunFilter, before: Option<RunId>, limit: usize) -> Result<Vec<RunRow>>;
    /// Reads runs that go on and have something to do, in the order in which they are served: those of higher priority first,
    /// then by their numbers.
    async fn work_list(&self, query: WorkQuery) -> Result<WorkList>;

    /// Begins a reading of a run's source, from `position` on: its number is one more than the last one's, the source
    /// counts as not read to its end, and the run as not finished.
    ///
    /// `last` is the number that the run's last reading is believed to have. When somebody has begun another one since,
    /// nothing is written: [`Error::Overtaken`](crate::Error).
    async fn begin_reading(&self, run: RunId, last: u32, position: Option<String>) -> Result<u32>;

    /// Registers a worker; everything it will hold is held until `lease_until`.
    async fn register(&self, new: NewWorker, lease_until: Timestamp, now: Timestamp) -> Result<WorkerId>;
    /// Renews a worker's lease; `false` when it has been retired or its lease had already been taken away.
    async fn renew(&self, worker: WorkerId, lease_until: Timestamp, now: Timestamp) -> Result<bool>;
    /// A number that is another one when somebody has written, in this process or elsewhere. It costs next to nothing and is
    /// a hint only: who waits for work looks now and then whatever it says.
    ///
    /// # Errors
    /// [`Error::Gone`](crate::Error) when it is not the store any more that was opened.
    async fn stamp(&self) -> Result<u64>;
    /// Retires a worker.
    async fn retire(&self, worker: WorkerId, how: Retired) -> Result<()>;
    /// Writes down which runs a worker works on now; nothing when it has been retired.
    async fn attend(&self, worker: WorkerId, runs: Vec<RunId>) -> Result<()>;
    /// Reads the workers that have not been retired.
    async fn workers(&self) -> Result<Vec<WorkerRow>>;

    /// Admits items; the same key with the same content is admitted once, and one that was purged is known, not admitted
    /// again. A cancelled run takes none: [`Error::RunCancelled`](crate::Error).
    async fn submit(&self, submit: Submit) -> Result<Vec<Submitted>>;
    /// Leases due items to a worker: each gets its attempt number and a new change number, the fencing token.
    /// Nothing is given to a worker that has been retired or whose lease is over.
    async fn claim(&self, claim: Claim) -> Result<Claimed>;
    /// Writes transitions, each only if the item still has the change number it was decided for.
    async fn commit(&self, commit: Commit) -> Result<Vec<Applied>>;
    /// Does what a worker does at one go, in one transaction: commits, writes gates and claims, in this order. Each part
    /// is answered as its own verb would answer it, and one that is refused takes nothing of the others back.
    ///
    /// # Errors
    /// When the transaction as a whole failed. What the error says of a write then holds for all parts: after
    /// [`Error::Unavailable`](crate::Error) it is not known of any whether it happened.
    async fn turn(&self, turn: Turn) -> Result<Turned>;

    /// Reads running items of a run whose worker was retired, or whose worker's lease is over at `now`.
    async fn orphans(&self, run: RunId, now: Timestamp, limit: usize) -> Result<Vec<Item>>;
    /// Reads the items a worker holds.
    async fn held(&self, worker: WorkerId, after: Option<ItemSeq>, limit: usize) -> Result<Vec<Item>>;
    /// Reads waiting items of a run that are due later than `than` and were last changed later than that, too: a clock that
    /// was ahead of that moment wrote them.
    async fn ahead(&self, run: RunId, than: Timestamp, limit: usize) -> Result<Vec<Item>>;
    /// Reads joining items of a run none of whose children is live.
    async fn settled(&self, run: RunId, limit: usize) -> Result<Vec<Settled>>;

    /// Reads items.
    async fn items(&self, query: ItemQuery) -> Result<Vec<Item>>;
    /// Reads items by when they changed last.
    async fn items_by_change(&self, query: ChangeQuery) -> Result<Vec<Item>>;
    /// Reads one item.
    async fn item(&self, seq: ItemSeq) -> Result<Option<Item>>;
    /// Reads an item's content; `None` when there is no such item.
    async fn payload(&self, seq: ItemSeq) -> Result<Option<Content>>;
    /// Reads items with their contents, in the order asked for, each pair as it is at one moment. What is not there is left
    /// out. At least one is read, and no more after `most` bytes: ask for the rest again.
    async fn contents(&self, items: Vec<ItemSeq>, most: usize) -> Result<Vec<ItemContent>>;
    /// Reads these items, in the order asked for. What is not there is left out.
    async fn items_of(&self, items: Vec<ItemSeq>) -> Result<Vec<Item>>;
    /// Reads an item's whole history.
    async fn history(&self, seq: ItemSeq) -> Result<History>;
    /// Reads the histories of many items at one moment, in the order asked for, of each so many of the newest attempts and marks;
    /// that of an item that is not there is empty.
    async fn histories(&self, items: Vec<ItemSeq>, newest: usize) -> Result<Vec<History>>;
    /// Reads an item's attempts that ended, newest first, before one of them.
    async fn attempts(
        &self,
        item: ItemSeq,
        before: Option<AttemptPlace>,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>>;
    /// Counts an item's children by how they stand.
    async fn children(&self, parent: ItemSeq) -> Result<ChildTally>;
    /// Reads the maintained counters of a run that are not zero, by stage and metric.
    async fn counters(&self, run: RunId) -> Result<Vec<Counter>>;
    /// Reads the counters of many runs in one go, by run; a run without any is left out.
    async fn counters_of_all(&self, runs: RunSet) -> Result<Vec<RunCounters>>;
    /// Reads the maintained counters of a run's attempts, by stage and mark of its configuration.
    async fn config_counters(&self, run: RunId) -> Result<Vec<ConfigCounter>>;
    /// Reads what monitoring asks for beside the counters of runs. It costs next to nothing, however many items there are.
    async fn vitals(&self, query: VitalsQuery) -> Result<Vitals>;
    /// Reads when the next waiting item of a run is due.
    async fn next_due(&self, run: RunId) -> Result<NextDue>;
    /// Reads when the next and the last waiting item of each stage of a run are due, by stage; one where none waits is left out.
    async fn due_by_stage(&self, run: RunId) -> Result<Vec<StageDue>>;
    /// Reads the largest groups of dead items.
    async fn groups(&self, filter: ItemFilter, limit: usize) -> Result<Vec<Group>>;
    /// Looks up kept outputs. One that is damaged is not there: it can be made again.
    async fn outputs(&self, keys: Vec<OutputKey>) -> Result<Vec<Option<KeptOutput>>>;

    /// Removes finished items that still have that change number, with all their descendants and the outputs they
    /// wrote last, leaving tombstones, and saves the operation's progress in the same transaction. Returns how many items went in all.
    async fn purge(&self, items: Vec<ItemRev>, operation: Operation, now: Timestamp) -> Result<u64>;
    /// Reads what is left of purged items.
    async fn tombstones(&self, query: TombstoneQuery) -> Result<Vec<Tombstone>>;
    /// Saves an operation; a new one (number 0) gets its number. One that was stopped or is done stays so.
    async fn save_operation(&self, operation: Operation) -> Result<OperationId>;
    /// Saves a new operation together with its items, and returns its number; `None` when somebody else was faster
    /// ([`Freeze::unless_newer_than`]).
    async fn freeze(&self, freeze: Freeze) -> Result<Option<OperationId>>;
    /// Reads the items of an operation, by their numbers: those that were frozen with it, and those that a commit with its
    /// progress has sent back, told to go or had done again.
    async fn members(
        &self,
        operation: OperationId,
        after: Option<ItemSeq>,
        limit: usize,
    ) -> Result<Vec<Member>>;
    /// Reads operations, newest first, older than `before`.
    async fn operations(&self, before: Option<OperationId>, limit: usize) -> Result<Vec<Operation>>;
    /// Reads one operation.
    async fn operation(&self, operation: OperationId) -> Result<Option<Operation>>;
    /// Reads operations that have pages left, oldest first, newer than `after`.
    async fn open_operations(&self, after: Option<OperationId>, limit: usize) -> Result<Vec<Operation>>;

    /// Reads what was written about groups of dead items, by group.
    async fn group_notes(&self) -> Result<Vec<GroupNote>>;
    /// Writes what is known about a group, over what was written before. One that says nothing is forgotten.
    async fn save_group_note(&self, note: GroupNote) -> Result<()>;

    /// Reads what is paused.
    async fn pauses(&self) -> Result<Pauses>;
    /// Pauses a pipeline or a stage, or lets it go on, and keeps the record of it; `false` when it was so already, and nothing
    /// was written.
    async fn change_pause(&self, change: PauseChange) -> Result<bool>;

    /// Reads every gate, by name.
    async fn gates(&self) -> Result<Vec<GateRow>>;
    /// Writes gates, each only if it still has the change number it was read with (0: there is none yet); that number
    /// then grows by one.
    async fn save_gates(&self, gates: Vec<GateRow>) -> Result<Vec<Applied>>;

    /// Reads the memos whose names begin so, by name.
    async fn memos(&self, beginning: String) -> Result<Vec<Memo>>;
    /// Writes a memo if it still has the change number it was read with (0: there is none yet); that number then grows by
    /// one. One that says nothing is forgotten.
    async fn save_memo(&self, memo: Memo) -> Result<Applied>;

    /// Has facts kept from now on, whoever writes, each in the transaction of what it tells of. Returns the store's name: the
    /// proposed one, unless it has one.
    async fn keep_facts(&self, proposed: StoreId) -> Result<StoreId>;
    /// Has no more facts kept, as it is at first. Those that are kept stay until they are passed on.
    async fn drop_facts(&self) -> Result<()>;
    /// Reads facts that have not been passed on, by number. Where several write at once, a fact can turn up after one with a
    /// larger number was read.
    async fn facts(&self, limit: usize) -> Result<Vec<KeptFact>>;
    /// Says whether facts are kept, and what waits; no more than so many are counted.
    async fn outbox(&self, most: usize) -> Result<OutboxView>;
    /// Forgets these facts, and no others: they have been passed on. One that is not there is forgotten already.
    async fn facts_passed_on(&self, facts: Vec<FactId>) -> Result<()>;
    /// Sees to it that what was removed is in no file of the store any more, or that room is given back. Nothing that can be
    /// read changes; a store without files has nothing to do.
    async fn scrub(&self, how: Scrub) -> Result<Scrubbed>;
    /// Writes all that the store holds, as it is at one moment, into this file, which has to be there and empty. Others may
    /// write meanwhile. The copy is a store of its own, is looked through once and is on the disk when it answers `Ok`;
    /// otherwise the file is worth nothing. Returns its bytes.
    async fn copy_into(&self, file: PathBuf, heard: CopyHeard) -> Result<u64>;
    /// Forgets old finished runs, some items a call; of their counters those that only grow are kept on, by pipeline
    /// ([`PrunedCounters`](crate::PrunedCounters)). The operation that a call is a page of is saved with it, and the items that
    /// went are added to what it has changed.
    async fn prune(&self, prune: Prune, by: Option<Operation>) -> Result<Pruned>;

    /// Takes a snapshot: all that is read from it is as it is now, whatever is written meanwhile.
    async fn snapshot(&self) -> Result<Snapshot>;
    /// Reads everything that is kept through and names what is not as it was written, at most so many.
    async fn damage(&self, limit: usize) -> Result<Vec<Damage>>;
}

/// A store and its index as they were at one moment. Verbs that write are refused: [`Error::ReadOnly`](crate::Error).
pub struct Snapshot {
    /// The items.
    pub store: Arc<dyn Store>,
    /// The index.
    pub index: Arc<dyn Index>,
}

/// The trait stays usable as `dyn Store`.
const _: Option<&dyn Store> = None;
