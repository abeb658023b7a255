//! How a failed batch is taken apart to find out who is to blame.
//!
//! A batch that fails as a whole says nothing of its items. Three things can be wrong, and each wants another answer:
//! one *item* is poison (find it and let the others pass), the *service* is away (stop asking), or the request's *shape*
//! is (single items pass, batches do not: ask for less at a time). Splitting spends no attempt: all of it happens within
//! the one attempt that each item was claimed for.
//!
//! For one poison item among N this takes about log2(N) extra calls, because a half whose sibling passed is split
//! without being asked again. For an outage it takes two.

use std::collections::VecDeque;
use std::ops::Range;

use crate::failure::{Class, Failure, Kind};

/// Whether a failure of a whole batch can be the fault of one item or of its size.
#[must_use]
pub fn is_worth_splitting(failure: &Failure) -> bool {
    match failure.class {
        Class::Oversized | Class::Crash => true,
        Class::Final | Class::Retryable => match failure.kind {
            Kind::Handler
            | Kind::Client
            | Kind::Server
            | Kind::Answer
            | Kind::Process
            | Kind::Memory
            | Kind::Input
            | Kind::Unknown => !matches!(failure.status, Some(401 | 403 | 404 | 405)),
            // Nobody was reached, or the store is at fault: the items have nothing to do with it.
            Kind::Connection | Kind::Database | Kind::Worker | Kind::Timeout | Kind::Access => false,
        },
        // A timeout may be one item's fault, but finding out costs a timeout per call; the last attempt runs alone.
        Class::Timeout | Class::RateLimited | Class::Quota => false,
    }
}

/// Whether a failure of a whole batch that is not taken apart may be one item's fault all the same: a call that is never
/// answered, or whose connection is cut.
#[must_use]
pub fn may_be_one_item(failure: &Failure) -> bool {
    failure.class == Class::Timeout || matches!(failure.kind, Kind::Timeout | Kind::Connection)
}

/// The largest batch that an item goes on in after so many `failures` of whole batches, where `most` are its end and batches
/// hold `batch` items.
///
/// Every attempt divides the batch by the same factor, so that the last is of the item alone: one item on which a batch hangs
/// is found with few calls, each of which is an attempt that is made anyway.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small"
)]
pub fn narrowed(batch: usize, failures: u32, most: Option<u32>) -> usize {
    let size = match most {
        Some(most) => {
            let left = most.saturating_sub(failures).saturating_sub(1);
            (batch as f64).powf(f64::from(left) / f64::from(most.saturating_sub(1).max(1)))
        }
        None => batch as f64 / 2_f64.powf(f64::from(failures)),
    };
    // What is a whole number but for rounding is one.
    ((size + 1e-9).floor() as usize).clamp(1, batch.max(1))
}

/// Whether a failure shows that the service is there: it looked at the request and refused it.
fn is_answer(failure: &Failure) -> bool {
    matches!(failure.class, Class::Final | Class::Oversized)
}

/// A failed batch that is being taken apart. It hands out one call after another and is told how each ended.
#[derive(Debug, Clone)]
pub struct Bisect {
    size: usize,
    steps: VecDeque<Step>,
    asked: Option<Step>,
    alive: bool,
    batches_failed: u32,
    singles_passed: u32,
    largest_pass: usize,
    found: usize,
    outage: bool,
    /// Larger calls are known to fail.
    most: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    range: Range<usize>,
    /// Its other half passed, so the fault is in here: split without asking, unless it is a single item.
    suspect: bool,
    /// The half that follows it, to be marked as suspect when this one passes.
    first_half: bool,
}

/// What the failed call means for the items that were in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// It was one item, and it is to blame.
    Guilty(usize),
    /// Nothing yet; go on with [`Bisect::next_call`].
    Undecided,
    /// Nobody is to blame: these items share the failure, and no more calls are made.
    Shared(Vec<usize>),
}

/// What was found out when a batch has been taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// So many items are poison.
    Poison(usize),
    /// The service is away.
    Outage,
    /// Smaller calls pass where larger ones failed; the largest that did.
    Shape(usize),
    /// The whole failed once and both of its halves passed; the larger of them. That may have been bad luck.
    Luck(usize),
}

impl Bisect {
    /// Begins with a batch of `size` items that failed as a whole with `failure`.
    ///
    /// With `patient` every item gets a verdict of its own, even if that takes a call for each of them in an outage.
    #[must_use]
    pub fn new(size: usize, failure: &Failure, patient: bool) -> Self {
        let mut bisect = Self {
            size,
            steps: VecDeque::new(),
            asked: None,
            alive: patient || is_answer(failure),
            batches_failed: 1,
            singles_passed: 0,
            largest_pass: 0,
            found: 0,
            outage: false,
            most: usize::MAX,
        };
        bisect.split(0..size);
        bisect
    }

    /// Elsewhere it was found that calls of more items fail: they are not asked for here.
    pub fn no_more_than(&mut self, most: usize) {
        self.most = most.max(1);
    }

    /// The items to call next, as a range of the batch; `None` when everything is known.
    pub fn next_call(&mut self) -> Option<Range<usize>> {
        loop {
            let step = self.steps.pop_front()?;
            if (step.suspect || step.range.len() > self.most) && step.range.len() > 1 {
                self.split(step.range);
                continue;
            }
            // Batches fail wherever they are tried and singles pass: it is the shape, so go one by one.
            if step.range.len() > 1
                && self.batches_failed >= 3
                && self.singles_passed >= 2
                && self.largest_pass <= 1
            {
                for at in step.range.clone().rev() {
                    self.steps.push_front(Step { range: at..at + 1, suspect: false, first_half: false });
                }
                continue;
            }
            let range = step.range.clone();
            self.asked = Some(step);
            return Some(range);
        }
    }

    /// The last call passed; what its items said is taken as it is.
    pub fn passed(&mut self) {
        let Some(step) = self.asked.take() else { return };
        self.alive = true;
        self.largest_pass = self.largest_pass.max(step.range.len());
        self.singles_passed += u32::from(step.range.len() == 1);
        if step.first_half
            && let Some(other) = self.steps.front_mut()
        {
            other.suspect = true;
        }
    }

    /// The last call failed as a whole again.
    pub fn failed(&mut self, failure: &Failure) -> Ruling {
        let Some(step) = self.asked.take() else { return Ruling::Undecided };
        let (range, single) = (step.range.clone(), step.range.len() == 1);
        self.alive |= is_answer(failure);
        if !is_worth_splitting(failure) {
            return self.give_up(range);
        }
        if single {
            self.found += 1;
            // The probe of an outage: half of the batch failed, and now a single item of the other half.
            if !self.alive && self.size > 2 && self.batches_failed >= 2 {
                return self.give_up(range);
            }
            return Ruling::Guilty(range.start);
        }
        self.batches_failed += 1;
        if self.alive {
            self.split(range);
        } else {
            self.probe(range);
        }
        Ruling::Undecided
    }

    /// Whether a part of the batch has passed, so that the service is there.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.largest_pass > 0
    }

    /// What was found out.
    #[must_use]
    pub fn finding(&self) -> Finding {
        match (self.outage, self.found) {
            (true, _) => Finding::Outage,
            (false, 0) if self.batches_failed == 1 => Finding::Luck(self.largest_pass.max(1)),
            (false, 0) => Finding::Shape(self.largest_pass.max(1)),
            (false, found) => Finding::Poison(found),
        }
    }

    fn split(&mut self, range: Range<usize>) {
        let middle = range.start + range.len().div_ceil(2);
        if middle < range.end {
            self.steps.push_front(Step { range: middle..range.end, suspect: false, first_half: false });
        }
        self.steps.push_front(Step {
            range: range.start..middle,
            suspect: false,
            first_half: middle < range.end,
        });
    }

    /// The first half failed and nothing has passed yet: ask for one item of the other half before going on.
    fn probe(&mut self, failed: Range<usize>) {
        let other = self.steps.pop_front();
        self.split(failed);
        if let Some(other) = other {
            let probe = other.range.start..other.range.start + 1;
            if probe.end < other.range.end {
                let rest = probe.end..other.range.end;
                self.steps.push_front(Step { range: rest, suspect: false, first_half: false });
            }
            self.steps.push_front(Step { range: probe, suspect: false, first_half: false });
        }
    }

    fn give_up(&mut self, range: Range<usize>) -> Ruling {
        self.outage = true;
        let mut shared: Vec<usize> = range.collect();
        shared.extend(self.steps.drain(..).flat_map(|step| step.range));
        shared.sort_unstable();
        Ruling::Shared(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_batch_that_hangs_is_narrowed_by_every_attempt_down_to_single_items() {
        for (batch, most, sizes) in [
            (32, Some(3), vec![32, 5, 1]),
            (16, Some(4), vec![16, 6, 2, 1]),
            (64, Some(2), vec![64, 1]),
            (64, Some(1), vec![1]),
            (8, None, vec![8, 4, 2, 1, 1]),
        ] {
            let found: Vec<usize> =
                (0..).zip(&sizes).map(|(failures, _)| narrowed(batch, failures, most)).collect();
            assert_eq!(found, sizes, "{batch} items, {most:?} attempts");
        }
        assert_eq!(narrowed(8, u32::MAX, Some(3)), 1);
    }

    struct Played {
        calls: usize,
        guilty: BTreeSet<usize>,
        shared: BTreeSet<usize>,
        passed: BTreeSet<usize>,
        finding: Finding,
    }

    fn play(size: usize, fails: impl Fn(&Range<usize>) -> bool) -> Played {
        let failure = Failure::new(Class::Retryable, Kind::Server, "500");
        let mut bisect = Bisect::new(size, &failure, false);
        let mut played = Played {
            calls: 0,
            guilty: BTreeSet::new(),
            shared: BTreeSet::new(),
            passed: BTreeSet::new(),
            finding: Finding::Outage,
        };
        while let Some(range) = bisect.next_call() {
            played.calls += 1;
            assert!(played.calls <= 4 * size, "it ends");
            if !fails(&range) {
                bisect.passed();
                played.passed.extend(range);
                continue;
            }
            match bisect.failed(&failure) {
                Ruling::Guilty(at) => assert!(played.guilty.insert(at)),
                Ruling::Shared(all) => played.shared.extend(all),
                Ruling::Undecided => {}
            }
        }
        played.finding = bisect.finding();
        let all: BTreeSet<usize> = (0..size).collect();
        let told: BTreeSet<usize> =
            played.guilty.iter().chain(&played.shared).chain(&played.passed).copied().collect();
        assert_eq!(told, all, "every item has a verdict");
        assert_eq!(played.guilty.len() + played.shared.len() + played.passed.len(), size, "and only one");
        played
    }

    #[test]
    fn one_poison_is_found_in_about_log2_calls() {
        for size in [2_usize, 3, 7, 8, 64, 100, 500] {
            let log2 = usize::BITS as usize - (size - 1).leading_zeros() as usize;
            for poison in 0..size {
                let played = play(size, |range| range.contains(&poison));
                assert_eq!(played.guilty, BTreeSet::from([poison]));
                assert!(played.shared.is_empty());
                assert!(played.calls <= 2 * log2 + 1, "{} calls for 1 of {size} at {poison}", played.calls);
                assert_eq!(played.finding, Finding::Poison(1));
            }
        }
    }

    #[test]
    fn an_outage_costs_two_extra_calls() {
        for size in [3, 4, 64, 500] {
            let played = play(size, |_| true);
            assert_eq!(played.calls, 2, "{size}");
            assert_eq!(played.shared.len(), size);
            assert_eq!(played.finding, Finding::Outage);
        }
    }

    #[test]
    fn a_shape_that_never_passes_is_told_from_an_outage() {
        let played = play(64, |range| range.len() > 1);
        assert!(played.guilty.is_empty() && played.shared.is_empty());
        assert_eq!(played.finding, Finding::Shape(1));
        assert!(played.calls <= 64 + 8, "{}", played.calls);
        let played = play(64, |range| range.len() > 16);
        assert_eq!(played.finding, Finding::Shape(16));
    }

    #[test]
    fn several_poisons_never_take_a_healthy_item_with_them() {
        for seed in 0_u64..300 {
            let bad: BTreeSet<usize> = (0..32)
                .filter(|n| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(*n) & 7) == 0)
                .map(|n| n as usize)
                .collect();
            let played = play(32, |range| range.clone().any(|at| bad.contains(&at)));
            if played.shared.is_empty() {
                assert_eq!(played.guilty, bad);
            } else {
                assert!(played.guilty.is_subset(&bad), "what is shared is tried again, alone at last");
            }
        }
    }

    #[test]
    fn refusals_are_never_taken_for_an_outage() {
        let refused = Failure::new(Class::Final, Kind::Client, "HTTP 400");
        let mut bisect = Bisect::new(8, &refused, false);
        let mut guilty = Vec::new();
        while bisect.next_call().is_some() {
            match bisect.failed(&refused) {
                Ruling::Guilty(at) => guilty.push(at),
                Ruling::Undecided => {}
                Ruling::Shared(_) => panic!("an item would die without having been asked alone"),
            }
        }
        guilty.sort_unstable();
        assert_eq!(guilty, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn a_throttle_in_the_middle_ends_it_without_blame() {
        let mut bisect = Bisect::new(8, &Failure::new(Class::Retryable, Kind::Server, "500"), false);
        assert_eq!(bisect.next_call(), Some(0..4));
        bisect.passed();
        assert_eq!(bisect.next_call(), Some(4..6));
        let ruling = bisect.failed(&Failure::new(Class::RateLimited, Kind::Client, "429"));
        assert_eq!(ruling, Ruling::Shared(vec![4, 5, 6, 7]));
        assert_eq!(bisect.next_call(), None);
    }
}
