//! Policies with names.

use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Serialize;

use super::backoff::Backoff;
use super::jitter::Jitter;
use super::rules::{Policy, Tier};

const HOUR: Duration = Duration::from_secs(3_600);
const CRASH_LIMIT: NonZeroU32 = NonZeroU32::new(5).unwrap();
/// Failures after which an endless policy calls an item permanent-looking: about a day of hourly attempts.
pub(super) const FLAG_AFTER: NonZeroU32 = NonZeroU32::new(24).unwrap();

/// A policy with a name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PresetInfo {
    /// What it is called in pipeline files.
    pub name: &'static str,
    /// What it is for, in one line.
    pub summary: &'static str,
    /// The policy.
    pub policy: Policy,
}

static PRESETS: LazyLock<Vec<PresetInfo>> = LazyLock::new(all);

/// Every preset.
#[must_use]
pub fn presets() -> &'static [PresetInfo] {
    &PRESETS
}

/// The preset of that name.
#[must_use]
pub fn preset(name: &str) -> Option<&'static PresetInfo> {
    presets().iter().find(|preset| preset.name == name)
}

fn all() -> Vec<PresetInfo> {
    let document = |attempts| bounded(attempts, exponential(300, 3_600), Jitter::None);
    let of = |name, summary, policy| PresetInfo { name, summary, policy };
    vec![
        of("sample", "3 attempts, 1 s doubling to 60 s, ±25 %: the default", sample()),
        of(
            "llm",
            "like sample, waits at most 30 s",
            bounded(3, exponential(1, 30), Jitter::Proportional(0.25)),
        ),
        of("none", "one attempt, no retry", bounded(1, Backoff::None, Jitter::None)),
        of("daemon", "8 attempts, 60 s doubling to 1 h", bounded(8, exponential(60, 3_600), Jitter::None)),
        of("interactive", "4 attempts at once", bounded(4, Backoff::None, Jitter::None)),
        of(
            "interactive-backoff",
            "4 attempts, 1 s doubling to 30 s",
            bounded(4, exponential(1, 30), Jitter::None),
        ),
        of("document", "3 attempts, 5 min doubling to 1 h", document(3)),
        of("document-archive", "archives: 3 attempts, 5 min doubling to 1 h", document(3)),
        of("document-message", "messages: 3 attempts, 5 min doubling to 1 h", document(3)),
        of("document-chunk", "chunks: 5 attempts, 5 min doubling to 1 h", document(5)),
        of("document-thread", "threads: 5 attempts, 5 min doubling to 1 h", document(5)),
        of(
            "self-healing",
            "1, 5, 10, 20, 40, then every 60 min, without end",
            endless(vec![Tier { attempts: None, backoff: healing(), jitter: Jitter::None }]),
        ),
        of(
            "index",
            "4 attempts at once, then 1, 5, 10, 20, 40, 60 … min, without end",
            endless(vec![
                Tier { attempts: NonZeroU32::new(4), backoff: Backoff::None, jitter: Jitter::None },
                Tier { attempts: None, backoff: healing(), jitter: Jitter::None },
            ]),
        ),
    ]
}

/// The default policy.
pub(super) fn sample() -> Policy {
    bounded(3, exponential(1, 60), Jitter::Proportional(0.25))
}

fn bounded(attempts: u32, backoff: Backoff, jitter: Jitter) -> Policy {
    Policy {
        max_attempts: NonZeroU32::new(attempts),
        tiers: vec![Tier { attempts: None, backoff, jitter }],
        retry_on: None,
        final_on: Vec::new(),
        overrides: Vec::new(),
        deadline: None,
        crash_limit: CRASH_LIMIT,
        worker_limit: None,
        unknown_limit: None,
        hint_cap: HOUR,
        timeout_growth: 1.5,
        flag_after: None,
    }
}

/// A policy that never gives up, whatever the kind of failure.
fn endless(tiers: Vec<Tier>) -> Policy {
    Policy { max_attempts: None, flag_after: Some(FLAG_AFTER), tiers, ..sample() }
}

fn exponential(base: u64, max: u64) -> Backoff {
    Backoff::Exponential { base: Duration::from_secs(base), factor: 2.0, max: Duration::from_secs(max) }
}

fn healing() -> Backoff {
    Backoff::Schedule {
        delays: [1, 5, 10, 20, 40, 60].map(|minutes| Duration::from_secs(60 * minutes)).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(name: &str, count: u32) -> Vec<u64> {
        let policy = &preset(name).unwrap().policy;
        (1..=count).map(|n| policy.nominal(n).0.as_secs()).collect()
    }

    fn attempts(name: &str) -> Option<u32> {
        preset(name).unwrap().policy.max_attempts().map(NonZeroU32::get)
    }

    #[test]
    fn figures_are_those_of_the_seeds() {
        let minutes = |all: &[u64]| all.iter().map(|m| m * 60).collect::<Vec<_>>();
        let table: [(&str, Option<u32>, Vec<u64>); 13] = [
            ("self-healing", None, minutes(&[1, 5, 10, 20, 40, 60, 60, 60])),
            ("index", None, [vec![0, 0, 0], minutes(&[1, 5, 10, 20, 40, 60, 60])].concat()),
            ("interactive", Some(4), vec![0, 0, 0]),
            ("interactive-backoff", Some(4), vec![1, 2, 4, 8, 16, 30, 30]),
            ("daemon", Some(8), vec![60, 120, 240, 480, 960, 1_920, 3_600]),
            ("document", Some(3), vec![300, 600, 1_200, 2_400, 3_600]),
            ("document-archive", Some(3), vec![300, 600]),
            ("document-message", Some(3), vec![300, 600]),
            ("document-chunk", Some(5), vec![300, 600, 1_200, 2_400]),
            ("document-thread", Some(5), vec![300, 600, 1_200, 2_400]),
            ("sample", Some(3), vec![1, 2, 4, 8, 16, 32, 60]),
            ("llm", Some(3), vec![1, 2, 4, 8, 16, 30]),
            ("none", Some(1), vec![0]),
        ];
        assert_eq!(presets().len(), table.len());
        for (name, max, expected) in table {
            assert_eq!(attempts(name), max, "{name}");
            assert_eq!(waits(name, u32::try_from(expected.len()).unwrap()), expected, "{name}");
        }
    }

    #[test]
    fn the_default_is_sample() {
        assert_eq!(Policy::default(), preset("sample").unwrap().policy);
    }
}
