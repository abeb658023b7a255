//! What a single call that ended badly does not prove: that the dependency is overloaded, or that it does not let us in.

use std::collections::BTreeMap;

use crate::id::ItemId;
use crate::time::Timestamp;

/// The share of calls that get lost without anybody being to blame: load balancers that recycle connections, flaky
/// networks, one slow item. More than that is a sign.
const BACKGROUND: f64 = 0.05;
/// About how many calls are looked back at.
const LOOKED_AT: f64 = 100.0;
/// So many refusals in a row, where calls passed before, are about the key and not about the items.
const REFUSALS: u32 = 5;
/// The same where no call has passed yet.
const FIRST_REFUSALS: u32 = 3;
/// So many items that are refused in a row are several; fewer may be the last ones of a run.
const SEVERAL: usize = 3;
/// Most items whose refusals are remembered.
const MOST_ITEMS: usize = 10_000;

/// Calls that got lost, among those of late.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Losses {
    calls: f64,
    lost: f64,
}

impl Losses {
    /// Counts a call that came back, however it was answered.
    pub(super) fn came_back(&mut self) {
        let keep = 1.0 - 1.0 / LOOKED_AT;
        self.calls = self.calls * keep + 1.0;
        self.lost *= keep;
    }

    /// Counts a call that got lost, and says whether more of them do than are lost anyway: by two standard deviations, and
    /// one call.
    pub(super) fn is_too_many(&mut self) -> bool {
        self.came_back();
        self.lost += 1.0;
        let usual = BACKGROUND * self.calls;
        self.lost > usual + 2.0 * (usual * (1.0 - BACKGROUND)).sqrt() + 1.0
    }

    /// What was drawn from them is done; others tell whether it helped.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Calls that were refused as if the key were not good.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Refusals {
    /// When the last of the calls that passed had started.
    passed: Option<Timestamp>,
    /// Calls that were refused since one passed.
    in_a_row: u32,
    /// The first items of these, and how often each was.
    who: BTreeMap<ItemId, u32>,
    /// When an item was last refused.
    refused: BTreeMap<ItemId, Timestamp>,
}

impl Refusals {
    /// A call passed that started then: the key was good.
    pub(super) fn passed(&mut self, started: Timestamp) {
        self.passed = self.passed.max(Some(started));
        self.in_a_row = 0;
        self.who.clear();
    }

    /// A call for these items was refused. Says whether it is the key.
    pub(super) fn refused(&mut self, items: &[ItemId], now: Timestamp) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if let Some(first) = items.first() {
            *self.who.entry(*first).or_default() += 1;
        }
        if self.refused.len() > MOST_ITEMS {
            self.refused.clear();
        }
        self.refused.extend(items.iter().map(|item| (*item, now)));
        match self.passed {
            None => self.in_a_row >= FIRST_REFUSALS,
            Some(_) => self.in_a_row >= REFUSALS && self.who.len() >= SEVERAL,
        }
    }

    /// Whether it is this item and not the key: a call passed since it was refused, or it is refused again and again where
    /// next to nobody else is.
    pub(super) fn blame(&self, item: ItemId) -> bool {
        let Some(passed) = self.passed else { return false };
        let others_passed = self.refused.get(&item).is_some_and(|at| *at < passed);
        let times = self.who.get(&item).map_or(0, |times| times + 1);
        others_passed || (times >= REFUSALS && self.who.len() < SEVERAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every n-th call gets lost.
    fn cuts(every: usize, calls: usize) -> usize {
        let mut losses = Losses::default();
        let cut = |n: usize| {
            if n % every != every - 1 {
                losses.came_back();
                return false;
            }
            let cut = losses.is_too_many();
            if cut {
                losses.forget();
            }
            cut
        };
        (0..calls).map(cut).filter(|cut| *cut).count()
    }

    #[test]
    fn a_few_lost_calls_are_no_overload_and_many_are() {
        for percent in [1, 2, 3, 5] {
            assert_eq!(cuts(100 / percent, 10_000), 0, "{percent} %");
        }
        assert!(cuts(5, 1_000) > 5, "20 %");
        assert!(cuts(2, 1_000) > 50, "half of them");
        assert!(cuts(1, 10) >= 3, "all of them");
    }

    #[test]
    fn lost_calls_that_come_in_bursts_by_chance_are_no_overload() {
        let mut losses = Losses::default();
        let (mut seed, mut cuts) = (7_u64, 0);
        for _ in 0..100_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (seed >> 33) % 100 >= 3 {
                losses.came_back();
            } else if losses.is_too_many() {
                cuts += 1;
                losses.forget();
            }
        }
        assert!(cuts < 60, "{cuts} cuts for 3,000 lost calls");
    }

    fn item(n: u8) -> ItemId {
        ItemId([n; 16])
    }

    #[test]
    fn refusals_of_several_items_in_a_row_are_the_keys() {
        let mut refusals = Refusals::default();
        let at = Timestamp(10);
        let refused = (1..10).find(|n| refusals.refused(&[item(*n)], at));
        assert_eq!(refused, Some(3), "nothing has passed with that key");
        refusals.passed(Timestamp(5));
        let refused = (1..10).find(|n| refusals.refused(&[item(*n)], at));
        assert_eq!(refused, Some(5), "the key was good before");
        refusals.passed(Timestamp(6));
        assert!(!refusals.blame(item(1)), "what passed had started before it was refused");
    }

    #[test]
    fn an_item_that_is_refused_while_others_pass_is_to_blame_itself() {
        let mut refusals = Refusals::default();
        assert!(!refusals.blame(item(1)), "nothing has passed yet");
        refusals.passed(Timestamp(1));
        assert!(!refusals.blame(item(1)), "it was never refused before");
        assert!(!refusals.refused(&[item(1), item(2)], Timestamp(2)));
        assert!(!refusals.blame(item(1)), "nothing has passed since");
        refusals.passed(Timestamp(3));
        assert!(refusals.blame(item(1)) && refusals.blame(item(2)));
        assert!(!refusals.blame(item(9)));
    }

    #[test]
    fn the_last_items_of_a_run_are_to_blame_when_they_alone_are_refused() {
        let mut refusals = Refusals::default();
        refusals.passed(Timestamp(1));
        for now in 2..6 {
            for last in [item(1), item(2)] {
                assert!(!refusals.blame(last));
                assert!(!refusals.refused(&[last], Timestamp(now)));
            }
        }
        assert!(refusals.blame(item(1)) && refusals.blame(item(2)));
    }
}
