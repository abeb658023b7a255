//! Places for calls that the runs of one worker share: runs whose stages have one handler have its places in common.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::id::{RunId, StageNo};
use redrive_core::pool::{Pool, Rank};
use redrive_store::Slot;

use super::desk::Desk;
use crate::recipe::StageWork;

/// The places of all handlers of a worker. Clones are the same places.
#[derive(Clone, Default)]
pub struct PlaceSet(Arc<Mutex<BTreeMap<usize, Places>>>);

/// The places of one handler.
#[derive(Default)]
struct Places {
    pool: Pool,
    /// How many there were when somebody last looked.
    at_once: usize,
}

impl PlaceSet {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Places>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts what a run wants to claim down to its share, and takes note of what it holds; `true` when it wanted more. A run
    /// of `few` items has no use for more places than these need and one: a claim that is not filled says that this was all.
    pub(super) fn share_out(
        &self,
        rank: Rank,
        desk: &Desk,
        few: Option<usize>,
        slots: &mut Vec<Slot>,
    ) -> bool {
        let mut all = self.lock();
        let mut crowded = false;
        for (stage, _) in desk.plan().stages() {
            let Some(work) = desk.work(stage) else { continue };
            let places = all.entry(key(work)).or_default();
            places.at_once = work.at_once();
            let slot = slots.iter_mut().find(|slot| slot.stage == stage);
            let batch = work.batch.max(1);
            let most = few.map_or(usize::MAX, |few| few / batch + 1);
            let more = slot.as_ref().map_or(0, |slot| slot.limit.div_ceil(batch).min(most));
            let given = places.pool.ask(rank, desk.places_held(stage), more, places.at_once);
            if let Some(slot) = slot {
                crowded |= given < more;
                desk.cut(slot, given.saturating_mul(batch));
            }
        }
        slots.retain(|slot| slot.limit > 0);
        crowded
    }

    /// Takes note of what a run holds after a claim. Stages in `full` gave all that was asked of them, and may have more.
    pub(super) fn holds(&self, rank: Rank, desk: &Desk, full: &BTreeSet<StageNo>) {
        let mut all = self.lock();
        for (stage, _) in desk.plan().stages() {
            let Some(work) = desk.work(stage) else { continue };
            let pool = &mut all.entry(key(work)).or_default().pool;
            let wants = if full.contains(&stage) { usize::MAX } else { 0 };
            pool.holds(rank, desk.places_held(stage), wants);
        }
    }

    /// A run is not worked on any more.
    pub(super) fn leave(&self, rank: Rank) {
        let mut all = self.lock();
        all.values_mut().for_each(|places| places.pool.leave(rank));
        all.retain(|_, places| !places.pool.is_empty());
    }

    /// Runs that wait for a place and would be given one.
    pub(super) fn served_next(&self, but: RunId) -> BTreeSet<RunId> {
        let mut all = self.lock();
        all.values_mut()
            .flat_map(|places| places.pool.served_next(places.at_once))
            .filter(|run| *run != but)
            .collect()
    }
}

/// What tells handlers apart: runs of the same stage configuration have the same one.
fn key(work: &StageWork) -> usize {
    Arc::as_ptr(&work.handler).cast::<()>() as usize
}
