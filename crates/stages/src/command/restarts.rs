//! When a program that only dies may be started again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::time::Timestamp;

use crate::service::Now;

/// The first wait.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(60);

/// How often children may die in a row, without one answer of any of them in between, before no other is started for a
/// while: 1 s, twice as long with each further death, at most 60 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartBudget {
    /// So many deaths begin the first wait; 0 is taken for 1.
    pub deaths: u32,
}

/// A budget, and what was spent of it.
pub(super) struct Restarts {
    budget: RestartBudget,
    now: Now,
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    /// Deaths since the last answer.
    deaths: u32,
    /// When the next child may be started.
    next: Option<Timestamp>,
}

/// A time in which no child is started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pause {
    deaths: u32,
    left: Duration,
}

impl Restarts {
    pub(super) fn new(budget: RestartBudget, now: Now) -> Self {
        Self { budget, now, spent: Mutex::default() }
    }

    /// The pause that goes on now.
    pub(super) fn pause(&self) -> Option<Pause> {
        let spent = self.spent();
        let left = spent.next?.since((self.now)());
        // Longer than any wait: the clock was set back.
        (!left.is_zero() && left <= LONGEST).then_some(Pause { deaths: spent.deaths, left })
    }

    /// Counts a death; returns the wait that it begins, if it does.
    pub(super) fn died(&self) -> Option<Duration> {
        let mut spent = self.spent();
        spent.deaths = spent.deaths.saturating_add(1);
        let beyond = spent.deaths.checked_sub(self.budget.deaths.max(1))?;
        let wait = FIRST.saturating_mul(1_u32.checked_shl(beyond).unwrap_or(u32::MAX)).min(LONGEST);
        spent.next = Some((self.now)().after(wait));
        Some(wait)
    }

    /// Forgets the deaths: the program can answer.
    pub(super) fn answered(&self) {
        *self.spent() = Spent::default();
    }

    fn spent(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pause {
    /// The failure of a call that comes in it.
    pub(super) fn failure(&self, program: &str) -> Failure {
        let Self { deaths, left } = self;
        let text = format!("{program} died {deaths} times in a row; the next is started in {left:?}");
        Failure::new(Class::RateLimited, Kind::Process, text).with_hint(Some(*left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    fn restarts(deaths: u32) -> (Restarts, Arc<AtomicI64>) {
        let clock = Arc::new(AtomicI64::new(1_000_000));
        let hand = Arc::clone(&clock);
        let now: Now = Arc::new(move || Timestamp(hand.load(Ordering::Relaxed)));
        (Restarts::new(RestartBudget { deaths }, now), clock)
    }

    #[test]
    fn waits_double_up_to_a_minute_and_an_answer_ends_them() {
        let (restarts, _) = restarts(3);
        let waits: Vec<Option<u64>> = (0..40).map(|_| restarts.died().map(|wait| wait.as_secs())).collect();
        assert_eq!(waits[..9], [0, 0, 1, 2, 4, 8, 16, 32, 60].map(|wait| (wait > 0).then_some(wait)));
        assert!(waits[9..].iter().all(|wait| *wait == Some(60)));
        restarts.answered();
        assert_eq!((restarts.pause(), restarts.died()), (None, None));
    }

    #[test]
    fn a_pause_tells_what_is_left_of_it() {
        let (restarts, clock) = restarts(0);
        assert_eq!(restarts.pause(), None);
        assert_eq!(restarts.died(), Some(FIRST));
        clock.fetch_add(400, Ordering::Relaxed);
        let pause = restarts.pause().unwrap();
        assert_eq!(pause, Pause { deaths: 1, left: Duration::from_millis(600) });
        let failure = pause.failure("sh");
        assert_eq!(failure.message(), "sh died 1 times in a row; the next is started in 600ms");
        assert_eq!(
            (failure.class, failure.kind, failure.hint),
            (Class::RateLimited, Kind::Process, Some(pause.left))
        );
        clock.fetch_add(600, Ordering::Relaxed);
        assert_eq!(restarts.pause(), None);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nothing_up() {
        let (restarts, clock) = restarts(1);
        restarts.died();
        clock.fetch_sub(3_600_000, Ordering::Relaxed);
        assert_eq!(restarts.pause(), None);
    }
}
