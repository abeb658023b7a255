//! Which runs are opened.

use std::time::Duration;

use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;
use redrive_store::{Error, Has, OpenRun, WorkFilter, WorkList, WorkPosition, WorkQuery};

use super::{Host, Open, Roster, TELL_EVERY};
use crate::worker::places::PlaceSet;
use crate::worker::run_loop::Mates;

/// How long a run has a place that others wait for in turn.
const SLICE: Duration = Duration::from_secs(10);
/// How soon runs that have nothing to do yet are looked at again, where they are few.
const LOOK_ALL: Duration = Duration::from_secs(15);
/// How soon the store is looked at though nobody seems to have written.
const LOOK_ANYWAY: Duration = Duration::from_secs(15);
/// How many times as long as a look takes the next one waits: where many runs have nothing to do, it takes a while.
const REST: u32 = 20;
/// With this many open runs, or fewer, what others write is looked at as soon as it is seen.
const FEW: usize = 4;
/// How long a run has a place while all its calls wait for others and runs wait that might not have to.
const IN_VAIN: Duration = Duration::from_millis(500);
/// Pages of runs that are looked at, at one go, where none of them can be opened.
const PAGES: usize = 4;

impl Roster {
    /// Opens what can be opened. The runs that go first are asked for once a tick; in between, runs that ended make room for
    /// the next ones, which are asked for when there is room for some.
    pub(super) async fn fill(&mut self, host: &mut dyn Host, now: Timestamp) -> Result<(), Error> {
        let back = self.looked_at.is_some_and(|at| at > now);
        let asleep = self.asleep.len();
        self.asleep.retain(|_, (until, _)| *until > now && !back);
        let woken = self.asleep.len() < asleep;
        if back || now >= self.look_all_at {
            self.all_seen = false;
            (self.later_seen, self.look_all_at) = (0, Timestamp::MAX);
        }
        let stamp = self.store.stamp().await?;
        // Who waits until nothing is left has to see that with their own eyes.
        let changed = self.stamp != Some(stamp) || self.settings.until_idle.is_some();
        let looked = self.looked_at.filter(|at| *at <= now).map(|at| now.since(at));
        let rest = rest_after(self.looks_took);
        let rested = looked.filter(|ago| self.settings.until_idle.is_some() || *ago >= rest);
        let tick = looked.is_none()
            || rested.is_some_and(|ago| ago >= self.settings.tick && (changed || ago >= LOOK_ANYWAY));
        let due = woken || self.next_due.is_some_and(|due| due <= now);
        let at_leisure = changed && self.open.len() <= FEW && rested.is_some();
        let looks = tick || due || at_leisure;
        if looks {
            self.next_due = None;
            self.hear_pauses().await?;
            self.fill_head(host, now).await?;
            (self.looked_at, self.stamp) = (Some(now), Some(stamp));
        }
        if tick || self.room() >= self.settings.open.div_ceil(4) {
            self.fill_in_turn(host, now).await?;
        }
        if looks {
            self.looks_took.rotate_right(1);
            self.looks_took[0] = self.env.clock.now().since(now);
        }
        self.tell(host, now).await
    }

    fn room(&self) -> usize {
        self.settings.open.saturating_sub(self.open.len())
    }

    /// Hears which pipelines are paused: their runs are not opened, and what slept behind a pause is looked at again.
    async fn hear_pauses(&mut self) -> Result<(), Error> {
        let pauses = self.store.pauses().await?;
        if pauses.rev != self.pauses.0 {
            self.pauses = (pauses.rev, pauses.pipelines().map(str::to_owned).collect());
            self.asleep.clear();
        }
        Ok(())
    }

    async fn list(
        &mut self,
        after: Option<WorkPosition>,
        limit: usize,
        now: Timestamp,
    ) -> Result<WorkList, Error> {
        let query = WorkQuery {
            filter: WorkFilter { but_pipelines: self.pauses.1.clone(), ..self.settings.filter.clone() },
            after,
            limit,
            looks: self.settings.looks,
            later: !self.all_seen,
            now,
        };
        let list = self.store.work_list(query).await?;
        self.next_due = self.next_due.into_iter().chain(list.next_due).min();
        Ok(list)
    }

    /// Opens the runs that go first. Some places are left for those that take turns.
    async fn fill_head(&mut self, host: &mut dyn Host, now: Timestamp) -> Result<(), Error> {
        let mine = self.settings.open - (self.settings.open / 5).max(usize::from(self.settings.open > 1));
        let held = self.open.values().filter(|open| !open.in_turn).count();
        let list = self.list(None, mine.max(1), now).await?;
        self.cursor = self.cursor.or(list.next);
        let mut room = mine.saturating_sub(held).min(self.room());
        for run in list.runs {
            let rank = rank_of(&run);
            if room > 0 {
                room -= usize::from(self.open(host, run, false, now));
            } else if !self.open.contains_key(&run.row.id) {
                self.give_way(host, rank, now);
            }
        }
        self.seen_to(list.next, now);
        Ok(())
    }

    /// Takes note of how far the list was looked through. The more runs there are that have nothing to do yet, the longer it
    /// takes until all of them are looked at again.
    fn seen_to(&mut self, next: Option<WorkPosition>, now: Timestamp) {
        if next.is_none() && !self.all_seen {
            self.all_seen = true;
            self.look_all_at = now.after(LOOK_ALL * (self.later_seen / 64).max(1));
        }
    }

    /// Opens runs from where the last ones of this kind were, round and round.
    async fn fill_in_turn(&mut self, host: &mut dyn Host, now: Timestamp) -> Result<(), Error> {
        for _ in 0..PAGES {
            let (Some(after), room @ 1..) = (self.cursor, self.room()) else { break };
            let list = self.list(Some(after), room, now).await?;
            list.runs.into_iter().for_each(|run| {
                self.open(host, run, true, now);
            });
            self.cursor = list.next;
            self.seen_to(list.next, now);
        }
        if self.room() == 0 && self.cursor.is_some() {
            self.make_room(host, now);
        }
        Ok(())
    }

    /// Has runs end that have had their turn, or cannot use it.
    fn make_room(&mut self, host: &mut dyn Host, now: Timestamp) {
        for (run, open) in &mut self.open {
            let ended = now.since(open.since) >= SLICE || open.is_in_vain(&self.places, now);
            if open.in_turn && !open.closing && ended {
                open.closing = true;
                host.close(*run);
            }
        }
    }

    /// Has the last run that goes after another one end, where it has its place in vain.
    fn give_way(&mut self, host: &mut dyn Host, to: Rank, now: Timestamp) {
        let places = &self.places;
        let later = self.open.iter_mut().filter(|(_, open)| {
            !open.in_turn && !open.closing && open.rank > to && open.is_in_vain(places, now)
        });
        if let Some((run, open)) = later.max_by_key(|(_, open)| open.rank) {
            open.closing = true;
            host.close(*run);
        }
    }

    fn open(&mut self, host: &mut dyn Host, run: OpenRun, in_turn: bool, now: Timestamp) -> bool {
        let id = run.row.id;
        if self.open.contains_key(&id) || self.asleep.contains_key(&id) || !host.takes(&run, now) {
            return false;
        }
        self.later_seen += u32::from(run.has == Has::Later);
        let rank = rank_of(&run);
        let mates = Mates {
            gates: self.gates.clone(),
            places: self.places.clone(),
            rank,
            waiting: usize::try_from(run.waiting).unwrap_or(usize::MAX),
            begins_at_once: run.has == Has::Due,
        };
        self.places.expect(rank, now);
        self.open.insert(id, Open { rank, since: now, in_turn, closing: false });
        host.open(run, mates);
        true
    }

    /// Writes down which runs are worked on, now and then.
    async fn tell(&mut self, host: &mut dyn Host, now: Timestamp) -> Result<(), Error> {
        let (at, told) = &self.told;
        if *at <= now && now.since(*at) < TELL_EVERY || told.iter().eq(self.open.keys()) {
            return Ok(());
        }
        let runs: Vec<_> = self.open.keys().copied().collect();
        self.store.attend(host.worker(), runs.clone()).await?;
        self.told = (now, runs);
        Ok(())
    }
}

impl Open {
    /// Whether all that the run could do waits for others.
    fn is_in_vain(&self, places: &PlaceSet, now: Timestamp) -> bool {
        now.since(self.since) >= IN_VAIN && !places.is_served(self.rank)
    }
}

/// How long to wait after the last looks at the store took so long. One that took long was held up by chance, or by a clock
/// that was put forward: where there is much to look at, all of them do.
fn rest_after(looks: [Duration; 3]) -> Duration {
    let took = looks.into_iter().min().unwrap_or_default();
    took.saturating_mul(REST).min(LOOK_ANYWAY)
}

fn rank_of(run: &OpenRun) -> Rank {
    Rank::new(run.row.spec.priority, run.row.created_at, run.row.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_look_that_was_held_up_once_does_not_make_the_next_wait_and_looks_that_all_take_long_do() {
        assert_eq!(rest_after([MS, 500 * MS, MS]), 20 * MS);
        assert_eq!(rest_after([500 * MS, 400 * MS, MS]), 20 * MS);
        assert_eq!(rest_after([100 * MS; 3]), 2_000 * MS);
        assert_eq!(rest_after([Duration::MAX; 3]), LOOK_ANYWAY);
    }
}
