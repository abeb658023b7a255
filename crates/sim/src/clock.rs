//! Clocks that need not agree, and dice that always fall the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::draw::Draw;
use redrive_core::time::{Timestamp, millis};
use redrive_engine::env::{Clock, Dice, Env, Processes};
use redrive_engine::progress::Unheard;

use crate::hub::Hub;

/// A process's clock: virtual time, and how far it is off.
pub struct SkewedClock {
    hub: Arc<Hub>,
    skew: Arc<AtomicI64>,
}

#[async_trait]
impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.hub.now() + self.skew.load(Ordering::SeqCst))
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.hub.now().unsigned_abs())
    }

    async fn sleep(&self, span: Duration) {
        self.hub.sleep(millis(span)).await;
    }
}

struct SharedDice(Arc<Hub>);

impl Dice for SharedDice {
    fn draw(&self) -> Draw {
        Draw::from_bits(self.0.rng.bits())
    }
}

/// The outside world of a process, with the processes beside it, whose clock is off by `skew` milliseconds.
#[must_use]
pub fn env(hub: &Arc<Hub>, skew: &Arc<AtomicI64>, processes: Arc<dyn Processes>) -> Env {
    Env {
        clock: Arc::new(SkewedClock { hub: hub.clone(), skew: skew.clone() }),
        dice: Arc::new(SharedDice(hub.clone())),
        processes,
        progress: Arc::new(Unheard),
        traced: None,
    }
}
