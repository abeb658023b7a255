//! From the page of metrics to bodies.

use std::collections::BTreeMap;

use redrive_core::time::Timestamp;

use super::otlp::{
    Attribute, Buckets, CUMULATIVE, Data, Metric, Metrics, Point, Resource, ResourceMetrics, Scope,
    ScopeMetrics,
};
use super::spans::nanos;
use crate::monitor::families::{Family, Kind};
use crate::monitor::{Page, Told};

/// Most values of one request, as long as one metric has no more.
const MOST_POINTS: usize = 5_000;

/// The page as bodies of requests: one, or several where it tells of very many pipelines.
pub(super) fn bodies(page: &Page, resource: &BTreeMap<String, String>, now: Timestamp) -> Vec<Vec<u8>> {
    let now = nanos(now);
    let mut bodies = Vec::new();
    let (mut metrics, mut points) = (Vec::new(), 0);
    for (family, told) in page.told() {
        if points + told.len() > MOST_POINTS && !metrics.is_empty() {
            bodies.push(body(resource, std::mem::take(&mut metrics)));
            points = 0;
        }
        points += told.len();
        metrics.push(metric(family, &told, &now));
    }
    if !metrics.is_empty() {
        bodies.push(body(resource, metrics));
    }
    bodies
}

fn body(resource: &BTreeMap<String, String>, metrics: Vec<Metric<'_>>) -> Vec<u8> {
    let scope_metrics = [ScopeMetrics { scope: Scope::OWN, metrics }];
    let all =
        Metrics { resource_metrics: [ResourceMetrics { resource: Resource::of(resource), scope_metrics }] };
    // Texts and numbers can be written.
    serde_json::to_vec(&all).unwrap_or_default()
}

fn metric<'a>(family: &'a Family, told: &[Told<'a>], now: &str) -> Metric<'a> {
    let points = || told.iter().map(|told| point(family, told, now)).collect();
    let data = match family.kind {
        Kind::Gauge => Data::Gauge { data_points: points() },
        Kind::Counter => {
            Data::Sum { data_points: points(), aggregation_temporality: CUMULATIVE, is_monotonic: true }
        }
        Kind::Histogram(bounds) => {
            let data_points = told.iter().map(|told| buckets(family, told, bounds, now)).collect();
            Data::Histogram { data_points, aggregation_temporality: CUMULATIVE }
        }
    };
    let unit = if family.name.trim_end_matches("_total").ends_with("_seconds") { "s" } else { "" };
    Metric { name: family.name, description: family.help, unit, data }
}

fn point<'a>(family: &'a Family, told: &Told<'a>, now: &str) -> Point<'a> {
    Point { attributes: labels(family, told), time_unix_nano: now.to_owned(), as_double: told.value }
}

fn buckets<'a>(family: &'a Family, told: &Told<'a>, bounds: &'a [f64], now: &str) -> Buckets<'a> {
    Buckets {
        attributes: labels(family, told),
        time_unix_nano: now.to_owned(),
        count: told.buckets.iter().sum::<u64>().to_string(),
        sum: told.value,
        bucket_counts: told.buckets.iter().map(ToString::to_string).collect(),
        explicit_bounds: bounds,
    }
}

fn labels<'a>(family: &'a Family, told: &Told<'a>) -> Vec<Attribute<'a>> {
    family.labels.iter().zip(told.labels).map(|(name, value)| Attribute::text(name, value)).collect()
}
