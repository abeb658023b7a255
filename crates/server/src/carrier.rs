//! Operations are carried on in the background: those that were asked for here at once, those that others left when they
//! have been left alone for a while.

use std::sync::Arc;

use redrive_core::id::OperationId;
use redrive_operate::{Floor, operations};
use redrive_store::OperationState;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Notify, watch};

use crate::limits;

/// Hears of operations that are to be carried on.
#[derive(Clone, Default)]
pub struct Carrier {
    asked: Arc<Mutex<BTreeSet<OperationId>>>,
    ring: Arc<Notify>,
}

impl Carrier {
    /// Has an operation carried on.
    pub fn take(&self, operation: OperationId) {
        self.lock().insert(operation);
        self.ring.notify_one();
    }

    /// Carries operations on until the process is told to stop. One that is under way then is left at the end of a page by
    /// the end of the process, and carried on by the next.
    pub async fn carry(self, floor: Floor, mut draining: watch::Receiver<bool>) {
        while !*draining.borrow() {
            let asked: Vec<OperationId> = self.lock().iter().copied().collect();
            for operation in asked {
                if self.go_on(&floor, operation).await {
                    self.lock().remove(&operation);
                }
            }
            match operations::abandoned(&floor, limits::ABANDONED).await {
                Ok(left) => self.lock().extend(left),
                Err(error) => tracing::warn!(target: "redrive::serve", %error, "operations cannot be read"),
            }
            let idle = self.lock().is_empty();
            let wait = if idle { limits::CARRY_EVERY * 2 } else { limits::CARRY_EVERY };
            tokio::select! {
                () = self.ring.notified() => {}
                () = floor.env.clock.sleep(wait) => {}
                _ = draining.changed() => {}
            }
        }
    }

    /// Carries one on; `true` when nothing is left of it to do here.
    async fn go_on(&self, floor: &Floor, operation: OperationId) -> bool {
        match operations::carry_on(floor, operation).await {
            Ok(view) if view.state == OperationState::Open => false,
            Ok(view) => {
                let (changed, skipped) = (view.changed, view.skipped);
                tracing::info!(target: "redrive::serve", %operation, changed, skipped, "operation ended");
                true
            }
            Err(error) => {
                tracing::warn!(target: "redrive::serve", %operation, %error, "operation cannot go on now");
                // It is taken up again when it has been left alone for a while.
                true
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<OperationId>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
