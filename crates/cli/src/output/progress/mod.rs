//! The live display: how a run and each of its stages go on, on a terminal.

mod canvas;
mod frame;
mod watch;

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redrive_core::id::RunId;
use redrive_core::item::StateKind;
use redrive_core::time::Timestamp;
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_engine::report::{RunReport, gate_report, run_report};
use redrive_store::{ItemFilter, ItemQuery, Store};

use super::screen::Screen;
use canvas::{Canvas, ECHO};
use frame::{Frame, Paces, Whole};
pub use watch::{Unit, Watch};

static BARS: LazyLock<MultiProgress> = LazyLock::new(|| {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(Canvas::default()), 10),
        false => ProgressDrawTarget::hidden(),
    };
    MultiProgress::with_draw_target(target)
});
/// Runs that are shown now. Where there are several, each has a line.
static SHOWN: AtomicUsize = AtomicUsize::new(0);
const EVERY: Duration = Duration::from_millis(150);
/// Items with parts under way that are shown.
const WHOLES: usize = 5;

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
pub struct Progress(Option<Following>);

struct Following {
    task: tokio::task::JoinHandle<()>,
    bar: ProgressBar,
}

impl Progress {
    /// Follows a run, on a terminal; shows nothing elsewhere.
    pub fn follow(store: Arc<dyn Store>, run: RunId, recipe: &Recipe, env: Env, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = BARS.add(ProgressBar::new(0));
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        SHOWN.fetch_add(1, Ordering::SeqCst);
        let look = Look {
            store,
            run,
            gates: recipe.gates.iter().map(|gate| gate.name.to_string()).collect(),
            has_parts: recipe.plan.stages().any(|(_, stage)| stage.first_child.is_some()),
        };
        let (plan, thresholds) = (recipe.plan.clone(), recipe.thresholds);
        let shown = bar.clone();
        let task = tokio::spawn(async move {
            let mut paces = Paces::default();
            loop {
                let now = env.clock.now();
                // What cannot be read now is shown at the next look.
                if let Ok(Some(row)) = look.store.run(run).await
                    && let Ok(report) = run_report(&*look.store, &row, &plan, thresholds, now).await
                    && let Ok(dues) = look.store.due_by_stage(run).await
                {
                    paces.look(&report, &dues, now);
                    shown.set_message(look.words(&report, &paces, now).await);
                }
                env.clock.sleep(EVERY).await;
            }
        });
        Self(Some(Following { task, bar }))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Following { task, bar }) = self.0.take() {
            task.abort();
            bar.finish_and_clear();
            SHOWN.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// What is looked at besides the report of a run.
struct Look {
    store: Arc<dyn Store>,
    run: RunId,
    gates: Vec<String>,
    has_parts: bool,
}

impl Look {
    async fn words(&self, report: &RunReport, paces: &Paces, now: Timestamp) -> String {
        let mut screen = Screen::err(now);
        screen.width = screen.width.map(|width| width.saturating_sub(ECHO));
        if SHOWN.load(Ordering::SeqCst) > 1 {
            return Frame { report, paces, held_up: None, wholes: &[], now }.line(&screen);
        }
        let pause = report.paused.first().map(|pause| format!("{}; `{}`", pause.said(), pause.resume));
        let held_up = match pause {
            Some(pause) => Some(pause),
            None => self.held_up(now).await,
        };
        let wholes = if self.has_parts { self.wholes().await } else { Vec::new() };
        let frame = Frame { report, paces, held_up: held_up.as_deref(), wholes: &wholes, now };
        frame.lines(&screen).join("\n")
    }

    /// The first of the gates that is not open, in words.
    async fn held_up(&self, now: Timestamp) -> Option<String> {
        if self.gates.is_empty() {
            return None;
        }
        let rows = self.store.gates().await.ok()?;
        let own = rows.iter().filter(|row| self.gates.contains(&row.name));
        let shut = own.filter_map(|row| gate_report(row, now).ok()).find(|gate| gate.state != "open")?;
        Some(format!("gate {} is {}: {}", shut.name, shut.state, shut.why))
    }

    /// The first few items whose parts are under way.
    async fn wholes(&self) -> Vec<Whole> {
        let state = Some(StateKind::Joining);
        let filter = ItemFilter { run: Some(self.run), state, top: true, ..ItemFilter::default() };
        let query = ItemQuery { filter, after: None, limit: WHOLES };
        let mut wholes = Vec::new();
        for item in self.store.items(query).await.unwrap_or_default() {
            if let Ok(tally) = self.store.children(item.seq).await {
                let all = tally.done + tally.dead + tally.gone + tally.live;
                wholes.push(Whole { key: item.key.to_string(), done: tally.done, dead: tally.dead, all });
            }
        }
        wholes
    }
}
