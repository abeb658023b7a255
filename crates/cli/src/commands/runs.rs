//! `redrive runs`.

mod watch;

use std::process::ExitCode;

use redrive_core::status::{Counts, RunStatus};
use redrive_engine::report::{PauseView, RunReport, VerdictCounts};
use redrive_operate::runs::{self, RunList};

use super::{Answer, Context};
use crate::args::RunsArgs;
use crate::output::screen::Screen;
use crate::output::summary::{counted, named, paused, took};
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{count, safe, things};
use crate::output::tone::Tone;
use crate::output::{json, lines};

/// Lists runs, newest first, once or as they change.
pub async fn runs(context: &Context, args: &RunsArgs) -> Answer {
    if args.watch {
        let floor = context.floor_when_there(args.interval).await?;
        return watch::watch(context, &floor, args).await;
    }
    let floor = context.floor_to_read()?;
    let list = runs::list(&floor, &args.list()).await?;
    if context.global.json {
        json(&list)?;
    } else {
        lines(&words(&list, &context.screen()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The table, and below it all of it added up where that is several runs.
fn words(list: &RunList, screen: &Screen) -> String {
    let mut table = listing(&list.runs, screen);
    let mut pauses: Vec<&PauseView> = Vec::new();
    for pause in list.runs.iter().filter(|run| run.counts.live() > 0).flat_map(|run| &run.paused) {
        if !pauses.contains(&pause) {
            pauses.push(pause);
        }
    }
    table.extend(pauses.iter().map(|pause| format!("\n{}", safe(&paused(pause, screen)))));
    if list.runs.len() < 2 {
        return table;
    }
    let items = named(&list.total).into_iter().filter(|(name, n)| *n > 0 && *name != "admitted");
    let items: Vec<String> = items.map(|(name, n)| format!("{} {name}", count(n))).collect();
    let all = things(list.total.admitted, "item");
    let each = if items.is_empty() { String::new() } else { format!(": {}", items.join(", ")) };
    format!("{table}\n{}, {all}{each}", things(list.runs.len() as u64, "run"))
}

/// States that are shown even where no run has items in them.
const ALWAYS: [&str; 3] = ["admitted", "succeeded", "dead"];
/// A column that goes before those of this rank is no count of items.
const COUNTS: u8 = 2;

fn listing(reports: &[RunReport], screen: &Screen) -> String {
    if reports.is_empty() {
        return "no runs".to_owned();
    }
    let whole = Listing { reports, counts: by_state }.table(screen);
    if whole.shows(COUNTS, screen) {
        return whole.on(screen);
    }
    Listing { reports, counts: taken_together }.table(screen).on(screen)
}

/// How a run stands, and whether nobody works on what is due.
fn standing(report: &RunReport, screen: &Screen) -> Cell {
    let status = report.status;
    let says_nothing_of_it = matches!(status, RunStatus::Open | RunStatus::PartiallyCompleted);
    let is_due = report.next_due.as_ref().is_some_and(|due| screen.is_past(due));
    let goes = report.finished_at.is_none() && report.paused.is_empty();
    match says_nothing_of_it && is_due && goes && report.workers.is_empty() {
        true => Cell::toned(format!("{status}, nobody at it"), Tone::Wait),
        false => Cell::state(status.to_string()),
    }
}

/// A count that is shown where a run has any of it.
type More = (&'static str, fn(&RunReport) -> u64);

/// What is not among a run's own items by state: answers that are awaited, and parts of items that are dead.
const MORE: [More; 2] = [("awaited", |report| report.awaited), ("dead parts", dead_parts)];

fn dead_parts(report: &RunReport) -> u64 {
    report.dead.by_reason.values().sum::<u64>().saturating_sub(report.counts.dead)
}

/// A table whose counts add up: states that no run has items in are left out, and so are categories and priorities that
/// none has.
struct Listing<'a> {
    reports: &'a [RunReport],
    counts: fn(&Counts) -> Vec<(&'static str, u64)>,
}

/// The number of items in every state.
fn by_state(counts: &Counts) -> Vec<(&'static str, u64)> {
    named(counts).into()
}

/// The same where there is little room: what is left to do is one, and so is what ended otherwise.
fn taken_together(counts: &Counts) -> Vec<(&'static str, u64)> {
    let other = counts.filtered + counts.superseded + counts.cancelled + counts.purged;
    vec![
        ("admitted", counts.admitted),
        ("succeeded", counts.succeeded),
        ("dead", counts.dead),
        ("left", counts.live()),
        ("other", other),
    ]
}

impl<'a> Listing<'a> {
    fn table(&self, screen: &Screen) -> Table<'a> {
        let some = |name: &str| {
            let any = |report: &RunReport| {
                (self.counts)(&report.counts).iter().any(|(of, n)| *of == name && *n > 0)
            };
            ALWAYS.contains(&name) || self.reports.iter().any(any)
        };
        let names = (self.counts)(&Counts::default()).into_iter().map(|(name, _)| name);
        let states: Vec<&str> = names.filter(|name| some(name)).collect();
        let categories = self.reports.iter().any(|report| report.category.is_some());
        let priorities = self.reports.iter().any(|report| report.priority != 0);
        let mut columns =
            vec![Column::whole("run"), Column::text("pipeline").least(8), Column::whole("status")];
        columns.extend(categories.then_some(Column::text("category").least(8).rank(4)));
        columns.extend(priorities.then_some(Column::number("priority").rank(5)));
        columns.extend(states.iter().copied().map(|name| Column::number(name).rank(COUNTS)));
        let more: Vec<More> =
            MORE.into_iter().filter(|(_, n)| self.reports.iter().any(|report| n(report) > 0)).collect();
        columns.extend(more.iter().map(|(name, _)| Column::number(name).rank(COUNTS)));
        let judged = self.reports.iter().any(|report| report.verdicts.any());
        columns.extend(
            VerdictCounts::default()
                .named()
                .into_iter()
                .filter(|_| judged)
                .map(|(name, _)| Column::number(name).rank(4)),
        );
        columns.extend([
            Column::number("took").rank(3),
            Column::whole("began").rank(6),
            Column::path("source").least(16).rank(7),
        ]);
        let mut table = Table::new(columns);
        for report in self.reports {
            let mut cells: Vec<Cell> =
                vec![report.run.to_string().into(), report.pipeline.clone().into(), standing(report, screen)];
            cells.extend(categories.then(|| report.category.clone().unwrap_or_default().into()));
            cells.extend(priorities.then(|| report.priority.to_string().into()));
            let counts = (self.counts)(&report.counts).into_iter().filter(|(name, _)| states.contains(name));
            cells.extend(counts.map(|(name, n)| counted(name, n)));
            cells.extend(more.iter().map(|(name, n)| counted(name, n(report))));
            let verdicts = report.verdicts.named().into_iter().filter(|_| judged);
            cells.extend(verdicts.map(|(name, n)| counted(name, n)));
            cells.extend([
                took(report).into(),
                screen.happened(&report.created_at).into(),
                screen.place(&report.source).into(),
            ]);
            table.row(cells);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::id::RunId;

    use super::*;
    use crate::output::sample::{self, at_widths, moment};

    #[test]
    fn a_run_that_nobody_works_on_and_parts_that_died_are_told() {
        let mut open = sample::run();
        (open.status, open.workers) = (RunStatus::Open, Vec::new());
        let told = |report: &RunReport| listing(std::slice::from_ref(report), &Screen::sample(Some(200)));
        assert!(!told(&open).contains("nobody"), "nothing is due");
        open.next_due = Some(moment(-4_000).to_string());
        assert!(told(&open).contains("open, nobody at it"), "{}", told(&open));
        open.workers = vec!["pid 1".to_owned()];
        assert!(!told(&open).contains("nobody"), "{}", told(&open));
        open.dead.by_reason.insert("final", open.counts.dead + 1);
        open.awaited = 7;
        assert!(told(&open).contains("DEAD PARTS") && told(&open).contains("AWAITED"), "{}", told(&open));
    }

    #[test]
    fn runs_fit_their_screen() {
        let mut old = sample::run();
        (old.run, old.status, old.category) = (RunId(7), RunStatus::PartiallyCompleted, None);
        old.created_at = moment(-200_000_000).to_string();
        old.source = "/srv/somewhere/else/with/a/long/way/to/it/november.jsonl".to_owned();
        old.counts.filtered = 1_261;
        let mut waits = sample::run();
        (waits.run, waits.status, waits.elapsed_ms) = (RunId(13), RunStatus::Queued, 0);
        at_widths("runs", |screen| listing(&[waits.clone(), sample::run(), old.clone()], screen));
    }
}
