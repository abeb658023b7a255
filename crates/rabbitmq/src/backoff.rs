//! How long is waited before something that went wrong is tried again.

use std::time::Duration;

use redrive_engine::env::Env;

/// The first wait; then twice as long each time.
const FIRST: Duration = Duration::from_millis(100);
/// The longest.
const LAST: Duration = Duration::from_secs(5);

/// Waits that grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The next wait: half of it by chance, so that several do not come back at one moment.
    pub(crate) fn next(&mut self, env: &Env) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(LAST);
        wait.mul_f64(0.5 + env.dice.draw().value() / 2.0)
    }

    /// Begins anew: something went well.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}
