//! What a pipeline file says about a gate.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Flow control for one dependency, as it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GateSpec {
    /// Most calls at once.
    pub max_concurrency: u32,
    /// Most requests per minute; `None`: what the service says, or what it turns out to bear.
    pub requests_per_minute: Option<u64>,
    /// Most tokens per minute; likewise.
    pub tokens_per_minute: Option<u64>,
    /// When it closes because calls fail; `None`: never.
    pub breaker: Option<BreakerSpec>,
    /// The longest wait that a service can ask for; what is longer parks the gate for this long and is then tried out.
    pub hint_cap: Duration,
}

impl Default for GateSpec {
    fn default() -> Self {
        Self {
            max_concurrency: 64,
            requests_per_minute: None,
            tokens_per_minute: None,
            breaker: Some(BreakerSpec::cautious()),
            hint_cap: Duration::from_secs(3_600),
        }
    }
}

/// When a gate closes because calls fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BreakerSpec {
    /// The share of failed calls at which it closes, above 0, at most 1.
    pub failure_rate: f64,
    /// Fewer calls than this say nothing; as many failures in a row say enough.
    pub min_calls: u32,
    /// The span that is looked at.
    pub window: Duration,
    /// How long it stays closed before a probe.
    pub open_for: Duration,
    /// After how long without a success the runs that need it are paused.
    pub pause_after: Duration,
}

impl BreakerSpec {
    /// The breaker of a gate that nobody described: it closes only when hardly anything passes, so that a service which
    /// fails often, but not always, is still worked with.
    #[must_use]
    pub fn cautious() -> Self {
        Self { failure_rate: 0.9, ..Self::default() }
    }
}

impl Default for BreakerSpec {
    fn default() -> Self {
        Self {
            failure_rate: 0.5,
            min_calls: 20,
            window: Duration::from_secs(30),
            open_for: Duration::from_secs(10),
            pause_after: Duration::from_secs(300),
        }
    }
}
