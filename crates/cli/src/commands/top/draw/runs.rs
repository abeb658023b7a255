//! The runs, and more of one of them.

use ratatui_core::layout::Rect;
use redrive_core::status::RunStatus;
use redrive_operate::overview::RunView;

use super::super::model::{Model, Panel};
use super::bar::cells;
use super::pen::{Column, Ink, Pen, REST, Side, headings};
use super::{number, rate, scrolled, time_left};
use crate::output::summary::over;
use crate::output::text::{count, span, things};
use crate::output::times::Times;

const COLUMNS: [Column; 10] = [
    Column::new("run", 5, 6, Side::Left),
    Column::new("pipeline", 12, 22, Side::Left),
    Column::new("status", 13, 19, Side::Left),
    Column::new("", REST, REST, Side::Left),
    Column::new("done", 5, 5, Side::Right),
    Column::new("items", 8, 11, Side::Right),
    Column::new("rate", 7, 9, Side::Right),
    Column::new("left", 7, 8, Side::Right),
    Column::new("workers", 0, 7, Side::Right),
    Column::new("took", 0, 8, Side::Right),
];

/// Draws the runs.
pub fn draw(pen: &mut Pen<'_>, model: &Model, area: Rect) {
    let here = model.panel == Panel::Runs;
    let [run, pipeline, status, bar, done, items, speed, left, workers, took] =
        headings(pen, &COLUMNS, area, "RUN", here);
    let (chosen, rows) = (model.at(Panel::Runs), area.height.saturating_sub(1));
    if model.runs().is_empty() {
        pen.write(area.x + 2, area.y + 1, area.width - 2, "no runs yet", Ink::Soft);
    }
    for (y, at) in scrolled(model.runs().len(), chosen, rows, area.y + 1) {
        let view = &model.runs()[at];
        let flow = model.trend.run(view);
        pen.cell(run, y, &view.run.to_string(), Ink::Plain);
        pen.cell(pipeline, y, &view.pipeline, Ink::Plain);
        match held(view) {
            true => pen.cell(status, y, "held up", Ink::Bad),
            false => pen.cell(status, y, view.status.name(), ink(view.status)),
        }
        let mut x = bar.x;
        for (part, width) in cells(&view.counts, bar.width) {
            x += pen.write(x, y, width, &String::from(part.sign).repeat(usize::from(width)), part.ink);
        }
        pen.cell(done, y, &share(view), Ink::Plain);
        pen.cell(items, y, &number(view.counts.admitted, items), Ink::Plain);
        if !view.ended {
            pen.cell(speed, y, &rate(flow.per_second), Ink::Plain);
            pen.cell(left, y, &time_left(flow.left_ms), Ink::Plain);
        }
        if workers.width > 0 {
            pen.cell(workers, y, &view.workers.len().to_string(), Ink::Soft);
            pen.cell(took, y, &span(view.elapsed_ms), Ink::Soft);
        }
        if at == chosen {
            pen.choose(area, y, here);
        }
    }
}

/// Whether somebody paused the pipeline of a run that would go on.
fn held(run: &RunView) -> bool {
    !run.ended && run.paused.iter().any(|pause| pause.stage.is_none()) && !is_paused(run.status)
}

fn is_paused(status: RunStatus) -> bool {
    matches!(
        status,
        RunStatus::PausedBudget | RunStatus::PausedQuota | RunStatus::PausedOutage | RunStatus::Paused
    )
}

/// How much of a run is finished, in percent; all of it only when nothing is left.
fn share(run: &RunView) -> String {
    match (run.counts.finished(), run.counts.admitted) {
        (_, 0) => "–".to_owned(),
        (finished, all) => format!("{}%", finished * 100 / all),
    }
}

fn ink(status: RunStatus) -> Ink {
    match status {
        RunStatus::Running => Ink::Busy,
        RunStatus::Completed => Ink::Good,
        RunStatus::Open | RunStatus::Queued | RunStatus::PartiallyCompleted | RunStatus::Interrupted => {
            Ink::Waits
        }
        RunStatus::PartialSuccess | RunStatus::Cancelled => Ink::Left,
        RunStatus::Failed
        | RunStatus::PausedBudget
        | RunStatus::PausedQuota
        | RunStatus::PausedOutage
        | RunStatus::Paused => Ink::Bad,
    }
}

/// What else is told of a run when it is the only one, with the times as a reader wants them.
pub fn details(run: &RunView, times: &Times) -> Vec<String> {
    let counts = &run.counts;
    let mut lines = vec![format!("source {}", over(&run.source))];
    lines.extend(run.reason.as_ref().map(|reason| format!("why: {reason}")));
    lines.extend(
        run.paused.iter().filter(|_| !run.ended).map(|pause| format!("{}; `{}`", pause.said(), pause.resume)),
    );
    let states = super::bar::parts(counts).into_iter().filter(|part| part.items > 0);
    let states: Vec<String> =
        states.map(|part| format!("{} {} {}", part.sign, part.name, count(part.items))).collect();
    lines.push(states.join("  "));
    let attempts = &run.attempts;
    lines.push(format!(
        "attempts {}  failed {}  turned away {}  crashed {}",
        count(attempts.total),
        count(attempts.failures),
        count(attempts.throttles),
        count(attempts.crashes)
    ));
    let workers = if run.workers.is_empty() { "nobody".to_owned() } else { run.workers.join(", ") };
    let due = run.next_due.as_ref().filter(|_| !run.ended && run.counts.waiting > run.awaited);
    let mut due = due.map(|due| format!("  next item due {}", times.due(due))).unwrap_or_default();
    if run.awaited > 0 {
        due.push_str(&format!("  awaited {}", things(run.awaited, "answer")));
    }
    lines.push(format!("at it: {workers}  took {}{due}", span(run.elapsed_ms)));
    lines
}
