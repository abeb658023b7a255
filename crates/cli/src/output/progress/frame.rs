//! What the live display shows at a moment: lines that fit, made from a report. Nothing here draws or reads a clock.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::status::Counts;
use redrive_core::time::{Timestamp, millis};
use redrive_engine::report::{Pace, RunReport, StageReport, UsageReport};
use redrive_store::StageDue;

use super::super::screen::Screen;
use super::super::text::{count, short, span};
use super::super::times::distance;
use super::super::tone::Tone;
use super::super::usage;
use super::super::wrap::columns;

/// Stages that are shown, at most.
const STAGES: usize = 12;
/// Columns of the bars, in a terminal of 80.
const BAR: usize = 14;

/// How fast the stages of a run go, by name, and the run itself.
#[derive(Debug, Default)]
pub struct Paces {
    run: Pace,
    stages: BTreeMap<String, Pace>,
    /// In how long the last item that waits is due.
    last_due: Duration,
}

impl Paces {
    /// Takes a look at how a run stands.
    pub fn look(&mut self, report: &RunReport, dues: &[StageDue], now: Timestamp) {
        self.last_due = dues.iter().map(|due| due.last.since(now)).max().unwrap_or_default();
        self.run.look(now, report.counts.finished());
        for (stage, through) in report.stages.iter().zip(through(report)) {
            self.stages.entry(stage.name.clone()).or_default().look(now, through.done);
        }
    }

    /// How long the slowest stage takes for what is still to come through it, and no less than until the last that waits is
    /// due; `None` where one of them cannot be told.
    fn left(&self, report: &RunReport) -> Option<Duration> {
        if !report.admitted_all {
            return None;
        }
        let stages = report.stages.iter().zip(through(report));
        let left = |(stage, through): (&StageReport, Through)| {
            self.stages.get(&stage.name)?.left(through.to_come, self.last_due)
        };
        let all: Option<Vec<Duration>> = stages.map(left).collect();
        all?.into_iter().max().filter(|left| *left > Duration::ZERO)
    }

    fn rate(&self, stage: &str) -> Option<f64> {
        self.stages.get(stage)?.per_second()
    }
}

/// What is behind a stage, and what still has to come through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Through {
    /// Items that have left it: on to later stages, or for good.
    done: u64,
    /// Items at it, and at the stages before it.
    to_come: u64,
}

/// The same for every stage, in their order. Children go through the stages below their parents' one.
fn through(report: &RunReport) -> Vec<Through> {
    let stages = &report.stages;
    let same = |at: usize| (0..stages.len()).filter(move |other| stages[*other].below == stages[at].below);
    let gone = |counts: &Counts| counts.succeeded + counts.dead + counts.filtered;
    let of = |at: usize| {
        let later = same(at).filter(|other| *other > at).map(|other| &stages[other].counts);
        let done = gone(&stages[at].counts) + later.map(|counts| counts.live() + gone(counts)).sum::<u64>();
        let to_come = same(at).filter(|other| *other <= at).map(|other| stages[other].counts.live()).sum();
        Through { done, to_come }
    };
    (0..stages.len()).map(of).collect()
}

/// An item whose parts are under way.
#[derive(Debug, Clone)]
pub struct Whole {
    /// Its key.
    pub key: String,
    /// Its parts that are done.
    pub done: u64,
    /// Those that are dead.
    pub dead: u64,
    /// All of them.
    pub all: u64,
}

/// What there is to show.
pub struct Frame<'a> {
    /// How the run stands.
    pub report: &'a RunReport,
    /// How fast it goes.
    pub paces: &'a Paces,
    /// The gate, or the pause, that holds it up, in words.
    pub held_up: Option<&'a str>,
    /// Items whose parts are under way.
    pub wholes: &'a [Whole],
    /// Now.
    pub now: Timestamp,
}

impl Frame<'_> {
    /// The first line alone, for a worker that has many runs.
    pub fn line(&self, screen: &Screen) -> String {
        let width = screen.width.unwrap_or(80);
        let name = format!("{} {}", self.report.run, short(&self.report.pipeline, name_width(width)));
        self.head(&name, columns(&name), screen, width)
    }

    /// All lines.
    pub fn lines(&self, screen: &Screen) -> Vec<String> {
        let width = screen.width.unwrap_or(80);
        let shown = if self.report.stages.len() > 1 { &self.report.stages[..] } else { &[] };
        let label = |stage: &StageReport| {
            let indent = if stage.below.is_some() { "    " } else { "  " };
            format!("{indent}{}", short(&stage.name, name_width(width)))
        };
        let labels: Vec<String> = shown.iter().take(STAGES).map(label).collect();
        let run = format!("{} {}", self.report.run, short(&self.report.pipeline, name_width(width)));
        let room = labels.iter().chain([&run]).map(|label| columns(label)).max().unwrap_or(0);
        let mut lines = vec![self.head(&run, room, screen, width)];
        for ((stage, through), label) in shown.iter().zip(through(self.report)).zip(&labels) {
            lines.push(self.stage(stage, through, &padded(label, room), screen, width));
        }
        if shown.len() > STAGES {
            lines.push(format!("  and {} more stages", shown.len() - STAGES));
        }
        for whole in self.wholes {
            let dead = (whole.dead > 0).then(|| format!("{} dead", count(whole.dead)));
            let begin = format!(
                "{} {} {}/{}",
                " ".repeat(room),
                bar(whole.done, whole.all, 8, screen),
                count(whole.done),
                count(whole.all)
            );
            let used = columns(&begin) + dead.as_ref().map_or(0, |dead| columns(dead) + 3);
            let name = short(&whole.key, width.saturating_sub(used + 3).max(8));
            lines.push(fitted(&begin, &[Some(name), dead], width));
        }
        lines.extend(self.held_up.map(|why| format!("  {}", short(why, width.saturating_sub(3)))));
        lines
    }

    fn head(&self, name: &str, room: usize, screen: &Screen, width: usize) -> String {
        let counts = &self.report.counts;
        let finished = counts.finished();
        let of = if self.report.admitted_all { "" } else { "+" };
        let begin = format!(
            "{} {} {}/{}{of}",
            screen.paint(Tone::Strong, &padded(name, room)),
            bar(finished, counts.admitted, bar_width(width), screen),
            count(finished),
            count(counts.admitted)
        );
        let left = self.paces.left(self.report).map(|left| format!("{} left", distance(millis(left))));
        let some = |n: u64, name: &str| (n > 0).then(|| toned(screen, name, &format!("{} {name}", count(n))));
        let words = [
            left,
            some(counts.dead, "dead"),
            (counts.waiting > 0).then(|| toned(screen, "waiting", &self.waiting())),
            self.paces.run.per_second().map(rate),
            some(counts.running, "running"),
            some(counts.joining, "joining"),
            some(counts.filtered, "filtered"),
            self.report.usage.as_ref().and_then(cost),
        ];
        fitted(&begin, &words, width)
    }

    fn stage(
        &self,
        stage: &StageReport,
        through: Through,
        label: &str,
        screen: &Screen,
        width: usize,
    ) -> String {
        let begin = format!(
            "{label} {}",
            bar(through.done, through.done + through.to_come, bar_width(width), screen)
        );
        let counts = &stage.counts;
        let some = |n: u64, name: &str| (n > 0).then(|| toned(screen, name, &format!("{} {name}", count(n))));
        let words = [
            Some(format!("{} done", count(through.done - counts.dead.min(through.done)))),
            some(counts.dead, "dead"),
            some(counts.waiting, "waiting"),
            self.paces.rate(&stage.name).filter(|_| counts.live() > 0).map(rate),
            some(counts.running, "running"),
            some(counts.joining, "joining"),
            some(stage.attempts.failures, "failed"),
        ];
        fitted(&begin, &words, width)
    }

    fn waiting(&self) -> String {
        let waiting = format!("{} waiting", count(self.report.counts.waiting));
        match self.report.next_due_at.filter(|due| *due > self.now) {
            Some(due) => format!("{waiting} (next in {})", span(due.0 - self.now.0)),
            None => waiting,
        }
    }
}

/// As many of the words as fit, in their order; what does not is left out whole.
fn fitted(begin: &str, words: &[Option<String>], width: usize) -> String {
    let mut line = begin.to_owned();
    let mut between = "  ";
    for word in words.iter().flatten() {
        // A column is left free: some terminals begin a new line after the last one.
        if columns(&line) + columns(between) + columns(word) < width {
            line.push_str(between);
            line.push_str(word);
            between = " · ";
        }
    }
    line
}

fn toned(screen: &Screen, state: &str, text: &str) -> String {
    Tone::of(state).map_or_else(|| text.to_owned(), |tone| screen.paint(tone, text))
}

fn padded(text: &str, room: usize) -> String {
    format!("{text}{}", " ".repeat(room.saturating_sub(columns(text))))
}

/// Columns of a stage's name, at most.
fn name_width(width: usize) -> usize {
    (width / 6).clamp(8, 32)
}

fn bar_width(width: usize) -> usize {
    BAR + width.saturating_sub(80) / 5
}

/// A bar of so many columns.
fn bar(done: u64, all: u64, width: usize, screen: &Screen) -> String {
    let full = usize::try_from(done.min(all) * (width as u64) / all.max(1)).unwrap_or(width);
    let rest = "░".repeat(width - full);
    screen.paint(Tone::Busy, &"█".repeat(full)) + &screen.paint(Tone::Dim, &rest)
}

/// How many a second, with as many places as tell something.
fn rate(per_second: f64) -> String {
    match per_second {
        few @ ..9.95 => format!("{few:.1}/s"),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is positive and rounded"
        )]
        many => format!("{}/s", count(many.round() as u64)),
    }
}

/// What it has cost so far, where that is known and more than nothing.
fn cost(used: &UsageReport) -> Option<String> {
    used.usd.filter(|usd| *usd > 0.0).map(|_| usage::cost(used))
}

#[cfg(test)]
mod tests {
    use redrive_core::id::StageNo;

    use super::*;
    use crate::output::sample::{self, at_widths, moment};

    /// Looks at a run that began twenty seconds ago.
    fn paces(report: &RunReport) -> Paces {
        let mut before = report.clone();
        before.counts = Counts { admitted: 5_000, waiting: 4_600, succeeded: 400, ..Counts::default() };
        for stage in &mut before.stages {
            stage.counts = Counts { succeeded: 120, ..Counts::default() };
        }
        let mut paces = Paces::default();
        paces.look(&before, &[], moment(-20_000));
        paces.look(report, &[], moment(0));
        paces
    }

    #[test]
    fn progress_fits_its_screen() {
        let report = sample::run();
        let paces = paces(&report);
        let wholes = [
            Whole { key: "docs/a-manual-of-many-pages.pdf".to_owned(), done: 1_261, dead: 2, all: 4_000 },
            Whole { key: "a/".repeat(120), done: 1, dead: 0, all: 3 },
        ];
        let held_up = "gate api.openai.example is closed: the service answered 429 and asks to be left alone for a minute";
        let frame =
            |held_up, wholes| Frame { report: &report, paces: &paces, held_up, wholes, now: moment(0) };
        at_widths("progress", |screen| frame(None, &[]).lines(screen).join("\n"));
        at_widths("progress-held-up", |screen| frame(Some(held_up), &wholes).lines(screen).join("\n"));
        at_widths("progress-of-many", |screen| frame(None, &[]).line(screen));
    }

    #[test]
    fn the_slowest_stage_says_how_long_is_left() {
        let mut report = sample::run();
        let known = paces(&report).left(&report);
        assert!(known.is_some_and(|left| left > Duration::from_secs(20)), "{known:?}");
        report.admitted_all = false;
        assert_eq!(paces(&report).left(&report), None, "more may come");
        report.admitted_all = true;
        assert_eq!(Paces::default().left(&report), None, "nothing was seen yet");
    }

    #[test]
    fn no_less_is_left_than_until_the_last_that_waits_is_due() {
        let report = sample::run();
        let mut paces = paces(&report);
        let due = StageDue { stage: StageNo(0), at: moment(0), last: moment(7_200_000) };
        paces.look(&report, &[due], moment(500));
        assert_eq!(paces.left(&report), Some(Duration::from_millis(7_199_500)));
    }

    #[test]
    fn what_is_through_a_stage_is_at_a_later_one_or_ended() {
        let through = through(&sample::run());
        assert_eq!(through[0], Through { done: 3_496, to_come: 1_504 });
        assert_eq!(through[2], Through { done: 1_208, to_come: 3_739 });
    }
}
