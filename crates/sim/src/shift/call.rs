//! Calls and their answers.

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::time::millis;
use redrive_engine::handler::{Answer, Reply};
use redrive_engine::worker::{Call, CallId};

use super::{Open, Shift};
use crate::hub::Event;
use crate::met::Met;
use crate::slip;
use crate::worker::Worker;

impl Shift {
    pub(super) fn start_calls(&mut self) {
        let now = self.worker.env.clock.now();
        for call in self.desk.next_calls(now) {
            self.fruitful = true;
            let items = call.request.items.iter().map(|item| (item.id, item.attempt));
            let store = &self.worker.store;
            if items.clone().any(|item| self.called.contains(&item)) {
                self.worker.hub.meet(Met::Bisection);
            } else {
                store.oracle().on_called(items.clone().map(|(id, _)| id));
                self.called.extend(items);
            }
            let may = store.oracle().on_gate_call(store.actor().slot, call.stage, now);
            if let Err(broken) = may {
                self.worker.hub.broke(broken.law, broken.what);
            }
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
        let most = script.gated.batch_tokens.get(call.stage.index()).copied().flatten();
        let tokens: u64 = request.items.iter().map(|item| script.tokens(&item.payload)).sum();
        if most.is_some_and(|most| request.items.len() > 1 && tokens + 65 > most) {
            hub.meet(Met::ShortBatch);
        }
        let items = request.items.iter().map(|item| (item.id, item.attempt)).collect();
        self.open.insert(id, Open { stage: call.stage, items });
        let said = script.answer(hub, &request);
        let timeout = millis(request.timeout);
        let now = hub.now();
        let send = |after: i64, answer: Answer, special: Option<Met>| {
            hub.at(now + after, Event::Answer { mailbox: self.mailbox.clone(), id, answer, special });
        };
        match said.after {
            Some(after) if after < timeout => {
                if !hub.healed() && hub.rng.permille(30) {
                    send(after + hub.rng.span(0, timeout), said.answer.clone(), Some(Met::DuplicateAnswer));
                }
                send(after, said.answer, None);
            }
            late => {
                let failure =
                    Failure::new(Class::Timeout, Kind::Timeout, format!("no answer within {timeout} ms"));
                send(timeout, Reply::Whole(failure).into(), Some(Met::Timeout));
                if let Some(after) = late {
                    send(after, said.answer, Some(Met::LateAnswer));
                }
            }
        }
    }

    pub(super) fn drain_replies(&mut self) {
        while let Some((id, answer)) = self.mailbox.take() {
            self.fruitful = true;
            self.note(id, &answer.reply);
            let now = self.worker.env.clock.now();
            if let Some(open) = self.open.remove(&id) {
                self.tell_answer(&open, &answer, now);
            }
            self.desk.finished(id, slip::answer(answer, self.worker.slip), now);
        }
    }

    fn note(&self, id: CallId, reply: &Reply) {
        let alone = self.open.get(&id).is_some_and(|open| open.items.len() == 1);
        if let Reply::Whole(_) = reply {
            self.worker.hub.meet(if alone { Met::Poison } else { Met::Shared });
        }
    }
}
