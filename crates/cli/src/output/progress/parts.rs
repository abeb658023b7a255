//! Below the bar of a run whose items have parts: a bar for all parts, and one for each of the items under way.

use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use redrive_core::item::StateKind;
use redrive_core::status::Counts;
use redrive_core::time::Timestamp;
use redrive_engine::report::RunReport;
use redrive_store::{ItemFilter, ItemQuery, Store};

use super::super::summary;
use super::super::text::{count, short};
use super::{LOOKS, rate};

/// How many items under way are shown.
const SHOWN: usize = 5;
/// How much of an item's name.
const NAME: usize = 48;

/// The bars below.
#[derive(Clone)]
pub(super) struct Parts {
    all: ProgressBar,
    items: Vec<ProgressBar>,
    past: Arc<Mutex<Vec<(Timestamp, u64)>>>,
}

impl Parts {
    /// Bars that show nothing yet.
    pub(super) fn new(bars: &MultiProgress) -> Self {
        let bar = |template: &str| {
            let bar = bars.add(ProgressBar::new(0));
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
            }
            bar
        };
        Self {
            all: bar("   parts {bar:32.cyan/blue} {pos}/{len}  {msg}"),
            items: (0..SHOWN).map(|_| bar("         {bar:16.green/blue} {pos:>5}/{len:<5} {msg}")).collect(),
            past: Arc::default(),
        }
    }

    /// Shows how the parts stand. What cannot be read now is shown at the next look.
    pub(super) async fn draw(&self, store: &dyn Store, report: &RunReport, now: Timestamp) {
        let below = || report.stages.iter().filter(|stage| stage.below.is_some()).map(|stage| stage.counts);
        let sum = |of: fn(&Counts) -> u64| below().map(|counts| of(&counts)).sum::<u64>();
        let (done, dead) = (sum(|counts| counts.succeeded), sum(|counts| counts.dead));
        self.all.set_length(sum(|counts| counts.live() + counts.finished()));
        self.all.set_position(sum(Counts::finished));
        let mut words = vec![format!("done {}", count(done))];
        for (name, n) in [
            ("dead", dead),
            ("running", sum(|counts| counts.running)),
            ("waiting", sum(|counts| counts.waiting)),
        ] {
            if n > 0 {
                words.push(format!("{name} {}", count(n)));
            }
        }
        if let Some(rate) = self.rate(done, now) {
            words.push(format!("{}/s", count(rate)));
        }
        if let Some(used) = &report.usage {
            words.push(summary::usage(used));
        }
        self.all.set_message(words.join(" · "));
        self.draw_items(store, report).await;
    }

    fn rate(&self, done: u64, now: Timestamp) -> Option<u64> {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.push((now, done));
        if past.len() > LOOKS {
            past.remove(0);
        }
        rate(&past)
    }

    async fn draw_items(&self, store: &dyn Store, report: &RunReport) {
        let state = Some(StateKind::Joining);
        let filter = ItemFilter { run: Some(report.run), state, top: true, ..ItemFilter::default() };
        let items = store.items(ItemQuery { filter, after: None, limit: SHOWN }).await.unwrap_or_default();
        for (at, bar) in self.items.iter().enumerate() {
            let tally = match items.get(at) {
                Some(item) => store.children(item.seq).await.ok().map(|tally| (item, tally)),
                None => None,
            };
            let Some((item, tally)) = tally else {
                bar.set_length(0);
                bar.set_message("");
                continue;
            };
            bar.set_length(tally.done + tally.dead + tally.gone + tally.live);
            bar.set_position(tally.done);
            let dead = if tally.dead > 0 { format!(" · dead {}", count(tally.dead)) } else { String::new() };
            bar.set_message(format!("{}{dead}", short(&item.key, NAME)));
        }
    }

    /// Takes the bars away.
    pub(super) fn clear(&self) {
        self.items.iter().chain([&self.all]).for_each(ProgressBar::finish_and_clear);
    }
}
