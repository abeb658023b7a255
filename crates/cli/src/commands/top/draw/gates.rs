//! The gates, each with its reason in the line below.

use ratatui_core::layout::Rect;
use redrive_core::gate::LimitKind;
use redrive_engine::report::GateReport;

use super::super::model::{Model, Panel};
use super::pen::{Column, Ink, NAME, Pen, Side, headings};
use super::{growth, number, scrolled};
use crate::output::text::{count, when};

const COLUMNS: [Column; 9] = [
    Column::new("gate", NAME, NAME, Side::Left),
    Column::new("state", 7, 7, Side::Left),
    Column::new("limit", 8, 8, Side::Left),
    Column::new("at once", 8, 10, Side::Right),
    Column::new("calls/min", 10, 11, Side::Right),
    Column::new("turned away", 11, 13, Side::Right),
    Column::new("lately", 8, 9, Side::Right),
    Column::new("failed", 0, 10, Side::Right),
    Column::new("latency", 0, 10, Side::Right),
];

/// A line of the panel.
enum Line<'a> {
    Gate(usize, &'a GateReport),
    Why(String),
}

/// How many lines the gates take.
pub fn lines(model: &Model) -> usize {
    model.gates().iter().map(|gate| 1 + usize::from(!gate.why.is_empty())).sum()
}

/// Draws the gates.
pub fn draw(pen: &mut Pen<'_>, model: &Model, area: Rect) {
    let here = model.panel == Panel::Gates;
    let [name, state, kind, at_once, calls, away, lately, failed, latency] =
        headings(pen, &COLUMNS, area, "GATE", here);
    if model.gates().is_empty() {
        pen.write(area.x + 2, area.y + 1, area.width - 2, "no stage has passed a gate yet", Ink::Soft);
    }
    let chosen = model.at(Panel::Gates);
    let mut all = Vec::new();
    let mut last = 0;
    for (at, gate) in model.gates().iter().enumerate() {
        all.push(Line::Gate(at, gate));
        all.extend((!gate.why.is_empty()).then(|| Line::Why(why(gate))));
        last = if at == chosen { all.len().saturating_sub(1) } else { last };
    }
    for (y, at) in scrolled(all.len(), last, area.height.saturating_sub(1), area.y + 1) {
        let (at, gate) = match &all[at] {
            Line::Gate(at, gate) => (*at, gate),
            Line::Why(why) => {
                pen.write(area.x + 4, y, area.width.saturating_sub(4), why, Ink::Soft);
                continue;
            }
        };
        pen.cell(name, y, &gate.name, Ink::Plain);
        pen.cell(state, y, gate.state, if gate.state == "open" { Ink::Good } else { Ink::Bad });
        pen.cell(kind, y, gate.kind.map_or("–", limit), Ink::Plain);
        pen.cell(at_once, y, &format!("{}/{}", gate.concurrency.now, gate.concurrency.limit), Ink::Plain);
        pen.cell(calls, y, &gate.requests_per_minute.now.map_or_else(|| "–".to_owned(), count), Ink::Plain);
        pen.cell(away, y, &number(gate.totals.throttled, away), Ink::Plain);
        pen.cell(lately, y, &growth(model.trend.turned_away(&gate.name)), Ink::Waits);
        if failed.width > 0 {
            pen.cell(failed, y, &number(gate.totals.failed, failed), Ink::Soft);
            pen.cell(latency, y, &lasts(gate.latency_ms), Ink::Soft);
        }
        if at == chosen {
            pen.choose(area, y, here);
        }
    }
}

/// How long a call takes; unknown before the first one has ended.
fn lasts(ms: u64) -> String {
    match ms {
        0 => "–".to_owned(),
        ms => format!("{} ms", count(ms)),
    }
}

fn why(gate: &GateReport) -> String {
    let until = gate.until.as_ref().map(|until| format!(", until {}", when(until))).unwrap_or_default();
    format!("{}{until}", gate.why)
}

/// What turns calls away, in a word.
fn limit(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Rate => "rate",
        LimitKind::Window => "window",
        LimitKind::Tokens => "tokens",
        LimitKind::AtOnce => "at once",
        LimitKind::Chance => "chance",
        LimitKind::Shut => "shut",
        LimitKind::Overload => "overload",
    }
}
