//! The live display: what is done, waiting, running, dead and filtered, each apart.

mod parts;
mod watch;

use std::io::{IsTerminal, Write};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_engine::report::{RunReport, gate_report, run_report};
use redrive_store::Store;

use super::text::{count, short, span, things};
use parts::Parts;
pub use watch::{Unit, Watch};

static BARS: LazyLock<MultiProgress> =
    LazyLock::new(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10)));
const EVERY: Duration = Duration::from_millis(150);
/// Throughput is told over about this many looks.
const LOOKS: usize = 20;

/// Standard error, with the bars taken away while something is written.
pub struct AboveBars;

/// Makes a writer for logs.
pub fn above_bars() -> AboveBars {
    AboveBars
}

impl Write for AboveBars {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        BARS.suspend(|| std::io::stderr().write(bytes))
    }

    fn write_fmt(&mut self, text: std::fmt::Arguments<'_>) -> std::io::Result<()> {
        BARS.suspend(|| std::io::stderr().lock().write_fmt(text))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// A display that follows a run until it is dropped.
pub struct Progress {
    task: Option<tokio::task::JoinHandle<()>>,
    bar: ProgressBar,
    parts: Option<Parts>,
}

impl Progress {
    /// Follows a run, on a terminal; shows nothing elsewhere.
    pub fn follow(store: Arc<dyn Store>, run: RunId, recipe: &Recipe, env: Env, quiet: bool) -> Self {
        let bar = ProgressBar::hidden();
        if quiet || !std::io::stderr().is_terminal() {
            return Self { task: None, bar, parts: None };
        }
        let bar = BARS.add(ProgressBar::new(0));
        if let Ok(style) =
            ProgressStyle::with_template("{prefix:.bold} {bar:32.cyan/blue} {pos}/{len}  {msg}")
        {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        bar.set_prefix(run.to_string());
        let shown = bar.clone();
        let (plan, thresholds) = (recipe.plan.clone(), recipe.thresholds);
        let gates: Vec<String> = recipe.gates.iter().map(|gate| gate.name.to_string()).collect();
        let parts = plan.stages().any(|(_, stage)| stage.first_child.is_some()).then(|| Parts::new(&BARS));
        let shown_parts = parts.clone();
        let task = tokio::spawn(async move {
            let mut past: Vec<(Timestamp, u64)> = Vec::new();
            loop {
                let now = env.clock.now();
                if let Ok(Some(row)) = store.run(run).await
                    && let Ok(report) = run_report(&*store, &row, &plan, thresholds, now).await
                {
                    past.push((now, report.attempts.total));
                    if past.len() > LOOKS {
                        past.remove(0);
                    }
                    let held_up = held_up(&*store, &gates, now).await;
                    draw(&shown, &report, &past, held_up, now);
                    if let Some(parts) = &shown_parts {
                        parts.draw(&*store, &report, now).await;
                    }
                }
                env.clock.sleep(EVERY).await;
            }
        });
        Self { task: Some(task), bar, parts }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        self.bar.finish_and_clear();
        if let Some(parts) = &self.parts {
            parts.clear();
        }
    }
}

/// The first of these gates that is not open, in words.
async fn held_up(store: &dyn Store, gates: &[String], now: Timestamp) -> Option<String> {
    if gates.is_empty() {
        return None;
    }
    let rows = store.gates().await.ok()?;
    let mut reports =
        rows.iter().filter(|row| gates.contains(&row.name)).filter_map(|row| gate_report(row, now).ok());
    let shut = reports.find(|gate| gate.state != "open")?;
    Some(format!("gate {} is {}: {}", shut.name, shut.state, short(&shut.why, 60)))
}

fn draw(
    bar: &ProgressBar,
    report: &RunReport,
    past: &[(Timestamp, u64)],
    held_up: Option<String>,
    now: Timestamp,
) {
    let counts = &report.counts;
    bar.set_length(counts.admitted);
    bar.set_position(counts.finished());
    let mut parts = vec![format!("done {}", count(counts.succeeded))];
    for (name, n) in [("filtered", counts.filtered), ("dead", counts.dead), ("running", counts.running)] {
        if n > 0 {
            parts.push(format!("{name} {}", count(n)));
        }
    }
    if counts.waiting > 0 {
        parts.push(waiting(report, now));
    }
    if counts.joining > 0 {
        parts.push(format!("joining {}", count(counts.joining)));
    }
    parts.push(things(report.attempts.total, "attempt"));
    if let Some(rate) = rate(past) {
        parts.push(format!("{}/s", count(rate)));
    }
    parts.extend(held_up);
    bar.set_message(parts.join(" · "));
}

fn waiting(report: &RunReport, now: Timestamp) -> String {
    let waiting = format!("waiting {}", count(report.counts.waiting));
    match report.next_due_at.filter(|due| *due > now) {
        Some(due) => format!("{waiting} (next in {})", span(due.0 - now.0)),
        None => waiting,
    }
}

fn rate(past: &[(Timestamp, u64)]) -> Option<u64> {
    let (first, last) = (past.first()?, past.last()?);
    let ms = u64::try_from(last.0.0 - first.0.0).ok().filter(|ms| *ms > 0)?;
    Some((last.1 - first.1) * 1_000 / ms)
}
