//! `redrive runs`.

use std::process::ExitCode;

use redrive_core::status::Counts;
use redrive_engine::report::{RunReport, run_report};
use redrive_store::RunFilter;

use super::{Answer, Context};
use crate::output::summary::{named, over};
use crate::output::table::{Side, columns};
use crate::output::text::{count, short, span};
use crate::output::{json, lines};
use crate::wiring;

/// Lists runs, newest first.
pub async fn runs(context: &Context, pipeline: Option<String>, limit: usize) -> Answer {
    let store = context.store_to_read()?;
    let rows = store.runs(RunFilter { pipeline, ..RunFilter::default() }, None, limit.min(1_000)).await?;
    let mut reports: Vec<RunReport> = Vec::new();
    for row in &rows {
        // A pipeline that this version cannot read has no stages to report on; `redrive show` tells what is wrong.
        let Some(definition) = wiring::definition_of(row) else { continue };
        let plan = wiring::plan(&definition);
        reports.push(run_report(&*store, row, &plan, definition.thresholds, context.env.clock.now()).await?);
    }
    if context.global.json {
        json(&serde_json::json!({ "runs": reports }))?;
        return Ok(ExitCode::SUCCESS);
    }
    lines(&listing(&reports))?;
    Ok(ExitCode::SUCCESS)
}

/// A table whose counts add up: states that no run has items in are left out.
fn listing(reports: &[RunReport]) -> String {
    let always = ["admitted", "succeeded", "dead"];
    let wanted = |name: &str| {
        let some = |report: &RunReport| named(&report.counts).iter().any(|(of, n)| *of == name && *n > 0);
        always.contains(&name) || reports.iter().any(some)
    };
    let states: Vec<&str> =
        named(&Counts::default()).into_iter().map(|(name, _)| name).filter(|name| wanted(name)).collect();
    let mut headings = vec![("run", Side::Left), ("pipeline", Side::Left), ("status", Side::Left)];
    headings.extend(states.iter().map(|name| (*name, Side::Right)));
    headings.extend([("took", Side::Right), ("source", Side::Left)]);
    columns(
        &headings,
        reports.iter().map(|report| {
            let mut cells = vec![report.run.to_string(), report.pipeline.clone(), report.status.to_string()];
            let counts = named(&report.counts).into_iter().filter(|(name, _)| states.contains(name));
            cells.extend(counts.map(|(_, n)| count(n)));
            cells.extend([span(report.elapsed_ms), short(&over(&report.source), 60)]);
            cells
        }),
    )
}
