//! How a session ends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redrive_core::item::StateKind;
use redrive_core::status::Control;
use redrive_core::tally::Metric;
use redrive_core::time::Timestamp;
use redrive_engine::worker::{Blocked, Ending, Halt, NeedsSomebody, Stop, leave, leave_budget};
use redrive_store::{Error, Retired, RunChange, RunRow, Store};

use super::{Shift, span};
use crate::worker::Worker;

impl Shift {
    pub(super) async fn ending(&mut self) -> Result<Option<Ending>, Error> {
        let halted = self.desk.halt().is_some();
        let now = self.worker.env.clock.now();
        let held_up = !halted && self.desk.wants(now).is_empty();
        if !self.desk.is_idle() || !(halted || self.claimed_nothing || held_up) {
            return Ok(None);
        }
        let Worker { store, run, .. } = &self.worker;
        let admitting = self.worker.admitting.load(Ordering::SeqCst);
        let Some(row) = store.run(*run).await? else { return Ok(Some(Ending::Finished)) };
        let live = redrive_engine::report::live_items(store, *run).await?;
        if row.admitted_all && !admitting && live == 0 && self.finish(&row).await? {
            return Ok(Some(Ending::Finished));
        }
        if let Some(halt) = self.desk.halt() {
            return Ok(Some(match halt {
                Halt::Stopping => Ending::Stopped,
                Halt::Budget(_) | Halt::Quota(_) | Halt::Outage(_) | Halt::Asked(_) => {
                    Ending::Halted(halt.clone())
                }
            }));
        }
        let blocked = self.all_blocked(now).await?;
        if let Some(halt) = blocked.as_ref().and_then(|blocked| somebody(blocked)) {
            self.desk.stop(halt);
            return Ok(None);
        }
        // Nobody here ends for the sake of retries or gates that are too late: a daemon waits.
        let nobody_reads = !row.admitted_all && !admitting && live == 0;
        Ok(nobody_reads.then_some(Ending::Stopped))
    }

    async fn all_blocked(&self, now: Timestamp) -> Result<Option<Vec<Blocked>>, Error> {
        if self.worker.recipe.gates.is_empty() {
            return Ok(None);
        }
        let waiting = Metric::State(StateKind::Waiting);
        let counters = self.worker.store.counters(self.worker.run).await?;
        let stages = counters.into_iter().filter(|(_, metric, n)| *metric == waiting && *n > 0);
        let blocked: Option<Vec<Blocked>> = stages.map(|(stage, ..)| self.desk.blocked(stage, now)).collect();
        Ok(blocked.filter(|blocked| !blocked.is_empty()))
    }

    async fn finish(&self, row: &RunRow) -> Result<bool, Error> {
        if row.finished_at.is_some() || row.control == Control::Cancelled {
            return Ok(true);
        }
        let finished_at = Some(Some(self.worker.env.clock.now()));
        let change = RunChange { finished_at, ..RunChange::default() };
        let row = self.worker.store.change_run(row.id, change).await?;
        Ok(row.finished_at.is_some())
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
        self.leave_gates().await;
        let (store, run, me) = (&self.worker.store, self.worker.run, self.heartbeat.worker());
        let idle = leave(store, run, me, self.idle_ms, env.clock.now()).await;
        let _ = leave_budget(store, &mut self.desk, idle).await;
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

/// As in the session: every gate in the way waits for somebody, and not for an operator only.
fn somebody(blocked: &[Blocked]) -> Option<Halt> {
    let needs: Option<Vec<&NeedsSomebody>> =
        blocked.iter().map(|blocked| blocked.needs_somebody.as_ref()).collect();
    needs?.into_iter().find_map(|needs| match needs {
        NeedsSomebody::Quota(why) => Some(Halt::Quota(why.clone())),
        NeedsSomebody::Outage(why) => Some(Halt::Outage(why.clone())),
        NeedsSomebody::Operator => None,
    })
}
