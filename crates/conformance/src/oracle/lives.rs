//! Random commands, each given to both stores.

mod around;
mod events;

use std::sync::Arc;

use redrive_core::budget::BudgetChange;
use redrive_core::event::Transition;
use redrive_core::id::{ContentHash, ItemId, Rev, RunId, StageNo, StoreId, WorkerId};
use redrive_core::item::{NewItem, Payload};
use redrive_core::order::Order;
use redrive_core::plan::Plan;
use redrive_core::reading::Reading;
use redrive_core::time::Timestamp;
use redrive_store::{
    Applied, Change, Claim, Claimed, Commit, Cursor, ItemRev, OperationKind, OutputKey, Prune, RunChange,
    Slot, Store, Submit, Submitted,
};

use super::dice::Dice;
use super::met::Met;
use super::snapshot::{Items, Plain, View, mark, take};
use crate::world::{SPLIT, START, new_operation, new_run, plan};

/// One sequence of commands over two stores.
pub(super) struct Lives {
    stores: [Arc<dyn Store>; 2],
    dice: Dice,
    plan: Plan,
    run: RunId,
    reading: Reading,
    workers: Vec<WorkerId>,
    outputs: Vec<OutputKey>,
    now: Timestamp,
    /// Transitions that were decided earlier and may be stale by now.
    old: Vec<[Transition; 2]>,
    steps: Vec<String>,
    seed: u64,
    met: Met,
}

impl Lives {
    pub(super) async fn begin(stores: [Arc<dyn Store>; 2], dice: Dice, seed: u64) -> Self {
        let source = format!("seed {seed}");
        let mut runs = Vec::new();
        for store in &stores {
            tells(&**store, seed.is_multiple_of(2)).await;
            runs.push(store.create_run(new_run(&source), START).await.expect("run").id);
        }
        assert_eq!(runs[0], runs[1], "both stores were empty at first");
        // Keys of its own: which outputs a store forgets with an earlier run is its own business.
        let config = seed.cast_signed();
        let outputs = (0..4).map(|n: u8| OutputKey { config, input: ContentHash::of(&[&[n]]) }).collect();
        let (workers, old, steps, met) = (Vec::new(), Vec::new(), Vec::new(), Met::default());
        let (plan, run, now) = (plan(), runs[0], START);
        let reading = Reading::FIRST;
        let mut lives =
            Self { stores, dice, plan, run, reading, workers, outputs, now, old, steps, seed, met };
        lives.register().await;
        lives
    }

    /// Fails with what led to it unless both answers are the same.
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, answers: [T; 2]) {
        self.steps.push(what.to_owned());
        let [memory, tested] = answers;
        if memory == tested {
            return;
        }
        let (memory, tested) = (format!("{memory:#?}"), format!("{tested:#?}"));
        let unlike = memory.lines().zip(tested.lines()).position(|(one, two)| one != two).unwrap_or(0);
        let near =
            |text: &str| text.lines().skip(unlike.saturating_sub(12)).take(24).collect::<Vec<_>>().join("\n");
        panic!(
            "seed {}, after {} steps ({}):\nmemory says\n{}\nthe store says\n{}",
            self.seed,
            self.steps.len(),
            self.steps.join(", "),
            near(&memory),
            near(&tested)
        );
    }

    pub(super) async fn step(&mut self) {
        match self.dice.below(26) {
            0..=3 => self.submit().await,
            4..=8 => self.claim().await,
            9..=16 => self.commit().await,
            17 => self.register().await,
            18 => self.lease().await,
            19 => self.purge().await,
            20 => self.change_run().await,
            21 => self.pass_on().await,
            22 => self.save_gates().await,
            23 => self.read_again().await,
            _ => self.tick().await,
        }
        if self.dice.one_in(6) {
            self.compare().await;
        }
    }

    async fn compare(&mut self) {
        let view = View { run: self.run, now: self.now, workers: &self.workers, outputs: &self.outputs };
        let snapshots = [take(&*self.stores[0], &view).await, take(&*self.stores[1], &view).await];
        self.same("look", snapshots);
    }

    /// Compares once more, forgets the run now and then, and says what was met.
    pub(super) async fn end(mut self) -> Met {
        self.compare().await;
        let operations = [self.stores[0].operations(None, 5).await, self.stores[1].operations(None, 5).await];
        self.same("operations", operations);
        if self.dice.one_in(3) {
            let change = RunChange::finished(self.now);
            let mut forgotten = [(0, 0); 2];
            for (store, sum) in self.stores.iter().zip(&mut forgotten) {
                store.change_run(self.run, change.clone()).await.expect("change");
                loop {
                    let prune =
                        Prune { finished_before: Timestamp::MAX, with_dead: true, only: None, limit: 7 };
                    let pruned = store.prune(prune, None).await.expect("prune");
                    *sum = (sum.0 + pruned.items, sum.1 + pruned.runs);
                    if !pruned.more {
                        break;
                    }
                }
            }
            self.same("prune", forgotten);
            self.outputs.clear();
            self.compare().await;
            self.met.count("pruned");
        }
        self.met
    }

    async fn submit(&mut self) {
        let count = 1 + self.dice.below(4);
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.new_item(12));
        }
        let cursor = Cursor {
            position: self.dice.below(99).to_string(),
            done: self.dice.one_in(2),
            duplicates: self.dice.below(2),
        };
        let submit = Submit {
            run: self.run,
            stage: SPLIT,
            reading: self.reading,
            items,
            deadline: self.dice.one_in(3).then(|| Timestamp(self.now.0 + 20_000)),
            new_versions: self.dice.one_in(3),
            changes: Vec::new(),
            cursor: self.dice.one_in(2).then_some(cursor),
            now: self.now,
        };
        let mut answers = [Vec::new(), Vec::new()];
        for (store, answers) in self.stores.iter().zip(&mut answers) {
            let given = store.submit(submit.clone()).await.expect("submit");
            let items = Items::of(&**store, self.run).await;
            *answers = given.iter().map(|answer| seen(answer, &items)).collect();
        }
        for (what, _) in &answers[0] {
            self.met.count(what);
        }
        self.same("submit", answers);
    }

    async fn read_again(&mut self) {
        let position = self.dice.one_in(2).then(|| "here".to_owned());
        let last = self.stores[0].run(self.run).await.expect("run").map_or(0, |row| row.reading);
        let mut numbers = [0; 2];
        for (store, number) in self.stores.iter().zip(&mut numbers) {
            *number = store.begin_reading(self.run, last, position.clone()).await.expect("begun");
        }
        self.reading = Reading { number: numbers[0], agreed: self.dice.below(3) };
        self.met.count("read again");
        self.same("read again", numbers);
    }

    fn new_item(&mut self, keys: u64) -> NewItem {
        let key = format!("k{}", self.dice.below(keys));
        let mut new = NewItem::new(key, self.content(), self.dice.below(3));
        if self.dice.one_in(12) {
            new.refused = Some(events::refusal());
        }
        new
    }

    fn content(&mut self) -> Payload {
        let size = self.dice.of(&[1, 1, 1, 2_048, 2_049, 6_000]);
        let fill = self.dice.of(b"abc");
        vec![fill; size].into()
    }

    async fn claim(&mut self) {
        let worker = self.dice.of(&self.workers.clone());
        let mut slots = Vec::new();
        for _ in 0..=self.dice.below(3) {
            slots.push(Slot {
                run: self.run,
                edition: 0,
                stage: StageNo(self.dice.of(&[0, 0, 1, 2, 3])),
                order: self.dice.of(&[Order::Oldest, Order::FreshFirst, Order::RetryFirst]),
                reserved: self.dice.index(3),
                limit: self.dice.index(6),
            });
        }
        let claim = Claim { worker, slots, pauses: 0, now: self.now };
        let mut answers = Vec::new();
        for store in &self.stores {
            let Claimed { items, damaged, next_due, outdated: _, unaware: _ } =
                store.claim(claim.clone()).await.expect("claim");
            assert_eq!(damaged, []);
            let known = Items::of(&**store, self.run).await;
            let items: Vec<_> =
                items.into_iter().map(|held| (known.plain(&held.item), mark(&held.payload))).collect();
            answers.push((items, next_due));
        }
        let answers: [_; 2] = answers.try_into().expect("two");
        if !answers[0].0.is_empty() {
            self.met.count("claimed");
        }
        self.same("claim", answers);
    }

    async fn commit(&mut self) {
        let mut pairs = self.decide_some().await;
        if !self.old.is_empty() && self.dice.one_in(3) {
            let index = self.dice.index(self.old.len());
            let old = self.old.swap_remove(index);
            if pairs.iter().all(|pair| pair[0].after.id != old[0].after.id) {
                pairs.push(old);
            }
        }
        let all_or_nothing = self.dice.one_in(4);
        let run = self.dice.one_in(6).then(|| {
            // Of few texts, so that some are made from the one that is kept.
            let was = (!self.dice.one_in(3)).then(|| self.dice.index(3).to_string());
            let budget = Some(BudgetChange { was, becomes: self.dice.index(3).to_string() });
            (self.run, RunChange { budget, ..RunChange::default() })
        });
        let operation = self.dice.one_in(6).then(|| new_operation(OperationKind::Redrive));
        let mut commits = [const { Vec::new() }; 2];
        for pair in pairs {
            let output = self.dice.one_in(3).then(|| self.outputs[self.dice.index(self.outputs.len())]);
            for (changes, transition) in commits.iter_mut().zip(pair.clone()) {
                changes.push(Change { output, ..Change::from(transition) });
            }
            if self.dice.one_in(3) {
                self.old.push(pair);
            }
        }
        let mut answers = [const { Vec::new() }; 2];
        for ((store, changes), answer) in self.stores.iter().zip(commits).zip(&mut answers) {
            let (run, operation) = (run.clone(), operation.clone());
            let commit =
                Commit { changes, all_or_nothing, unless_cancelled: None, run, operation, now: self.now };
            *answer = store.commit(commit).await.expect("commit");
        }
        if answers[0].contains(&Applied::Stale) {
            self.met.count(if all_or_nothing { "nothing" } else { "stale" });
        }
        self.same("commit", answers);
    }

    async fn purge(&mut self) {
        let ids: Vec<ItemId> = Items::of(&*self.stores[0], self.run).await.by_id.into_keys().collect();
        if ids.is_empty() {
            return;
        }
        let chosen = [self.dice.of(&ids), self.dice.of(&ids)];
        let off = i64::from(self.dice.one_in(4));
        let mut gone = [0; 2];
        for (store, gone) in self.stores.iter().zip(&mut gone) {
            let items = Items::of(&**store, self.run).await;
            let wanted = chosen
                .iter()
                .map(|id| &items.by_id[id])
                .map(|item| ItemRev { seq: item.seq, rev: Rev(item.rev.0 - off) });
            let operation = new_operation(OperationKind::Purge);
            *gone = store.purge(wanted.collect(), operation, self.now).await.expect("purge");
        }
        if gone[0] > 0 {
            self.met.count("purged");
        }
        self.same("purge", gone);
    }
}

/// Has facts kept or not, and none left from before.
async fn tells(store: &dyn Store, keeps: bool) {
    let left = store.facts(usize::MAX).await.expect("facts");
    store.facts_passed_on(left.iter().map(|kept| kept.id).collect()).await.expect("passed on");
    if keeps {
        store.keep_facts(StoreId(1)).await.expect("kept");
    } else {
        store.drop_facts().await.expect("dropped");
    }
}

/// An answer without row numbers.
fn seen(answer: &Submitted, items: &Items) -> (&'static str, Result<ItemId, Plain>) {
    match answer {
        Submitted::Admitted(id) => ("admitted", Ok(*id)),
        Submitted::Known(id) => ("known", Ok(*id)),
        Submitted::Duplicate(id) => ("duplicate", Ok(*id)),
        Submitted::Changed(item) => ("changed", Err(items.plain(item))),
    }
}
