//! Everything that can be seen of a run, in terms that two stores share: ids instead of row numbers, times in whole
//! milliseconds.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::event::ChildTally;
use redrive_core::fact::Fact;
use redrive_core::id::{ContentHash, ItemId, ItemSeq, RunId, WorkerId};
use redrive_core::item::Item;
use redrive_core::tally::Counter;
use redrive_core::time::{Timestamp, millis};
use redrive_core::verdict::Verdict;
use redrive_store::{
    ConfigCounter, GateRow, Group, History, ItemFilter, ItemQuery, NextDue, OutputKey, RunCounters, RunRow,
    RunSet, StageDue, Store, Tombstone, TombstoneQuery, WorkerRow,
};

/// An item without row numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plain {
    pub(super) item: Item,
    pub(super) parent: Option<ItemId>,
}

/// The items of a run, by id.
#[derive(Debug, Clone, Default)]
pub(super) struct Items {
    pub(super) by_id: BTreeMap<ItemId, Item>,
    ids: BTreeMap<ItemSeq, ItemId>,
}

impl Items {
    pub(super) async fn of(store: &dyn Store, run: RunId) -> Self {
        let filter = ItemFilter { run: Some(run), ..ItemFilter::default() };
        let query = ItemQuery { filter, after: None, limit: usize::MAX };
        let mut items = Self::default();
        for item in store.items(query).await.expect("items") {
            items.ids.insert(item.seq, item.id);
            items.by_id.insert(item.id, item);
        }
        items
    }

    /// An item as the other store can have it.
    pub(super) fn plain(&self, item: &Item) -> Plain {
        let parent = item.parent.and_then(|parent| self.ids.get(&parent).copied());
        Plain { item: Item { seq: ItemSeq(0), parent: None, ..item.clone() }, parent }
    }

    pub(super) fn plains(&self, items: &[Item]) -> Vec<Plain> {
        items.iter().map(|item| self.plain(item)).collect()
    }
}

/// Everything that can be seen of a run.
#[derive(Debug, PartialEq)]
pub(super) struct Snapshot {
    run: Option<RunRow>,
    order: Vec<Plain>,
    payloads: BTreeMap<ItemId, Option<ContentHash>>,
    histories: BTreeMap<ItemId, History>,
    tallies: BTreeMap<ItemId, ChildTally>,
    counters: Vec<Counter>,
    counters_of_all: Vec<RunCounters>,
    config_counters: Vec<ConfigCounter>,
    next_due: NextDue,
    due_by_stage: Vec<StageDue>,
    settled: Vec<(Plain, ChildTally)>,
    orphans: Vec<Plain>,
    held: Vec<Plain>,
    groups: Vec<Group>,
    workers: Vec<WorkerRow>,
    gates: Vec<GateRow>,
    facts: Vec<Fact>,
    tombstones: Vec<Tombstone>,
    outputs: Vec<Option<(ContentHash, Option<Verdict>)>>,
}

/// Where to look.
pub(super) struct View<'a> {
    pub(super) run: RunId,
    pub(super) now: Timestamp,
    pub(super) workers: &'a [WorkerId],
    pub(super) outputs: &'a [OutputKey],
}

pub(super) async fn take(store: &dyn Store, view: &View<'_>) -> Snapshot {
    let items = Items::of(store, view.run).await;
    let mut order: Vec<Item> = items.by_id.values().cloned().collect();
    order.sort_by_key(|item| item.seq);
    let (mut payloads, mut histories, mut tallies) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (id, item) in &items.by_id {
        let payload = store.payload(item.seq).await.expect("payload");
        payloads.insert(*id, payload.map(|payload| mark(&payload.whole().expect("whole"))));
        histories.insert(*id, whole_millis(store.history(item.seq).await.expect("history")));
        tallies.insert(*id, store.children(item.seq).await.expect("children"));
    }
    let mut held = Vec::new();
    for worker in view.workers {
        held.extend(store.held(*worker, None, 99).await.expect("held"));
    }
    let dead = ItemFilter { run: Some(view.run), ..ItemFilter::default() };
    let settled = store.settled(view.run, 99).await.expect("settled");
    let outputs = store.outputs(view.outputs.to_vec()).await.expect("outputs");
    let buried = TombstoneQuery { limit: usize::MAX, ..TombstoneQuery::default() };
    let tombstones = store.tombstones(buried).await.expect("tombstones");
    let facts = store.facts(usize::MAX).await.expect("facts");
    Snapshot {
        run: store.run(view.run).await.expect("run"),
        order: items.plains(&order),
        payloads,
        histories,
        tallies,
        counters: store.counters(view.run).await.expect("counters"),
        counters_of_all: store.counters_of_all(RunSet::All).await.expect("counters"),
        config_counters: store.config_counters(view.run).await.expect("counters"),
        next_due: store.next_due(view.run).await.expect("next due"),
        due_by_stage: store.due_by_stage(view.run).await.expect("due by stage"),
        settled: settled.into_iter().map(|one| (items.plain(&one.item), one.children)).collect(),
        orphans: items.plains(&store.orphans(view.run, view.now, 99).await.expect("orphans")),
        held: items.plains(&held),
        groups: store.groups(dead, 99).await.expect("groups"),
        workers: store.workers().await.expect("workers"),
        gates: store.gates().await.expect("gates"),
        tombstones: tombstones.into_iter().map(|one| Tombstone { seq: ItemSeq(0), ..one }).collect(),
        facts: facts.into_iter().map(|kept| kept.fact).collect(),
        outputs: outputs
            .into_iter()
            .map(|output| output.map(|kept| (mark(&kept.payload), kept.verdict)))
            .collect(),
    }
}

/// A content in a form that fits a failure's text.
pub(super) fn mark(content: &[u8]) -> ContentHash {
    ContentHash::of(&[content])
}

/// Stores keep waits in whole milliseconds.
fn whole_millis(mut history: History) -> History {
    for record in &mut history.attempts {
        record.wait = record.wait.map(|(wait, cause)| {
            (Duration::from_millis(u64::try_from(millis(wait)).expect("not negative")), cause)
        });
    }
    history
}
