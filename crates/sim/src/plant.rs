//! Stores with a mistake in them, to show that the checks can fail.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::attempt::AttemptRecord;
use redrive_core::event::ChildTally;
use redrive_core::fact::Facts;
use redrive_core::id::{FactId, ItemSeq, OperationId, RunId, StoreId, WorkerId};
use redrive_core::item::{Item, State};
use redrive_core::tally::{Counter, Metric};
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdicts;
use redrive_store::{
    Applied, AttemptPlace, BegunRun, Change, ChangeQuery, Claim, Claimed, Commit, ConfigCounter, Content,
    CopyHeard, Damage, Freeze, GateRow, Group, GroupNote, History, ItemContent, ItemFilter, ItemQuery,
    ItemRev, KeptFact, KeptOutput, Member, Memo, MemoryStore, NewRun, NewWorker, NextDue, Operation,
    OutboxView, OutputKey, PauseChange, Pauses, Prune, Pruned, Result, Retired, RunChange, RunCounters,
    RunFilter, RunRow, RunSet, Scrub, Scrubbed, Settled, Snapshot, StageDue, Store, Submit, Submitted,
    Tombstone, TombstoneQuery, Turn, Turned, Vitals, VitalsQuery, WorkList, WorkQuery, WorkerRow,
};

/// The mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// Takes outcomes with an old token.
    StaleTokens,
    /// Loses one child of a family.
    LostChild,
    /// Loses one line of a submission.
    LostLine,
    /// Forgets the attempt that led to an outcome.
    LostRecord,
    /// Writes an outcome and says it was too late.
    FalseStale,
    /// Gives work to a worker that has been retired.
    LeaseForTheDead,
    /// Forgets to pause the run.
    NoPause,
    /// Miscounts: one counter has one too many.
    WrongCounter,
    /// Leaves due items of the last stage where they are.
    StarvedStage,
    /// Writes gates over what others have written since.
    LastGateWins,
    /// Writes failure budgets over what others have written since.
    LastBudgetWins,
    /// Purges without leaving tombstones.
    NoTombstones,
    /// Keeps due times that a clock wrote which was ahead.
    FutureDue,
    /// Forgets to tell the world of an outcome.
    LostFact,
    /// Lets items wait an hour longer than was decided.
    LongerWait,
    /// Leaves the content of items that are done again as it was.
    RerunOnOldContent,
    /// Forgets what stages found of an item.
    LostVerdict,
    /// Gives work to workers that have not heard what is paused.
    ClaimsUnaware,
    /// Forgets the policy that an item was sent back under.
    LostPolicy,
}

impl Plant {
    /// Every mistake.
    pub const ALL: [Self; 19] = [
        Self::StaleTokens,
        Self::LostChild,
        Self::LostLine,
        Self::LostRecord,
        Self::FalseStale,
        Self::LeaseForTheDead,
        Self::NoPause,
        Self::WrongCounter,
        Self::StarvedStage,
        Self::LastGateWins,
        Self::LastBudgetWins,
        Self::NoTombstones,
        Self::FutureDue,
        Self::LostFact,
        Self::LongerWait,
        Self::RerunOnOldContent,
        Self::LostVerdict,
        Self::ClaimsUnaware,
        Self::LostPolicy,
    ];
}

/// A store in memory with a mistake in it.
pub struct Planted {
    inner: Arc<MemoryStore>,
    plant: Plant,
    commits: AtomicU64,
}

impl Planted {
    /// A store with this mistake.
    #[must_use]
    pub fn new(plant: Plant) -> Arc<Self> {
        Arc::new(Self { inner: Arc::new(MemoryStore::new()), plant, commits: AtomicU64::new(0) })
    }

    /// Lets a budget be made from whatever is kept.
    async fn overwrite(&self, run: RunId, change: &mut RunChange) -> Result<()> {
        if let Some(budget) = change.budget.as_mut().filter(|_| self.plant == Plant::LastBudgetWins) {
            budget.was = self.inner.run(run).await?.and_then(|row| row.budget);
        }
        Ok(())
    }

    /// Sets old tokens to what would be accepted.
    async fn renew_tokens(&self, commit: &mut Commit) -> Result<()> {
        for change in &mut commit.changes {
            let transition = &mut change.transition;
            if let Some(item) = self.inner.item(transition.after.seq).await? {
                transition.guard = item.rev;
                transition.after.rev = item.rev.next();
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Store for Planted {
    async fn create_run(&self, new: NewRun, now: Timestamp) -> Result<RunRow> {
        self.inner.create_run(new, now).await
    }

    async fn change_run(&self, run: RunId, mut change: RunChange) -> Result<RunRow> {
        self.overwrite(run, &mut change).await?;
        self.inner.change_run(run, change).await
    }

    async fn begin_run(&self, new: NewRun, finished: bool, now: Timestamp) -> Result<BegunRun> {
        self.inner.begin_run(new, finished, now).await
    }

    async fn begin_reading(&self, run: RunId, last: u32, position: Option<String>) -> Result<u32> {
        self.inner.begin_reading(run, last, position).await
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>> {
        self.inner.run(run).await
    }

    async fn runs(&self, filter: RunFilter, before: Option<RunId>, limit: usize) -> Result<Vec<RunRow>> {
        self.inner.runs(filter, before, limit).await
    }

    async fn vitals(&self, query: VitalsQuery) -> Result<Vitals> {
        self.inner.vitals(query).await
    }

    async fn work_list(&self, query: WorkQuery) -> Result<WorkList> {
        self.inner.work_list(query).await
    }

    async fn register(&self, new: NewWorker, lease_until: Timestamp, now: Timestamp) -> Result<WorkerId> {
        self.inner.register(new, lease_until, now).await
    }

    async fn renew(&self, worker: WorkerId, lease_until: Timestamp, now: Timestamp) -> Result<bool> {
        self.inner.renew(worker, lease_until, now).await
    }

    async fn retire(&self, worker: WorkerId, how: Retired) -> Result<()> {
        if self.plant == Plant::LeaseForTheDead { Ok(()) } else { self.inner.retire(worker, how).await }
    }

    async fn stamp(&self) -> Result<u64> {
        self.inner.stamp().await
    }

    async fn attend(&self, worker: WorkerId, runs: Vec<RunId>) -> Result<()> {
        self.inner.attend(worker, runs).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>> {
        self.inner.workers().await
    }

    async fn submit(&self, mut submit: Submit) -> Result<Vec<Submitted>> {
        let lost = (self.plant == Plant::LostLine && submit.items.len() > 2).then(|| submit.items.remove(1));
        let answer =
            lost.map(|line| redrive_core::id::ItemId::derive(submit.run, None, &line.key, line.version()));
        let mut answers = self.inner.submit(submit).await?;
        if let Some(id) = answer {
            answers.insert(1, Submitted::Admitted(id));
        }
        Ok(answers)
    }

    async fn claim(&self, mut claim: Claim) -> Result<Claimed> {
        if self.plant == Plant::StarvedStage && claim.slots.len() > 1 {
            let last = claim.slots.iter().map(|slot| slot.stage).max();
            for slot in claim.slots.iter_mut().filter(|slot| Some(slot.stage) == last) {
                slot.limit = 0;
            }
        }
        if self.plant == Plant::ClaimsUnaware {
            claim.pauses = self.inner.pauses().await?.rev;
        }
        self.inner.claim(claim).await
    }

    async fn commit(&self, mut commit: Commit) -> Result<Vec<Applied>> {
        let nth = self.commits.fetch_add(1, Ordering::SeqCst);
        match self.plant {
            Plant::StaleTokens => self.renew_tokens(&mut commit).await?,
            Plant::LostChild => {
                let families =
                    commit.changes.iter_mut().filter_map(|change| change.transition.children.as_mut());
                families.for_each(|family| drop(family.items.pop()));
            }
            Plant::LostRecord if nth.is_multiple_of(5) => {
                commit.changes.iter_mut().for_each(|change| change.transition.record = None);
            }
            Plant::LostFact if nth.is_multiple_of(5) => {
                commit.changes.iter_mut().for_each(|change| change.transition.facts = Facts::default());
            }
            Plant::LostVerdict => {
                commit
                    .changes
                    .iter_mut()
                    .for_each(|change| change.transition.after.verdicts = Verdicts::default());
            }
            Plant::LostPolicy => {
                commit.changes.iter_mut().for_each(|change| change.transition.after.policy = None);
            }
            Plant::LongerWait => {
                for change in &mut commit.changes {
                    if let State::Waiting { due, .. } = &mut change.transition.after.state {
                        *due = due.after(Duration::from_secs(3_600));
                    }
                }
            }
            Plant::RerunOnOldContent => {
                let again = |change: &&mut Change| {
                    change.transition.mark.as_ref().is_some_and(|mark| mark.what == "rerun")
                };
                commit.changes.iter_mut().filter(again).for_each(|change| change.transition.payload = None);
            }
            Plant::NoPause => commit.run = None,
            Plant::LastBudgetWins => {
                if let Some((run, change)) = &mut commit.run {
                    self.overwrite(*run, change).await?;
                }
            }
            _ => {}
        }
        let mut applied = self.inner.commit(commit).await?;
        if self.plant == Plant::FalseStale && nth.is_multiple_of(5) {
            applied.fill(Applied::Stale);
        }
        Ok(applied)
    }

    /// As its three verbs one after the other, with their mistakes.
    async fn turn(&self, turn: Turn) -> Result<Turned> {
        let applied = match turn.commit {
            Some(commit) => self.commit(commit).await,
            None => Ok(Vec::new()),
        };
        let gates = self.save_gates(turn.gates).await;
        let claimed = match turn.claim {
            Some(claim) => self.claim(claim).await,
            None => Ok(Claimed::default()),
        };
        Ok(Turned { applied, gates, claimed })
    }

    async fn orphans(&self, run: RunId, now: Timestamp, limit: usize) -> Result<Vec<Item>> {
        self.inner.orphans(run, now, limit).await
    }

    async fn held(&self, worker: WorkerId, after: Option<ItemSeq>, limit: usize) -> Result<Vec<Item>> {
        self.inner.held(worker, after, limit).await
    }

    async fn settled(&self, run: RunId, limit: usize) -> Result<Vec<Settled>> {
        self.inner.settled(run, limit).await
    }

    async fn items(&self, query: ItemQuery) -> Result<Vec<Item>> {
        self.inner.items(query).await
    }

    async fn items_by_change(&self, query: ChangeQuery) -> Result<Vec<Item>> {
        self.inner.items_by_change(query).await
    }

    async fn item(&self, seq: ItemSeq) -> Result<Option<Item>> {
        self.inner.item(seq).await
    }

    async fn payload(&self, seq: ItemSeq) -> Result<Option<Content>> {
        self.inner.payload(seq).await
    }

    async fn contents(&self, items: Vec<ItemSeq>, most: usize) -> Result<Vec<ItemContent>> {
        self.inner.contents(items, most).await
    }

    async fn items_of(&self, items: Vec<ItemSeq>) -> Result<Vec<Item>> {
        self.inner.items_of(items).await
    }

    async fn histories(&self, items: Vec<ItemSeq>, newest: usize) -> Result<Vec<History>> {
        self.inner.histories(items, newest).await
    }

    async fn attempts(
        &self,
        item: ItemSeq,
        before: Option<AttemptPlace>,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>> {
        self.inner.attempts(item, before, limit).await
    }

    async fn history(&self, seq: ItemSeq) -> Result<History> {
        self.inner.history(seq).await
    }

    async fn children(&self, parent: ItemSeq) -> Result<ChildTally> {
        self.inner.children(parent).await
    }

    async fn counters(&self, run: RunId) -> Result<Vec<Counter>> {
        let mut counters = self.inner.counters(run).await?;
        if self.plant == Plant::WrongCounter
            && self.commits.load(Ordering::SeqCst) > 20
            && let Some(first) =
                counters.iter_mut().find(|counter| matches!(counter.metric, Metric::Outcome(_)))
        {
            first.n += 1;
        }
        Ok(counters)
    }

    async fn counters_of_all(&self, runs: RunSet) -> Result<Vec<RunCounters>> {
        self.inner.counters_of_all(runs).await
    }

    async fn config_counters(&self, run: RunId) -> Result<Vec<ConfigCounter>> {
        self.inner.config_counters(run).await
    }

    async fn ahead(&self, run: RunId, than: Timestamp, limit: usize) -> Result<Vec<Item>> {
        // Nothing it keeps is ever too late, it thinks.
        if self.plant == Plant::FutureDue { Ok(Vec::new()) } else { self.inner.ahead(run, than, limit).await }
    }

    async fn next_due(&self, run: RunId) -> Result<NextDue> {
        self.inner.next_due(run).await
    }

    async fn due_by_stage(&self, run: RunId) -> Result<Vec<StageDue>> {
        self.inner.due_by_stage(run).await
    }

    async fn groups(&self, filter: ItemFilter, limit: usize) -> Result<Vec<Group>> {
        self.inner.groups(filter, limit).await
    }

    async fn outputs(&self, keys: Vec<OutputKey>) -> Result<Vec<Option<KeptOutput>>> {
        self.inner.outputs(keys).await
    }

    async fn purge(&self, items: Vec<ItemRev>, operation: Operation, now: Timestamp) -> Result<u64> {
        self.inner.purge(items, operation, now).await
    }

    async fn tombstones(&self, query: TombstoneQuery) -> Result<Vec<Tombstone>> {
        match self.plant {
            Plant::NoTombstones => Ok(Vec::new()),
            _ => self.inner.tombstones(query).await,
        }
    }

    async fn save_operation(&self, operation: Operation) -> Result<OperationId> {
        self.inner.save_operation(operation).await
    }

    async fn freeze(&self, freeze: Freeze) -> Result<Option<OperationId>> {
        self.inner.freeze(freeze).await
    }

    async fn members(
        &self,
        operation: OperationId,
        after: Option<ItemSeq>,
        limit: usize,
    ) -> Result<Vec<Member>> {
        self.inner.members(operation, after, limit).await
    }

    async fn operations(&self, before: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
        self.inner.operations(before, limit).await
    }

    async fn operation(&self, operation: OperationId) -> Result<Option<Operation>> {
        self.inner.operation(operation).await
    }

    async fn open_operations(&self, after: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
        self.inner.open_operations(after, limit).await
    }

    async fn group_notes(&self) -> Result<Vec<GroupNote>> {
        self.inner.group_notes().await
    }

    async fn save_group_note(&self, note: GroupNote) -> Result<()> {
        self.inner.save_group_note(note).await
    }

    async fn pauses(&self) -> Result<Pauses> {
        self.inner.pauses().await
    }

    async fn change_pause(&self, change: PauseChange) -> Result<bool> {
        self.inner.change_pause(change).await
    }

    async fn gates(&self) -> Result<Vec<GateRow>> {
        self.inner.gates().await
    }

    async fn save_gates(&self, mut gates: Vec<GateRow>) -> Result<Vec<Applied>> {
        if self.plant == Plant::LastGateWins {
            let kept = self.inner.gates().await?;
            for gate in &mut gates {
                gate.rev = kept.iter().find(|row| row.name == gate.name).map_or(0, |row| row.rev);
            }
        }
        self.inner.save_gates(gates).await
    }

    async fn memos(&self, beginning: String) -> Result<Vec<Memo>> {
        self.inner.memos(beginning).await
    }

    async fn save_memo(&self, memo: Memo) -> Result<Applied> {
        self.inner.save_memo(memo).await
    }

    async fn keep_facts(&self, proposed: StoreId) -> Result<StoreId> {
        self.inner.keep_facts(proposed).await
    }

    async fn drop_facts(&self) -> Result<()> {
        self.inner.drop_facts().await
    }

    async fn facts(&self, limit: usize) -> Result<Vec<KeptFact>> {
        self.inner.facts(limit).await
    }

    async fn outbox(&self, most: usize) -> Result<OutboxView> {
        self.inner.outbox(most).await
    }

    async fn facts_passed_on(&self, facts: Vec<FactId>) -> Result<()> {
        self.inner.facts_passed_on(facts).await
    }

    async fn scrub(&self, how: Scrub) -> Result<Scrubbed> {
        self.inner.scrub(how).await
    }

    async fn copy_into(&self, file: PathBuf, heard: CopyHeard) -> Result<u64> {
        self.inner.copy_into(file, heard).await
    }

    async fn prune(&self, prune: Prune, by: Option<Operation>) -> Result<Pruned> {
        self.inner.prune(prune, by).await
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        self.inner.snapshot().await
    }

    async fn damage(&self, limit: usize) -> Result<Vec<Damage>> {
        self.inner.damage(limit).await
    }
}
