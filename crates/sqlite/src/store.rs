//! The store itself: each verb is handed to the thread that does it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use redrive_core::attempt::AttemptRecord;
use redrive_core::event::ChildTally;
use redrive_core::id::{FactId, ItemSeq, OperationId, RunId, StoreId, WorkerId};
use redrive_core::item::Item;
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;
use redrive_store::{
    Applied, AttemptPlace, BegunRun, ChangeQuery, Claim, Claimed, Commit, ConfigCounter, Content, CopyHeard,
    Damage, Error, Freeze, GateRow, Group, GroupNote, History, ItemContent, ItemFilter, ItemQuery, ItemRev,
    KeptFact, KeptOutput, Member, Memo, NewRun, NewWorker, NextDue, Operation, OutboxView, OutputKey,
    PauseChange, Pauses, Prune, Pruned, Result, Retired, RunChange, RunCounters, RunFilter, RunRow, RunSet,
    Scrub, Scrubbed, Settled, Snapshot, StageDue, Store, Submit, Submitted, Tombstone, TombstoneQuery, Turn,
    Turned, Vitals, VitalsQuery, WorkList, WorkQuery, WorkerRow,
};
use rusqlite::Connection;

use crate::error::Result as Made;
use crate::migrate::MIGRATIONS;
use crate::open::{self, Missing};
use crate::options::{FaultHook, Options};
use crate::reader::{Readers, snapshot};
use crate::verb::{
    claim, copy, counter, damage, gate, history, item, memo, note, operation, outbox, output, pause, prune,
    purge, query, run, scrub, submit, tombstone, turn, vitals, work, worker,
};
use crate::way::{Way, file_number, file_stamp};
use crate::writer::{Refused, Writer, transact};

/// Contents that are looked at in one transaction of scrubbing.
const SWEPT: usize = 2_000;

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    side: Side,
    fault_hook: FaultHook,
    /// How often something was written here, whether or not that changed anything.
    writes: AtomicU64,
}

/// Where verbs run.
#[derive(Debug)]
enum Side {
    Threads(Threads),
    Inline(Mutex<Connection>),
}

/// The threads of a file. The readers come first: fields are dropped in order, and the last connection to go has to be the
/// writer's, which moves the log into the file.
#[derive(Debug)]
struct Threads {
    readers: Readers,
    writer: Option<Writer>,
    path: PathBuf,
    options: Options,
    way: Way,
    /// The file, whatever is found by its name later.
    number: Option<u64>,
}

impl SqliteStore {
    /// Opens the store in this file, or creates it.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Corrupt`] and [`Error::Newer`] for a file that cannot be used, which is then left
    /// as it was; [`Error::Open`] when it cannot be opened or created there, [`Error::ReadOnly`] when it may not be written.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        Self::to_write(path, options, Missing::Create)
    }

    /// Opens the store in this file, which has to be there.
    ///
    /// # Errors
    /// As [`SqliteStore::open`], and [`Error::Open`] where there is no store: no file, or one with nothing in it.
    pub fn open_existing(path: &Path, options: Options) -> Result<Self> {
        Self::to_write(path, options, Missing::Refuse)
    }

    /// Opens the store in this file, which has to be there, to be read. Where neither the file nor its folder may be
    /// written it is read as it is, and verbs that write are refused.
    ///
    /// # Errors
    /// As [`SqliteStore::open_existing`], save [`Error::ReadOnly`]: that only where the file would have to be brought forward.
    pub fn open_to_read(path: &Path, options: Options) -> Result<Self> {
        match Self::open_existing(path, options) {
            // SQLite says that it cannot open a file when it is the log beside it that it cannot make.
            Err(Error::ReadOnly(_) | Error::Open(_)) => {}
            opened => return opened,
        }
        Self::open_without_writing(path, options)
    }

    /// Opens the store in this file as it is, without making, changing or leaving anything there. Verbs that write are refused.
    ///
    /// # Errors
    /// As [`SqliteStore::open_to_read`].
    pub fn open_without_writing(path: &Path, options: Options) -> Result<Self> {
        let way = open::way_to_read(path, &options, MIGRATIONS)?;
        Self::threads(path, options, None, way)
    }

    fn to_write(path: &Path, options: Options, missing: Missing) -> Result<Self> {
        let conn = open::writer(path, &options, MIGRATIONS, missing)?;
        let writer = Writer::start(conn, path.to_path_buf(), options.crash_hook)?;
        Self::threads(path, options, Some(writer), Way::Shared)
    }

    fn threads(path: &Path, options: Options, writer: Option<Writer>, way: Way) -> Result<Self> {
        let readers = Readers::start(path, &options, way)?;
        let (path, number) = (path.to_path_buf(), file_number(path));
        let threads = Threads { readers, writer, path, options, way, number };
        Ok(Self { side: Side::Threads(threads), fault_hook: options.fault_hook, writes: AtomicU64::new(0) })
    }

    /// Makes an empty store that lives in memory and runs every verb at once, on the calling thread.
    ///
    /// # Errors
    /// [`Error::Open`] when the SQLite library is too old.
    pub fn in_memory() -> Result<Self> {
        Ok(Self {
            side: Side::Inline(Mutex::new(open::in_memory(MIGRATIONS)?)),
            fault_hook: |_| false,
            writes: AtomicU64::new(0),
        })
    }

    /// Whether the store can only be read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(&self.side, Side::Threads(Threads { writer: None, .. }))
    }

    /// The same store as it is now.
    fn frozen(&self) -> Result<Self> {
        let side = match &self.side {
            Side::Threads(Threads { path, options, way, number, .. }) => {
                let readers = Readers::frozen(path, options, *way)?;
                let (path, options, way, number) = (path.clone(), *options, *way, *number);
                Side::Threads(Threads { readers, writer: None, path, options, way, number })
            }
            Side::Inline(conn) => {
                let conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
                Side::Inline(Mutex::new(copied(&conn).map_err(|error| in_memory_error(error.into()))?))
            }
        };
        Ok(Self { side, fault_hook: self.fault_hook, writes: AtomicU64::new(0) })
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        rows: usize,
        work: impl Fn(&Connection) -> Made<T> + Send + 'static,
    ) -> Result<T> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        match &self.side {
            Side::Threads(Threads { writer: Some(writer), .. }) => writer.write(rows, work).await,
            Side::Threads(Threads { path, .. }) => Err(Error::ReadOnly(path.display().to_string())),
            Side::Inline(conn) => {
                let conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
                transact(&conn, |_| {}, work).map_err(Refused::fault).map_err(in_memory_error)
            }
        }
    }

    /// Writes something that goes otherwise when it is run a second time, because a part of it failed.
    async fn write_in_parts<T: Send + 'static>(
        &self,
        rows: usize,
        work: impl Fn(&Connection) -> Made<T> + Send + 'static,
    ) -> Result<T> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        match &self.side {
            Side::Threads(Threads { writer: Some(writer), .. }) => writer.write_in_parts(rows, work).await,
            Side::Threads(Threads { path, .. }) => Err(Error::ReadOnly(path.display().to_string())),
            Side::Inline(conn) => {
                let conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
                let made = match transact(&conn, |_| {}, &work) {
                    Err(Refused::Work(_)) => transact(&conn, |_| {}, &work),
                    made => made,
                };
                made.map_err(Refused::fault).map_err(in_memory_error)
            }
        }
    }

    /// Does something that no transaction can hold, while nobody else here writes.
    async fn alone<T: Send + 'static>(
        &self,
        work: impl Fn(&Connection) -> Made<T> + Send + 'static,
    ) -> Result<T> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        match &self.side {
            Side::Threads(Threads { writer: Some(writer), .. }) => writer.alone(work).await,
            Side::Threads(Threads { path, .. }) => Err(Error::ReadOnly(path.display().to_string())),
            Side::Inline(conn) => {
                let conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
                work(&conn).map_err(in_memory_error)
            }
        }
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Made<T> + Send + 'static,
    ) -> Result<T> {
        match &self.side {
            Side::Threads(Threads { readers, .. }) => readers.read(work).await,
            Side::Inline(conn) => {
                let conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
                snapshot(&conn, work).map_err(in_memory_error)
            }
        }
    }
}

/// Copies a store that lives in memory; the copy is not to be written.
fn copied(conn: &Connection) -> rusqlite::Result<Connection> {
    let mut copied = Connection::open_in_memory()?;
    rusqlite::backup::Backup::new(conn, &mut copied)?.step(-1)?;
    copied.pragma_update(None, "query_only", true)?;
    Ok(copied)
}

fn in_memory_error(fault: crate::error::Fault) -> Error {
    fault.at(Path::new(":memory:"))
}

#[async_trait]
impl Store for SqliteStore {
    async fn create_run(&self, new: NewRun, now: Timestamp) -> Result<RunRow> {
        self.write(1, move |tx| run::create(tx, &new, now)).await
    }

    async fn begin_run(&self, new: NewRun, finished: bool, now: Timestamp) -> Result<BegunRun> {
        self.write(1, move |tx| run::begin(tx, &new, finished, now)).await
    }

    async fn change_run(&self, run: RunId, change: RunChange) -> Result<RunRow> {
        self.write(1, move |tx| run::change(tx, run, &change)).await
    }

    async fn vitals(&self, query: VitalsQuery) -> Result<Vitals> {
        self.read(move |conn| vitals::read(conn, &query)).await
    }

    async fn work_list(&self, query: WorkQuery) -> Result<WorkList> {
        self.read(move |conn| work::list(conn, &query)).await
    }

    async fn begin_reading(&self, run: RunId, last: u32, position: Option<String>) -> Result<u32> {
        self.write(1, move |tx| run::begin_reading(tx, run, last, position.as_deref())).await
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>> {
        self.read(move |conn| run::one(conn, run)).await
    }

    async fn runs(&self, filter: RunFilter, before: Option<RunId>, limit: usize) -> Result<Vec<RunRow>> {
        self.read(move |conn| run::list(conn, &filter, before, limit)).await
    }

    async fn register(&self, new: NewWorker, lease_until: Timestamp, now: Timestamp) -> Result<WorkerId> {
        self.write(1, move |tx| worker::register(tx, &new, lease_until, now)).await
    }

    async fn renew(&self, worker: WorkerId, lease_until: Timestamp, now: Timestamp) -> Result<bool> {
        self.write(1, move |tx| worker::renew(tx, worker, lease_until, now)).await
    }

    async fn stamp(&self) -> Result<u64> {
        match &self.side {
            Side::Threads(Threads { path, number, .. }) => file_stamp(path, *number),
            Side::Inline(_) => Ok(self.writes.load(Ordering::Relaxed)),
        }
    }

    async fn attend(&self, worker: WorkerId, runs: Vec<RunId>) -> Result<()> {
        self.write(1, move |tx| worker::attend(tx, worker, &runs)).await
    }

    async fn retire(&self, worker: WorkerId, how: Retired) -> Result<()> {
        self.write(1, move |tx| worker::retire(tx, worker, how)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>> {
        self.read(worker::live).await
    }

    async fn submit(&self, submit: Submit) -> Result<Vec<Submitted>> {
        self.write(submit.items.len(), move |tx| submit::submit(tx, &submit)).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed> {
        self.write(turn::rows_of_claim(&claim), move |tx| claim::claim(tx, &claim)).await
    }

    async fn commit(&self, commit: Commit) -> Result<Vec<Applied>> {
        let fails = self.fault_hook;
        let rows = turn::rows_of_commit(&commit);
        self.write(rows, move |tx| turn::commit_or_fail(tx, &commit, fails)).await
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        let turning = turn::Turning::new(turn, self.fault_hook);
        self.write_in_parts(turning.rows(), move |tx| turning.run(tx)).await
    }

    async fn orphans(&self, run: RunId, now: Timestamp, limit: usize) -> Result<Vec<Item>> {
        self.read(move |conn| worker::orphans(conn, run, now, limit)).await
    }

    async fn held(&self, worker: WorkerId, after: Option<ItemSeq>, limit: usize) -> Result<Vec<Item>> {
        self.read(move |conn| worker::held(conn, worker, after, limit)).await
    }

    async fn settled(&self, run: RunId, limit: usize) -> Result<Vec<Settled>> {
        self.read(move |conn| item::settled(conn, run, limit)).await
    }

    async fn items(&self, query: ItemQuery) -> Result<Vec<Item>> {
        self.read(move |conn| query::items(conn, &query)).await
    }

    async fn items_by_change(&self, query: ChangeQuery) -> Result<Vec<Item>> {
        self.read(move |conn| query::items_by_change(conn, &query)).await
    }

    async fn item(&self, seq: ItemSeq) -> Result<Option<Item>> {
        self.read(move |conn| item::one(conn, seq)).await
    }

    async fn payload(&self, seq: ItemSeq) -> Result<Option<Content>> {
        self.read(move |conn| item::payload(conn, seq)).await
    }

    async fn contents(&self, items: Vec<ItemSeq>, most: usize) -> Result<Vec<ItemContent>> {
        self.read(move |conn| item::contents(conn, &items, most)).await
    }

    async fn history(&self, seq: ItemSeq) -> Result<History> {
        self.read(move |conn| history::of(conn, seq, usize::MAX)).await
    }

    async fn items_of(&self, items: Vec<ItemSeq>) -> Result<Vec<Item>> {
        self.read(move |conn| item::some(conn, &items)).await
    }

    async fn histories(&self, items: Vec<ItemSeq>, newest: usize) -> Result<Vec<History>> {
        self.read(move |conn| items.iter().map(|seq| history::of(conn, *seq, newest)).collect()).await
    }

    async fn attempts(
        &self,
        item: ItemSeq,
        before: Option<AttemptPlace>,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>> {
        self.read(move |conn| history::attempts(conn, item, before, limit)).await
    }

    async fn children(&self, parent: ItemSeq) -> Result<ChildTally> {
        self.read(move |conn| item::children(conn, parent)).await
    }

    async fn counters(&self, run: RunId) -> Result<Vec<Counter>> {
        self.read(move |conn| counter::of_run(conn, run)).await
    }

    async fn counters_of_all(&self, runs: RunSet) -> Result<Vec<RunCounters>> {
        self.read(move |conn| counter::of_all(conn, &runs)).await
    }

    async fn config_counters(&self, run: RunId) -> Result<Vec<ConfigCounter>> {
        self.read(move |conn| counter::by_config(conn, run)).await
    }

    async fn ahead(&self, run: RunId, than: Timestamp, limit: usize) -> Result<Vec<Item>> {
        self.read(move |conn| item::ahead(conn, run, than, limit)).await
    }

    async fn next_due(&self, run: RunId) -> Result<NextDue> {
        self.read(move |conn| item::next_due(conn, run)).await
    }

    async fn due_by_stage(&self, run: RunId) -> Result<Vec<StageDue>> {
        self.read(move |conn| item::due_by_stage(conn, run)).await
    }

    async fn groups(&self, filter: ItemFilter, limit: usize) -> Result<Vec<Group>> {
        self.read(move |conn| query::groups(conn, &filter, limit)).await
    }

    async fn outputs(&self, keys: Vec<OutputKey>) -> Result<Vec<Option<KeptOutput>>> {
        self.read(move |conn| output::find(conn, &keys)).await
    }

    async fn purge(&self, items: Vec<ItemRev>, operation: Operation, now: Timestamp) -> Result<u64> {
        self.write(items.len(), move |tx| purge::purge(tx, &items, &operation, now)).await
    }

    async fn tombstones(&self, query: TombstoneQuery) -> Result<Vec<Tombstone>> {
        self.read(move |conn| tombstone::page(conn, &query)).await
    }

    async fn save_operation(&self, operation: Operation) -> Result<OperationId> {
        self.write(1, move |tx| operation::save(tx, &operation)).await
    }

    async fn freeze(&self, freeze: Freeze) -> Result<Option<OperationId>> {
        self.write(freeze.items.len().max(1), move |tx| operation::freeze(tx, &freeze)).await
    }

    async fn members(
        &self,
        operation: OperationId,
        after: Option<ItemSeq>,
        limit: usize,
    ) -> Result<Vec<Member>> {
        self.read(move |conn| operation::members(conn, operation, after, limit)).await
    }

    async fn operations(&self, before: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
        self.read(move |conn| operation::newest(conn, before, limit)).await
    }

    async fn operation(&self, operation: OperationId) -> Result<Option<Operation>> {
        self.read(move |conn| operation::one(conn, operation)).await
    }

    async fn open_operations(&self, after: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
        self.read(move |conn| operation::open(conn, after, limit)).await
    }

    async fn group_notes(&self) -> Result<Vec<GroupNote>> {
        self.read(note::all).await
    }

    async fn save_group_note(&self, group_note: GroupNote) -> Result<()> {
        self.write(1, move |tx| note::save(tx, &group_note)).await
    }

    async fn pauses(&self) -> Result<Pauses> {
        self.read(pause::all).await
    }

    async fn change_pause(&self, change: PauseChange) -> Result<bool> {
        self.write(1, move |tx| pause::change(tx, &change)).await
    }

    async fn gates(&self) -> Result<Vec<GateRow>> {
        self.read(gate::all).await
    }

    async fn save_gates(&self, gates: Vec<GateRow>) -> Result<Vec<Applied>> {
        self.write(gates.len(), move |tx| gate::save(tx, &gates)).await
    }

    async fn memos(&self, beginning: String) -> Result<Vec<Memo>> {
        self.read(move |conn| memo::beginning(conn, &beginning)).await
    }

    async fn save_memo(&self, row: Memo) -> Result<Applied> {
        self.write(1, move |tx| memo::save(tx, &row)).await
    }

    async fn keep_facts(&self, proposed: StoreId) -> Result<StoreId> {
        self.write(1, move |tx| outbox::open(tx, proposed)).await
    }

    async fn drop_facts(&self) -> Result<()> {
        self.write(1, outbox::close).await
    }

    async fn facts(&self, limit: usize) -> Result<Vec<KeptFact>> {
        self.read(move |conn| outbox::oldest(conn, limit)).await
    }

    async fn outbox(&self, most: usize) -> Result<OutboxView> {
        self.read(move |conn| outbox::view(conn, most)).await
    }

    async fn facts_passed_on(&self, facts: Vec<FactId>) -> Result<()> {
        self.write(facts.len(), move |tx| outbox::passed_on(tx, &facts)).await
    }

    async fn scrub(&self, how: Scrub) -> Result<Scrubbed> {
        let mut contents = 0;
        loop {
            let page = self
                .write(SWEPT, |tx| {
                    let mut swept = Pruned::default();
                    prune::sweep(tx, SWEPT, &mut swept)?;
                    Ok(swept)
                })
                .await?;
            contents += page.contents;
            if !page.more {
                break;
            }
        }
        Ok(Scrubbed { contents, ..self.alone(move |conn| scrub::rewrite(conn, how)).await? })
    }

    async fn copy_into(&self, file: PathBuf, heard: CopyHeard) -> Result<u64> {
        let written = file.clone();
        // A reader of its own, whose snapshot nobody moves: a copy of what changes meanwhile would begin again and again.
        self.frozen()?.read(move |conn| copy::into_file(conn, &written, &*heard)).await?;
        copy::look_through(&file)
    }

    async fn prune(&self, prune: Prune, by: Option<Operation>) -> Result<Pruned> {
        self.write(prune.limit, move |tx| prune::prune(tx, &prune, by.as_ref())).await
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        let frozen = Arc::new(self.frozen()?);
        Ok(Snapshot { store: frozen.clone(), index: frozen })
    }

    async fn damage(&self, limit: usize) -> Result<Vec<Damage>> {
        self.read(move |conn| damage::all(conn, limit)).await
    }
}
