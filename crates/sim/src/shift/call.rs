//! Calls and their answers.

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::time::millis;
use redrive_engine::handler::Reply;
use redrive_engine::worker::{Call, CallId};

use super::Shift;
use crate::hub::Event;
use crate::met::Met;
use crate::worker::Worker;

impl Shift {
    pub(super) fn start_calls(&mut self) {
        for call in self.desk.next_calls() {
            self.worker.store.oracle().on_called(call.request.items.iter().map(|item| item.id));
            self.start(call);
        }
    }

    /// Has a call answered, at some time, perhaps twice, perhaps never.
    fn start(&mut self, call: Call) {
        let Worker { hub, script, .. } = &self.worker;
        let (id, request) = (call.id, call.request);
        hub.score(|score| score.calls += 1);
        hub.log("call", &[i64::from(call.stage.0)], || {
            let keys: Vec<_> = request.items.iter().map(|item| &*item.key).collect();
            format!("{} {} {id:?}: {}", self.worker.store.actor().name, request.stage, keys.join(" "))
        });
        self.open.insert(id, request.items.iter().map(|item| (item.id, item.attempt)).collect());
        let answer = script.answer(hub, &request);
        let timeout = millis(request.timeout);
        let now = hub.now();
        let send = |after: i64, reply: Reply, special: Option<Met>| {
            hub.at(now + after, Event::Answer { mailbox: self.mailbox.clone(), id, reply, special });
        };
        match answer.after {
            Some(after) if after < timeout => {
                if !hub.healed() && hub.rng.permille(30) {
                    send(after + hub.rng.span(0, timeout), answer.reply.clone(), Some(Met::DuplicateAnswer));
                }
                send(after, answer.reply, None);
            }
            late => {
                let failure =
                    Failure::new(Class::Timeout, Kind::Timeout, format!("no answer within {timeout} ms"));
                send(timeout, Reply::Whole(failure), Some(Met::Timeout));
                if let Some(after) = late {
                    send(after, answer.reply, Some(Met::LateAnswer));
                }
            }
        }
    }

    pub(super) fn drain_replies(&mut self) {
        while let Some((id, reply)) = self.mailbox.take() {
            self.note(id, &reply);
            self.open.remove(&id);
            if let Some(next) = self.desk.finished(id, reply) {
                self.worker.hub.meet(Met::Bisection);
                self.start(next);
            }
        }
    }

    fn note(&self, id: CallId, reply: &Reply) {
        let alone = self.open.get(&id).is_some_and(|items| items.len() == 1);
        if let Reply::Whole(_) = reply {
            self.worker.hub.meet(if alone { Met::Poison } else { Met::Shared });
        }
    }
}
