//! Operations are carried on in the background: those that were asked for here at once, those on a frozen set within two seconds,
//! whoever started them, and others that somebody left when they have been left alone for a while.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::id::OperationId;
use redrive_store::OperationState;
use tokio::sync::{Notify, watch};

use super::carry::go_on;
use super::{abandoned, rules};
use crate::Floor;

/// How often operations are looked for that nobody carries on.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// How often the rules of pipelines are looked at.
const RULES_EVERY: Duration = Duration::from_secs(2);
/// How long an operation has to be left alone before it is taken for abandoned: whoever does it writes with every page.
const ABANDONED: Duration = Duration::from_secs(10);

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
        let mut ruled_at = None;
        while !*draining.borrow() {
            let now = floor.now();
            if ruled_at.is_none_or(|at| now.since(at) >= RULES_EVERY || at > now) {
                ruled_at = Some(now);
                if let Err(error) = rules::apply(&floor, &self).await {
                    tracing::warn!(target: "redrive::operations", %error, "rules cannot be looked at");
                }
            }
            let asked: Vec<OperationId> = self.lock().iter().copied().collect();
            for operation in asked {
                if self.go_on(&floor, operation).await {
                    self.lock().remove(&operation);
                }
            }
            match abandoned(&floor, ABANDONED).await {
                Ok(left) => self.lock().extend(left),
                Err(error) => {
                    tracing::warn!(target: "redrive::operations", %error, "operations cannot be read")
                }
            }
            tokio::select! {
                () = self.ring.notified() => {}
                () = floor.env.clock.sleep(EVERY) => {}
                _ = draining.changed() => {}
            }
        }
    }

    /// Carries one on; `true` when nothing is left of it to do here.
    async fn go_on(&self, floor: &Floor, operation: OperationId) -> bool {
        match go_on(floor, operation).await {
            Ok(row) if row.state == OperationState::Open => false,
            Ok(row) => {
                let (changed, skipped) = (row.changed, row.skipped);
                tracing::info!(target: "redrive::operations", %operation, changed, skipped, "operation ended");
                true
            }
            Err(error) => {
                tracing::warn!(target: "redrive::operations", %operation, %error, "operation cannot go on now");
                // It is taken up again when it has been left alone for a while.
                true
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<OperationId>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
