//! Durations as they are written in a plan: "500ms", "30s", "5m".

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// Longest duration that is accepted: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// A duration from a string with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let span = humantime::parse_duration(text.trim()).map_err(|error| {
            D::Error::custom(format!(
                "{text:?} is no duration ({error}); durations look like \"500ms\", \"30s\""
            ))
        })?;
        if span > LONGEST {
            return Err(D::Error::custom(format!("{text:?} is longer than ten years")));
        }
        Ok(Self(span))
    }
}
