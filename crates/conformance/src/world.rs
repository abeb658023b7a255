//! A run, a worker and a clock: what every case begins with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::attempt::{AttemptRecord, Outcome};
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{Event, ItemReply, Transition};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ItemId, OperationId, RunId, StageNo, WorkerId};
use redrive_core::item::{Item, NewItem, State};
use redrive_core::order::Order;
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::reading::Reading;
use redrive_core::tally::{HealSpan, MAX_ATTEMPT_BUCKET, Metric, unpassed};
use redrive_core::time::Timestamp;
use redrive_core::usage::Usage;
use redrive_store::{
    Applied, Claim, Claimed, ClaimedItem, Commit, ItemFilter, ItemQuery, NewRun, NewWorker, Operation,
    OperationKind, OperationState, Slot, Store, Submit, Submitted,
};

/// The stage that splits items into children, the first of [`plan`].
pub(crate) const SPLIT: StageNo = StageNo(0);
/// The first stage of the children.
pub(crate) const PART: StageNo = StageNo(1);
/// The stage after the join.
pub(crate) const STORE: StageNo = StageNo(3);
/// When every case begins.
pub(crate) const START: Timestamp = Timestamp(1_000_000);
/// How long a lease is.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Two stages at the top, two for the children of the first.
pub(crate) fn plan() -> Plan {
    let stage = |name: &str, policy: &str, config| StagePlan {
        name: name.to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset(policy).expect("a preset").policy.clone(),
        timeout: Duration::from_secs(30),
        config,
        child_failure: ChildFailure::Continue,
    };
    let split = StagePlan { next: Some(STORE), first_child: Some(PART), ..stage("split", "sample", 10) };
    let part = StagePlan { next: Some(StageNo(2)), owner: Some(SPLIT), ..stage("part", "interactive", 11) };
    let check = StagePlan { owner: Some(SPLIT), ..stage("check", "none", 12) };
    Plan::new(vec![split, part, check, stage("store", "daemon", 13)], Some(Duration::from_secs(86_400)))
}

/// A run to be created.
pub(crate) fn new_run(source: &str) -> NewRun {
    NewRun {
        pipeline: "pipeline".to_owned(),
        source: source.to_owned(),
        category: None,
        priority: 0,
        definition: "text".to_owned(),
        folder: "/".to_owned(),
    }
}

/// A worker to be registered.
pub(crate) fn new_worker(name: &str) -> NewWorker {
    NewWorker { name: name.to_owned(), identity: format!("{name}:1"), runs: Vec::new() }
}

/// An operation that has not been saved.
pub(crate) fn new_operation(kind: OperationKind) -> Operation {
    Operation {
        id: OperationId(0),
        kind,
        state: OperationState::Open,
        actor: "tester".to_owned(),
        request: "{}".to_owned(),
        after: None,
        changed: 0,
        skipped: 0,
        created_at: START,
        updated_at: START,
    }
}

/// It passed, with the same content.
pub(crate) fn passed() -> Event {
    Event::Finished(ItemReply::Output(None))
}

/// It failed.
pub(crate) fn failed(class: Class, text: &str) -> Event {
    let failure = Failure::new(class, Kind::Server, text).with_status(503);
    Event::Finished(ItemReply::Failed { failure, shared: false })
}

/// It becomes these children.
pub(crate) fn split(keys: &[&str]) -> Event {
    let children = keys.iter().enumerate().map(|(n, key)| NewItem::new(*key, key.as_bytes(), n as u64));
    Event::Finished(ItemReply::Children(children.collect()))
}

/// A run, a worker and a clock over a store.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) plan: Plan,
    pub(crate) run: RunId,
    pub(crate) worker: WorkerId,
    pub(crate) now: Timestamp,
}

impl World {
    pub(crate) async fn new(store: Arc<dyn Store>) -> Self {
        let run = store.create_run(new_run("source"), START).await.expect("a run").id;
        let worker = store.register(new_worker("one"), START.after(LEASE), START).await.expect("a worker");
        Self { store, plan: plan(), run, worker, now: START }
    }

    pub(crate) fn advance(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    /// Renews the worker's lease from now on.
    pub(crate) async fn renew(&self) -> bool {
        self.store.renew(self.worker, self.now.after(LEASE), self.now).await.expect("renew")
    }

    /// A submission of items with these keys, whose content is the key.
    pub(crate) fn submission(&self, keys: &[&str]) -> Submit {
        let items = keys.iter().enumerate().map(|(n, key)| NewItem::new(*key, key.as_bytes(), n as u64));
        Submit {
            run: self.run,
            stage: SPLIT,
            reading: Reading::FIRST,
            items: items.collect(),
            deadline: None,
            new_versions: false,
            changes: Vec::new(),
            cursor: None,
            now: self.now,
        }
    }

    /// Admits items with these keys and returns them in that order.
    pub(crate) async fn admit(&self, keys: &[&str]) -> Vec<Item> {
        let answers = self.store.submit(self.submission(keys)).await.expect("submit");
        let mut items = Vec::new();
        for answer in answers {
            let Submitted::Admitted(id) = answer else { panic!("not admitted: {answer:?}") };
            items.push(self.by_id(id).await.expect("an admitted item is there"));
        }
        items
    }

    pub(crate) async fn by_id(&self, id: ItemId) -> Option<Item> {
        let filter = ItemFilter { ids: Some((id, id)), ..ItemFilter::default() };
        let query = ItemQuery { filter, after: None, limit: 1 };
        self.store.items(query).await.expect("items").pop()
    }

    pub(crate) async fn item(&self, item: &Item) -> Item {
        self.store.item(item.seq).await.expect("item").expect("the item is there")
    }

    pub(crate) fn slot(&self, stage: StageNo, limit: usize) -> Slot {
        Slot { run: self.run, edition: 0, stage, order: Order::Oldest, reserved: 0, limit }
    }

    pub(crate) async fn claim_slots(&self, slots: Vec<Slot>) -> Claimed {
        self.store.claim(Claim { worker: self.worker, slots, pauses: 0, now: self.now }).await.expect("claim")
    }

    /// Claims from one stage.
    pub(crate) async fn claim(&self, stage: StageNo, limit: usize) -> Vec<ClaimedItem> {
        self.claim_slots(vec![self.slot(stage, limit)]).await.items
    }

    /// Claims one item, which has to be there.
    pub(crate) async fn claim_one(&self, stage: StageNo) -> Item {
        self.claim(stage, 1).await.pop().expect("something to claim").item
    }

    pub(crate) fn decide(&self, item: &Item, event: Event) -> Transition {
        decide(item, event, &self.plan, Moment { now: self.now, draw: Draw::MIDDLE }).expect("a legal event")
    }

    pub(crate) async fn commit(&self, transitions: Vec<Transition>) -> Vec<Applied> {
        let changes = transitions.into_iter().map(Into::into).collect();
        self.store.commit(Commit { changes, now: self.now, ..Commit::default() }).await.expect("commit")
    }

    /// Lets something happen to an item, and returns it as it then is.
    pub(crate) async fn happen(&self, item: &Item, event: Event) -> Item {
        let transition = self.decide(item, event);
        let after = transition.after.clone();
        assert_eq!(self.commit(vec![transition]).await, [Applied::Done]);
        assert_eq!(self.item(item).await, after);
        after
    }

    /// Admits items and lets them die with this message.
    pub(crate) async fn bury(&self, keys: &[&str], message: &str) -> Vec<Item> {
        self.admit(keys).await;
        let mut dead = Vec::new();
        for claimed in self.claim(SPLIT, keys.len()).await {
            dead.push(self.happen(&claimed.item, failed(Class::Final, message)).await);
        }
        dead
    }

    /// All items of the run, in pages.
    pub(crate) async fn items(&self) -> Vec<Item> {
        let filter = ItemFilter { run: Some(self.run), ..ItemFilter::default() };
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let query = ItemQuery { filter: filter.clone(), after, limit: 64 };
            let page = self.store.items(query).await.expect("items");
            let Some(last) = page.last() else { return all };
            after = Some(last.seq);
            all.extend(page);
        }
    }

    pub(crate) async fn counters(&self) -> BTreeMap<(StageNo, Metric), i64> {
        let counters = self.store.counters(self.run).await.expect("counters");
        counters.into_iter().map(|counter| ((counter.stage, counter.metric), counter.n)).collect()
    }

    /// Counts the items and attempts themselves and compares. Not for runs that something was purged from.
    pub(crate) async fn assert_counters(&self) {
        let mut kept = self.counters().await;
        let mut counted: BTreeMap<(StageNo, Metric), i64> = BTreeMap::new();
        let mut by_config: BTreeMap<(StageNo, i64, Metric), i64> = BTreeMap::new();
        let items = self.items().await;
        let admitted: i64 =
            kept.iter().filter(|((_, metric), _)| *metric == Metric::Admitted).map(|(_, n)| n).sum();
        assert_eq!(admitted, i64::try_from(items.len()).expect("few"), "admitted");
        for item in &items {
            for metric in stands(item) {
                *counted.entry((item.stage, metric)).or_default() += 1;
            }
            let attempts = self.store.history(item.seq).await.expect("history").attempts;
            for (at, record) in attempts.iter().enumerate() {
                let failed = |before: &&AttemptRecord| {
                    before.stage == record.stage
                        && matches!(before.outcome, Outcome::Failed | Outcome::Crashed)
                };
                let tries = attempts[..at].iter().filter(failed).count();
                let mut metrics = vec![Metric::Outcome(record.outcome)];
                if tries == 0 && record.outcome.is_try() {
                    metrics.push(Metric::FirstTry);
                    metrics.extend(record.outcome.is_pass().then_some(Metric::FirstPass));
                }
                let here = |before: &&AttemptRecord| failed(before) && before.generation == record.generation;
                if tries > 0 && record.outcome.is_try() && !attempts[..at].iter().any(|it| here(&it)) {
                    metrics.push(Metric::TriedAnew);
                }
                for metric in &metrics {
                    *by_config.entry((record.stage, record.config, *metric)).or_default() += 1;
                }
                if record.outcome.is_try() {
                    let took = record.ended_at.0.saturating_sub(record.started_at.0).max(0);
                    metrics.push(Metric::TookIn(HealSpan::number(took.unsigned_abs())));
                    *counted.entry((record.stage, Metric::TookMillis)).or_default() += took;
                }
                if let Some(usage) = record.usage {
                    for (metric, n) in spent(&usage) {
                        let sum: &mut i64 = counted.entry((record.stage, metric)).or_default();
                        *sum = sum.saturating_add(i64::try_from(n).unwrap_or(i64::MAX));
                    }
                }
                if let Some(failure) = &record.failure {
                    metrics.push(Metric::Failure(failure.class, failure.kind));
                    metrics.extend(failure.status.map(Metric::Status));
                }
                if record.outcome.is_pass() {
                    let uncalled = tries == 0 && record.outcome == Outcome::Reused;
                    let tries = u16::try_from(tries).expect("few").saturating_add(1).min(MAX_ATTEMPT_BUCKET);
                    metrics.push(Metric::PassedAfter(if uncalled { 0 } else { tries }));
                }
                for metric in metrics {
                    *counted.entry((record.stage, metric)).or_default() += 1;
                }
            }
        }
        counted.retain(|_, n| *n != 0);
        kept.retain(|(_, metric), _| {
            // Deaths of items that were sent back since cannot be told from the items.
            !matches!(metric, Metric::Admitted | Metric::HealMillis | Metric::HealedIn(_) | Metric::Died(_))
        });
        assert_eq!(kept, counted, "counters and a recount");
        let kept = self.store.config_counters(self.run).await.expect("counters");
        let kept: BTreeMap<_, _> = kept
            .into_iter()
            .map(|one| ((one.counter.stage, one.config, one.counter.metric), one.counter.n))
            .collect();
        assert_eq!(kept, by_config, "counters by configuration and a recount");
    }
}

fn spent(usage: &Usage) -> [(Metric, u64); 4] {
    let priced = usage.nano_usd.is_some();
    [
        (Metric::TokensIn, usage.tokens_in),
        (Metric::TokensOut, usage.tokens_out),
        (Metric::NanoUsd, usage.nano_usd.unwrap_or(0)),
        (Metric::UnpricedTokens, if priced { 0 } else { usage.tokens_in.saturating_add(usage.tokens_out) }),
    ]
}

fn stands(item: &Item) -> Vec<Metric> {
    let mut metrics = vec![Metric::State(item.state.kind())];
    metrics.extend(unpassed(item.state.kind(), item.tries()));
    if let State::Dead { reason } = item.state {
        metrics.push(Metric::DeadReason(reason));
        metrics.extend(item.last.as_ref().map(|last| Metric::DeadClass(last.class)));
    }
    metrics
}
