//! Who takes spans and metrics that are sent away.

use std::time::Duration;

use async_trait::async_trait;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

/// What came of sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// It was taken, but for so many spans or points.
    Taken {
        /// How many were refused.
        rejected: u64,
    },
    /// It was not taken, and may be later.
    Later {
        /// In words of our own: an answer may repeat what was sent.
        why: String,
        /// How long the collector asks to be left alone.
        after: Option<Duration>,
    },
    /// It was not taken, and will not be.
    Refused {
        /// In words of our own.
        why: String,
    },
}

/// Takes what is sent. It tries once, within a time of its own.
#[async_trait]
pub trait Collector: Send + Sync {
    /// Sends a body.
    async fn send(&self, signal: Signal, body: Vec<u8>) -> Sent;
}
