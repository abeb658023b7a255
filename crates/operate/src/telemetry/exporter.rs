//! Sends what is made, beside the work and without holding it up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use redrive_engine::collector::{Collector, Sent, Signal};
use redrive_engine::env::Env;
use redrive_engine::trace::{Span, Traced};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::queue::Queue;
use super::spans::Lore;
use super::{Settings, metrics};
use crate::{Floor, monitor};

/// How often a batch is sent that was not taken.
const TRIES: u32 = 4;
/// The first wait between two tries; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait, whatever the collector asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long what is left may take when the process ends.
const LAST: Duration = Duration::from_secs(5);

/// Sends spans and metrics until it is ended.
pub struct Telemetry {
    exporter: Arc<Exporter>,
    closing: watch::Sender<bool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

struct Exporter {
    settings: Settings,
    collector: Arc<dyn Collector>,
    queue: Arc<Queue>,
    env: Env,
    /// What metrics and names are read from, once it is open.
    floor: OnceLock<Floor>,
    /// Somebody was told that the collector takes no spans, no metrics, or not all spans.
    told: [AtomicBool; 3],
}

impl Telemetry {
    /// Begins to send. Metrics are sent with `metrics` only, and once there is a floor to read them from.
    #[must_use]
    pub fn begin(settings: Settings, collector: Arc<dyn Collector>, env: &Env, metrics: bool) -> Self {
        let queue = Arc::new(Queue::new(&settings));
        let (closing, closes) = watch::channel(false);
        let floor = OnceLock::new();
        let told = Default::default();
        let exporter = Arc::new(Exporter { collector, queue, env: env.clone(), floor, told, settings });
        let mut tasks = Vec::new();
        if exporter.settings.traces.is_some() {
            tasks.push(tokio::spawn(exporter.clone().send_spans(closes.clone())));
        }
        if metrics && exporter.settings.metrics.is_some() {
            tasks.push(tokio::spawn(exporter.clone().send_metrics(closes)));
        }
        Self { exporter, closing, tasks: Mutex::new(tasks) }
    }

    /// Who is to hear of spans; nobody where they go nowhere.
    #[must_use]
    pub fn traced(&self) -> Traced {
        self.exporter.settings.traces.as_ref()?;
        Some(self.exporter.queue.clone())
    }

    /// Says what metrics and names are read from. The first one counts.
    pub fn over(&self, floor: &Floor) {
        let _ = self.exporter.floor.set(floor.clone());
    }

    /// Sends what is left, for a few seconds at most, and says how many spans were not taken.
    pub async fn end(&self) {
        self.closing.send_replace(true);
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        let ended = async {
            for task in tasks {
                // One that panicked has ended, too.
                let _ = task.await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = self.exporter.env.clock.sleep(LAST) => aborts.iter().for_each(|task| task.abort()),
        }
        let counts = self.exporter.queue.close();
        if counts.dropped > 0 {
            let (dropped, sent) = (counts.dropped, counts.sent);
            tracing::warn!(target: "redrive::otel", dropped, sent, "spans were dropped: the collector did not take them in time");
        }
    }
}

impl Exporter {
    async fn send_spans(self: Arc<Self>, mut closing: watch::Receiver<bool>) {
        let mut lore = Lore::default();
        loop {
            let all = tokio::select! {
                () = self.queue.full.notified() => false,
                () = self.env.clock.sleep(self.settings.delay) => true,
                () = told_to_end(&mut closing) => true,
            };
            while let Some(batch) = self.queue.take(all || *closing.borrow()) {
                let held = Held { queue: &self.queue, spans: batch.len() as u64 };
                let taken = self.deliver(&batch, &mut lore, &mut closing).await;
                held.ended(taken);
                if self.queue.has_overflowed() {
                    self.tell(
                        Trouble::Drops,
                        "more are made than it takes, and those beyond a bound are dropped",
                    );
                }
                if taken.is_none() && *closing.borrow() {
                    return;
                }
            }
            if *closing.borrow() {
                return;
            }
        }
    }

    /// Sends a batch, again and again for a while where it may yet be taken; how many of it were, or `None`.
    async fn deliver(
        &self,
        batch: &[Span],
        lore: &mut Lore,
        closing: &mut watch::Receiver<bool>,
    ) -> Option<u64> {
        if let Some(floor) = self.floor.get() {
            lore.learn(&*floor.store, batch).await;
        }
        let body = lore.body(&self.settings.resource, batch);
        let mut wait = FIRST_WAIT;
        for left in (0..TRIES).rev() {
            let (why, after) = match self.collector.send(Signal::Traces, body.clone()).await {
                Sent::Taken { rejected } => return Some((batch.len() as u64).saturating_sub(rejected)),
                Sent::Refused { why } => (why, None),
                Sent::Later { why, after } => (why, Some(after)),
            };
            self.tell(Trouble::Spans, &why);
            let after = after.filter(|_| left > 0 && !*closing.borrow())?;
            // Many processes lose one collector at the same moment: they come back at different ones.
            let drawn = wait.mul_f64(0.5 + self.env.dice.draw().value() / 2.0);
            tokio::select! {
                () = self.env.clock.sleep(after.unwrap_or(drawn).min(LONGEST_WAIT)) => {}
                () = told_to_end(closing) => {}
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        None
    }

    /// Sends metrics again and again, and once more at the end. What was not taken is in what is told next.
    async fn send_metrics(self: Arc<Self>, mut closing: watch::Receiver<bool>) {
        let mut rest = Duration::ZERO;
        loop {
            tokio::select! {
                () = self.env.clock.sleep(self.settings.interval.max(rest)) => {}
                () = told_to_end(&mut closing) => {}
            }
            let asked = self.tell_metrics().await;
            rest = asked.unwrap_or_default().min(LONGEST_WAIT);
            if *closing.borrow() {
                return;
            }
        }
    }

    /// Sends metrics once; how long the collector asks to be left alone.
    async fn tell_metrics(&self) -> Option<Duration> {
        let floor = self.floor.get()?;
        let page = match monitor::page(floor, &[]).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(target: "redrive::otel", %error, "metrics cannot be read now");
                return None;
            }
        };
        for body in metrics::bodies(&page, &self.settings.resource, floor.now()) {
            match self.collector.send(Signal::Metrics, body).await {
                Sent::Taken { .. } => {}
                Sent::Refused { why } => {
                    self.tell(Trouble::Metrics, &why);
                    return None;
                }
                Sent::Later { why, after } => {
                    self.tell(Trouble::Metrics, &why);
                    return after;
                }
            }
        }
        None
    }

    /// Says once what is wrong with the collector; what was lost in all is said at the end.
    fn tell(&self, trouble: Trouble, why: &str) {
        if self.told[trouble as usize].swap(true, Ordering::Relaxed) {
            return;
        }
        let what = match trouble {
            Trouble::Spans => "no spans",
            Trouble::Metrics => "no metrics",
            Trouble::Drops => "not all spans",
        };
        tracing::warn!(target: "redrive::otel", "the collector takes {what}: {why}; the work goes on all the same");
    }
}

/// Waits until the process ends.
async fn told_to_end(closing: &mut watch::Receiver<bool>) {
    if closing.changed().await.is_err() {
        // Whoever could say so is gone, and the process with it soon.
        std::future::pending::<()>().await;
    }
}

/// What can be wrong with a collector.
#[derive(Clone, Copy)]
enum Trouble {
    Spans,
    Metrics,
    Drops,
}

/// Spans under way: dropped with the task that sends them, they count as lost.
struct Held<'a> {
    queue: &'a Queue,
    spans: u64,
}

impl Held<'_> {
    fn ended(mut self, taken: Option<u64>) {
        let taken = taken.unwrap_or(0);
        self.queue.ended(taken, self.spans - taken);
        self.spans = 0;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.queue.ended(0, self.spans);
    }
}
