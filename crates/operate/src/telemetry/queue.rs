//! Spans that wait to be sent: a bounded number, and none of them ever waited for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::trace::{Sampler, TraceId};
use redrive_engine::trace::{Span, SpanCounts, Tracer};
use tokio::sync::Notify;

use super::Settings;

/// Takes spans from whoever works, and hands them out in batches.
pub(super) struct Queue {
    spans: Mutex<VecDeque<Span>>,
    most: usize,
    batch: usize,
    sampler: Sampler,
    tells_services: bool,
    /// Rings when a batch is full.
    pub(super) full: Notify,
    sent: AtomicU64,
    dropped: AtomicU64,
    /// More came than are kept.
    overflowed: AtomicBool,
}

impl Queue {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            spans: Mutex::default(),
            most: settings.queue.max(settings.batch),
            batch: settings.batch,
            // Who sends no spans makes none, and tells nobody of them.
            sampler: if settings.traces.is_some() { settings.sampler } else { Sampler::NONE },
            tells_services: settings.tells_services && settings.traces.is_some(),
            full: Notify::new(),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            overflowed: AtomicBool::new(false),
        }
    }

    /// The next batch; with `all` also one that is not full.
    pub(super) fn take(&self, all: bool) -> Option<Vec<Span>> {
        let mut spans = self.lock();
        let enough = if all { 1 } else { self.batch };
        let n = spans.len().min(self.batch);
        (n >= enough).then(|| spans.drain(..n).collect())
    }

    /// Notes what became of spans.
    pub(super) fn ended(&self, sent: u64, dropped: u64) {
        self.sent.fetch_add(sent, Ordering::Relaxed);
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// Whether more came than are kept.
    pub(super) fn has_overflowed(&self) -> bool {
        self.overflowed.load(Ordering::Relaxed)
    }

    /// Drops what is left, and says how many were dropped in all.
    pub(super) fn close(&self) -> SpanCounts {
        let left = std::mem::take(&mut *self.lock()).len() as u64;
        self.ended(0, left);
        self.counts()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Span>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tracer for Queue {
    fn keeps(&self, trace: TraceId) -> bool {
        self.sampler.keeps(trace)
    }

    fn ended(&self, span: Span) {
        let mut spans = self.lock();
        if spans.len() >= self.most {
            drop(spans);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.overflowed.store(true, Ordering::Relaxed);
            return;
        }
        spans.push_back(span);
        let full = spans.len() == self.batch;
        drop(spans);
        if full {
            self.full.notify_one();
        }
    }

    fn tells_services(&self) -> bool {
        self.tells_services
    }

    fn counts(&self) -> SpanCounts {
        SpanCounts { sent: self.sent.load(Ordering::Relaxed), dropped: self.dropped.load(Ordering::Relaxed) }
    }
}
