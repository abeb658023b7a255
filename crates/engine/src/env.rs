//! The only place that reads a clock, waits, or throws dice.
//!
//! Everything else is handed an [`Env`]; clippy's `disallowed-methods` holds it to that. A simulated run hands in its own.

#![expect(clippy::disallowed_methods, reason = "this is where the ban ends")]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use redrive_core::draw::Draw;
use redrive_core::time::{Timestamp, millis};

/// The time, and waiting for it to pass.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;
    /// Waits.
    async fn sleep(&self, span: Duration);
}

/// Chance.
pub trait Dice: Send + Sync {
    /// A new draw.
    fn draw(&self) -> Draw;
}

/// What the engine has of the outside world besides its store and its handlers.
#[derive(Clone)]
pub struct Env {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub dice: Arc<dyn Dice>,
}

impl Env {
    /// The machine's own clock and fresh dice.
    #[must_use]
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            dice: Arc::new(Seeded::new(RandomState::new().build_hasher().finish())),
        }
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// The machine's time, for the few places that cannot be handed an [`Env`].
#[must_use]
pub fn system_now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis))
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        system_now()
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// Dice that fall the same way for the same seed.
#[derive(Debug)]
pub struct Seeded {
    state: AtomicU64,
}

impl Seeded {
    /// Dice of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// The next 64 bits (SplitMix64).
    pub fn bits(&self) -> u64 {
        let mut z = self
            .state
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Dice for Seeded {
    fn draw(&self) -> Draw {
        Draw::from_bits(self.bits())
    }
}
