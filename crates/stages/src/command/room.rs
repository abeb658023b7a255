//! How many children there is room for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Answers in a row after which one more child is tried.
const TRY_AGAIN_AFTER: usize = 200;

/// As many children as were asked for, or as the machine lets start.
pub(super) struct Room {
    most: usize,
    now: AtomicUsize,
    answered: AtomicUsize,
    told: AtomicBool,
}

impl Room {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            now: AtomicUsize::new(most),
            answered: AtomicUsize::new(0),
            told: AtomicBool::new(false),
        }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// No more than these could be started. `true` when that is worth telling: the first time.
    pub(super) fn only(&self, children: usize) -> bool {
        self.now.store(children.clamp(1, self.most), Ordering::Relaxed);
        self.answered.store(0, Ordering::Relaxed);
        !self.told.swap(true, Ordering::Relaxed)
    }

    /// A child answered; now and then one more is tried.
    pub(super) fn answered(&self) {
        if self.now() < self.most && self.answered.fetch_add(1, Ordering::Relaxed) >= TRY_AGAIN_AFTER {
            self.answered.store(0, Ordering::Relaxed);
            self.now.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_shrinks_to_what_there_is_and_grows_again() {
        let room = Room::new(60);
        assert!(room.only(14), "it is told");
        assert!(!room.only(12), "once");
        assert_eq!(room.now(), 12);
        (0..=TRY_AGAIN_AFTER).for_each(|_| room.answered());
        assert_eq!(room.now(), 13);
        assert!(!room.only(0));
        assert_eq!(room.now(), 1, "one at least is tried");
    }
}
