//! How long a store that does not answer is asked again.

use std::time::Duration;

use redrive_store::Error;

use crate::env::Env;

/// Bears with a store that fails, for a while.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// By the clock that is never put.
    failing_since: Option<Duration>,
}

impl Patience {
    /// The store answered.
    pub(crate) fn rest(&mut self) {
        self.failing_since = None;
    }

    /// Waits a little, longer each time; gives the error back when it does not pass, or has not passed for `limit`.
    pub(crate) async fn bear(&mut self, error: Error, limit: Duration, env: &Env) -> Result<(), Error> {
        let now = env.clock.uptime();
        let lasted = now.saturating_sub(*self.failing_since.get_or_insert(now));
        if !error.is_passing() || lasted > limit {
            return Err(error);
        }
        tracing::warn!(%error, "the store failed; trying again");
        env.clock.sleep((lasted / 2).clamp(Duration::from_millis(50), Duration::from_secs(5))).await;
        Ok(())
    }
}
