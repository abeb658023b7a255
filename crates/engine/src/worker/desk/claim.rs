//! What to claim, and taking it in.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::answer::HandOver;
use redrive_core::event::{Event, ItemReply};
use redrive_core::id::{ContentHash, StageNo};
use redrive_core::item::Payload;
use redrive_core::order::{Order, reserved};
use redrive_core::time::Timestamp;
use redrive_store::{ClaimedItem, DamagedItem, KeptOutput, OutputKey, Slot};

use super::{Desk, Ended, Ready};
use crate::recipe::StageWork;

impl Desk {
    /// What to claim now: for each stage as much as can be started.
    #[must_use]
    pub fn wants(&self, now: Timestamp) -> Vec<Slot> {
        if self.halt.is_some() {
            return Vec::new();
        }
        let mut slots = Vec::new();
        for (stage, _) in self.recipe.plan.stages() {
            let (Some(work), Some(desk)) = (self.recipe.work(stage), self.stages.get(stage.index())) else {
                continue;
            };
            let limit =
                self.could_use(stage).min(self.room(stage, work, now).saturating_sub(desk.ready.len()));
            if limit > 0 {
                let (order, reserved) = self.lanes(stage, desk.given, limit, now);
                slots.push(Slot { run: self.run, edition: self.edition, stage, order, reserved, limit });
            }
        }
        // Later stages first: an item that is nearly done is finished before a new one is begun.
        slots.reverse();
        slots
    }

    /// Which lane goes first, and how many places are kept for the other. A service that is away is tried out with new items
    /// first: one that fails again has nothing before it that was not tried.
    fn lanes(&self, stage: StageNo, given: u64, limit: usize, now: Timestamp) -> (Order, usize) {
        if self.ask_gate(stage, |gate| gate.is_trying_out(now)).unwrap_or(false) {
            return (Order::FreshFirst, 0);
        }
        (self.recipe.order, reserved(self.recipe.share, given, limit))
    }

    /// Cuts a slot down, and with it the share of the lane that goes second.
    pub(in crate::worker) fn cut(&self, slot: &mut Slot, most: usize, now: Timestamp) {
        slot.limit = slot.limit.min(most);
        let given = self.stages.get(slot.stage.index()).map_or(0, |desk| desk.given);
        (slot.order, slot.reserved) = self.lanes(slot.stage, given, slot.limit, now);
    }

    /// How many more items a stage could work on, whatever its gate says.
    pub(in crate::worker) fn could_use(&self, stage: StageNo) -> usize {
        let (Some(work), Some(desk)) = (self.recipe.work(stage), self.stages.get(stage.index())) else {
            return 0;
        };
        if self.halt.is_some() || self.is_paused(stage) {
            return 0;
        }
        match work.call_size() {
            (size, true) => {
                let free = work.at_once().saturating_sub(desk.calling);
                free.saturating_mul(size).saturating_sub(desk.ready.len())
            }
            (_, false) => work.capacity().saturating_sub(desk.ready.len() + desk.items_calling),
        }
    }

    /// How many items can be called for soon, as far as the stage's gate goes.
    fn room(&self, stage: StageNo, work: &StageWork, now: Timestamp) -> usize {
        let batch = self.batch_size(stage).limit(work.batch);
        self.ask_gate(stage, |gate| gate.room(now).saturating_mul(batch)).unwrap_or(usize::MAX)
    }

    /// Whether a claim would bring little because every stage that wants something is busy with most of what it can do.
    #[must_use]
    pub fn is_busy(&self, slots: &[Slot]) -> bool {
        slots.iter().all(|slot| {
            let capacity = self.recipe.work(slot.stage).map_or(0, StageWork::capacity);
            let calling = self.stages.get(slot.stage.index()).is_some_and(|desk| desk.calling > 0);
            calling && slot.limit.saturating_mul(4) < capacity
        })
    }

    /// The items among these whose output may be known already, with the key it would be kept under.
    #[must_use]
    pub fn reusable(&self, claimed: &[ClaimedItem]) -> Vec<(usize, OutputKey)> {
        // Whoever has an item answers for it, whatever has become known meanwhile.
        let key = |claimed: &ClaimedItem| self.output_key(claimed).filter(|_| claimed.item.handed.is_none());
        claimed.iter().enumerate().filter_map(|(at, claimed)| key(claimed).map(|key| (at, key))).collect()
    }

    pub(super) fn output_key(&self, claimed: &ClaimedItem) -> Option<OutputKey> {
        let config = self.recipe.work(claimed.item.stage)?.reuse?;
        Some(OutputKey { config, input: ContentHash::of(&[&claimed.payload]) })
    }

    /// Takes claimed items in whose content is damaged: there is nothing to call a handler with.
    pub fn accept_damaged(&mut self, damaged: Vec<DamagedItem>) {
        for DamagedItem { item, what } in damaged {
            if let Some(desk) = self.stages.get_mut(item.stage.index()) {
                desk.given = desk.given.saturating_add(1);
            }
            let claimed = ClaimedItem { item, payload: Payload::from([]) };
            self.ended.push_back(Ended::new(claimed, Event::ContentDamaged { what }));
        }
    }

    /// Takes claimed items in. `slots` is what was asked for; `known` are outputs that need no call.
    pub fn accept(
        &mut self,
        slots: &[Slot],
        claimed: Vec<ClaimedItem>,
        mut known: BTreeMap<usize, KeptOutput>,
        now: Timestamp,
    ) {
        let mut got: BTreeMap<StageNo, usize> = BTreeMap::new();
        for (at, claimed) in claimed.into_iter().enumerate() {
            let stage = claimed.item.stage;
            *got.entry(stage).or_default() += 1;
            let known = known.remove(&at);
            let unanswered = claimed.item.handed.as_ref().is_some_and(|handed| handed.until <= now);
            if unanswered {
                self.ended.push_back(Ended::new(claimed, Event::Unanswered));
            } else if self.plan.deadline_of(&claimed.item).is_some_and(|deadline| now > deadline) {
                self.ended.push_back(Ended::new(claimed, Event::DeadlinePassed));
            } else if let Some(KeptOutput { payload, verdict }) = known {
                let reused = ItemReply::Reused(payload, verdict);
                self.ended.push_back(Ended::new(claimed, Event::Finished(reused)));
            } else {
                self.make_ready(claimed);
            }
        }
        for slot in slots {
            if let Some(desk) = self.stages.get_mut(slot.stage.index()) {
                let got = got.get(&slot.stage).copied().unwrap_or(0);
                desk.given = desk.given.saturating_add(got as u64);
                desk.drained = got < slot.limit;
            }
        }
        if self.halt.is_some() {
            self.release_ready();
        }
    }

    /// Puts an item where calls are made from, unless it can never be called for.
    fn make_ready(&mut self, claimed: ClaimedItem) {
        let stage = claimed.item.stage;
        let Some(work) = self.recipe.work(stage) else {
            return self.ended.push_back(Ended::new(claimed, Event::Released));
        };
        if claimed.item.handed.is_some() && work.handler.asks_every().is_none() {
            // Its answer comes by itself: there is nothing to ask for.
            let over = HandOver { within: Duration::ZERO, ask_in: None, ticket: None, route: None };
            let reply = ItemReply::HandedOver(over);
            return self.ended.push_back(Ended::new(claimed, Event::Finished(reply)));
        }
        let counted = claimed.item.handed.is_none() && (work.gate.is_some() || work.batch_tokens.is_some());
        let tokens = if counted { work.handler.tokens(&claimed.payload) } else { 0 };
        if let Some(failure) = self.impossible(stage, tokens) {
            let reply = ItemReply::Failed { failure, shared: false };
            self.ended.push_back(Ended::new(claimed, Event::Finished(reply)));
        } else if let Some(desk) = self.stages.get_mut(stage.index()) {
            desk.ready.push_back(Ready { claimed, tokens, spent: None });
        }
    }
}
