//! How long to wait after the n-th failure.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::millis;

/// A wait as a function of the number of failures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Backoff {
    /// No wait at all.
    None,
    /// Always the same wait.
    Fixed {
        /// The wait.
        #[serde(rename = "delay_ms", serialize_with = "as_millis", deserialize_with = "from_millis")]
        delay: Duration,
    },
    /// `base · n`, at most `max`.
    Linear {
        /// The first wait.
        #[serde(rename = "base_ms", serialize_with = "as_millis", deserialize_with = "from_millis")]
        base: Duration,
        /// The longest wait.
        #[serde(rename = "max_ms", serialize_with = "as_millis", deserialize_with = "from_millis")]
        max: Duration,
    },
    /// `base · factor^(n − 1)`, at most `max`.
    Exponential {
        /// The first wait.
        #[serde(rename = "base_ms", serialize_with = "as_millis", deserialize_with = "from_millis")]
        base: Duration,
        /// What each wait is multiplied by; at least 1.
        factor: f64,
        /// The longest wait.
        #[serde(rename = "max_ms", serialize_with = "as_millis", deserialize_with = "from_millis")]
        max: Duration,
    },
    /// The waits as listed; the last one repeats.
    Schedule {
        /// The waits, in order.
        #[serde(
            rename = "delays_ms",
            serialize_with = "all_as_millis",
            deserialize_with = "all_from_millis"
        )]
        delays: Vec<Duration>,
    },
}

impl Backoff {
    /// The wait after the n-th failure, before jitter. Counts from 1; 0 is taken for 1.
    #[must_use]
    pub fn delay(&self, n: u32) -> Duration {
        let n = n.max(1);
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed { delay } => *delay,
            Self::Linear { base, max } => base.saturating_mul(n).min(*max),
            Self::Exponential { base, factor, max } => {
                let power = factor.powi(i32::try_from(n - 1).unwrap_or(i32::MAX));
                scaled(*base, power).min(*max)
            }
            Self::Schedule { delays } => {
                let at = usize::try_from(n - 1).unwrap_or(usize::MAX);
                delays.get(at).or(delays.last()).copied().unwrap_or(Duration::ZERO)
            }
        }
    }

    /// The longest wait, jitter included; [`Duration::MAX`] where none was set.
    #[must_use]
    pub fn cap(&self) -> Duration {
        match self {
            Self::Linear { max, .. } | Self::Exponential { max, .. } => *max,
            Self::None | Self::Fixed { .. } | Self::Schedule { .. } => Duration::MAX,
        }
    }

    /// The kind's name in pipeline files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fixed { .. } => "fixed",
            Self::Linear { .. } => "linear",
            Self::Exponential { .. } => "exponential",
            Self::Schedule { .. } => "schedule",
        }
    }
}

/// A span times a number, saturating; a negative or undefined result is zero.
pub(super) fn scaled(span: Duration, by: f64) -> Duration {
    let seconds = span.as_secs_f64() * by;
    if seconds > 0.0 { Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX) } else { Duration::ZERO }
}

pub(super) fn as_millis<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(millis(*span))
}

pub(super) fn from_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

fn all_from_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
    let spans = Vec::<u64>::deserialize(deserializer)?;
    Ok(spans.into_iter().map(Duration::from_millis).collect())
}

fn all_as_millis<S: Serializer>(spans: &[Duration], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(spans.iter().copied().map(millis))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn first(backoff: &Backoff, count: u32) -> Vec<u64> {
        (1..=count).map(|n| backoff.delay(n).as_secs()).collect()
    }

    #[test]
    fn waits_follow_their_formula() {
        let exponential = Backoff::Exponential { base: secs(300), factor: 2.0, max: secs(3_600) };
        assert_eq!(first(&exponential, 6), [300, 600, 1_200, 2_400, 3_600, 3_600]);
        let linear = Backoff::Linear { base: secs(10), max: secs(25) };
        assert_eq!(first(&linear, 4), [10, 20, 25, 25]);
        let schedule = Backoff::Schedule { delays: vec![secs(60), secs(300)] };
        assert_eq!(first(&schedule, 4), [60, 300, 300, 300]);
        assert_eq!(first(&Backoff::Fixed { delay: secs(7) }, 2), [7, 7]);
        assert_eq!(first(&Backoff::None, 2), [0, 0]);
        assert_eq!(first(&Backoff::Schedule { delays: vec![] }, 2), [0, 0]);
    }

    proptest! {
        #[test]
        fn exponential_waits_are_monotone_and_capped(
            base in 0_u64..1_000_000, max in 0_u64..u64::MAX, factor in 1.0_f64..1e12, n in 1_u32..u32::MAX,
        ) {
            let backoff = Backoff::Exponential {
                base: Duration::from_millis(base), factor, max: Duration::from_millis(max),
            };
            prop_assert!(backoff.delay(n) <= backoff.delay(n + 1));
            prop_assert!(backoff.delay(n + 1) <= backoff.cap());
        }

        #[test]
        fn any_numbers_give_a_wait(base in any::<u64>(), factor in any::<f64>(), n in any::<u32>()) {
            let (base, max) = (Duration::from_secs(base), Duration::MAX);
            let _ = Backoff::Exponential { base, factor, max }.delay(n);
            let _ = Backoff::Linear { base, max }.delay(n);
        }
    }
}
