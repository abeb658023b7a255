//! From claimed items to calls, and from answers to replies.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::answer::{AnswerToken, HandOver};
use redrive_core::bisect::{Bisect, Finding, Ruling, is_worth_splitting};
use redrive_core::event::{Event, ItemReply};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::{Gate, Lesson, Sign};
use redrive_core::id::{ContentHash, ItemId, StageNo};
use redrive_core::item::{Item, LastFailure};
use redrive_core::policy::Policy;
use redrive_core::time::Timestamp;
use redrive_core::usage::Usage;
use redrive_store::ClaimedItem;

use super::gates::sign_of;
use super::{Call, CallId, Desk, Ended, OpenCall, Ready};
use crate::handler::{Answer, Input, Reply, Request};
use crate::trace;

/// How long an answer is left alone that could not be asked for, where the stage does not say.
const ASKED_AGAIN: Duration = Duration::from_secs(30);
/// An item that was turned away so often without a hint is no longer taken for one among many.
const MOST_THROTTLES: u32 = 10;

impl Desk {
    /// Hands out every call that can be started now: parts of batches that are being taken apart first.
    pub fn next_calls(&mut self, now: Timestamp) -> Vec<Call> {
        let mut calls = Vec::new();
        for _ in 0..self.parts.len() {
            let Some(part) = self.parts.pop_front() else { break };
            match self.permit(part.stage, part.tokens(), now) {
                Some(permit) => calls.push(self.hand_out(OpenCall { permit, ..part })),
                None => self.parts.push_back(part),
            }
        }
        for no in 0..self.stages.len() {
            let stage = StageNo(u16::try_from(no).unwrap_or(u16::MAX));
            while let Some((size, tokens)) = self.next_batch(stage, now) {
                let Some(permit) = self.permit(stage, tokens, now) else { break };
                let desk = &mut self.stages[no];
                let members: Vec<_> = desk.ready.drain(..size).map(Some).collect();
                desk.calling += 1;
                desk.items_calling += members.len();
                let open = OpenCall {
                    stage,
                    asked: 0..members.len(),
                    members,
                    bisect: None,
                    permit,
                    failed: 0,
                    turned_away: false,
                    receipt: None,
                };
                calls.push(self.hand_out(open));
            }
        }
        calls
    }

    /// How many of the items that are ready make the next call, and about how many tokens that takes.
    fn next_batch(&mut self, stage: StageNo, now: Timestamp) -> Option<(usize, u64)> {
        let (first, size, tokens) = self.planned(stage, now)?;
        self.stages.get_mut(stage.index())?.ready.swap(0, first);
        Some((size, tokens))
    }

    /// The next call of a stage, if only its gate lets it through: which item is its first, how many there are, and about
    /// how many tokens that takes.
    pub(super) fn planned(&self, stage: StageNo, now: Timestamp) -> Option<(usize, usize, u64)> {
        let recipe = &self.recipe;
        let work = recipe.work(stage)?;
        let (trying_out, most_tokens) = self
            .ask_gate(stage, |gate| (gate.is_trying_out(now), gate.most_tokens()))
            .unwrap_or((false, None));
        let most_tokens = most_tokens.into_iter().chain(work.batch_tokens).min();
        let most = self.batch_size(stage).limit(work.batch).min(work.call_size().0);
        let desk = self.stages.get(stage.index())?;
        let places = if self.among_others { self.places_held(stage) } else { usize::MAX };
        if desk.calling >= work.at_once().min(places) {
            return None;
        }
        if trying_out {
            // A dependency that may be away is tried out with the cheapest item there is.
            let (cheapest, ready) = desk.ready.iter().enumerate().min_by_key(|(_, ready)| ready.tokens)?;
            return Some((cheapest, 1, ready.tokens));
        }
        let beside = |ready: &Ready| recipe.most_beside(&ready.claimed.item, most);
        let mut limit = desk.ready.front().map_or(most, beside);
        if desk.ready.is_empty() || (desk.ready.len() < limit && !desk.drained && desk.calling > 0) {
            return None;
        }
        let (mut size, mut tokens) = (0, 0_u64);
        for next in &desk.ready {
            let full = most_tokens.is_some_and(|most| tokens.saturating_add(next.tokens) > most);
            limit = limit.min(beside(next));
            if size > 0 && (full || size >= limit) {
                break;
            }
            size += 1;
            tokens = tokens.saturating_add(next.tokens);
        }
        Some((0, size, tokens))
    }

    fn hand_out(&mut self, open: OpenCall) -> Call {
        // A name of its own for every part: an answer that comes twice is never taken for that of the next one.
        self.last_call += 1;
        let id = CallId { run: self.run, no: self.last_call };
        let plan = self.recipe.plan.stage(open.stage);
        let asked = open.members[open.asked.clone()].iter().flatten().map(|ready| &ready.claimed);
        let timeout = asked.clone().filter_map(|claimed| {
            let last = claimed.item.last.as_ref().map(|last| last.class);
            plan.map(|plan| plan.policy_of(&claimed.item).timeout(plan.timeout, claimed.item.failures, last))
        });
        let name = plan.map_or("", |plan| &plan.name);
        let request = Request {
            run: self.run,
            rank: self.rank,
            stage: Arc::from(name),
            timeout: timeout.max().unwrap_or(Duration::from_secs(60)),
            items: asked.map(|claimed| self.input(claimed, name)).collect(),
        };
        let call = Call { id, stage: open.stage, request };
        self.calls.insert(id, open);
        call
    }

    fn input(&self, claimed: &ClaimedItem, stage: &str) -> Input {
        let key = ContentHash::of(&[&claimed.item.id.0, stage.as_bytes(), &claimed.payload]);
        Input {
            id: claimed.item.id,
            key: claimed.item.key.clone(),
            attempt: claimed.item.attempt,
            payload: claimed.payload.clone(),
            token: AnswerToken::of(&claimed.item),
            handed: claimed.item.handed.clone(),
            idempotency_key: Arc::from(key.to_string()),
            traceparent: trace::context(&self.traced, &claimed.item),
        }
    }

    /// The items that a call is made for.
    pub(crate) fn called(&self, id: CallId) -> impl Iterator<Item = &Item> {
        let open = self.calls.get(&id);
        let asked = open.into_iter().flat_map(|open| open.members[open.asked.clone()].iter().flatten());
        asked.map(|ready| &ready.claimed.item)
    }

    /// Takes an answer in. A batch that has to be taken apart goes on with [`Desk::next_calls`].
    pub fn finished(&mut self, id: CallId, answer: Answer, now: Timestamp) {
        let Some(mut open) = self.calls.remove(&id) else { return };
        let asked = open.asked.len();
        let Answer { reply, usage, limits, receipt } = answer;
        open.receipt = receipt;
        let tokens = usage.as_ref().map(Usage::tokens);
        if let Some(usage) = usage {
            open.spend(usage);
        }
        match reply {
            Reply::Items(replies) if replies.len() == asked => {
                let said: Vec<(usize, ItemReply)> = open.asked.clone().zip(replies).collect();
                let sign = self.sign_of_items(&open, &said);
                let lesson = Lesson { sign: sign_ref(sign.as_ref()), tokens, limits };
                self.teach(open.stage, open.permit, &lesson, now);
                self.take_replies(&mut open, said, sign.is_some(), now);
                if let Some(bisect) = &mut open.bisect {
                    bisect.passed();
                }
            }
            Reply::Items(replies) => {
                let text = format!("{} replies for {asked} items", replies.len());
                let failure = Failure::new(Class::Retryable, Kind::Answer, text);
                self.whole_failed(&mut open, &failure, Lesson { sign: Sign::Neutral, tokens, limits }, now);
            }
            Reply::Whole(failure) if self.has_only_to_wait(&open, &failure) => {
                let sign = sign_of(&failure, 1, false);
                self.teach(open.stage, open.permit, &Lesson { sign, tokens, limits }, now);
                let ask_in = self.asks_again_in(open.stage, failure.hint);
                let over =
                    HandOver { within: Duration::ZERO, ask_in: Some(ask_in), ticket: None, route: None };
                self.end(&mut open, 0, Event::Finished(ItemReply::HandedOver(over)));
            }
            Reply::Whole(failure) => {
                self.whole_failed(&mut open, &failure, Lesson { sign: Sign::Neutral, tokens, limits }, now);
            }
            Reply::Part { replies, begun } => {
                let said = open.asked.clone().zip(replies).filter_map(|(at, said)| Some((at, said?)));
                let said: Vec<(usize, ItemReply)> = said.collect();
                let sign = self.sign_of_items(&open, &said);
                // What turned some of them away is the gate's affair, however many were left out.
                if sign.is_some() {
                    let lesson = Lesson { sign: sign_ref(sign.as_ref()), tokens, limits };
                    self.teach(open.stage, open.permit.take(), &lesson, now);
                }
                self.take_replies(&mut open, said, sign.is_some(), now);
                // A part of a batch was begun with before.
                let begun = begun || open.bisect.is_some();
                return self.give_up(open, if begun { &Event::Interrupted } else { &Event::Released });
            }
        }
        open.permit = None;
        self.go_on(open, now);
    }

    /// Whether an answer was asked for in vain, without a word that there will be none: it is awaited as before.
    fn has_only_to_wait(&self, open: &OpenCall, failure: &Failure) -> bool {
        let [Some(ready)] = open.members.as_slice() else { return false };
        let handed = ready.claimed.item.handed.is_some();
        handed && self.recipe.reclassified(&ready.claimed.item, failure).class != Class::Final
    }

    fn asks_again_in(&self, stage: StageNo, hint: Option<Duration>) -> Duration {
        let every = self.recipe.work(stage).and_then(|work| work.handler.asks_every());
        every.unwrap_or(ASKED_AGAIN).max(hint.unwrap_or_default())
    }

    /// What the replies tell of the dependency: the failure that turned items away, if one did.
    fn sign_of_items(&self, open: &OpenCall, replies: &[(usize, ItemReply)]) -> Option<Failure> {
        let turned_away = replies.iter().filter_map(|(at, reply)| {
            let ItemReply::Failed { failure, .. } = reply else { return None };
            let ready = open.members.get(*at)?.as_ref()?;
            let failure = self.recipe.reclassified(&ready.claimed.item, failure);
            matches!(failure.class, Class::RateLimited | Class::Quota).then_some(failure)
        });
        let turned_away: Vec<Failure> = turned_away.collect();
        // A few items of a batch are their own affair; most of them are everybody's, and so is exhausted credit.
        let most = turned_away.len() * 2 >= replies.len();
        // Exhausted credit says more than any wait, and a longer wait more than a shorter one.
        turned_away
            .into_iter()
            .filter(|failure| most || failure.class == Class::Quota)
            .max_by_key(|failure| (failure.class == Class::Quota, failure.hint))
    }

    fn take_replies(
        &mut self,
        open: &mut OpenCall,
        replies: Vec<(usize, ItemReply)>,
        dependency: bool,
        now: Timestamp,
    ) {
        for (at, reply) in replies {
            let reply = match reply {
                ItemReply::Failed { failure, shared } => {
                    self.failed(open, at, failure, shared, dependency, now)
                }
                reply => reply,
            };
            self.end(open, at, Event::Finished(reply));
        }
    }

    /// The reply for an item that failed: turned away, where its gate answers for that.
    fn failed(
        &self,
        open: &OpenCall,
        at: usize,
        failure: Failure,
        shared: bool,
        dependency: bool,
        now: Timestamp,
    ) -> ItemReply {
        let away = self.ask_gate(open.stage, Gate::is_away);
        let Some((away, ready)) = away.zip(open.members.get(at).and_then(Option::as_ref)) else {
            return ItemReply::Failed { failure, shared };
        };
        let throttled = match self.recipe.reclassified(&ready.claimed.item, &failure).class {
            Class::RateLimited | Class::Quota => true,
            Class::Retryable => failure.kind == Kind::Server && failure.hint.is_some(),
            Class::Final | Class::Timeout | Class::Oversized | Class::Crash => false,
        };
        let of_the_service = matches!(sign_of(&failure, 1, true), Sign::Failed { .. });
        let spared = dependency && (throttled || (of_the_service && away));
        if !spared {
            return ItemReply::Failed { failure: self.within_hint_cap(&ready.claimed.item, failure), shared };
        }
        let probe = open.permit.is_some_and(|permit| permit.is_probe());
        let wait = self.wait_at_gate(&ready.claimed.item, failure.hint, probe, now);
        ItemReply::TurnedAway { failure, wait }
    }

    /// The same failure, with no longer a hint than its gate grants, where that is less than the policy does.
    fn within_hint_cap(&self, item: &Item, failure: Failure) -> Failure {
        let policy = self.recipe.plan.policy_of(item).map(Policy::hint_cap);
        let gate = self.ask_gate(item.stage, |gate| gate.spec().hint_cap);
        match (gate, policy) {
            (Some(gate), Some(policy)) if gate < policy => {
                let hint = failure.hint.map(|hint| hint.min(gate));
                failure.with_hint(hint)
            }
            _ => failure,
        }
    }

    fn whole_failed(&mut self, open: &mut OpenCall, failure: &Failure, lesson: Lesson<'_>, now: Timestamp) {
        let failure = &self.as_limiter(open, failure, now);
        open.failed += 1;
        let taken_apart = open.bisect.is_some();
        let refusal = self.refusal(open, failure);
        let ruling = match &mut open.bisect {
            Some(bisect) => bisect.failed(failure),
            None if open.members.len() == 1 => Ruling::Guilty(0),
            None if is_worth_splitting(failure) => {
                let mut members = open.members.iter().flatten();
                let patient = members.any(|ready| self.recipe.would_end(&ready.claimed.item, failure));
                open.bisect = Some(Bisect::new(open.members.len(), failure, patient));
                Ruling::Undecided
            }
            None => Ruling::Shared((0..open.members.len()).collect()),
        };
        // As the stage takes it: a pipeline may have its own mind about statuses.
        let first = open.members.iter().flatten().next();
        let taken = first
            .map_or_else(|| failure.clone(), |ready| self.recipe.reclassified(&ready.claimed.item, failure));
        let passed = open.bisect.as_ref().is_some_and(Bisect::has_passed);
        let single = taken_apart && matches!(ruling, Ruling::Guilty(_));
        let calls = if passed || single { 1 } else { open.failed };
        let fresh = open.members.iter().flatten().any(|ready| is_fresh(&ready.claimed.item));
        let blamed = self.is_to_blame(open, &taken);
        let own_fault = refusal.as_ref().is_some_and(|refusal| refusal.of_item);
        let sign = match &ruling {
            // One item of a batch whose other items pass: the dependency is not to blame.
            Ruling::Guilty(_) if passed || own_fault => Sign::Neutral,
            Ruling::Guilty(_) if blamed => Sign::Answered,
            Ruling::Undecided => Sign::Neutral,
            Ruling::Guilty(_) | Ruling::Shared(_) => match &refusal {
                Some(refusal) => Sign::Refused { why: taken.message(), items: &refusal.items },
                None => sign_of(&taken, calls, fresh),
            },
        };
        let dependency = !matches!(sign, Sign::Answered | Sign::Neutral);
        open.turned_away = taken_apart && dependency && !matches!(sign, Sign::Failed { .. });
        self.teach(open.stage, open.permit, &Lesson { sign, ..lesson }, now);
        let (ended, shared) = match ruling {
            Ruling::Guilty(at) => (vec![at], false),
            Ruling::Shared(all) => (all, true),
            Ruling::Undecided => (Vec::new(), false),
        };
        for at in ended {
            let mut failure = failure.clone();
            if own_fault {
                failure.class = Class::Final;
            }
            let reply = self.failed(open, at, failure, shared, dependency, now);
            self.end(open, at, Event::Finished(reply));
        }
    }

    /// A plain 503 while other calls pass, or are being worked on, is how many limiters turn calls away. An item that it happens to again and again is to
    /// blame itself.
    fn as_limiter(&self, open: &OpenCall, failure: &Failure, now: Timestamp) -> Failure {
        let plain =
            (failure.class, failure.kind, failure.status) == (Class::Retryable, Kind::Server, Some(503));
        let serving = self.ask_gate(open.stage, |gate| gate.is_serving(now)).unwrap_or(false);
        let mut items = open.members.iter().flatten().map(|ready| &ready.claimed.item);
        let mut taken = failure.clone();
        if plain && serving && items.all(|item| item.throttles < MOST_THROTTLES) {
            taken.class = Class::RateLimited;
        }
        taken
    }

    /// Whether a dependency that is thought to be away was tried out in vain with these very items before: it answers, and all
    /// others that wait have been tried too, as they go first, so that it is the items that are left.
    fn is_to_blame(&self, open: &OpenCall, failure: &Failure) -> bool {
        let probe = open.permit.is_some_and(|permit| permit.is_probe());
        let answered = matches!(sign_of(failure, 1, false), Sign::Failed { lost: false, .. });
        let mut items = open.members.iter().flatten().map(|ready| &ready.claimed.item);
        probe && answered && failure.kind == Kind::Server && items.all(was_probe)
    }

    /// What is known of a call that was refused as if the key were not good; `None` for any other failure.
    fn refusal(&self, open: &OpenCall, failure: &Failure) -> Option<Refusal> {
        let members = || open.members.iter().flatten().map(|ready| &ready.claimed.item);
        let first = members().next()?;
        let taken = self.recipe.reclassified(first, failure);
        if (taken.class, taken.kind) != (Class::Quota, Kind::Access) {
            return None;
        }
        let items: Vec<ItemId> = members().map(|item| item.id).collect();
        // Of a batch nobody is to blame: its items run alone from then on.
        let [only] = items.as_slice() else { return Some(Refusal { items, of_item: false }) };
        let of_item = self.ask_gate(open.stage, |gate| gate.blames(*only)).unwrap_or(false);
        Some(Refusal { items, of_item })
    }

    /// Puts the next part of a batch up for a call, or closes the batch.
    fn go_on(&mut self, mut open: OpenCall, now: Timestamp) {
        if let (Some(bisect), Some(largest)) = (&mut open.bisect, self.batch_size(open.stage).largest) {
            bisect.no_more_than(largest as usize);
        }
        if let Some(range) = open.bisect.as_mut().and_then(Bisect::next_call) {
            open.asked = range;
            self.parts.push_back(open);
            return;
        }
        let stage = open.stage;
        let Some(configured) = self.recipe.work(stage).map(|work| work.batch) else { return };
        let Some(desk) = self.stages.get_mut(stage.index()) else { return };
        desk.calling -= 1;
        desk.items_calling -= open.members.len();
        let mut batch = self.batch_size(stage);
        match open.bisect.as_ref().map(Bisect::finding) {
            Some(Finding::Shape(largest)) => batch.refused(largest, now),
            Some(Finding::Luck(largest)) => batch.suspected(largest, now),
            Some(Finding::Outage) if open.turned_away => batch.doubted(open.asked.len(), now),
            None if open.failed == 0 => batch.passed(open.members.len(), configured, now),
            None | Some(Finding::Poison(_) | Finding::Outage) => {}
        }
        self.learn_batch(stage, batch);
    }

    fn end(&mut self, open: &mut OpenCall, at: usize, event: Event) {
        if let Some(ready) = open.members.get_mut(at).and_then(Option::take) {
            self.ended.push_back(Ended { receipt: open.receipt.clone(), ..ready.ended(event) });
        }
    }

    /// Breaks off every call: their items go back without having spent anything.
    pub fn interrupt(&mut self) {
        for (_, open) in std::mem::take(&mut self.calls) {
            self.break_off(open);
        }
        for part in std::mem::take(&mut self.parts) {
            self.break_off(part);
        }
        self.release_ready();
    }
}

/// A call that was refused as if the key were not good.
struct Refusal {
    /// Its items.
    items: Vec<ItemId>,
    /// Whether it is because of its only item: others pass.
    of_item: bool,
}

impl OpenCall {
    /// Divides what the call under way consumed among its items: it is paid for, whatever becomes of them.
    fn spend(&mut self, usage: Usage) {
        let asked = &mut self.members[self.asked.clone()];
        let weights: Vec<u64> = asked.iter().flatten().map(weight).collect();
        for (ready, part) in asked.iter_mut().flatten().zip(usage.divide(&weights)) {
            ready.spent = Some(ready.spent.map_or(part, |spent| spent.plus(part)));
        }
    }
}

/// Whether an item tried a dependency out that was away: its gate answered for a failure of the service.
fn was_probe(item: &Item) -> bool {
    let of_the_service = |last: &LastFailure| last.shared && last.kind == Kind::Server;
    item.throttles > 0 && item.last.as_ref().is_some_and(of_the_service)
}

/// Whether the failure of an item says something of its dependency: it had not failed before, nor tried it out.
fn is_fresh(item: &Item) -> bool {
    item.failures == 0 && !was_probe(item)
}

fn sign_ref(failure: Option<&Failure>) -> Sign<'_> {
    failure.map_or(Sign::Answered, |failure| sign_of(failure, 1, true))
}

/// What an item's part of a call's tokens is measured by.
fn weight(ready: &Ready) -> u64 {
    if ready.tokens > 0 { ready.tokens } else { ready.claimed.payload.len() as u64 }
}
