//! Gates: what is read and written about them, and what the oracle is told.

use std::time::Duration;

use redrive_core::gate::Notice;
use redrive_core::time::Timestamp;
use redrive_engine::handler::Answer;
use redrive_store::{Applied, Error, GateRow, Store};

use super::{Open, Shift};
use crate::met::Met;
use crate::slip;
use crate::worker::Worker;

/// As in the session: how often what others wrote about gates is read.
const READ_EVERY: Duration = Duration::from_millis(250);
/// Turns that brought nothing which a worker may make within a second.
const FRUITLESS: u32 = 150;

/// Reads the gates, and who is alive, as a session does when it begins.
pub(super) async fn first_look(of: &Worker, now: Timestamp) -> Result<(Vec<GateRow>, Vec<String>), Error> {
    if of.recipe.gates.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let rows = of.store.gates().await?;
    of.store.oracle().on_gates_heard(of.store.actor().slot, true, now);
    let live = of.store.workers().await?.iter().map(|worker| worker.id.to_string()).collect();
    Ok((slip::rows(rows, of.slip), live))
}

impl Shift {
    pub(super) async fn hear_gates(&mut self, now: Timestamp) -> Result<(), Error> {
        if self.worker.recipe.gates.is_empty() {
            return Ok(());
        }
        let due = now.since(self.gates_read_at) >= READ_EVERY || self.gates_read_at > now;
        if due || self.desk.gates_stale() {
            let rows = self.worker.store.gates().await?;
            self.take_in(rows, now)?;
            self.gates_read_at = now;
        }
        Ok(())
    }

    fn take_in(&mut self, rows: Vec<GateRow>, now: Timestamp) -> Result<(), Error> {
        let store = &self.worker.store;
        store.oracle().on_gates_heard(store.actor().slot, false, now);
        self.desk.hear_gates(&slip::rows(rows, self.worker.slip), now)
    }

    /// What others should know, and what the oracle learns from it about what this worker knows.
    pub(super) fn gates_to_save(&mut self, now: Timestamp) -> Vec<GateRow> {
        let rows = self.desk.gates_to_save(now);
        let store = &self.worker.store;
        store.oracle().on_gates_told(store.actor().slot, &rows, self.desk.gates_stale(), now);
        rows
    }

    pub(super) fn gates_saved(&mut self, saved: Option<Result<Vec<Applied>, Error>>, now: Timestamp) {
        match saved {
            None => {}
            Some(Ok(applied)) => self.desk.gates_saved(Some(&applied), now),
            Some(Err(_)) => self.desk.gates_saved(None, now),
        }
    }

    pub(super) fn meet_notices(&mut self) {
        for (_, notice) in self.desk.take_notices() {
            self.worker.hub.meet(match notice {
                Notice::Paused(_) => Met::GateQuota,
                Notice::Away => Met::GateAway,
                Notice::Back => Met::GateBack,
                Notice::Parked(_) => Met::GateParked,
            });
        }
    }

    pub(super) async fn leave_gates(&mut self) {
        let now = self.worker.env.clock.now();
        for _ in 0..3 {
            if self.desk.gates_stale()
                && let Ok(rows) = self.worker.store.gates().await
                && self.take_in(rows, now).is_err()
            {
                return;
            }
            let rows = self.desk.leave_gates(now);
            if rows.is_empty() {
                return;
            }
            match self.worker.store.save_gates(rows).await {
                Ok(applied) if applied.iter().all(|applied| *applied == Applied::Done) => return,
                Ok(applied) => {
                    self.desk.gates_saved(Some(&applied), now);
                    self.desk.gates_are_stale();
                }
                Err(_) => return,
            }
        }
    }

    /// Tells the oracle what an answer taught the gate of its call.
    pub(super) fn tell_answer(&self, open: &Open, answer: &Answer, now: Timestamp) {
        let store = &self.worker.store;
        store.oracle().on_gate_answer(store.actor().slot, open.stage, open.items.len(), answer, now);
    }

    /// A worker that waits does not look all the time.
    pub(super) fn count_turn(&mut self) {
        let now = self.worker.hub.now();
        if std::mem::take(&mut self.fruitful) || now - self.fruitless.0 > 1_000 {
            self.fruitless = (now, 0);
        }
        self.fruitless.1 += 1;
        if self.fruitless.1 > FRUITLESS {
            let now = self.worker.env.clock.now();
            let (opens, wants) = (self.desk.opens_at(now), self.desk.wants(now));
            let what = format!(
                "{} turns within a second brought nothing, at {now}: opens at {opens:?}, due at {:?}, wants {wants:?}",
                self.fruitless.1, self.next_due
            );
            self.worker.hub.broke("spin", what);
        }
    }
}
