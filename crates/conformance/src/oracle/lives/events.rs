//! Random things that happen to items.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::answer::HandOver;
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{Event, Gone, ItemReply, Transition};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::ItemId;
use redrive_core::item::{Item, LastFailure, StateKind};
use redrive_core::policy::{OwnPolicy, preset};
use redrive_core::time::Timestamp;
use redrive_core::usage::Usage;
use redrive_core::verdict::Verdict;

use super::super::snapshot::Items;
use super::Lives;
use crate::world::SPLIT;

/// Why a source refuses an item.
pub(super) fn refusal() -> LastFailure {
    LastFailure {
        class: Class::Final,
        kind: Kind::Input,
        message: Arc::from("not an item"),
        group: Arc::from("refused"),
        shared: false,
    }
}

impl Lives {
    /// Decides about a few items, for each store in terms of its own rows.
    pub(super) async fn decide_some(&mut self) -> Vec<[Transition; 2]> {
        let [memory, tested] =
            [Items::of(&*self.stores[0], self.run).await, Items::of(&*self.stores[1], self.run).await];
        let ids: Vec<ItemId> = memory.by_id.keys().copied().collect();
        let mut pairs: Vec<[Transition; 2]> = Vec::new();
        if ids.is_empty() {
            return pairs;
        }
        for _ in 0..6 {
            let id = self.dice.of(&ids);
            if pairs.iter().any(|pair| pair[0].after.id == id) {
                continue;
            }
            let item = &memory.by_id[&id];
            let event = self.event(item).await;
            let at = Moment { now: self.now, draw: Draw::from_bits(self.dice.bits()) };
            let decided = decide(item, event.clone(), &self.plan, at);
            let other = decide(&tested.by_id[&id], event, &self.plan, at);
            // An event that cannot happen in this state happens to nobody.
            if let (Ok(one), Ok(two)) = (decided, other) {
                let mut pair = [one, two];
                self.consume(&mut pair);
                pairs.push(pair);
            }
        }
        pairs
    }

    /// Some attempts consumed something, now and then more than a counter can hold.
    fn consume(&mut self, pair: &mut [Transition; 2]) {
        if pair[0].record.is_none() || !self.dice.one_in(3) {
            return;
        }
        let amounts = [0, 1, 17, 12_345, 1 << 40];
        let huge = self.dice.one_in(20);
        let usage = Usage {
            tokens_in: if huge { u64::MAX } else { self.dice.of(&amounts) },
            tokens_out: self.dice.of(&amounts),
            nano_usd: self.dice.one_in(2).then(|| self.dice.of(&amounts)),
        };
        for record in pair.iter_mut().filter_map(|transition| transition.record.as_mut()) {
            record.usage = Some(usage);
        }
        self.met.count("consumed");
    }

    async fn event(&mut self, item: &Item) -> Event {
        match item.state.kind() {
            StateKind::Running => self.running().await,
            StateKind::Joining if !self.dice.one_in(4) => {
                Event::ChildrenSettled(self.stores[0].children(item.seq).await.expect("children"))
            }
            StateKind::Dead if !self.dice.one_in(4) => {
                let due = Timestamp(self.now.0 + self.dice.of(&[0, 0, 4_000]));
                let payload = self.dice.one_in(3).then(|| self.content());
                let policy = self.dice.one_in(3).then(|| {
                    self.met.count("own policy");
                    let name = self.dice.of(&["none", "llm", "sample"]);
                    OwnPolicy::new(name, preset(name).expect("a preset").policy.clone())
                });
                Event::Redriven { due, payload, policy }
            }
            StateKind::Waiting if item.handed.is_some() && !self.dice.one_in(4) => {
                self.met.count("answered");
                match self.dice.below(3) {
                    0 => Event::Unanswered,
                    1 => Event::Answered(ItemReply::Filtered("dull".to_owned())),
                    _ => Event::Answered(ItemReply::Output(Some(self.content()))),
                }
            }
            StateKind::Waiting if self.dice.one_in(3) => {
                Event::Rescheduled { due: Timestamp(self.now.0 + self.dice.of(&[0, 700, 40_000])) }
            }
            StateKind::Waiting if self.dice.one_in(2) => Event::DeadlinePassed,
            StateKind::Succeeded if self.dice.one_in(3) => {
                Event::Rerun { stage: redrive_core::id::StageNo(0), payload: self.content() }
            }
            _ => match self.dice.below(5) {
                0 if item.parent.is_none() => Event::ChildReopened { stage: SPLIT },
                1 => Event::CancelRequested,
                2 => Event::Superseded(self.dice.of(&[Gone::Newer, Gone::Removed, Gone::Reconfigured])),
                3 => Event::Reconfigured,
                _ => Event::Killed { why: "an operator".to_owned() },
            },
        }
    }

    fn verdict(&mut self) -> Option<Verdict> {
        let [passed, needs_review, failed] = Verdict::ALL;
        let verdict = self.dice.of(&[None, Some(passed), Some(needs_review), Some(failed)]);
        if verdict.is_some() {
            self.met.count("judged");
        }
        verdict
    }

    async fn running(&mut self) -> Event {
        let reply = match self.dice.below(20) {
            0..=2 => ItemReply::Output(None),
            3 | 4 => ItemReply::Output(Some(self.content())),
            5 => ItemReply::Reused(self.content(), self.verdict()),
            13 | 14 => match (self.verdict(), self.dice.one_in(2).then(|| self.content())) {
                (Some(verdict), payload) => ItemReply::Judged(verdict, payload),
                (None, payload) => ItemReply::Output(payload),
            },
            6 => ItemReply::Filtered("dull".to_owned()),
            7..=9 => {
                let count = self.dice.index(4);
                let mut children: Vec<_> = (0..count).map(|_| self.new_item(5)).collect();
                children.dedup_by(|a, b| a.key == b.key);
                ItemReply::Children(children)
            }
            10 => return Event::Released,
            11 => return Event::Interrupted,
            12 => return Event::LeaseExpired,
            15 => {
                self.met.count("handed over");
                let ask_in = self.dice.of(&[None, None, Some(0), Some(300), Some(9_000)]);
                let ask_in = ask_in.map(Duration::from_millis);
                let ticket = self.dice.one_in(2).then(|| "t".into());
                let route = self.dice.one_in(3).then(|| "parts.made".into());
                let within = Duration::from_millis(self.dice.of(&[1, 4_000, 90_000]));
                ItemReply::HandedOver(HandOver { within, ask_in, ticket, route })
            }
            _ => {
                let class = self.dice.of(&Class::ALL);
                let kind = self.dice.of(&Kind::ALL);
                let texts = ["timed out after 31 ms", "no such model", "503 from 10.0.0.7"];
                let failure = Failure::new(class, kind, self.dice.of(&texts));
                let failure = if self.dice.one_in(2) { failure.with_status(503) } else { failure };
                if self.dice.one_in(3) {
                    self.met.count("turned away");
                    let wait = Duration::from_millis(self.dice.of(&[0, 1, 900, 30_000]));
                    return Event::Finished(ItemReply::TurnedAway { failure, wait });
                }
                ItemReply::Failed { failure, shared: self.dice.one_in(3) }
            }
        };
        Event::Finished(reply)
    }
}
