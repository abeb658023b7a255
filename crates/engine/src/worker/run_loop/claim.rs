//! Recording what ended and claiming what can be started, in one go.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::id::StageNo;
use redrive_core::item::Payload;
use redrive_core::time::Timestamp;
use redrive_store::{Claim, Claimed, ClaimedItem, Error, Slot, Turn, Turned};

use super::WorkerLoop;
use crate::crash;
use crate::worker::desk::Halt;
use crate::worker::driver::{Driver, Part, Step};

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
            let lost = held.into_iter().filter(|item| !self.desk.holds(item));
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
        let gates = self.desk.gates_to_save(now);
        let step = Step::Turns {
            changes: commit.as_ref().map_or(0, |commit| commit.changes.len()),
            gates: &gates,
            wants: &slots,
        };
        self.driver.observe(step, &self.desk, now);
        let just_claimed = self.claimed_at <= now && now.since(self.claimed_at) < GATHER;
        self.held_back = just_claimed && self.desk.is_busy(&slots);
        if self.held_back {
            slots.clear();
        } else if !slots.is_empty() {
            self.claimed_at = now;
        }
        let commit = commit.filter(|_| slots.is_empty() || !self.driver.omits(Part::Record));
        let worker = self.driver.worker();
        let claim = (!slots.is_empty()).then(|| Claim { worker, slots: slots.clone(), now });
        let turn = Turn { commit, gates, claim };
        if turn.is_empty() {
            return Ok(());
        }
        let (records, saves, claims) = (turn.commit.is_some(), !turn.gates.is_empty(), turn.claim.is_some());
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
        self.gates_saved(saves.then_some(turned.gates), now);
        // What is recorded is known to be so before a failed claim is looked into.
        let recorded = turned.applied.map(|applied| if records { self.desk.committed(&applied) } else { 0 });
        if claims {
            self.accept(&slots, turned.claimed, now).await?;
        }
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

    async fn accept(
        &mut self,
        slots: &[Slot],
        claimed: Result<Claimed, Error>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut claimed = claimed.inspect_err(|_| self.must_reconcile = true)?;
        self.driver.observe(Step::Claimed(&mut claimed), &self.desk, now);
        self.claimed_nothing = claimed.items.is_empty() && claimed.damaged.is_empty();
        for damaged in &claimed.damaged {
            let (item, key, what) = (damaged.item.id, &damaged.item.key, &damaged.what);
            tracing::warn!(%item, %key, what, "the content of an item is damaged; it is dead");
        }
        self.desk.accept_damaged(claimed.damaged);
        self.next_due = claimed.next_due;
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
        self.desk.accept(slots, claimed.items, known, now);
        Ok(())
    }

    /// Finds the items whose handler knows that they need no call; they go on as they are.
    async fn recall(&self, claimed: &[ClaimedItem], known: &mut BTreeMap<usize, Payload>) {
        let mut asked: BTreeMap<StageNo, Vec<usize>> = BTreeMap::new();
        for (at, claimed) in claimed.iter().enumerate() {
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
            known.extend(kept.map(|(at, _)| (*at, claimed[*at].payload.clone())));
        }
    }
}
