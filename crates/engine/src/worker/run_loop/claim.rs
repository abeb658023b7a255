//! Recording what ended and claiming what can be started, in one go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redrive_core::event::Transition;
use redrive_core::id::StageNo;
use redrive_core::item::{Payload, State};
use redrive_core::time::Timestamp;
use redrive_store::{Claim, Claimed, ClaimedItem, Commit, Error, KeptOutput, Slot, Turn, Turned};

use super::WorkerLoop;
use crate::worker::desk::Halt;
use crate::worker::driver::{Driver, Part, Step};
use crate::worker::places::Wish;
use crate::{crash, journal};

/// A worker that is nearly fully busy gathers free places this long before it claims again, instead of claiming singly.
pub(super) const GATHER: Duration = Duration::from_millis(3);

impl<D: Driver> WorkerLoop<D> {
    /// After a claim whose answer was lost: gives back what the store says is held here but nobody here knows of.
    pub(super) async fn reconcile(&mut self) -> Result<(), Error> {
        if self.driver.omits(Part::Reconcile) {
            return Ok(());
        }
        let mut unknown = Vec::new();
        let mut after = None;
        loop {
            let held = self.store.held(self.driver.worker(), after, self.settings.page).await?;
            let Some(last) = held.last() else { break };
            after = Some(last.seq);
            let run = self.desk.run();
            let lost = held.into_iter().filter(|item| item.run == run && !self.desk.holds(item));
            unknown.extend(lost.map(|item| ClaimedItem { item, payload: Payload::from([]) }));
        }
        if !unknown.is_empty() {
            self.observe(Step::Reconciled);
        }
        self.desk.give_back(unknown);
        Ok(())
    }

    /// Records what ended, claims what can be started, and tells others about the gates.
    pub(super) async fn record_and_claim(&mut self) -> Result<(), Error> {
        let env = self.env.clone();
        let now = env.clock.now();
        let commit = self.desk.commit(now, || env.dice.draw());
        let mut slots = self.desk.wants(now);
        let gates = self.desk.gates().to_save(now);
        let step = Step::Turns {
            changes: commit.as_ref().map_or(0, |commit| commit.changes.len()),
            gates: &gates,
            wants: &slots,
        };
        self.driver.observe(step, &self.desk, now);
        self.hold_back(&mut slots, commit.as_ref(), now);
        let commit = commit.map(|commit| self.finishing(commit, now));
        let commit = commit.filter(|_| slots.is_empty() || !self.driver.omits(Part::Record));
        let worker = self.driver.worker();
        let pauses = self.desk.pauses_known();
        let claim = (!slots.is_empty()).then(|| Claim { worker, slots: slots.clone(), pauses, now });
        let turn = Turn { commit, gates: gates.clone(), claim };
        if turn.is_empty() {
            self.ring_others();
            return Ok(());
        }
        let (records, saves, claims) = (turn.commit.is_some(), !gates.is_empty(), turn.claim.is_some());
        crash::points([
            (records, "record.before_commit"),
            (saves, "gates.before_save"),
            (claims, "claim.before"),
        ]);
        let turned = self.store.turn(turn).await.unwrap_or_else(Turned::from);
        crash::points([
            (records, "record.after_commit"),
            (saves, "gates.after_save"),
            (claims, "claim.after"),
        ]);
        self.gates_saved(&gates, turned.gates, now);
        // What is recorded is known to be so before a failed claim is looked into.
        let recorded = turned.applied.map(|applied| if records { self.desk.committed(&applied) } else { 0 });
        if claims {
            self.accept(&slots, turned.claimed, now).await?;
        }
        self.ring_others();
        let stale = recorded?;
        if stale > 0 {
            self.observe(Step::Disturbed);
            tracing::warn!(
                items = stale,
                "results came too late and were dropped: the items had been taken over or changed"
            );
        }
        Ok(())
    }

    /// Leaves out of a claim what would bring little or belongs to other runs: places that are gathered first, stages that
    /// are known to have nothing, and what goes beyond the run's share.
    fn hold_back(&mut self, slots: &mut Vec<Slot>, commit: Option<&Commit>, now: Timestamp) {
        let just_claimed = self.claimed_at <= now && now.since(self.claimed_at) < GATHER;
        self.held_back = just_claimed && self.desk.is_busy(slots);
        self.crowded = false;
        if self.held_back {
            slots.clear();
        }
        if let Some(mates) = self.mates.clone() {
            self.hear_of_work(commit, now);
            let wanted = slots.len();
            slots.retain(|slot| !self.quiet.contains(&slot.stage));
            self.claimed_nothing |= wanted > 0 && slots.is_empty();
            let wish =
                Wish { rank: mates.rank, few: self.few, quiet: &self.quiet, later: self.held_back, now };
            self.crowded = mates.places.share_out(&wish, &self.desk, slots);
        }
        if !slots.is_empty() {
            self.claimed_at = now;
        }
    }

    /// Stages that something comes to, or becomes due at, have something to be claimed.
    fn hear_of_work(&mut self, commit: Option<&Commit>, now: Timestamp) {
        if self.next_due.is_some_and(|due| due <= now) {
            self.quiet.clear();
        }
        for change in commit.iter().flat_map(|commit| &commit.changes) {
            let Transition { after, children, .. } = &change.transition;
            if children.is_some() {
                self.quiet.clear();
            }
            if matches!(after.state, State::Waiting { due, .. } if due <= now) {
                self.quiet.remove(&after.stage);
            }
        }
    }

    /// The stages that gave all that was asked of them, and may have more. The others have nothing due now.
    fn full_slots(&mut self, slots: &[Slot], claimed: &[ClaimedItem]) -> BTreeSet<StageNo> {
        let got = |slot: &Slot| claimed.iter().filter(|claimed| claimed.item.stage == slot.stage).count();
        let (full, empty): (Vec<&Slot>, _) = slots.iter().partition(|slot| got(slot) >= slot.limit);
        if !full.is_empty() {
            self.few = None;
        }
        if self.mates.is_some() {
            self.quiet.extend(empty.into_iter().map(|slot| slot.stage));
        }
        full.into_iter().map(|slot| slot.stage).collect()
    }

    /// Lets other runs know that there is a place for them.
    pub(super) fn ring_others(&mut self) {
        let Some(mates) = &self.mates else { return };
        for run in mates.places.served_next(self.desk.run()) {
            self.driver.ring(run);
        }
    }

    async fn accept(
        &mut self,
        slots: &[Slot],
        claimed: Result<Claimed, Error>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut claimed = claimed.inspect_err(|_| self.must_reconcile = true)?;
        self.driver.observe(Step::Claimed(&mut claimed), &self.desk, now);
        if claimed.unaware {
            // Nothing was given before it is known what is paused.
            self.claimed_nothing = false;
            self.hear_pauses(now).await?;
            if let Some(mates) = &self.mates {
                mates.places.holds(mates.rank, &self.desk, slots, &BTreeSet::new());
            }
            return Ok(());
        }
        self.claimed_nothing = claimed.items.is_empty() && claimed.damaged.is_empty();
        for damaged in &claimed.damaged {
            let (item, key, what) = (damaged.item.id, &damaged.item.key, &damaged.what);
            tracing::warn!(%item, %key, what, "the content of an item is damaged; it is dead");
        }
        self.desk.accept_damaged(claimed.damaged);
        journal::claimed(self.desk.plan(), claimed.items.iter().map(|claimed| &claimed.item));
        // Stages that were not asked may have something later.
        let unasked = self.next_due.filter(|due| !self.quiet.is_empty() && *due > now);
        self.next_due = claimed.next_due.into_iter().chain(unasked).min();
        if claimed.outdated {
            self.desk.stop(Halt::Outdated);
        }
        let asked = self.desk.reusable(&claimed.items);
        let mut known = BTreeMap::new();
        if !asked.is_empty() {
            let keys = asked.iter().map(|(_, key)| *key).collect();
            // Without an answer the stage is called: that is dearer, not wrong.
            let kept = self.store.outputs(keys).await.unwrap_or_default();
            known.extend(
                asked.iter().zip(kept).filter_map(|((at, _), output)| output.map(|output| (*at, output))),
            );
        }
        self.recall(&claimed.items, &mut known).await;
        let full = self.full_slots(slots, &claimed.items);
        self.desk.accept(slots, claimed.items, known, now);
        if let Some(mates) = &self.mates {
            mates.places.holds(mates.rank, &self.desk, slots, &full);
        }
        Ok(())
    }

    /// Finds the items whose handler knows that they need no call; they go on as they are.
    async fn recall(&self, claimed: &[ClaimedItem], known: &mut BTreeMap<usize, KeptOutput>) {
        let mut asked: BTreeMap<StageNo, Vec<usize>> = BTreeMap::new();
        // Whoever has an item answers for it.
        for (at, claimed) in claimed.iter().enumerate().filter(|(_, claimed)| claimed.item.handed.is_none()) {
            let work = self.recipe.work(claimed.item.stage);
            if work.is_some_and(|work| work.handler.remembers()) {
                asked.entry(claimed.item.stage).or_default().push(at);
            }
        }
        for (stage, places) in asked {
            let Some(work) = self.recipe.work(stage) else { continue };
            let payloads: Vec<Payload> = places.iter().map(|at| claimed[*at].payload.clone()).collect();
            let kept = work.handler.recall(&payloads).await;
            let kept = places.iter().zip(kept).filter(|(_, kept)| *kept);
            let as_it_is = |at: usize| KeptOutput { payload: claimed[at].payload.clone(), verdict: None };
            known.extend(kept.map(|(at, _)| (*at, as_it_is(*at))));
        }
    }
}
