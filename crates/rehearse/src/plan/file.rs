//! A plan as it is written. Keys that nobody knows are errors; meaning is checked in [`super::check`].

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, IntoDeserializer};

use super::span::Span;
use super::told::Told;
use super::{Hint, PlanError};

/// Reads the text.
pub(crate) fn read(text: &str, file: &str) -> Result<PlanFile, PlanError> {
    toml::from_str(text).map_err(|error| PlanError::read(file, text, &error))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PlanFile {
    pub summary: String,
    pub seed: Option<u64>,
    pub api_key: Option<String>,
    pub dimensions: Option<u64>,
    pub tokens_per_text: Option<u64>,
    pub limit: LimitFile,
    pub network: NetworkFile,
    pub quota: QuotaFile,
    pub latency: LatencyFile,
    pub size: SizeFile,
    pub poison: Vec<PoisonFile>,
    pub fault: Vec<FaultFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitFile {
    pub requests_per_second: Option<f64>,
    pub requests_per_minute: Option<f64>,
    pub tokens_per_minute: Option<f64>,
    pub kind: Option<KindWord>,
    pub window: Option<Span>,
    pub burst: Option<u64>,
    pub token_burst: Option<u64>,
    pub rejected_calls_consume: bool,
    pub debt: Option<Span>,
    pub headers: Told,
    pub hint: Option<Hint>,
    pub too_large_status: Option<u16>,
    pub neighbours: Option<NeighboursFile>,
    pub steps: Vec<StepFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KindWord {
    Bucket,
    Window,
    Sliding,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NeighboursFile {
    pub share: f64,
    pub every: Span,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NetworkFile {
    pub jitter: Option<Span>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepFile {
    pub after: Span,
    pub requests_per_second: Option<f64>,
    pub requests_per_minute: Option<f64>,
    pub tokens_per_minute: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct QuotaFile {
    pub requests: Option<u64>,
    pub tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LatencyFile {
    pub base: Option<Span>,
    pub per_item: Option<Span>,
    pub jitter: Option<f64>,
    pub p99: Option<Span>,
    pub capacity: Option<u64>,
    pub max_concurrency: Option<u64>,
    pub over_status: Option<u16>,
    pub over_retry_after: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SizeFile {
    pub max_texts: Option<u64>,
    pub max_tokens_per_request: Option<u64>,
    pub max_tokens_per_text: Option<u64>,
    pub status: Option<u16>,
    pub code: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoisonFile {
    pub marker: String,
    pub status: Option<u16>,
    pub code: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultFile {
    pub kind: FaultWord,
    pub rate: Option<f64>,
    pub by: Option<ByWord>,
    pub times: Option<u32>,
    pub from: Option<Span>,
    pub until: Option<Span>,
    pub every: Option<Span>,
    pub lasts: Option<Span>,
    pub path: Option<String>,
    pub status: Option<u16>,
    pub code: Option<String>,
    pub retry_after: Option<RetryAfterWord>,
    pub hint: Option<Hint>,
    #[serde(default)]
    pub quick: bool,
    pub how: Option<HowWord>,
    pub pace: Option<Span>,
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ByWord {
    Call,
    Item,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HowWord {
    Status,
    Cut,
    Refuse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FaultWord {
    Status,
    Outage,
    Cut,
    CutInside,
    Hang,
    Slowloris,
    Endless,
    Garbage,
    Huge,
    TooFew,
    TooMany,
    Shuffled,
    WrongDimension,
    Nan,
    Null,
    Empty,
}

/// "end", or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryAfterWord {
    End,
    Span(Duration),
}

impl<'de> Deserialize<'de> for RetryAfterWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "end" {
            return Ok(Self::End);
        }
        Span::deserialize(text.into_deserializer()).map(|span| Self::Span(span.0))
    }
}
