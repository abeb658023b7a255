//! The only place that reads a clock, waits, or throws dice.
//!
//! Everything else is handed an [`Env`]; clippy's `disallowed-methods` holds it to that. A simulated run hands in its own.

#![expect(clippy::disallowed_methods, reason = "this is where the ban ends")]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use redrive_core::draw::Draw;
use redrive_core::time::{CLOCK_SLACK, Timestamp, millis};

use crate::identity::{identity, is_gone};
use crate::progress::{Progress, Unheard};
use crate::trace::Traced;

/// The time, and waiting for it to pass.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;
    /// How long something has been running that is never put forward or back, and does not run while the machine sleeps.
    fn uptime(&self) -> Duration;
    /// Waits.
    async fn sleep(&self, span: Duration);
}

/// Chance.
pub trait Dice: Send + Sync {
    /// A new draw.
    fn draw(&self) -> Draw;
}

/// The processes of this machine.
pub trait Processes: Send + Sync {
    /// Describes this process, so that others can tell whether it still exists; empty where the system does not say.
    fn identity(&self) -> String;
    /// Whether a process that was described like that ran on this machine since its last boot, and is gone.
    fn is_gone(&self, identity: &str) -> bool;
}

/// What the engine has of the outside world besides its store and its handlers.
#[derive(Clone)]
pub struct Env {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub dice: Arc<dyn Dice>,
    /// The processes beside this one.
    pub processes: Arc<dyn Processes>,
    /// Who hears how far something long is.
    pub progress: Arc<dyn Progress>,
    /// Who hears what became of items, as spans; `None`: nobody.
    pub traced: Traced,
}

impl Env {
    /// The clock and the uptime, read at one moment; `None` when that cannot be said, because the process stood still between.
    #[must_use]
    pub fn reading(&self) -> Option<(Timestamp, Duration)> {
        let (before, now) = (self.clock.uptime(), self.clock.now());
        let uptime = self.clock.uptime();
        (uptime.saturating_sub(before) < CLOCK_SLACK / 4).then_some((now, uptime))
    }

    /// The machine's own clock and fresh dice.
    #[must_use]
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            dice: Arc::new(Seeded::new(RandomState::new().build_hasher().finish())),
            processes: Arc::new(SystemProcesses),
            progress: Arc::new(Unheard),
            traced: None,
        }
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// The machine's processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemProcesses;

impl Processes for SystemProcesses {
    fn identity(&self) -> String {
        identity()
    }

    fn is_gone(&self, identity: &str) -> bool {
        is_gone(identity)
    }
}

/// The machine's time, for the few places that cannot be handed an [`Env`].
#[must_use]
pub fn system_now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis))
}

/// Bits that nobody can guess, for what gives access.
///
/// # Errors
/// When the system gives none.
pub fn secret() -> std::io::Result<[u8; 32]> {
    let mut bits = [0; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bits)?;
    Ok(bits)
}

/// The machine's uptime, for the few places that cannot be handed an [`Env`].
#[must_use]
pub fn system_uptime() -> Duration {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed()
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        system_now()
    }

    fn uptime(&self) -> Duration {
        system_uptime()
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
