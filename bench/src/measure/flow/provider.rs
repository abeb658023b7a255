//! The provider that the contestants call, and what it saw of them over time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive_engine::env::Env;
use redrive_rehearse::{Plan, Rehearsal, Report, Running};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::Failure;
use crate::clock::{Watch, pause};
use crate::report::round;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Seconds after which it is noted that nothing happened.
const QUIET: f64 = 0.5;

/// Good answers so far, at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    at: f64,
    ok: u64,
}

/// A provider of one contestant.
pub struct Provider {
    running: Arc<Running>,
    looks: Arc<Mutex<Vec<Look>>>,
    looking: JoinHandle<()>,
}

impl Provider {
    /// Listens at a free port and plays the plan. Time counts from the first call.
    pub async fn start(plan: &str) -> Result<Self, Failure> {
        let plan = Plan::parse(plan, "flow").map_err(|error| format!("{error}: {error:?}"))?;
        let running = Arc::new(Rehearsal::start(plan, Env::system(), ([127, 0, 0, 1], 0).into()).await?);
        let looks = Arc::new(Mutex::new(Vec::new()));
        let looking = tokio::spawn(look(running.clone(), looks.clone()));
        Ok(Self { running, looks, looking })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        self.running.url()
    }

    /// Good answers so far.
    pub fn ok(&self) -> u64 {
        self.running.report().ok
    }

    /// What it saw.
    pub fn seen(&self) -> Seen {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Seen { report: self.running.report(), looks }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

async fn look(running: Arc<Running>, looks: Arc<Mutex<Vec<Look>>>) {
    let mut watch = None;
    let mut last: Option<Look> = None;
    loop {
        let report = running.report();
        if report.calls > 0 {
            let at = watch.get_or_insert_with(Watch::start).seconds();
            if last.is_none_or(|last| report.ok != last.ok || at - last.at >= QUIET) {
                let look = Look { at, ok: report.ok };
                last = Some(look);
                looks.lock().unwrap_or_else(PoisonError::into_inner).push(look);
            }
        }
        pause(LOOK).await;
    }
}

/// What a provider saw of one contestant.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its own report.
    pub report: Report,
    looks: Vec<Look>,
}

impl Seen {
    /// Seconds from the first call to the last good answer.
    pub fn until_last(&self) -> f64 {
        self.looks.last().and_then(|last| self.until(last.ok)).unwrap_or(0.0)
    }

    /// Seconds from the first call until nobody looked any more.
    pub fn watched(&self) -> f64 {
        self.looks.last().map_or(0.0, |look| look.at)
    }

    /// Seconds from the first call to the last one or to the last good answer, whichever is later: who gives items up has
    /// worked on them too.
    pub fn until_settled(&self) -> f64 {
        self.until_last().max(self.report.lasted_ms as f64 / 1e3)
    }

    /// Seconds from the first call until so many were answered well.
    pub fn until(&self, ok: u64) -> Option<f64> {
        self.looks.iter().find(|look| look.ok >= ok).map(|look| look.at)
    }

    /// Good answers per second within a span.
    pub fn rate(&self, from: f64, to: f64) -> f64 {
        let ok =
            |at: f64| self.looks.iter().take_while(|look| look.at <= at).last().map_or(0, |look| look.ok);
        (ok(to) - ok(from)) as f64 / (to - from)
    }

    /// When the rate over the next `span` seconds is this high for the first time, not before `from`; in tenths of a second.
    pub fn reaches(&self, rate: f64, from: f64, span: f64) -> Option<f64> {
        let end = self.until_last() - span;
        let moments = (0_u32..).map(|tenth| from + f64::from(tenth) / 10.0).take_while(|at| *at <= end);
        moments.into_iter().find(|at| self.rate(*at, at + span) >= rate)
    }

    /// Calls turned away for each good answer.
    pub fn rejected_per_ok(&self) -> f64 {
        self.report.rejected as f64 / self.report.ok.max(1) as f64
    }

    /// Calls without a good answer that were answered within these seconds.
    pub fn refused_within(&self, from: u64, to: u64) -> u64 {
        let within = self.report.series.iter().filter(|second| (from..to).contains(&second.second));
        within.map(|second| second.rejected + second.failed).sum()
    }

    /// Good answers of each second.
    pub fn each_second(&self) -> Vec<u64> {
        let last = self.report.series.last().map_or(0, |second| second.second);
        let of = |n: u64| {
            self.report.series.iter().find(|second| second.second == n).map_or(0, |second| second.ok)
        };
        (0..=last).map(of).collect()
    }

    /// As JSON, with the seconds that it is judged by.
    pub fn json(&self, seconds: f64) -> Value {
        let each: Vec<String> = self.each_second().iter().map(u64::to_string).collect();
        let report = &self.report;
        json!({
            "seconds": round(seconds), "ok": report.ok, "rejected": report.rejected, "failed": report.failed,
            "early_calls": report.early_calls, "highest_concurrency": report.highest_concurrency,
            "paid_again": report.paid_again, "ok_each_second": each.join(" "),
        })
    }
}
