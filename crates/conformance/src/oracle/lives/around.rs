//! Commands about workers, runs, facts and time.

use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Retired, RunChange};

use super::Lives;
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
            *answer = store.renew(worker, until).await.expect("renew");
        }
        self.same(if lost { "lose" } else { "renew" }, answers);
    }

    pub(super) async fn change_run(&mut self) {
        let control = self.dice.of(&[Control::Go, Control::Go, Control::Paused]);
        let change = RunChange { control: Some((control, None)), ..RunChange::default() };
        let rows = [
            self.stores[0].change_run(self.run, change.clone()).await,
            self.stores[1].change_run(self.run, change).await,
        ];
        self.same("change run", rows);
    }

    pub(super) async fn pass_on(&mut self) {
        for store in &self.stores {
            if let Some(fact) = store.facts(2).await.expect("facts").last() {
                store.facts_passed_on(fact.seq).await.expect("passed on");
            }
        }
        self.steps.push("pass on".to_owned());
    }

    /// Time goes on, and sometimes steps back.
    pub(super) async fn tick(&mut self) {
        let span = self.dice.of(&[10, 1_000, 1_500, 5_000, 20_000, -700]);
        self.now = Timestamp(self.now.0 + span);
        self.steps.push(format!("{span} ms"));
    }
}
