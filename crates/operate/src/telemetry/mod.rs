//! Spans and metrics for OpenTelemetry, sent by OTLP where the environment says so.
//!
//! Work does not depend on any of it: spans wait in a queue of bounded length, and what is not taken is dropped and counted. What
//! is sent holds names, numbers and words of our own. Metrics are those of [`monitor`](crate::monitor), from the same read.

mod exporter;
mod metrics;
mod otlp;
mod queue;
mod settings;
mod spans;

pub use exporter::Telemetry;
pub use settings::{Endpoint, Settings};
