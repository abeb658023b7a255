//! OTLP in JSON: the messages of `opentelemetry-proto`, as far as they are sent.
//!
//! Ids are in hex, numbers of 64 bits are text, and words of an enumeration are numbers, as the encoding has it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

/// Spans of one process.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Traces<'a> {
    pub(super) resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceSpans<'a> {
    pub(super) resource: Resource<'a>,
    pub(super) scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
pub(super) struct ScopeSpans<'a> {
    pub(super) scope: Scope,
    pub(super) spans: Vec<Span<'a>>,
}

/// Metrics of one process.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metrics<'a> {
    pub(super) resource_metrics: [ResourceMetrics<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceMetrics<'a> {
    pub(super) resource: Resource<'a>,
    pub(super) scope_metrics: [ScopeMetrics<'a>; 1],
}

#[derive(Serialize)]
pub(super) struct ScopeMetrics<'a> {
    pub(super) scope: Scope,
    pub(super) metrics: Vec<Metric<'a>>,
}

/// The process.
#[derive(Serialize)]
pub(super) struct Resource<'a> {
    attributes: Vec<Attribute<'a>>,
}

impl<'a> Resource<'a> {
    pub(super) fn of(told: &'a BTreeMap<String, String>) -> Self {
        Self { attributes: told.iter().map(|(name, value)| Attribute::text(name, value)).collect() }
    }
}

/// What makes the signals.
#[derive(Serialize)]
pub(super) struct Scope {
    name: &'static str,
    version: &'static str,
}

impl Scope {
    pub(super) const OWN: Self = Self { name: "redrive", version: env!("CARGO_PKG_VERSION") };
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Span<'a> {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_span_id: Option<String>,
    pub(super) name: &'a str,
    pub(super) kind: u8,
    pub(super) start_time_unix_nano: String,
    pub(super) end_time_unix_nano: String,
    pub(super) attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Status>,
}

/// Something that goes on within the process, as spans are told apart.
pub(super) const INTERNAL: u8 = 1;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    pub(super) trace_id: String,
    pub(super) span_id: String,
}

#[derive(Serialize)]
pub(super) struct Status {
    code: u8,
}

impl Status {
    /// It failed.
    pub(super) const ERROR: Self = Self { code: 2 };
}

#[derive(Serialize)]
pub(super) struct Attribute<'a> {
    key: &'a str,
    value: Value<'a>,
}

#[derive(Serialize)]
enum Value<'a> {
    #[serde(rename = "stringValue")]
    Text(Cow<'a, str>),
    #[serde(rename = "intValue")]
    Number(String),
}

impl<'a> Attribute<'a> {
    pub(super) fn text(key: &'a str, value: impl Into<Cow<'a, str>>) -> Self {
        Self { key, value: Value::Text(value.into()) }
    }

    pub(super) fn number(key: &'a str, value: impl Into<i64>) -> Self {
        Self { key, value: Value::Number(value.into().to_string()) }
    }
}

#[derive(Serialize)]
pub(super) struct Metric<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) unit: &'a str,
    #[serde(flatten)]
    pub(super) data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Data<'a> {
    #[serde(rename_all = "camelCase")]
    Gauge { data_points: Vec<Point<'a>> },
    #[serde(rename_all = "camelCase")]
    Sum { data_points: Vec<Point<'a>>, aggregation_temporality: u8, is_monotonic: bool },
    #[serde(rename_all = "camelCase")]
    Histogram { data_points: Vec<Buckets<'a>>, aggregation_temporality: u8 },
}

/// Counted from a beginning on, not since what was told last.
pub(super) const CUMULATIVE: u8 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Point<'a> {
    pub(super) attributes: Vec<Attribute<'a>>,
    pub(super) time_unix_nano: String,
    pub(super) as_double: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Buckets<'a> {
    pub(super) attributes: Vec<Attribute<'a>>,
    pub(super) time_unix_nano: String,
    pub(super) count: String,
    pub(super) sum: f64,
    pub(super) bucket_counts: Vec<String>,
    pub(super) explicit_bounds: &'a [f64],
}
