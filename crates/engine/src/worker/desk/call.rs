//! From claimed items to calls, and from replies to verdicts.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::bisect::{Bisect, Finding, Ruling, is_worth_splitting};
use redrive_core::event::{Event, Verdict};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ContentHash, StageNo};
use redrive_store::ClaimedItem;

use super::{Call, CallId, Desk, OpenCall};
use crate::handler::{Input, Reply, Request};

impl Desk {
    /// Hands out every call that can be started now.
    pub fn next_calls(&mut self) -> Vec<Call> {
        let mut calls = Vec::new();
        for no in 0..self.stages.len() {
            while let Some(members) = self.next_batch(no) {
                self.last_call += 1;
                let id = CallId(self.last_call);
                let stage = StageNo(u16::try_from(no).unwrap_or(u16::MAX));
                let open = OpenCall {
                    stage,
                    asked: 0..members.len(),
                    members: members.into_iter().map(Some).collect(),
                    bisect: None,
                };
                let desk = &mut self.stages[no];
                desk.calling += 1;
                desk.items_calling += open.members.len();
                calls.push(self.call(id, &open));
                self.calls.insert(id, open);
            }
        }
        calls
    }

    fn next_batch(&mut self, no: usize) -> Option<Vec<ClaimedItem>> {
        let work = self.recipe.stages.get(no)?;
        let desk = self.stages.get_mut(no)?;
        if desk.calling >= work.concurrency {
            return None;
        }
        let alone = desk.ready.front().is_some_and(|first| self.recipe.runs_alone(&first.item));
        let limit = if alone { 1 } else { work.batch.min(desk.largest.unwrap_or(work.batch)).max(1) };
        if desk.ready.is_empty() || (desk.ready.len() < limit && !desk.drained && desk.calling > 0) {
            return None;
        }
        let mut batch = Vec::with_capacity(limit.min(desk.ready.len()));
        while batch.len() < limit {
            match desk.ready.front() {
                Some(next) if batch.is_empty() || !self.recipe.runs_alone(&next.item) => {
                    batch.extend(desk.ready.pop_front());
                }
                _ => break,
            }
        }
        Some(batch)
    }

    fn call(&self, id: CallId, open: &OpenCall) -> Call {
        let plan = self.recipe.plan.stage(open.stage);
        let asked = open.members[open.asked.clone()].iter().flatten();
        let timeout = asked.clone().filter_map(|claimed| {
            let last = claimed.item.last.as_ref().map(|last| last.class);
            plan.map(|plan| plan.policy.timeout(plan.timeout, claimed.item.failures, last))
        });
        let name = plan.map_or("", |plan| &plan.name);
        let request = Request {
            stage: Arc::from(name),
            timeout: timeout.max().unwrap_or(Duration::from_secs(60)),
            items: asked.map(|claimed| input(claimed, name)).collect(),
        };
        Call { id, stage: open.stage, request }
    }

    /// Takes a reply in. Returns the next call of the same batch when it has to be taken apart.
    pub fn finished(&mut self, id: CallId, reply: Reply) -> Option<Call> {
        let mut open = self.calls.remove(&id)?;
        let asked = open.asked.clone();
        let reply = match reply {
            Reply::Items(verdicts) if verdicts.len() != asked.len() => Reply::Whole(Failure::new(
                Class::Retryable,
                Kind::Answer,
                format!("{} verdicts for {} items", verdicts.len(), asked.len()),
            )),
            reply => reply,
        };
        match reply {
            Reply::Items(verdicts) => {
                for (at, verdict) in asked.zip(verdicts) {
                    self.end(&mut open, at, Event::Finished(verdict));
                }
                if let Some(bisect) = &mut open.bisect {
                    bisect.passed();
                }
            }
            Reply::Whole(failure) => self.whole_failed(&mut open, &failure),
        }
        self.go_on(open)
    }

    fn whole_failed(&mut self, open: &mut OpenCall, failure: &Failure) {
        let failed =
            |failure: &Failure, shared| Event::Finished(Verdict::Failed { failure: failure.clone(), shared });
        let ruling = match &mut open.bisect {
            Some(bisect) => bisect.failed(failure),
            None if open.members.len() == 1 => Ruling::Guilty(0),
            None if is_worth_splitting(failure) => {
                let mut members = open.members.iter().flatten();
                let patient = members.any(|claimed| self.recipe.would_end(&claimed.item, failure));
                open.bisect = Some(Bisect::new(open.members.len(), failure, patient));
                Ruling::Undecided
            }
            None => Ruling::Shared((0..open.members.len()).collect()),
        };
        match ruling {
            Ruling::Guilty(at) => self.end(open, at, failed(failure, false)),
            Ruling::Shared(all) => all.into_iter().for_each(|at| self.end(open, at, failed(failure, true))),
            Ruling::Undecided => {}
        }
    }

    /// Makes the next call of a batch, or closes the batch.
    fn go_on(&mut self, mut open: OpenCall) -> Option<Call> {
        if let Some(range) = open.bisect.as_mut().and_then(Bisect::next_call) {
            open.asked = range;
            // A name of its own: an answer that comes twice is never taken for that of the next part.
            self.last_call += 1;
            let id = CallId(self.last_call);
            let call = self.call(id, &open);
            self.calls.insert(id, open);
            return Some(call);
        }
        let desk = self.stages.get_mut(open.stage.index())?;
        desk.calling -= 1;
        desk.items_calling -= open.members.len();
        match open.bisect.as_ref().map(Bisect::finding) {
            Some(Finding::Shape(largest)) => desk.largest = Some(largest),
            // What passed whole may grow again, slowly.
            None => desk.largest = desk.largest.map(|largest| largest.saturating_add(1)),
            Some(Finding::Poison(_) | Finding::Outage) => {}
        }
        None
    }

    fn end(&mut self, open: &mut OpenCall, at: usize, event: Event) {
        if let Some(claimed) = open.members.get_mut(at).and_then(Option::take) {
            self.ended.push_back((claimed, event));
        }
    }

    /// Breaks off every call: their items go back without having spent anything.
    pub fn interrupt(&mut self) {
        for (_, open) in std::mem::take(&mut self.calls) {
            if let Some(desk) = self.stages.get_mut(open.stage.index()) {
                desk.calling -= 1;
                desk.items_calling -= open.members.len();
            }
            self.ended
                .extend(open.members.into_iter().flatten().map(|claimed| (claimed, Event::Interrupted)));
        }
        self.release_ready();
    }
}

fn input(claimed: &ClaimedItem, stage: &str) -> Input {
    let key = ContentHash::of(&[&claimed.item.id.0, stage.as_bytes(), &claimed.payload]);
    Input {
        id: claimed.item.id,
        key: claimed.item.key.clone(),
        attempt: claimed.item.attempt,
        payload: claimed.payload.clone(),
        idempotency_key: Arc::from(key.to_string()),
    }
}
