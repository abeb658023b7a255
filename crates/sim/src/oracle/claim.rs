//! Claims: only due items, only of a run that goes on, only to a living worker, each lane its share.

use redrive_core::id::{ItemSeq, StageNo};
use redrive_core::item::{Item, Lane, State};
use redrive_core::order::Order;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Claim, Claimed, ClaimedItem, Slot, Store};

use super::{Known, Oracle, Ruling, broken};
use crate::hub::Broken;

impl Oracle {
    /// Takes in a claim and its answer.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn on_claim(&mut self, store: &dyn Store, claim: &Claim, got: &Claimed) -> Ruling {
        let touched = self.claimed(claim, got)?;
        self.verify(store, &touched)
    }

    /// Takes in what a claim did to its items.
    pub(super) fn claimed(&mut self, claim: &Claim, got: &Claimed) -> Result<Vec<ItemSeq>, Broken> {
        let aware = self.is_aware(claim, got)?;
        self.given_nothing_paused(got)?;
        let may = aware && self.control == Control::Go && self.holds(claim.worker, claim.now);
        if !may && !got.items.is_empty() {
            let (worker, control) = (claim.worker, self.control);
            return broken(
                "L3",
                format!("{worker} was given {} items, with the run {control:?}", got.items.len()),
            );
        }
        for slot in &claim.slots {
            self.lanes(claim, slot, got)?;
        }
        let mut touched = Vec::with_capacity(got.items.len());
        for given in &got.items {
            self.given(claim, given)?;
            touched.push(given.item.seq);
        }
        if may {
            for slot in &claim.slots {
                self.nothing_left(slot, claim.now, got)?;
            }
        }
        let n = i64::try_from(got.items.len()).unwrap_or(0);
        self.hub.log("claimed", &[claim.worker.0, n], || {
            let keys: Vec<_> =
                got.items.iter().map(|given| format!("{}@{}", given.item.key, given.item.stage.0)).collect();
            format!("{} {}", claim.worker, keys.join(" "))
        });
        Ok(touched)
    }

    fn given(&mut self, claim: &Claim, given: &ClaimedItem) -> Ruling {
        let now = claim.now;
        let Some(known) = self.items.get_mut(&given.item.seq) else {
            return broken("L1", format!("{} was claimed and never admitted", given.item.key));
        };
        let key = known.item.key.clone();
        match known.item.state {
            State::Waiting { due, .. } if due <= now => {}
            State::Waiting { due, .. } => {
                return broken("L7", format!("{key} was claimed at {now}, due at {due}"));
            }
            ref state => return broken("L3", format!("{key} was claimed while it was {state:?}")),
        }
        if given.payload != known.payload {
            return broken("L5", format!("{key} was claimed with other content than it has"));
        }
        let mut after = known.item.clone();
        after.state = State::Running { worker: claim.worker, since: now };
        after.rev = after.rev.next();
        // Who looks after an answer goes on with the attempt that it is awaited for.
        after.attempt += u32::from(after.handed.is_none());
        after.updated_at = now;
        if after != given.item {
            return broken("L2", format!("{key} was claimed as {:?}, to be {after:?}", given.item));
        }
        known.paused_ms = self.workers.get(&claim.worker).map_or(0, |lease| lease.paused_ms);
        let before = std::mem::replace(&mut known.item, after.clone());
        self.stand(&before, -1);
        self.stand(&after, 1);
        Ok(())
    }

    /// Takes in that the claimer of an item found its content damaged.
    pub fn on_damaged(&mut self, item: &Item) {
        if let Some(known) = self.items.get_mut(&item.seq) {
            known.damaged = Some(item.rev);
        }
    }

    fn due(&self, stage: StageNo, now: Timestamp) -> impl Iterator<Item = &Known> {
        self.items.values().filter(move |known| {
            known.item.stage == stage && matches!(known.item.state, State::Waiting { due, .. } if due <= now)
        })
    }

    /// L7: a slot that was not filled leaves nothing due behind.
    fn nothing_left(&self, slot: &Slot, now: Timestamp, got: &Claimed) -> Ruling {
        let given = got.items.iter().filter(|given| given.item.stage == slot.stage).count();
        if given > slot.limit {
            return broken("L7", format!("{given} items for a slot of {}", slot.limit));
        }
        match self.due(slot.stage, now).next() {
            Some(left) if given < slot.limit => {
                broken("L7", format!("{} is due and was left, with room for it", left.item.key))
            }
            _ => Ok(()),
        }
    }

    /// L8: with both lanes full, the second gets its reserve, at once and over time. To be called before the items move.
    fn lanes(&mut self, claim: &Claim, slot: &Slot, got: &Claimed) -> Ruling {
        let second = match slot.order {
            Order::Oldest => return self.oldest(slot, claim.now, got),
            Order::FreshFirst => Lane::Retry,
            Order::RetryFirst => Lane::Fresh,
        };
        let is_fresh = |item: &Item| item.lane() == Lane::Fresh;
        let of_lane = |known: &&Known| is_fresh(&known.item) == (second == Lane::Fresh);
        let waiting = self.due(slot.stage, claim.now).filter(of_lane).count();
        let all = self.due(slot.stage, claim.now).count();
        let mine = got.items.iter().filter(|given| given.item.stage == slot.stage);
        let lane_before = |item: &Item| match item.attempt <= 1 && item.handed.is_none() {
            true => Lane::Fresh,
            false => Lane::Retry,
        };
        let (given, of_second) = mine.fold((0_usize, 0_usize), |(all, its), given| {
            (all + 1, its + usize::from(lane_before(&given.item) == second))
        });
        if given > 0 && of_second < slot.reserved.min(waiting) {
            return broken("L8", format!("{second:?} got {of_second} of {} reserved places", slot.reserved));
        }
        let both_full = waiting >= slot.limit && all - waiting >= slot.limit;
        // What is away is tried out with new items first.
        let tried_out = self.may_be_tried_out(slot.stage);
        let window = self.windows.entry((claim.worker, slot.stage)).or_default();
        if !both_full || given == 0 || tried_out {
            *window = (0, 0);
            return Ok(());
        }
        window.0 += given as u64;
        window.1 += of_second as u64;
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let (share, has) = (self.recipe.share * window.0 as f64, window.1 as f64);
        if has + 1.0 < share {
            return broken(
                "L8",
                format!(
                    "{second:?} got {} of {} places, its share is {}",
                    window.1, window.0, self.recipe.share
                ),
            );
        }
        Ok(())
    }

    /// L8 without lanes: nobody who was submitted earlier, and is due no later, is passed over.
    fn oldest(&self, slot: &Slot, now: Timestamp, got: &Claimed) -> Ruling {
        let mine = got.items.iter().filter(|given| given.item.stage == slot.stage);
        let taken: Vec<ItemSeq> = mine.map(|given| given.item.seq).collect();
        let order = |known: &Known| (known.item.created_at, known.item.seq);
        let last = taken.iter().filter_map(|seq| self.items.get(seq)).map(order).max();
        let Some(last) = last else { return Ok(()) };
        // Each lane is cut at the limit by due time before ages are compared.
        if self.due(slot.stage, now).count() > slot.limit {
            return Ok(());
        }
        match self.due(slot.stage, now).find(|known| order(known) < last && !taken.contains(&known.item.seq))
        {
            Some(passed) => broken("L8", format!("{} was passed over by a younger item", passed.item.key)),
            None => Ok(()),
        }
    }
}
