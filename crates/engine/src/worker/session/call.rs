//! Making calls, and waiting for what comes next.

use std::time::Duration;

use super::super::desk::{Call, CallId};
use super::super::execute::execute;
use super::Loop;
use super::claim::GATHER;
use crate::handler::Answer;

impl Loop {
    pub(super) fn start_calls(&mut self) {
        for call in self.desk.next_calls(self.session.env.clock.now()) {
            self.start(call);
        }
    }

    fn start(&mut self, call: Call) {
        let Some(work) = self.session.recipe.work(call.stage) else { return };
        let (id, handler) = (call.id, work.handler.clone());
        let task = tokio::spawn(execute(call, handler, self.session.env.clone(), self.sender.clone()));
        self.tasks.insert(id, task.abort_handle());
    }

    /// Waits for a reply, new items, the next due time, the next look, or a word to stop.
    pub(super) async fn wait(&mut self) {
        let now = self.session.env.clock.now();
        let room = !self.desk.wants(now).is_empty();
        let idle = !self.desk.has_records() && (self.claimed_nothing || self.held_back || !room);
        if !idle {
            self.drain_replies();
            if self.desk.is_calling() && !self.desk.has_records() {
                tokio::task::yield_now().await;
            }
            return;
        }
        // A due time that has passed while there was no room is no reason to wake: room is made by a reply. With room it
        // has passed since the claim, and what is due is fetched at once.
        let tick = if self.held_back { GATHER } else { self.session.settings.tick };
        let until =
            self.next_due.filter(|due| room || *due > now).map_or(tick, |due| due.since(now)).min(tick);
        // A gate that holds something up is looked at again when it may let it through.
        let until = self.desk.opens_at(now).map_or(until, |opens| opens.since(now).min(until));
        let until = if self.desk.gates_urgent() { Duration::ZERO } else { until };
        let wake = self.session.wake.clone();
        let clock = self.session.env.clock.clone();
        let mut stop = self.session.stop.clone();
        tokio::select! {
            reply = self.replies.recv() => {
                if let Some((id, answer)) = reply {
                    self.take(id, answer);
                }
            }
            () = wake.notified() => {}
            () = clock.sleep(until.max(Duration::from_millis(1))) => {}
            _ = stop.changed() => {}
        }
        self.claimed_nothing = false;
        // Replies come in swarms: one more turn for the others gathers more of them into one transaction.
        tokio::task::yield_now().await;
        self.drain_replies();
    }

    fn drain_replies(&mut self) {
        while let Ok((id, answer)) = self.replies.try_recv() {
            self.take(id, answer);
        }
    }

    fn take(&mut self, id: CallId, answer: Answer) {
        self.tasks.remove(&id);
        self.desk.finished(id, answer, self.session.env.clock.now());
    }

    pub(super) fn break_off(&mut self) {
        for task in std::mem::take(&mut self.tasks).into_values() {
            task.abort();
        }
        self.desk.interrupt();
    }
}
