//! Places for calls that several runs share, and who of them is served first.
//!
//! The run that goes first (higher priority, then submitted earlier) takes what is free. So that no run starves another, every
//! fifth place is set aside for the others while they want one; they take turns.

use std::collections::BTreeMap;

use crate::id::RunId;
use crate::order::{Order, reserved};
use crate::time::Timestamp;

/// Where a run stands among others; the smallest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Lower for a higher priority.
    behind: i64,
    submitted: Timestamp,
    run: RunId,
}

impl Rank {
    /// The rank of a run of this priority that was submitted then.
    #[must_use]
    pub fn new(priority: i32, submitted: Timestamp, run: RunId) -> Self {
        Self { behind: -i64::from(priority), submitted, run }
    }

    /// The run.
    #[must_use]
    pub fn run(self) -> RunId {
        self.run
    }
}

/// What one run has of the places.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    held: usize,
    /// It could use more than it has.
    wants: bool,
    /// When it was last given a place that was set aside; a number that grows.
    served: u64,
}

/// Places for calls, shared by runs.
#[derive(Debug, Default)]
pub struct Pool {
    runs: BTreeMap<Rank, Share>,
    /// How many were given in all, for the share that is set aside.
    given: u64,
    /// Free places that are kept for runs that do not go first.
    aside: usize,
    turns: u64,
}

impl Pool {
    /// A run holds `held` places and could use `more`; says how many of `places` it may take, which are its own from then on,
    /// until it says anew what it holds.
    pub fn ask(&mut self, rank: Rank, held: usize, more: usize, places: usize) -> usize {
        let share = self.runs.entry(rank).or_default();
        share.held = held;
        share.wants = more > 0;
        if more == 0 {
            return 0;
        }
        let free = self.free(places);
        let others = self.runs.iter().any(|(other, share)| *other != rank && share.wants);
        if !others {
            self.aside = 0;
            return self.give(rank, free.min(more));
        }
        self.aside = self.aside.min(free);
        if self.first() == Some(rank) {
            let wanted = (free - self.aside).min(more);
            let kept = reserved(Order::DEFAULT_SHARE, self.given, wanted);
            self.given = self.given.saturating_add(wanted as u64);
            self.aside += kept;
            return self.give(rank, wanted - kept);
        }
        if self.next_aside() != Some(rank) {
            return 0;
        }
        let taken = self.aside.min(more);
        self.aside -= taken;
        self.turns += 1;
        if let Some(share) = self.runs.get_mut(&rank).filter(|_| taken > 0) {
            share.served = self.turns;
        }
        self.give(rank, taken)
    }

    fn give(&mut self, rank: Rank, n: usize) -> usize {
        if let Some(share) = self.runs.get_mut(&rank) {
            share.held += n;
        }
        n
    }

    /// What a run holds in truth, and whether it could use more.
    pub fn holds(&mut self, rank: Rank, held: usize, wants: bool) {
        let share = self.runs.entry(rank).or_default();
        share.held = held;
        share.wants = wants;
    }

    /// A run is not here any more.
    pub fn leave(&mut self, rank: Rank) {
        self.runs.remove(&rank);
    }

    /// Whether no run is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Who would be given a place if they asked now.
    pub fn served_next(&self, places: usize) -> impl Iterator<Item = RunId> + use<> {
        let free = self.free(places);
        let aside = self.aside.min(free);
        let first = self.first().filter(|_| free > aside);
        let next = self.next_aside().filter(|_| aside > 0);
        first.into_iter().chain(next).map(Rank::run)
    }

    /// How many places nobody holds.
    fn free(&self, places: usize) -> usize {
        places.saturating_sub(self.runs.values().map(|share| share.held).sum())
    }

    fn first(&self) -> Option<Rank> {
        self.runs.iter().find(|(_, share)| share.wants).map(|(rank, _)| *rank)
    }

    /// Whose turn it is among those that do not go first.
    fn next_aside(&self) -> Option<Rank> {
        let wanting = self.runs.iter().filter(|(_, share)| share.wants).skip(1);
        wanting.min_by_key(|(rank, share)| (share.served, **rank)).map(|(rank, _)| *rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(n: i64) -> Rank {
        Rank::new(0, Timestamp(n), RunId(n))
    }

    /// Gives `rounds` places one by one, each given back at once; counts who had them.
    fn shares(pool: &mut Pool, runs: &[Rank], rounds: usize) -> Vec<usize> {
        let mut had = vec![0; runs.len()];
        for _ in 0..rounds {
            runs.iter().for_each(|run| pool.holds(*run, 0, true));
            let served = runs.iter().position(|run| pool.ask(*run, 0, 1, 1) == 1);
            if let Some(at) = served {
                had[at] += 1;
            }
        }
        had
    }

    #[test]
    fn one_run_has_all_places() {
        let mut pool = Pool::default();
        assert_eq!(pool.ask(rank(1), 0, 10, 4), 4);
        assert_eq!(pool.ask(rank(1), 4, 10, 4), 0, "they are taken");
        assert_eq!(pool.ask(rank(1), 1, 10, 4), 3, "three came back");
    }

    #[test]
    fn the_run_that_was_submitted_first_goes_first() {
        let mut pool = Pool::default();
        pool.holds(rank(1), 0, true);
        assert_eq!(pool.ask(rank(2), 0, 4, 4), 0, "an older one wants them");
        assert_eq!(pool.ask(rank(1), 0, 2, 4), 2);
        pool.holds(rank(1), 2, false);
        assert_eq!(pool.ask(rank(2), 0, 4, 4), 2, "it takes what the older one left");
    }

    #[test]
    fn a_higher_priority_goes_before_an_earlier_submission() {
        let (urgent, old) = (Rank::new(5, Timestamp(9), RunId(9)), rank(1));
        let mut pool = Pool::default();
        pool.holds(old, 0, true);
        pool.holds(urgent, 0, true);
        assert_eq!(pool.ask(old, 0, 3, 3), 0);
        assert_eq!(pool.ask(urgent, 0, 3, 3), 3);
    }

    #[test]
    fn every_fifth_place_is_for_the_others_who_take_turns() {
        let runs: Vec<Rank> = (1..=5).map(rank).collect();
        let had = shares(&mut Pool::default(), &runs, 2_000);
        assert_eq!(had, [1_600, 100, 100, 100, 100]);
    }

    #[test]
    fn places_that_were_set_aside_are_not_lost_when_nobody_wants_them() {
        let mut pool = Pool::default();
        pool.holds(rank(2), 0, true);
        assert_eq!(pool.ask(rank(1), 0, 10, 10), 8);
        assert_eq!(pool.served_next(10).collect::<Vec<_>>(), [RunId(2)]);
        pool.leave(rank(2));
        assert_eq!(pool.ask(rank(1), 8, 2, 10), 2);
    }

    #[test]
    fn whoever_can_be_served_is_named() {
        let mut pool = Pool::default();
        pool.holds(rank(1), 3, false);
        pool.holds(rank(2), 0, true);
        assert_eq!(pool.served_next(3).count(), 0, "nothing is free");
        pool.holds(rank(1), 2, false);
        assert_eq!(pool.served_next(3).collect::<Vec<_>>(), [RunId(2)]);
    }
}
