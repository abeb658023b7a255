//! The store as a simulated process sees it: slow, faulty, and watched by the oracle.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use redrive_core::attempt::AttemptRecord;
use redrive_core::event::ChildTally;
use redrive_core::id::{FactId, ItemSeq, OperationId, RunId, StoreId, WorkerId};
use redrive_core::item::Item;
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;
use redrive_store::{
    Applied, AttemptPlace, BegunRun, ChangeQuery, Claim, Claimed, ClaimedItem, Commit, ConfigCounter,
    Content, CopyHeard, Damage, DamagedItem, Error, Freeze, GateRow, Group, GroupNote, History, ItemContent,
    ItemFilter, ItemQuery, ItemRev, KeptFact, KeptOutput, Member, Memo, NewRun, NewWorker, NextDue,
    Operation, OutboxView, OutputKey, PauseChange, Pauses, Prune, Pruned, Result, Retired, RunChange,
    RunCounters, RunFilter, RunRow, RunSet, Scrub, Scrubbed, Settled, Snapshot, StageDue, Store, Submit,
    Submitted, Tombstone, TombstoneQuery, Turn, Turned, Vitals, VitalsQuery, WorkList, WorkQuery, WorkerRow,
};

use crate::fault::{Actor, Fate, Faults, Verb, fate};
use crate::hub::{Broken, Hub, at_once};
use crate::met::Met;
use crate::oracle::{Oracle, broken};

/// What the oracle finds wrong with a write.
type Ruling = std::result::Result<(), Broken>;

/// A store with faults, as one process sees it.
///
/// Every verb takes time before and after the write, so that others act in between and the process can die there.
#[derive(Clone)]
pub struct FaultyStore {
    hub: Arc<Hub>,
    inner: Arc<dyn Store>,
    oracle: Arc<Mutex<Oracle>>,
    faults: Faults,
    actor: Arc<Actor>,
}

impl FaultyStore {
    /// The store as `actor` sees it.
    #[must_use]
    pub fn new(
        hub: Arc<Hub>,
        inner: Arc<dyn Store>,
        oracle: Arc<Mutex<Oracle>>,
        faults: Faults,
        actor: Arc<Actor>,
    ) -> Self {
        Self { hub, inner, oracle, faults, actor }
    }

    /// The same store as another process sees it.
    #[must_use]
    pub fn seen_by(&self, actor: Arc<Actor>) -> Self {
        Self { actor, ..self.clone() }
    }

    /// Who sees it.
    #[must_use]
    pub fn actor(&self) -> &Arc<Actor> {
        &self.actor
    }

    /// The oracle that watches it.
    pub fn oracle(&self) -> MutexGuard<'_, Oracle> {
        self.oracle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store itself, without faults.
    #[must_use]
    pub fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn travel(&self) {
        let ms = self.hub.rng.span(0, self.faults.latency);
        self.hub.sleep(ms).await;
    }

    async fn write<T: Send>(
        &self,
        verb: Verb,
        name: &'static str,
        work: impl Future<Output = Result<T>> + Send,
        watch: impl FnOnce(&mut Oracle, &dyn Store, &T) -> Ruling + Send,
    ) -> Result<T> {
        let refused = |_: &Oracle, error: &Error| broken("store", format!("{name} was refused: {error}"));
        self.write_or_refuse(verb, name, work, watch, refused).await
    }

    async fn write_or_refuse<T: Send>(
        &self,
        verb: Verb,
        name: &'static str,
        work: impl Future<Output = Result<T>> + Send,
        watch: impl FnOnce(&mut Oracle, &dyn Store, &T) -> Ruling + Send,
        refused: impl FnOnce(&Oracle, &Error) -> Ruling + Send,
    ) -> Result<T> {
        self.travel().await;
        if self.actor.dies(&self.hub, false) {
            std::future::pending::<()>().await;
        }
        let fate = fate(&self.hub, &self.faults, verb);
        self.hub.log(name, &[self.actor.number(), fate.number()], || format!("{} {fate:?}", self.actor.name));
        if let Fate::Refused(refusal) = fate {
            self.travel().await;
            return Err(refusal.error());
        }
        let made = at_once(work);
        let ruling = match &made {
            Ok(made) => {
                self.hub.score(|score| {
                    score.writes += 1;
                    score.commits += u64::from(verb.commits());
                });
                watch(&mut self.oracle(), &*self.inner, made)
            }
            Err(error) => refused(&self.oracle(), error),
        };
        if let Err(broken) = ruling {
            self.hub.broke(broken.law, broken.what);
        }
        if self.actor.dies(&self.hub, true) {
            std::future::pending::<()>().await;
        }
        self.travel().await;
        if fate == Fate::Lost { Err(Error::Unavailable("simulated, applied".to_owned())) } else { made }
    }

    /// Takes out the parts of a turn that its store refuses for reasons of their own.
    fn refuse_parts(&self, turn: &mut Turn) -> RefusedParts {
        let strikes = |asked: bool| {
            let struck = asked && !self.hub.healed() && self.hub.rng.permille(self.faults.part);
            if struck {
                self.hub.meet(Met::PartRefused);
            }
            struck
        };
        let (commit, gates, claim) =
            (strikes(turn.commit.is_some()), strikes(!turn.gates.is_empty()), strikes(turn.claim.is_some()));
        turn.commit = turn.commit.take().filter(|_| !commit);
        turn.gates.retain(|_| !gates);
        turn.claim = turn.claim.take().filter(|_| !claim);
        RefusedParts { commit, gates, claim }
    }

    /// Some contents are read with other bytes than they have.
    fn damage(&self, claimed: &mut Claimed) {
        let items = std::mem::take(&mut claimed.items);
        let (damaged, whole): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|claimed| self.faults.damage.strikes(&claimed.item));
        claimed.items = whole;
        for ClaimedItem { item, .. } in damaged {
            self.hub.meet(Met::DamagedRead);
            self.oracle().on_damaged(&item);
            claimed.damaged.push(DamagedItem { item, what: "simulated".to_owned() });
        }
    }

    async fn read<T: Send>(&self, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        self.travel().await;
        match fate(&self.hub, &self.faults, Verb::Read) {
            Fate::Refused(refusal) => Err(refusal.error()),
            Fate::Fine | Fate::Lost => at_once(work),
        }
    }
}

/// Parts of a turn that were refused and not written.
struct RefusedParts {
    commit: bool,
    gates: bool,
    claim: bool,
}

impl RefusedParts {
    /// The answer to the whole turn.
    fn told(self, turned: Turned) -> Turned {
        let error = || Error::Busy("simulated, one part".to_owned());
        Turned {
            applied: if self.commit { Err(error()) } else { turned.applied },
            gates: if self.gates { Err(error()) } else { turned.gates },
            claimed: if self.claim { Err(error()) } else { turned.claimed },
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn create_run(&self, new: NewRun, now: Timestamp) -> Result<RunRow> {
        self.write(Verb::Other, "create_run", self.inner.create_run(new, now), |oracle, _, row| {
            oracle.on_run(row)
        })
        .await
    }

    async fn change_run(&self, run: RunId, change: RunChange) -> Result<RunRow> {
        let asked = change.clone();
        let work = self.inner.change_run(run, change);
        self.write(Verb::Other, "change_run", work, |oracle, _, row| oracle.on_run_changed(&asked, row)).await
    }

    async fn begin_run(&self, new: NewRun, finished: bool, now: Timestamp) -> Result<BegunRun> {
        let work = self.inner.begin_run(new, finished, now);
        self.write(Verb::Other, "begin_run", work, |oracle, _, begun| oracle.on_run(&begun.row)).await
    }

    async fn begin_reading(&self, run: RunId, last: u32, position: Option<String>) -> Result<u32> {
        let work = self.inner.begin_reading(run, last, position);
        self.write(Verb::Other, "begin_reading", work, |oracle, store, _| oracle.row(store).map(drop)).await
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>> {
        self.read(self.inner.run(run)).await
    }

    async fn runs(&self, filter: RunFilter, before: Option<RunId>, limit: usize) -> Result<Vec<RunRow>> {
        self.read(self.inner.runs(filter, before, limit)).await
    }

    async fn vitals(&self, query: VitalsQuery) -> Result<Vitals> {
        self.read(self.inner.vitals(query)).await
    }

    async fn work_list(&self, query: WorkQuery) -> Result<WorkList> {
        self.read(self.inner.work_list(query)).await
    }

    async fn register(&self, new: NewWorker, lease_until: Timestamp, now: Timestamp) -> Result<WorkerId> {
        let work = self.inner.register(new, lease_until, now);
        self.write(Verb::Other, "register", work, |oracle, _, id| oracle.on_register(*id, lease_until)).await
    }

    async fn renew(&self, worker: WorkerId, lease_until: Timestamp, now: Timestamp) -> Result<bool> {
        let work = self.inner.renew(worker, lease_until, now);
        self.write(Verb::Other, "renew", work, |oracle, _, renewed| {
            oracle.on_renew(worker, lease_until, *renewed)
        })
        .await
    }

    async fn retire(&self, worker: WorkerId, how: Retired) -> Result<()> {
        let work = self.inner.retire(worker, how);
        self.write(Verb::Other, "retire", work, |oracle, _, ()| oracle.on_retire(worker, how)).await
    }

    async fn stamp(&self) -> Result<u64> {
        self.read(self.inner.stamp()).await
    }

    async fn attend(&self, worker: WorkerId, runs: Vec<RunId>) -> Result<()> {
        self.write(Verb::Other, "attend", self.inner.attend(worker, runs), |_, _, ()| Ok(())).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>> {
        self.read(self.inner.workers()).await
    }

    async fn submit(&self, submit: Submit) -> Result<Vec<Submitted>> {
        let asked = submit.clone();
        let work = self.inner.submit(submit);
        let watch = |oracle: &mut Oracle, store: &dyn Store, told: &Vec<Submitted>| {
            oracle.on_submit(store, &asked, told)
        };
        let refused = |oracle: &Oracle, error: &Error| oracle.on_submit_refused(&asked, error);
        self.write_or_refuse(Verb::Other, "submit", work, watch, refused).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed> {
        let asked = claim.clone();
        let work = self.inner.claim(claim);
        let watch =
            |oracle: &mut Oracle, store: &dyn Store, got: &Claimed| oracle.on_claim(store, &asked, got);
        let claimed = self.write(Verb::Claim, "claim", work, watch).await;
        let mut claimed = claimed.inspect_err(|_| self.oracle().forget_windows())?;
        if !self.hub.healed() {
            self.damage(&mut claimed);
        }
        Ok(claimed)
    }

    async fn commit(&self, commit: Commit) -> Result<Vec<Applied>> {
        let asked = commit.clone();
        let work = self.inner.commit(commit);
        self.write(Verb::Commit, "commit", work, |oracle, store, applied| {
            oracle.on_commit(store, &asked, applied)
        })
        .await
    }

    async fn turn(&self, mut turn: Turn) -> Result<Turned> {
        let refused = self.refuse_parts(&mut turn);
        let parts = Verb::Turn {
            commit: turn.commit.is_some(),
            gates: !turn.gates.is_empty(),
            claim: turn.claim.is_some(),
        };
        let asked = turn.clone();
        let work = self.inner.turn(turn);
        let mut turned = self
            .write(parts, "turn", work, |oracle, store, turned| oracle.on_turn(store, &asked, turned))
            .await
            .inspect_err(|_| self.oracle().forget_windows())?;
        if let Ok(claimed) = &mut turned.claimed
            && !self.hub.healed()
        {
            self.damage(claimed);
        }
        let turned = refused.told(turned);
        if turned.claimed.is_err() {
            self.oracle().forget_windows();
        }
        Ok(turned)
    }

    async fn orphans(&self, run: RunId, now: Timestamp, limit: usize) -> Result<Vec<Item>> {
        self.read(self.inner.orphans(run, now, limit)).await
    }

    async fn held(&self, worker: WorkerId, after: Option<ItemSeq>, limit: usize) -> Result<Vec<Item>> {
        self.read(self.inner.held(worker, after, limit)).await
    }

    async fn settled(&self, run: RunId, limit: usize) -> Result<Vec<Settled>> {
        self.read(self.inner.settled(run, limit)).await
    }

    async fn items(&self, query: ItemQuery) -> Result<Vec<Item>> {
        self.read(self.inner.items(query)).await
    }

    async fn items_by_change(&self, query: ChangeQuery) -> Result<Vec<Item>> {
        self.read(self.inner.items_by_change(query)).await
    }

    async fn item(&self, seq: ItemSeq) -> Result<Option<Item>> {
        self.read(self.inner.item(seq)).await
    }

    async fn payload(&self, seq: ItemSeq) -> Result<Option<Content>> {
        self.read(self.inner.payload(seq)).await
    }

    async fn contents(&self, items: Vec<ItemSeq>, most: usize) -> Result<Vec<ItemContent>> {
        self.read(self.inner.contents(items, most)).await
    }

    async fn items_of(&self, items: Vec<ItemSeq>) -> Result<Vec<Item>> {
        self.read(self.inner.items_of(items)).await
    }

    async fn histories(&self, items: Vec<ItemSeq>, newest: usize) -> Result<Vec<History>> {
        self.read(self.inner.histories(items, newest)).await
    }

    async fn attempts(
        &self,
        item: ItemSeq,
        before: Option<AttemptPlace>,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>> {
        self.read(self.inner.attempts(item, before, limit)).await
    }

    async fn history(&self, seq: ItemSeq) -> Result<History> {
        self.read(self.inner.history(seq)).await
    }

    async fn children(&self, parent: ItemSeq) -> Result<ChildTally> {
        self.read(self.inner.children(parent)).await
    }

    async fn counters(&self, run: RunId) -> Result<Vec<Counter>> {
        self.read(self.inner.counters(run)).await
    }

    async fn counters_of_all(&self, runs: RunSet) -> Result<Vec<RunCounters>> {
        self.read(self.inner.counters_of_all(runs)).await
    }

    async fn config_counters(&self, run: RunId) -> Result<Vec<ConfigCounter>> {
        self.read(self.inner.config_counters(run)).await
    }

    async fn ahead(&self, run: RunId, than: Timestamp, limit: usize) -> Result<Vec<Item>> {
        self.read(self.inner.ahead(run, than, limit)).await
    }

    async fn next_due(&self, run: RunId) -> Result<NextDue> {
        self.read(self.inner.next_due(run)).await
    }

    async fn due_by_stage(&self, run: RunId) -> Result<Vec<StageDue>> {
        self.read(self.inner.due_by_stage(run)).await
    }

    async fn groups(&self, filter: ItemFilter, limit: usize) -> Result<Vec<Group>> {
        self.read(self.inner.groups(filter, limit)).await
    }

    async fn outputs(&self, keys: Vec<OutputKey>) -> Result<Vec<Option<KeptOutput>>> {
        self.read(self.inner.outputs(keys)).await
    }

    async fn purge(&self, items: Vec<ItemRev>, operation: Operation, now: Timestamp) -> Result<u64> {
        let asked = items.clone();
        let work = self.inner.purge(items, operation, now);
        self.write(Verb::Other, "purge", work, |oracle, store, gone| oracle.on_purge(store, &asked, *gone))
            .await
    }

    async fn tombstones(&self, query: TombstoneQuery) -> Result<Vec<Tombstone>> {
        self.read(self.inner.tombstones(query)).await
    }

    async fn save_operation(&self, operation: Operation) -> Result<OperationId> {
        self.write(Verb::Other, "save_op", self.inner.save_operation(operation), |_, _, _| Ok(())).await
    }

    async fn freeze(&self, freeze: Freeze) -> Result<Option<OperationId>> {
        self.write(Verb::Other, "freeze", self.inner.freeze(freeze), |_, _, _| Ok(())).await
    }

    async fn members(
        &self,
        operation: OperationId,
        after: Option<ItemSeq>,
        limit: usize,
    ) -> Result<Vec<Member>> {
        self.read(self.inner.members(operation, after, limit)).await
    }

    async fn operations(&self, before: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
        self.read(self.inner.operations(before, limit)).await
    }

    async fn operation(&self, operation: OperationId) -> Result<Option<Operation>> {
        self.read(self.inner.operation(operation)).await
    }

    async fn open_operations(&self, after: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
        self.read(self.inner.open_operations(after, limit)).await
    }

    async fn group_notes(&self) -> Result<Vec<GroupNote>> {
        self.read(self.inner.group_notes()).await
    }

    async fn save_group_note(&self, note: GroupNote) -> Result<()> {
        self.write(Verb::Other, "save_note", self.inner.save_group_note(note), |_, _, _| Ok(())).await
    }

    async fn pauses(&self) -> Result<Pauses> {
        self.read(self.inner.pauses()).await
    }

    async fn change_pause(&self, change: PauseChange) -> Result<bool> {
        let asked = change.clone();
        self.write(
            Verb::Other,
            "change_pause",
            self.inner.change_pause(change),
            move |oracle, store, changed| oracle.on_pause(store, &asked, *changed),
        )
        .await
    }

    async fn gates(&self) -> Result<Vec<GateRow>> {
        self.read(self.inner.gates()).await
    }

    async fn memos(&self, beginning: String) -> Result<Vec<Memo>> {
        self.read(self.inner.memos(beginning)).await
    }

    async fn save_memo(&self, memo: Memo) -> Result<Applied> {
        self.write(Verb::Other, "save_memo", self.inner.save_memo(memo), |_, _, _| Ok(())).await
    }

    async fn save_gates(&self, gates: Vec<GateRow>) -> Result<Vec<Applied>> {
        let asked = gates.clone();
        let work = self.inner.save_gates(gates);
        self.write(Verb::Gate, "gates", work, |oracle, store, applied| {
            oracle.on_gates_saved(store, &asked, applied)
        })
        .await
    }

    async fn keep_facts(&self, proposed: StoreId) -> Result<StoreId> {
        self.write(Verb::Other, "keep facts", self.inner.keep_facts(proposed), |_, _, _| Ok(())).await
    }

    async fn drop_facts(&self) -> Result<()> {
        self.write(Verb::Other, "drop facts", self.inner.drop_facts(), |_, _, ()| Ok(())).await
    }

    async fn facts(&self, limit: usize) -> Result<Vec<KeptFact>> {
        self.read(self.inner.facts(limit)).await
    }

    async fn outbox(&self, most: usize) -> Result<OutboxView> {
        self.read(self.inner.outbox(most)).await
    }

    async fn facts_passed_on(&self, facts: Vec<FactId>) -> Result<()> {
        self.write(Verb::Other, "facts", self.inner.facts_passed_on(facts), |_, _, ()| Ok(())).await
    }

    async fn scrub(&self, how: Scrub) -> Result<Scrubbed> {
        self.write(Verb::Other, "scrub", self.inner.scrub(how), |_, _, _| Ok(())).await
    }

    async fn copy_into(&self, file: PathBuf, heard: CopyHeard) -> Result<u64> {
        self.read(self.inner.copy_into(file, heard)).await
    }

    async fn prune(&self, prune: Prune, by: Option<Operation>) -> Result<Pruned> {
        self.write(Verb::Other, "prune", self.inner.prune(prune, by), |_, _, _| Ok(())).await
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        self.read(self.inner.snapshot()).await
    }

    async fn damage(&self, limit: usize) -> Result<Vec<Damage>> {
        self.read(self.inner.damage(limit)).await
    }
}
