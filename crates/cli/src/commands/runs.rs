//! `redrive runs`.

use std::process::ExitCode;

use redrive_core::status::Counts;
use redrive_engine::report::RunReport;
use redrive_operate::runs::{self, List};

use super::{Answer, Context};
use crate::output::screen::Screen;
use crate::output::summary::{counted, named, took};
use crate::output::table::{Cell, Column, Table};
use crate::output::{json, lines};

/// Lists runs, newest first.
pub async fn runs(context: &Context, request: &List) -> Answer {
    let list = runs::list(&context.floor_to_read()?, request).await?;
    if context.global.json {
        json(&list)?;
    } else {
        lines(&listing(&list.runs, &context.screen()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A table whose counts add up: states that no run has items in are left out, and so are categories and priorities that
/// none has.
fn listing(reports: &[RunReport], screen: &Screen) -> String {
    if reports.is_empty() {
        return "no runs".to_owned();
    }
    let always = ["admitted", "succeeded", "dead"];
    let wanted = |name: &str| {
        let some = |report: &RunReport| named(&report.counts).iter().any(|(of, n)| *of == name && *n > 0);
        always.contains(&name) || reports.iter().any(some)
    };
    let states: Vec<&str> =
        named(&Counts::default()).into_iter().map(|(name, _)| name).filter(|name| wanted(name)).collect();
    let categories = reports.iter().any(|report| report.category.is_some());
    let priorities = reports.iter().any(|report| report.priority != 0);
    let mut columns = vec![Column::whole("run"), Column::text("pipeline").least(8), Column::whole("status")];
    columns.extend(categories.then_some(Column::text("category").least(8).rank(4)));
    columns.extend(priorities.then_some(Column::number("priority").rank(5)));
    columns.extend(
        states.iter().map(|name| Column::number(name).rank(if always.contains(name) { 1 } else { 2 })),
    );
    columns.extend([
        Column::number("took").rank(3),
        Column::whole("began").rank(6),
        Column::path("source").rank(7),
    ]);
    let mut table = Table::new(columns);
    for report in reports {
        let mut cells: Vec<Cell> = vec![
            report.run.to_string().into(),
            report.pipeline.clone().into(),
            Cell::state(report.status.to_string()),
        ];
        cells.extend(categories.then(|| report.category.clone().unwrap_or_default().into()));
        cells.extend(priorities.then(|| report.priority.to_string().into()));
        let counts = named(&report.counts).into_iter().filter(|(name, _)| states.contains(name));
        cells.extend(counts.map(|(name, n)| counted(name, n)));
        cells.extend([
            took(report).into(),
            screen.when(&report.created_at).into(),
            screen.place(&report.source).into(),
        ]);
        table.row(cells);
    }
    table.on(screen)
}
