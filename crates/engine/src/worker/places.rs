//! Places for calls that the runs of one worker share: stages that have one handler have its places in common.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::id::{RunId, StageNo};
use redrive_core::pool::{Pool, Rank};
use redrive_core::time::Timestamp;
use redrive_store::Slot;

use super::desk::Desk;
use crate::recipe::StageWork;

/// How long a run that was opened is waited for by those that go after it.
const OPENING: Duration = Duration::from_millis(250);

/// The places of all handlers of a worker. Clones are the same places.
#[derive(Clone, Default)]
pub struct PlaceSet(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    handlers: BTreeMap<usize, Places>,
    /// Runs that were opened and have not asked for anything yet, and until when they are waited for.
    opening: BTreeMap<Rank, Timestamp>,
}

/// The places of one handler.
#[derive(Default)]
struct Places {
    pool: Pool,
    /// How many there were when somebody last looked: those of the handler, or fewer where a gate lets fewer calls pass.
    at_once: usize,
}

/// What a run would claim.
pub(super) struct Wish<'a> {
    /// Where the run stands among the others.
    pub(super) rank: Rank,
    /// About how many items the run has at most, where that is known: it has no use for more places than these need and
    /// one. A claim that is not filled says that this was all.
    pub(super) few: Option<usize>,
    /// Stages that have nothing due.
    pub(super) quiet: &'a BTreeSet<StageNo>,
    /// Whether it is left for later: places are gathered first.
    pub(super) later: bool,
    /// The time.
    pub(super) now: Timestamp,
}

impl PlaceSet {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run is being opened: where places are few, those that go after it do not take them before it could ask.
    pub(super) fn expect(&self, rank: Rank, now: Timestamp) {
        self.lock().opening.insert(rank, now.after(OPENING));
    }

    /// Cuts what a run wants to claim down to its share, and takes note of what it holds; `true` when it wanted more. What a
    /// gate keeps it from is wanted, too: a place that the gate has again goes to whoever is first, not to whoever looks
    /// first.
    pub(super) fn share_out(&self, wish: &Wish<'_>, desk: &Desk, slots: &mut Vec<Slot>) -> bool {
        let All { handlers, opening } = &mut *self.lock();
        opening.remove(&wish.rank);
        opening.retain(|_, until| *until > wish.now);
        let before = opening.range(..wish.rank).count();
        let mut crowded = false;
        for (stage, _) in desk.plan().stages() {
            let Some(work) = desk.work(stage) else { continue };
            let places = handlers.entry(key(work)).or_default();
            let passes = desk.passes_at_once(stage, wish.now).unwrap_or(usize::MAX);
            places.at_once = work.at_once().min(passes);
            let (batch, _) = work.call_size();
            let most = wish.few.map_or(usize::MAX, |few| few / batch + 1);
            let wanted = if wish.later || wish.quiet.contains(&stage) { 0 } else { desk.could_use(stage) };
            let more = wanted.div_ceil(batch).min(most);
            let held = desk.places_held(stage);
            let free = places.at_once.saturating_sub(before);
            let who = wish.rank.at(stage);
            let given = places.pool.ask(who, held, more, free);
            crowded |= given < more;
            match slots.iter_mut().find(|slot| slot.stage == stage) {
                Some(slot) => desk.cut(slot, given.saturating_mul(batch), wish.now),
                // Its gate has nothing for it after all.
                None => places.pool.holds(who, held, more),
            }
        }
        slots.retain(|slot| slot.limit > 0);
        crowded
    }

    /// Takes note of what a run holds after a claim of `asked`. Stages in `full` gave all that was asked of them, and may have
    /// more. A stage that was not asked, because others have its places, still wants what it wanted.
    pub(super) fn holds(&self, rank: Rank, desk: &Desk, asked: &[Slot], full: &BTreeSet<StageNo>) {
        let handlers = &mut self.lock().handlers;
        for stage in asked.iter().map(|slot| slot.stage) {
            let Some(work) = desk.work(stage) else { continue };
            let pool = &mut handlers.entry(key(work)).or_default().pool;
            let wants = if full.contains(&stage) { usize::MAX } else { 0 };
            pool.holds(rank.at(stage), desk.places_held(stage), wants);
        }
    }

    /// A run is not worked on any more.
    pub(super) fn leave(&self, rank: Rank) {
        let All { handlers, opening } = &mut *self.lock();
        opening.remove(&rank);
        handlers.values_mut().for_each(|places| places.pool.leave(rank.run()));
        handlers.retain(|_, places| !places.pool.is_empty());
    }

    /// Whether a run holds a place, or asked for none.
    pub(super) fn is_served(&self, rank: Rank) -> bool {
        let handlers = &self.lock().handlers;
        handlers.values().any(|places| places.pool.holds_any(rank.run()))
            || !handlers.values().any(|places| places.pool.is_waiting(rank.run()))
    }

    /// Runs that wait for a place and would be given one.
    pub(super) fn served_next(&self, but: RunId) -> BTreeSet<RunId> {
        let handlers = &mut self.lock().handlers;
        handlers.values_mut().flat_map(|places| places.pool.served_next(places.at_once, but)).collect()
    }
}

/// What tells handlers apart: runs of the same stage configuration have the same one.
fn key(work: &StageWork) -> usize {
    Arc::as_ptr(&work.handler).cast::<()>() as usize
}
