//! The one file of the bench that reads a clock or waits.

#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

static ORIGIN: OnceLock<Instant> = OnceLock::new();

/// Nanoseconds since the process first asked.
pub fn nanos() -> u64 {
    u64::try_from(ORIGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A running watch.
#[derive(Debug, Clone, Copy)]
pub struct Watch(Instant);

impl Watch {
    /// Starts one.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// How long it has run.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// The same in seconds.
    pub fn seconds(self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

/// The time of day.
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// Waits.
pub async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Waits, and the thread with it.
pub fn pause_here(span: Duration) {
    std::thread::sleep(span);
}

static LAST: AtomicU64 = AtomicU64::new(0);
static COMMITS: AtomicU64 = AtomicU64::new(0);
static WAITING: AtomicU64 = AtomicU64::new(0);
static WRITING: AtomicU64 = AtomicU64::new(0);
static FLUSHING: AtomicU64 = AtomicU64::new(0);

/// What the store's writing thread did with its time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Writes {
    /// Transactions.
    pub commits: u64,
    /// Seconds between transactions: it waited for commands.
    pub waiting: f64,
    /// Seconds of running the statements.
    pub writing: f64,
    /// Seconds within COMMIT: writing the log and waiting for the disk, checkpoints included.
    pub flushing: f64,
}

/// The store's crash hook, used to count transactions and to see where the writing thread's time goes.
pub fn hook(place: &'static str) {
    let now = nanos();
    let passed = now.saturating_sub(LAST.swap(now, Relaxed));
    match place {
        "sqlite.before_begin" => WAITING.fetch_add(passed, Relaxed),
        "sqlite.before_commit" => WRITING.fetch_add(passed, Relaxed),
        "sqlite.after_commit" => {
            COMMITS.fetch_add(1, Relaxed);
            FLUSHING.fetch_add(passed, Relaxed)
        }
        _ => 0,
    };
}

/// Forgets what the hook has seen.
pub fn reset_writes() {
    LAST.store(nanos(), Relaxed);
    for counter in [&COMMITS, &WAITING, &WRITING, &FLUSHING] {
        counter.store(0, Relaxed);
    }
}

/// What the hook has seen since the last reset.
pub fn writes() -> Writes {
    let seconds = |counter: &AtomicU64| counter.load(Relaxed) as f64 / 1e9;
    Writes {
        commits: COMMITS.load(Relaxed),
        waiting: seconds(&WAITING),
        writing: seconds(&WRITING),
        flushing: seconds(&FLUSHING),
    }
}
