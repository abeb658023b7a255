//! Which runs are opened.

use std::time::Duration;

use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;
use redrive_store::{Error, Has, OpenRun, WorkList, WorkPosition, WorkQuery};

use super::{Host, Open, Roster, TELL_EVERY};
use crate::worker::run_loop::Mates;

/// How long a run has a place that others wait for in turn.
const SLICE: Duration = Duration::from_secs(10);
/// How soon runs that have nothing to do yet are looked at again, where they are few.
const LOOK_ALL: Duration = Duration::from_secs(15);
/// Pages of runs that are looked at, at one go, where none of them can be opened.
const PAGES: usize = 4;

impl Roster {
    /// Opens what can be opened. The runs that go first are asked for once a tick; in between, runs that ended make room for
    /// the next ones, which are asked for when there is room for some.
    pub(super) async fn fill(&mut self, host: &mut dyn Host, now: Timestamp) -> Result<(), Error> {
        let back = self.looked_at.is_some_and(|at| at > now);
        self.asleep.retain(|_, (until, _)| *until > now && !back);
        if back || now >= self.look_all_at {
            self.all_seen = false;
            (self.later_seen, self.look_all_at) = (0, Timestamp::MAX);
        }
        let tick = self.looked_at.is_none_or(|at| at > now || now.since(at) >= self.settings.tick);
        let due = self.next_due.is_some_and(|due| due <= now);
        let all_ended = self.open.is_empty();
        if tick || due || all_ended {
            self.next_due = None;
            self.fill_head(host, now).await?;
            self.looked_at = Some(now);
        }
        if tick || self.room() >= self.settings.open.div_ceil(4) {
            self.fill_in_turn(host, now).await?;
        }
        self.tell(host, now).await
    }

    fn room(&self) -> usize {
        self.settings.open.saturating_sub(self.open.len())
    }

    async fn list(
        &mut self,
        after: Option<WorkPosition>,
        limit: usize,
        now: Timestamp,
    ) -> Result<WorkList, Error> {
        let query = WorkQuery {
            filter: self.settings.filter.clone(),
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
        let mine = self.settings.open - self.settings.open / 5;
        let held = self.open.values().filter(|open| !open.in_turn).count();
        let list = self.list(None, mine.max(1), now).await?;
        self.cursor = self.cursor.or(list.next);
        let mut room = mine.saturating_sub(held).min(self.room());
        for run in list.runs {
            if room > 0 && self.open(host, run, false, now) {
                room -= 1;
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

    /// Has runs end that have had their turn.
    fn make_room(&mut self, host: &mut dyn Host, now: Timestamp) {
        for (run, open) in &mut self.open {
            if open.in_turn && !open.closing && now.since(open.since) >= SLICE {
                open.closing = true;
                host.close(*run);
            }
        }
    }

    fn open(&mut self, host: &mut dyn Host, run: OpenRun, in_turn: bool, now: Timestamp) -> bool {
        let id = run.row.id;
        if self.open.contains_key(&id) || self.asleep.contains_key(&id) || !host.takes(&run, now) {
            return false;
        }
        self.later_seen += u32::from(run.has == Has::Later);
        let mates = Mates {
            gates: self.gates.clone(),
            places: self.places.clone(),
            rank: Rank::new(run.row.spec.priority, run.row.created_at, id),
            waiting: usize::try_from(run.waiting).unwrap_or(usize::MAX),
            begins_at_once: run.has == Has::Due,
        };
        self.open.insert(id, Open { since: now, in_turn, closing: false });
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
