//! Word for whoever answered a call that what became of its items is kept.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// What became of the answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Items whose end is kept.
    pub recorded: usize,
    /// Items that somebody else had by then, or that were changed meanwhile: their end was dropped.
    pub stale: usize,
}

/// Goes along with every item of an answer until its end is kept; the last one gone tells. Clones are the same.
#[derive(Debug, Clone)]
pub struct Receipt(Arc<Waits>);

#[derive(Debug)]
struct Waits {
    recorded: AtomicUsize,
    stale: AtomicUsize,
    tells: Mutex<Option<oneshot::Sender<Kept>>>,
}

impl Receipt {
    /// A receipt, and where it is told. Items that are neither are lost: nobody could keep them.
    #[must_use]
    pub fn new() -> (Self, oneshot::Receiver<Kept>) {
        let (sender, told) = oneshot::channel();
        let waits = Waits {
            recorded: AtomicUsize::new(0),
            stale: AtomicUsize::new(0),
            tells: Mutex::new(Some(sender)),
        };
        (Self(Arc::new(waits)), told)
    }

    /// The end of one more item is kept, or was dropped.
    pub(crate) fn ended(&self, is_kept: bool) {
        let count = if is_kept { &self.0.recorded } else { &self.0.stale };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let sender = self.tells.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let kept = Kept { recorded: *self.recorded.get_mut(), stale: *self.stale.get_mut() };
        // Whoever waited for it may be gone.
        if let Some(sender) = sender {
            let _ = sender.send(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_when_the_last_item_is_done_with() {
        let (receipt, mut told) = Receipt::new();
        let other = receipt.clone();
        receipt.ended(true);
        drop(receipt);
        assert!(told.try_recv().is_err(), "one is not done with");
        other.ended(false);
        drop(other);
        assert_eq!(told.try_recv(), Ok(Kept { recorded: 1, stale: 1 }));
    }
}
