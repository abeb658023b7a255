//! The stages of the run under the cursor.

use ratatui_core::layout::Rect;
use redrive_operate::overview::StageView;

use super::super::model::Model;
use super::pen::{Column, Ink, NAME, Pen, Side, headings};
use super::{number, rate, scrolled, time_left};
use crate::output::text::span;

const COLUMNS: [Column; 11] = [
    Column::new("stage", NAME, NAME, Side::Left),
    Column::new("in", 8, 10, Side::Right),
    Column::new("out", 8, 10, Side::Right),
    Column::new("waiting", 8, 10, Side::Right),
    Column::new("running", 7, 8, Side::Right),
    Column::new("dead", 6, 8, Side::Right),
    Column::new("filtered", 0, 8, Side::Right),
    Column::new("attempts", 0, 10, Side::Right),
    Column::new("rate", 7, 8, Side::Right),
    Column::new("oldest", 7, 8, Side::Right),
    Column::new("left", 7, 8, Side::Right),
];

/// Draws the stages.
pub fn draw(pen: &mut Pen<'_>, model: &Model, area: Rect) {
    let run = model.chosen_run();
    let title = run.map_or_else(|| "STAGE".to_owned(), |run| format!("STAGE of {}", run.run));
    let [name, came, passed, waiting, running, dead, filtered, attempts, speed, oldest, left] =
        headings(pen, &COLUMNS, area, &title, false);
    let Some(run) = run else { return };
    for (y, at) in scrolled(run.stages.len(), 0, area.height.saturating_sub(1), area.y + 1) {
        let stage = &run.stages[at];
        let flow = model.trend.stage(run, &stage.name);
        let indent = if stage.below.is_some() { "  " } else { "" };
        pen.cell(name, y, &format!("{indent}{}", stage.name), Ink::Plain);
        pen.cell(came, y, &number(stage.came, came), Ink::Plain);
        pen.cell(passed, y, &number(stage.passed, passed), Ink::Good);
        let waits = stage.waiting + stage.joining;
        pen.cell(waiting, y, &number(waits, waiting), if waits > 0 { Ink::Waits } else { Ink::Soft });
        pen.cell(
            running,
            y,
            &number(stage.running, running),
            if stage.running > 0 { Ink::Busy } else { Ink::Soft },
        );
        pen.cell(dead, y, &number(stage.dead, dead), if stage.dead > 0 { Ink::Bad } else { Ink::Soft });
        if filtered.width > 0 {
            pen.cell(filtered, y, &number(stage.filtered, filtered), Ink::Soft);
            pen.cell(attempts, y, &number(stage.attempts.total, attempts), Ink::Soft);
        }
        if !run.ended {
            pen.cell(speed, y, &rate(flow.per_second), Ink::Plain);
            pen.cell(oldest, y, &wait(stage), Ink::Plain);
            pen.cell(left, y, &time_left(flow.left_ms), Ink::Plain);
        }
    }
}

/// How long the item that waited longest is due, or in how long the next one is.
fn wait(stage: &StageView) -> String {
    match (stage.oldest_ms, stage.next_in_ms) {
        (Some(ms), _) => span(ms),
        (None, Some(ms)) => format!("in {}", span(ms).split(' ').next().unwrap_or_default()),
        (None, None) => "–".to_owned(),
    }
}
