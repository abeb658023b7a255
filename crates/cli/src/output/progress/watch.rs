//! How far one long command is, on one line.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redrive_engine::progress::{Progress, Unheard};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Items.
    Items,
    /// Bytes.
    Bytes,
}

/// A line that shows how far something is, from the first word about it until it is done or this is dropped.
pub struct Watch(Option<Arc<Line>>);

struct Line {
    what: &'static str,
    unit: Unit,
    bars: &'static MultiProgress,
    bar: Mutex<Option<ProgressBar>>,
}

impl Watch {
    /// Shows it on a terminal; nothing elsewhere, nor when nobody wants to see it.
    pub fn new(what: &'static str, unit: Unit, quiet: bool) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        Self(shown.then(|| Arc::new(Line { what, unit, bars: &super::BARS, bar: Mutex::new(None) })))
    }

    /// Who is told how far it is.
    pub fn progress(&self) -> Arc<dyn Progress> {
        match &self.0 {
            Some(line) => Arc::<Line>::clone(line),
            None => Arc::new(Unheard),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(line) = &self.0
            && let Some(bar) = line.lock().take()
        {
            bar.finish_and_clear();
        }
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bar that is shown with its first figures, not before.
    fn begun(&self, done: u64, all: Option<u64>) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(all, ProgressDrawTarget::hidden()).with_prefix(self.what);
        if let Ok(style) = ProgressStyle::with_template(template(self.unit, all)) {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        bar.set_position(done);
        self.bars.add(bar)
    }
}

/// How the line looks; with what is before and after the bar it fits 80 columns.
fn template(unit: Unit, all: Option<u64>) -> &'static str {
    match (unit, all) {
        (Unit::Items, Some(_)) => "{prefix:.bold} {bar:32.cyan/blue} {human_pos}/{human_len}  {eta} left",
        (Unit::Bytes, Some(_)) => {
            "{prefix:.bold} {bar:32.cyan/blue} {decimal_bytes}/{decimal_total_bytes}  {eta} left"
        }
        (Unit::Items, None) => "{prefix:.bold} {spinner} {human_pos}  {elapsed}",
        (Unit::Bytes, None) => "{prefix:.bold} {spinner}  {elapsed}",
    }
}

impl Progress for Line {
    fn reached(&self, done: u64, all: Option<u64>) {
        let mut shown = self.lock();
        // What comes after the last page has a display of its own, or is soon done.
        if all.is_some_and(|all| done >= all) {
            if let Some(bar) = shown.take() {
                bar.finish_and_clear();
            }
            return;
        }
        let bar = shown.get_or_insert_with(|| self.begun(done, all));
        match all {
            Some(all) => bar.set_length(all),
            None => bar.enable_steady_tick(super::EVERY),
        }
        bar.set_position(done);
    }
}
