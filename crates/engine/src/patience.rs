//! How long a store that does not answer is asked again.

use std::time::Duration;

use redrive_store::Error;

use crate::env::Env;

/// How long which failure is borne.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A store that does not answer.
    pub(crate) any: Duration,
    /// A disk without room: nobody else does better there, and only its owner can change it.
    pub(crate) full: Duration,
}

impl From<Duration> for Limits {
    fn from(any: Duration) -> Self {
        Self { any, full: any }
    }
}

/// Bears with a store that fails, for a while.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// By the clock that is never put.
    failing_since: Option<Duration>,
    /// The same, where there is no room.
    full_since: Option<Duration>,
}

impl Patience {
    /// The store answered.
    pub(crate) fn rest(&mut self) {
        *self = Self::default();
    }

    /// Waits a little, longer each time; gives the error back when it does not pass, or has not passed within its limit.
    pub(crate) async fn bear(
        &mut self,
        error: Error,
        limits: impl Into<Limits>,
        env: &Env,
    ) -> Result<(), Error> {
        let (now, limits) = (env.clock.uptime(), limits.into());
        let (since, limit) = match &error {
            Error::Full(_) => (&mut self.full_since, limits.full),
            _ => (&mut self.failing_since, limits.any),
        };
        let lasted = now.saturating_sub(*since.get_or_insert(now));
        if !error.is_passing() || lasted > limit {
            return Err(error);
        }
        tracing::warn!(%error, "the store failed; trying again");
        env.clock.sleep((lasted / 2).clamp(Duration::from_millis(50), Duration::from_secs(5))).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use async_trait::async_trait;
    use redrive_core::time::Timestamp;

    use super::*;
    use crate::env::Clock;

    /// A clock that leaps over every wait.
    #[derive(Default)]
    struct Leaps(AtomicU64);

    #[async_trait]
    impl Clock for Leaps {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn uptime(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst))
        }

        async fn sleep(&self, span: Duration) {
            self.0.fetch_add(u64::try_from(span.as_millis()).expect("short"), Ordering::SeqCst);
        }
    }

    /// Fails with the same until it is not borne any more; how long that was, up to an hour.
    async fn borne(patience: &mut Patience, error: &Error, limits: Limits, env: &Env) -> Duration {
        let begun = env.clock.uptime();
        let lasted = || env.clock.uptime().saturating_sub(begun);
        while lasted() < Duration::from_secs(3_600) {
            if patience.bear(error.clone(), limits, env).await.is_err() {
                break;
            }
        }
        lasted()
    }

    #[tokio::test]
    async fn a_full_disk_is_borne_for_as_long_as_is_said_for_it_and_nothing_else_is() {
        let env = Env { clock: Arc::new(Leaps::default()), ..Env::system() };
        let half_a_minute = Duration::from_secs(30);
        let limits = Limits { any: half_a_minute, full: Duration::MAX };
        let (full, away) = (Error::Full("x".to_owned()), Error::Unavailable("x".to_owned()));
        let mut patience = Patience::default();
        assert!(borne(&mut patience, &full, limits, &env).await >= Duration::from_secs(3_600));
        // Whoever is away after that was not away for as long.
        let lasted = borne(&mut patience, &away, limits, &env).await;
        assert!(lasted >= half_a_minute && lasted < half_a_minute * 2, "{lasted:?}");
        patience.rest();
        let lasted = borne(&mut patience, &full, half_a_minute.into(), &env).await;
        assert!(lasted >= half_a_minute && lasted < half_a_minute * 2, "{lasted:?}");
        let damaged = Error::Corrupt("x".to_owned());
        assert_eq!(borne(&mut patience, &damaged, limits, &env).await, Duration::ZERO);
    }
}
