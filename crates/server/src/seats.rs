//! Who gives way when there is no place left: of those that have not said who they are, whoever came first.
//!
//! A connection costs nothing to make and can be kept open without a word, so that many of them would keep out whoever has
//! something to say. One that came with a token keeps its place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections whose other end is not known, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct Strangers(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    seated: BTreeMap<u64, Arc<Notify>>,
}

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seats somebody who came just now.
    pub fn seat(&self) -> Arc<Seat> {
        let mut inner = self.lock();
        let (number, dismissed) = (inner.next, Arc::new(Notify::new()));
        inner.next += 1;
        inner.seated.insert(number, dismissed.clone());
        Arc::new(Seat { strangers: self.clone(), number, dismissed })
    }

    /// Has the one leave that came first.
    pub fn dismiss_first(&self) {
        if let Some((_, seat)) = self.lock().seated.pop_first() {
            seat.notify_one();
        }
    }
}

/// The seat of one connection.
#[derive(Debug)]
pub struct Seat {
    strangers: Strangers,
    number: u64,
    dismissed: Arc<Notify>,
}

impl Seat {
    /// Keeps it: whoever sits there is known.
    pub fn keep(&self) {
        self.strangers.lock().seated.remove(&self.number);
    }

    /// Waits until it is to be left.
    pub async fn dismissed(&self) {
        self.dismissed.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.keep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_is_not_known_and_came_first_leaves_first() {
        let strangers = Strangers::default();
        let (known, first, second) = (strangers.seat(), strangers.seat(), strangers.seat());
        known.keep();
        strangers.dismiss_first();
        first.dismissed().await;
        drop(second);
        assert!(strangers.lock().seated.is_empty());
        strangers.dismiss_first();
    }
}
