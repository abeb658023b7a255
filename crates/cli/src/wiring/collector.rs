//! The collector that spans and metrics are sent to.

use std::sync::Arc;

use redrive_engine::collector::Collector;
use redrive_engine::env::system_now;
use redrive_operate::Error;
use redrive_operate::telemetry::{Endpoint, Settings};
use redrive_stages::{OtlpCollector, OtlpSpec, OtlpTarget};

/// The collector that these settings name.
pub fn collector(settings: &Settings) -> Result<Arc<dyn Collector>, Error> {
    let target = |endpoint: &Option<Endpoint>| {
        endpoint.clone().map(|Endpoint { url, headers, timeout }| OtlpTarget { url, headers, timeout })
    };
    let spec = OtlpSpec { traces: target(&settings.traces), metrics: target(&settings.metrics) };
    let made = OtlpCollector::new(spec, Arc::new(system_now));
    let collector = made.map_err(|why| {
        Error::wrong(format!("the collector of OTEL_EXPORTER_OTLP_ENDPOINT cannot be used: {why}"))
            .hint("an address like http://127.0.0.1:4318, and headers like authorization=Bearer%20TOKEN")
    })?;
    Ok(Arc::new(collector))
}
