//! A policy that one item goes under in place of its stage's.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::rules::Policy;

/// A policy that somebody gave an item when they sent it back: it holds instead of the stage's own, at the stage that failed the
/// item, and until the item goes on to another one or is sent back once more. It is kept whole, so that neither another
/// pipeline nor another version of a preset changes it.
#[derive(Debug, Clone)]
pub struct OwnPolicy(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kept: Kept,
    /// The same as it is kept in a store; two that are kept alike are the same.
    text: String,
}

/// What is kept of it.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// What was asked for: a preset's name, or the keys of a policy.
    said: Value,
    /// What that meant.
    policy: Policy,
}

impl OwnPolicy {
    /// A policy, and what was said that it was made from.
    #[must_use]
    pub fn new(said: impl Into<Value>, policy: Policy) -> Self {
        let kept = Kept { said: said.into(), policy };
        let text = serde_json::to_string(&kept).unwrap_or_default();
        // Spans are kept in milliseconds: it is from the beginning what it is when it was read back.
        Self::from_text(&text).unwrap_or_else(|| Self(Arc::new(Inner { kept, text })))
    }

    /// Reads what [`OwnPolicy::to_text`] gave; `None` for anything else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let kept: Kept = serde_json::from_str(text).ok()?;
        Some(Self(Arc::new(Inner { kept, text: text.to_owned() })))
    }

    /// The text that a store keeps.
    #[must_use]
    pub fn to_text(&self) -> &str {
        &self.0.text
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.kept.policy
    }

    /// What was asked for: a preset's name, or the keys of a policy as a pipeline file has them.
    #[must_use]
    pub fn said(&self) -> &Value {
        &self.0.kept.said
    }
}

impl PartialEq for OwnPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for OwnPolicy {}

impl fmt::Display for OwnPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.said() {
            Value::String(preset) => f.write_str(preset),
            said => said.fmt(f),
        }
    }
}

impl Serialize for OwnPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.kept.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OwnPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Kept { said, policy } = Kept::deserialize(deserializer)?;
        Ok(Self::new(said, policy))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::classify::Matcher;
    use crate::failure::Class;
    use crate::policy::{Backoff, Jitter, Limit, OverrideSpec, PolicySpec, RetryOn, TierSpec, presets};

    fn read_back(policy: &Policy) -> Policy {
        let own = OwnPolicy::new(json!("x"), policy.clone());
        let again = OwnPolicy::from_text(own.to_text()).expect("readable");
        assert_eq!(own, again);
        again.policy().clone()
    }

    #[test]
    fn every_preset_is_read_back_as_it_was() {
        for preset in presets() {
            assert_eq!(read_back(&preset.policy), preset.policy, "{}", preset.name);
        }
    }

    #[test]
    fn everything_that_a_policy_can_say_is_read_back_as_it_was() {
        let second = Duration::from_secs(1);
        let tier = |attempts, backoff, jitter| TierSpec { attempts, backoff, jitter: Some(jitter) };
        let tiers = vec![
            tier(Some(2), Backoff::None, Jitter::Full),
            tier(Some(2), Backoff::Fixed { delay: second }, Jitter::Equal),
            tier(Some(2), Backoff::Linear { base: second, max: second * 9 }, Jitter::None),
            tier(Some(2), Backoff::Schedule { delays: vec![second, second * 2] }, Jitter::Proportional(0.25)),
        ];
        let spec = PolicySpec {
            max_attempts: Some(Limit::Attempts(7)),
            tiers: Some(tiers),
            retry_on: Some(RetryOn::List(vec![Matcher::Status(429), Matcher::Text("x".to_owned())])),
            final_on: Some(vec![Matcher::StatusClass(4)]),
            deadline: Some(second * 3_600),
            overrides: vec![OverrideSpec {
                matcher: Matcher::Class(Class::Timeout),
                max_attempts: Some(3),
                backoff: Some(Backoff::Exponential { base: second, factor: 1.7, max: second * 60 }),
            }],
            crash_limit: Some(2),
            worker_limit: Some(9),
            unknown_limit: Some(Limit::Attempts(4)),
            hint_cap: Some(second * 30),
            timeout_growth: Some(1.3),
            flag_after: Some(5),
            ..PolicySpec::default()
        };
        let policy = spec.build().expect("a policy");
        assert_eq!(read_back(&policy), policy);
    }

    #[test]
    fn what_is_finer_than_a_store_keeps_is_so_from_the_beginning() {
        let backoff = Some(Backoff::Fixed { delay: Duration::from_micros(1_500) });
        let policy = PolicySpec { backoff, ..PolicySpec::default() }.build().expect("a policy");
        let own = OwnPolicy::new(json!({ "a": 1 }), policy);
        assert_eq!(own.policy().tiers()[0].backoff.delay(1), Duration::from_millis(1));
        assert_eq!(own.to_string(), "{\"a\":1}");
        assert_eq!(OwnPolicy::from_text("{}"), None);
    }
}
