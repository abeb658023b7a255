//! Making calls, taking their answers, and waiting for what comes next.

use std::time::Duration;

use super::WorkerLoop;
use super::claim::GATHER;
use crate::journal;
use crate::worker::driver::{Driver, Part, Step};

/// Longer than anything lasts.
const FOR_EVER: Duration = Duration::from_secs(1 << 40);

impl<D: Driver> WorkerLoop<D> {
    pub(super) fn start_calls(&mut self) {
        for call in self.desk.next_calls(self.env.clock.now()) {
            journal::started(self.desk.plan(), self.desk.called(call.id));
            self.driver.start(call);
        }
    }

    /// Waits for an answer, new items, the next due time, the next look, or a word to stop.
    pub(super) async fn wait(&mut self) {
        let now = self.env.clock.now();
        // Where other runs have the places, room is made by them.
        let room = !self.crowded && !self.desk.wants(now).is_empty();
        let idle =
            !self.desk.has_records() && (self.claimed_nothing || self.held_back || self.crowded || !room);
        if !idle {
            self.take_answers();
            if self.desk.is_calling() && !self.desk.has_records() {
                self.driver.breathe().await;
            }
            return;
        }
        // A due time that has passed while there was no room is no reason to wake: room is made by an answer. With room it
        // has passed since the claim, and what is due is fetched at once.
        let usual = if self.driver.omits(Part::Tick) { FOR_EVER } else { self.settings.tick };
        let tick = if self.held_back { GATHER } else { usual };
        let until =
            self.next_due.filter(|due| room || *due > now).map_or(tick, |due| due.since(now)).min(tick);
        // A gate that holds something up is looked at again when it may let it through.
        let opens = self.desk.opens_at(now);
        let until = opens.map_or(until, |opens| opens.since(now).min(until));
        let until = if self.desk.gates().is_urgent() { Duration::ZERO } else { until };
        self.observe(Step::Idle { opens });
        self.driver.wait(until.max(Duration::from_millis(1))).await;
        self.claimed_nothing = false;
        if !self.take_answers() {
            // It is not known what ended the wait: something may have come to any stage.
            self.quiet.clear();
        }
    }

    /// Takes in the answers that have come; `false` when none has.
    fn take_answers(&mut self) -> bool {
        let mut any = false;
        while let Some((id, answer)) = self.driver.answered() {
            self.desk.finished(id, answer, self.env.clock.now());
            any = true;
        }
        any
    }

    pub(super) fn break_off(&mut self) {
        self.driver.break_off();
        self.desk.interrupt();
    }
}
