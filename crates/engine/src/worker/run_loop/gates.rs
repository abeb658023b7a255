//! Sharing what is known about gates with other workers.

use std::time::Duration;

use redrive_core::gate::Notice;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Error, GateRow};

use super::WorkerLoop;
use crate::worker::driver::{Driver, Step};

/// How often what others wrote about gates is read.
const READ_EVERY: Duration = Duration::from_millis(250);

impl<D: Driver> WorkerLoop<D> {
    /// Takes in what others wrote, now and then, and whenever it is known that they did.
    pub(super) async fn hear_gates(&mut self, now: Timestamp) -> Result<(), Error> {
        if self.recipe.gates.is_empty() {
            return Ok(());
        }
        let due = now.since(self.gates_read_at) >= READ_EVERY || self.gates_read_at > now;
        if due || self.desk.gates_stale() {
            let rows = self.store.gates().await?;
            self.hear(rows, now)?;
            self.gates_read_at = now;
        }
        Ok(())
    }

    fn hear(&mut self, mut rows: Vec<GateRow>, now: Timestamp) -> Result<(), Error> {
        self.driver.observe(Step::GatesRead { rows: &mut rows, first: false }, &self.desk, now);
        self.desk.hear_gates(&rows, now)
    }

    /// What others should know is written, or is told again: a gate is never a reason to stop.
    pub(super) fn gates_saved(&mut self, saved: Option<Result<Vec<Applied>, Error>>, now: Timestamp) {
        match saved {
            None => {}
            Some(Ok(applied)) => self.desk.gates_saved(Some(&applied), now),
            Some(Err(error)) => {
                tracing::warn!(%error, "could not save what was found about a gate");
                self.desk.gates_saved(None, now);
            }
        }
    }

    /// Tells people, once, what they should know.
    pub(super) fn tell_notices(&mut self) {
        for (gate, notice) in self.desk.take_notices() {
            self.observe(Step::Noticed(&notice));
            match notice {
                Notice::Paused(why) => {
                    tracing::warn!(%gate, why, "gate paused until somebody acts; `redrive gates resume {gate}` lets it go on");
                }
                Notice::Away => {
                    tracing::warn!(%gate, "calls fail; the gate is closed, and tried out with one call at a time");
                }
                Notice::Back => tracing::info!(%gate, "calls pass again"),
                Notice::Parked(asked) => {
                    tracing::warn!(%gate, ?asked, "the service asks to be left alone for longer than hint_cap; the gate is parked");
                }
            }
        }
    }

    /// Leaves what was found, and the worker's share, to the others.
    pub(super) async fn leave_gates(&mut self) {
        let now = self.env.clock.now();
        for _ in 0..3 {
            if self.desk.gates_stale()
                && let Ok(rows) = self.store.gates().await
                && let Err(error) = self.hear(rows, now)
            {
                tracing::warn!(%error, "could not save what was found about the gates");
                return;
            }
            let rows = self.desk.leave_gates(now);
            if rows.is_empty() {
                return;
            }
            match self.store.save_gates(rows).await {
                Ok(applied) if applied.iter().all(|applied| *applied == Applied::Done) => return,
                // Those that were written are not counted again when the others are.
                Ok(applied) => self.desk.gates_saved(Some(&applied), now),
                Err(error) => {
                    tracing::warn!(%error, "could not save what was found about the gates");
                    return;
                }
            }
        }
    }
}
