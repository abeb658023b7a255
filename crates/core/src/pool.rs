//! Places for calls that several runs share, and who of them is served first.
//!
//! The run that goes first (higher priority, then submitted earlier) takes what is free. So that no run starves another, every
//! fifth place is set aside for the others while they want one; they take turns. Stages of one run that have places in common
//! are told apart in the same way: a later stage goes first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::id::{RunId, StageNo};
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

    /// The run's stage of that number, as one that wants places.
    #[must_use]
    pub fn at(self, stage: StageNo) -> Claimant {
        Claimant { rank: self, stage: Reverse(stage) }
    }
}

/// A stage of a run that wants places; the smallest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claimant {
    rank: Rank,
    stage: Reverse<StageNo>,
}

impl Claimant {
    fn run(self) -> RunId {
        self.rank.run
    }
}

/// What a claimant has of the places.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    held: usize,
    /// How many more it could use.
    wants: usize,
    /// It was told that there is a place for it, and has not asked since.
    told: bool,
    /// When it was last given a place that was set aside; a number that grows.
    served: u64,
}

/// Places for calls, shared by the stages of runs.
#[derive(Debug, Default)]
pub struct Pool {
    claimants: BTreeMap<Claimant, Share>,
    /// How many were given in all, for the share that is set aside.
    given: u64,
    /// Free places that are kept for runs that do not go first.
    aside: usize,
    turns: u64,
}

impl Pool {
    /// A claimant holds `held` places and could use `more`; says how many of `places` it may take, which are its own from then on,
    /// until it says anew what it holds.
    pub fn ask(&mut self, who: Claimant, held: usize, more: usize, places: usize) -> usize {
        let share = self.claimants.entry(who).or_default();
        (share.held, share.wants, share.told) = (held, more, false);
        if more == 0 {
            return 0;
        }
        let free = self.free(places);
        if self.wanted() <= free {
            self.aside = 0;
            return self.give(who, more);
        }
        self.aside = if self.is_alone(who) { 0 } else { self.aside.min(free) };
        let main = (free - self.aside).saturating_sub(self.wanted_before(who));
        if main > 0 {
            let wanted = main.min(more);
            let kept =
                if self.is_alone(who) { 0 } else { reserved(Order::DEFAULT_SHARE, self.given, wanted) };
            self.given = self.given.saturating_add(wanted as u64);
            self.aside += kept;
            return self.give(who, wanted - kept);
        }
        if self.next_aside() != Some(who) {
            return 0;
        }
        let taken = self.aside.min(more);
        self.aside -= taken;
        self.turns += 1;
        if let Some(share) = self.claimants.get_mut(&who).filter(|_| taken > 0) {
            share.served = self.turns;
        }
        self.give(who, taken)
    }

    fn give(&mut self, who: Claimant, n: usize) -> usize {
        if let Some(share) = self.claimants.get_mut(&who) {
            share.held += n;
            share.wants -= n.min(share.wants);
        }
        n
    }

    /// What a claimant holds in truth, and how many more it could use.
    pub fn holds(&mut self, who: Claimant, held: usize, wants: usize) {
        let share = self.claimants.entry(who).or_default();
        (share.held, share.wants) = (held, wants);
    }

    /// A run is not here any more.
    pub fn leave(&mut self, run: RunId) {
        self.claimants.retain(|who, _| who.run() != run);
    }

    /// Whether a run holds a place.
    #[must_use]
    pub fn holds_any(&self, run: RunId) -> bool {
        self.claimants.iter().any(|(who, share)| who.run() == run && share.held > 0)
    }

    /// Whether a run wants a place.
    #[must_use]
    pub fn is_waiting(&self, run: RunId) -> bool {
        self.claimants.iter().any(|(who, share)| who.run() == run && share.wants > 0)
    }

    /// Whether no run is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claimants.is_empty()
    }

    /// Who, besides the run that looks, would be given a place if they asked now, and was not told so yet.
    pub fn served_next(&mut self, places: usize, but: RunId) -> Vec<RunId> {
        let free = self.free(places);
        let aside = self.aside.min(free);
        let next = self.next_aside().filter(|_| aside > 0);
        let mut main = free - aside;
        let mut served = Vec::new();
        for (who, share) in self.claimants.iter_mut().filter(|(_, share)| share.wants > 0) {
            let has_room = main > 0 || next == Some(*who);
            if has_room && who.run() != but && !std::mem::replace(&mut share.told, true) {
                served.push(who.run());
            }
            main = main.saturating_sub(share.wants);
            if main == 0 && next.is_none_or(|next| next <= *who) {
                break;
            }
        }
        served
    }

    /// How many places nobody holds.
    fn free(&self, places: usize) -> usize {
        places.saturating_sub(self.claimants.values().map(|share| share.held).sum())
    }

    fn wanted(&self) -> usize {
        self.claimants.values().fold(0, |all, share| all.saturating_add(share.wants))
    }

    fn wanted_before(&self, who: Claimant) -> usize {
        self.claimants.range(..who).fold(0, |all, (_, share)| all.saturating_add(share.wants))
    }

    /// Whether nobody else wants a place.
    fn is_alone(&self, who: Claimant) -> bool {
        self.claimants.iter().all(|(other, share)| *other == who || share.wants == 0)
    }

    /// Whose turn it is among those that do not go first.
    fn next_aside(&self) -> Option<Claimant> {
        let wanting = self.claimants.iter().filter(|(_, share)| share.wants > 0).skip(1);
        wanting.min_by_key(|(who, share)| (share.served, **who)).map(|(who, _)| *who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: RunId = RunId(0);

    fn rank(n: i64) -> Claimant {
        Rank::new(0, Timestamp(n), RunId(n)).at(StageNo(0))
    }

    /// Gives `rounds` places one by one, each given back at once; counts who had them.
    fn shares(pool: &mut Pool, runs: &[Claimant], rounds: usize) -> Vec<usize> {
        let mut had = vec![0; runs.len()];
        for _ in 0..rounds {
            runs.iter().for_each(|run| pool.holds(*run, 0, 1));
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
        pool.holds(rank(1), 0, 9);
        assert_eq!(pool.ask(rank(2), 0, 4, 4), 0, "an older one wants them");
        assert_eq!(pool.ask(rank(1), 0, 2, 4), 2);
        pool.holds(rank(1), 2, 0);
        assert_eq!(pool.ask(rank(2), 0, 4, 4), 2, "it takes what the older one left");
    }

    #[test]
    fn a_higher_priority_goes_before_an_earlier_submission() {
        let (urgent, old) = (Rank::new(5, Timestamp(9), RunId(9)).at(StageNo(0)), rank(1));
        let mut pool = Pool::default();
        pool.holds(old, 0, 9);
        pool.holds(urgent, 0, 9);
        assert_eq!(pool.ask(old, 0, 3, 3), 0);
        assert_eq!(pool.ask(urgent, 0, 3, 3), 3);
    }

    #[test]
    fn every_fifth_place_is_for_the_others_who_take_turns() {
        let runs: Vec<Claimant> = (1..=5).map(rank).collect();
        let had = shares(&mut Pool::default(), &runs, 2_000);
        assert_eq!(had, [1_600, 100, 100, 100, 100]);
    }

    #[test]
    fn places_that_were_set_aside_are_not_lost_when_nobody_wants_them() {
        let mut pool = Pool::default();
        pool.holds(rank(2), 0, 9);
        assert_eq!(pool.ask(rank(1), 0, 10, 10), 8);
        assert_eq!(pool.served_next(10, NOBODY), [RunId(2)]);
        pool.leave(RunId(2));
        assert_eq!(pool.ask(rank(1), 8, 2, 10), 2);
    }

    #[test]
    fn whoever_can_be_served_is_named() {
        let mut pool = Pool::default();
        pool.holds(rank(1), 3, 0);
        pool.holds(rank(2), 0, 9);
        assert_eq!(pool.served_next(3, NOBODY), [], "nothing is free");
        pool.holds(rank(1), 2, 0);
        assert_eq!(pool.served_next(3, NOBODY), [RunId(2)]);
    }

    #[test]
    fn runs_that_want_little_are_served_at_the_same_time() {
        let mut pool = Pool::default();
        (1..=9).for_each(|n| pool.holds(rank(n), 0, 2));
        assert_eq!(
            pool.served_next(6, NOBODY),
            [RunId(1), RunId(2), RunId(3)],
            "as many as there is room for"
        );
        assert_eq!(pool.served_next(6, NOBODY), [], "they know");
        assert_eq!(pool.ask(rank(3), 0, 2, 6), 2, "two older ones have room, too");
        assert_eq!(pool.ask(rank(2), 0, 2, 6), 2);
        assert_eq!(pool.ask(rank(4), 0, 2, 6), 0, "what is left is the oldest's");
        assert_eq!(pool.ask(rank(1), 0, 2, 6), 1, "every fifth is set aside");
        assert_eq!(pool.served_next(6, NOBODY), [RunId(4)]);
        assert_eq!(pool.ask(rank(4), 0, 2, 6), 1);
    }

    #[test]
    fn a_run_that_looks_is_not_taken_for_one_that_was_told() {
        let mut pool = Pool::default();
        pool.holds(rank(1), 0, 2);
        assert_eq!(pool.served_next(4, RunId(1)), []);
        assert_eq!(pool.served_next(4, RunId(2)), [RunId(1)], "another one tells it");
    }

    #[test]
    fn nothing_is_set_aside_where_there_is_room_for_all() {
        let mut pool = Pool::default();
        pool.holds(rank(2), 0, 3);
        assert_eq!(pool.ask(rank(1), 0, 7, 10), 7);
        assert_eq!(pool.ask(rank(2), 0, 3, 10), 3);
    }

    #[test]
    fn stages_of_one_run_are_told_apart_and_the_later_one_goes_first() {
        let run = Rank::new(0, Timestamp(1), RunId(1));
        let (first, second) = (run.at(StageNo(0)), run.at(StageNo(1)));
        let mut pool = Pool::default();
        assert_eq!(pool.ask(second, 0, 2, 3), 2);
        assert_eq!(pool.ask(first, 0, 4, 3), 1, "what the other stage holds is taken");
        pool.holds(second, 0, 9);
        assert_eq!(pool.ask(first, 1, 4, 3), 0, "the later stage goes first");
        assert!(pool.holds_any(RunId(1)) && pool.is_waiting(RunId(1)));
        pool.leave(RunId(1));
        assert!(pool.is_empty());
    }
}
