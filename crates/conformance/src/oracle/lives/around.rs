//! Commands about workers, runs, facts, gates and time.

use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, GateRow, Retired, RunChange};

use super::Lives;
use crate::gate::ODD_NAMES;
use crate::world::new_worker;

impl Lives {
    pub(super) async fn register(&mut self) {
        let lease_until = Timestamp(self.now.0 + 30_000);
        let mut ids = Vec::new();
        for store in &self.stores {
            ids.push(store.register(new_worker("w"), lease_until, self.now).await.expect("worker"));
        }
        self.workers.push(ids[0]);
        self.same("register", [ids[0], ids[1]]);
    }

    pub(super) async fn lease(&mut self) {
        let worker = self.dice.of(&self.workers.clone());
        let lost = self.dice.one_in(2);
        let until = Timestamp(self.now.0 + 30_000);
        let mut answers = [true; 2];
        for (store, answer) in self.stores.iter().zip(&mut answers) {
            if lost {
                store.retire(worker, Retired::Lost).await.expect("retire");
            }
            *answer = store.renew(worker, until, self.now).await.expect("renew");
        }
        self.same(if lost { "lose" } else { "renew" }, answers);
    }

    pub(super) async fn change_run(&mut self) {
        let control = self.dice.of(&[Control::Go, Control::Go, Control::Paused]);
        let change = RunChange::ask(control, None, self.now);
        let rows = [
            self.stores[0].change_run(self.run, change.clone()).await,
            self.stores[1].change_run(self.run, change).await,
        ];
        self.same("change run", rows);
    }

    pub(super) async fn pass_on(&mut self) {
        for store in &self.stores {
            if let Some(kept) = store.facts(2).await.expect("facts").last() {
                store.facts_passed_on(vec![kept.id]).await.expect("passed on");
            }
        }
        self.steps.push("pass on".to_owned());
    }

    /// A few gates are written, some under a number they no longer have, some twice.
    pub(super) async fn save_gates(&mut self) {
        let kept = self.stores[0].gates().await.expect("gates");
        let mut rows = Vec::new();
        for _ in 0..=self.dice.below(3) {
            let name = self.dice.of(&ODD_NAMES[..6]);
            let rev = kept.iter().find(|gate| gate.name == name).map_or(0, |gate| gate.rev);
            let state = format!("{{\"step\":{}}}", self.steps.len());
            let off = self.dice.of(&[0, 0, 0, 1, -1]);
            rows.push(GateRow { name: name.to_owned(), rev: rev + off, state, updated_at: self.now });
        }
        let answers = [self.stores[0].save_gates(rows.clone()).await, self.stores[1].save_gates(rows).await];
        for answer in answers[0].iter().flatten() {
            self.met.count(match answer {
                Applied::Done => "gate saved",
                Applied::Stale => "gate stale",
            });
        }
        self.same("save gates", answers);
    }

    /// Time goes on, and sometimes steps back.
    pub(super) async fn tick(&mut self) {
        let span = self.dice.of(&[10, 1_000, 1_500, 5_000, 20_000, -700]);
        self.now = Timestamp(self.now.0 + span);
        self.steps.push(format!("{span} ms"));
    }
}
