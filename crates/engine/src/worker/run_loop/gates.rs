//! Sharing what is known about gates with other workers.

use std::time::Duration;

use redrive_core::gate::Notice;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Error, GateRow, Store};

use super::WorkerLoop;
use crate::journal;
use crate::worker::driver::{Driver, Step};
use crate::worker::gate_set::GateSet;

/// How often what others wrote about gates is read.
const READ_EVERY: Duration = Duration::from_millis(250);

impl<D: Driver> WorkerLoop<D> {
    /// Takes in what others wrote, now and then, and whenever it is known that they did.
    pub(super) async fn hear_gates(&mut self, now: Timestamp) -> Result<(), Error> {
        if self.recipe.gates.is_empty() {
            return Ok(());
        }
        let read_at = self.desk.gates().read_at();
        let due = read_at.is_none_or(|at| now.since(at) >= READ_EVERY || at > now);
        if due || self.desk.gates().is_stale() {
            let rows = self.store.gates().await?;
            self.hear(rows, now)?;
        }
        Ok(())
    }

    fn hear(&mut self, mut rows: Vec<GateRow>, now: Timestamp) -> Result<(), Error> {
        self.driver.observe(Step::GatesRead { rows: &mut rows, first: false }, &self.desk, now);
        self.desk.gates().hear(&rows, now)
    }

    /// What others should know is written, or is told again: a gate is never a reason to stop.
    pub(super) fn gates_saved(
        &mut self,
        sent: &[GateRow],
        saved: Result<Vec<Applied>, Error>,
        now: Timestamp,
    ) {
        if sent.is_empty() {
            return;
        }
        let saved = saved.inspect_err(|error| {
            tracing::warn!(%error, "could not save what was found about a gate");
        });
        self.desk.gates().saved(sent, saved.as_deref().ok(), now);
    }

    /// Tells people, once, what they should know.
    pub(super) fn tell_notices(&mut self) {
        for (gate, notice) in self.desk.gates().take_notices() {
            self.observe(Step::Noticed(&notice));
            match notice {
                Notice::Paused(why) => {
                    tracing::warn!(%gate, why, "gate paused until somebody acts; `redrive gates resume {gate}` lets it go on");
                }
                Notice::Away => {
                    tracing::warn!(%gate, "calls fail; the gate is away, and tried out with one call at a time");
                }
                // What is logged of gates that stand otherwise tells it.
                Notice::Back => {}
                Notice::Parked(asked) => {
                    tracing::warn!(%gate, ?asked, "the service asks to be left alone for longer than hint_cap; the gate is parked");
                }
            }
        }
    }

    /// Logs how the gates stand, where that has changed.
    pub(super) fn log_gates(&self) {
        if journal::tells_gates() {
            let changed = self.desk.gates().changed_standings(self.env.clock.now());
            changed.iter().for_each(|(gate, standing)| journal::gate_stands(gate, standing));
        }
    }

    /// Leaves what was found, and the worker's share, to the others.
    pub(super) async fn leave_gates(&mut self) {
        let now = self.env.clock.now();
        let (driver, desk) = (&mut self.driver, &self.desk);
        let read = &mut |rows: &mut Vec<GateRow>| {
            driver.observe(Step::GatesRead { rows, first: false }, desk, now);
        };
        leave_gates(&*self.store, desk.gates(), read, now).await;
    }
}

/// Tells others what a worker that has nothing to do found about gates, where it has not yet.
pub async fn tell_gates(store: &dyn Store, gates: &GateSet, now: Timestamp) {
    if gates.is_stale() {
        let heard = store.gates().await.and_then(|rows| gates.hear(&rows, now));
        if heard.is_err() {
            return;
        }
    }
    let rows = gates.to_save(now);
    if !rows.is_empty() {
        let saved = store.save_gates(rows.clone()).await;
        gates.saved(&rows, saved.as_deref().ok(), now);
    }
}

/// Leaves what a worker found about gates, and its share, to the others. `read` is told what was read.
pub async fn leave_gates(
    store: &dyn Store,
    gates: &GateSet,
    read: &mut (dyn FnMut(&mut Vec<GateRow>) + Send),
    now: Timestamp,
) {
    for _ in 0..3 {
        if gates.is_stale()
            && let Ok(mut rows) = store.gates().await
        {
            read(&mut rows);
            if let Err(error) = gates.hear(&rows, now) {
                tracing::warn!(%error, "could not save what was found about the gates");
                return;
            }
        }
        let rows = gates.leave(now);
        if rows.is_empty() {
            return;
        }
        match store.save_gates(rows.clone()).await {
            Ok(applied) if applied.iter().all(|applied| *applied == Applied::Done) => return,
            // Those that were written are not counted again when the others are.
            Ok(applied) => gates.saved(&rows, Some(&applied), now),
            Err(error) => {
                tracing::warn!(%error, "could not save what was found about the gates");
                return;
            }
        }
    }
}
