//! How a session ends.

use std::time::Duration;

use redrive_engine::worker::{Ending, Halt, Stop};
use redrive_store::{Error, Retired, RunChange, Store};

use super::{Shift, span};
use crate::worker::Worker;

impl Shift {
    pub(super) async fn ending(&mut self) -> Result<Option<Ending>, Error> {
        if !self.desk.is_idle() {
            return Ok(None);
        }
        if let Some(halt) = self.desk.halt() {
            return Ok(Some(match halt {
                Halt::Stopping => Ending::Stopped,
                Halt::Budget(_) | Halt::Quota(_) | Halt::Asked(_) => Ending::Halted(halt.clone()),
            }));
        }
        if !self.claimed_nothing {
            return Ok(None);
        }
        let Worker { store, run, env, .. } = &self.worker;
        let Some(row) = store.run(*run).await? else { return Ok(Some(Ending::Finished)) };
        if !row.admitted_all || redrive_engine::report::live_items(store, *run).await? > 0 {
            return Ok(None);
        }
        let finished_at = Some(Some(env.clock.now()));
        store.change_run(*run, RunChange { finished_at, ..RunChange::default() }).await?;
        Ok(Some(Ending::Finished))
    }

    pub(super) async fn bear(&mut self, error: Error) -> Result<(), Error> {
        let now = self.worker.env.clock.now();
        let since = *self.failing_since.get_or_insert(now);
        let lasted = now.since(since);
        let told = self.worker.orders.stop();
        if !error.is_passing() || lasted > span(self.worker.pace.patience) || told == Stop::Now {
            return Err(error);
        }
        let pause = (lasted / 2).clamp(Duration::from_millis(50), Duration::from_secs(5));
        self.worker.env.clock.sleep(pause).await;
        Ok(())
    }

    pub(super) async fn close(&mut self, ending: &Result<Ending, Error>) {
        self.break_off();
        if self.must_reconcile && self.reconcile().await.is_ok() {
            self.must_reconcile = false;
        }
        let env = self.worker.env.clone();
        while let Some(commit) = self.desk.commit(env.clock.now(), || env.dice.draw()) {
            match self.worker.store.commit(commit).await {
                Ok(applied) => self.disturbed |= self.desk.committed(&applied) > 0,
                Err(_) => {
                    self.disturbed = true;
                    break;
                }
            }
        }
        let clean = ending.is_ok() && self.desk.is_idle() && !self.must_reconcile;
        let how = if clean { Retired::Stopped } else { Retired::Lost };
        let worker = self.heartbeat.worker();
        if self.worker.store.retire(worker, how).await.is_ok() && !self.disturbed && how == Retired::Stopped {
            let checked = self.worker.store.oracle().on_broken_off(worker, &self.broken_off);
            if let Err(broken) = checked {
                self.worker.hub.broke(broken.law, broken.what);
            }
        }
    }
}
