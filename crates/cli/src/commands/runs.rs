//! `redrive runs`.

use std::process::ExitCode;

use redrive_engine::report::{RunReport, run_report};
use redrive_store::RunFilter;

use super::{Answer, Context};
use crate::output::table::{Side, table};
use crate::output::text::{count, short, span};
use crate::output::{json, lines};
use crate::wiring;

/// Lists runs, newest first.
pub async fn runs(context: &Context, pipeline: Option<String>, limit: usize) -> Answer {
    let store = context.store()?;
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
    let right = |name| (name, Side::Right);
    let headings = [
        ("run", Side::Left),
        ("pipeline", Side::Left),
        ("status", Side::Left),
        right("admitted"),
        right("succeeded"),
        right("dead"),
        right("waiting"),
        right("took"),
        ("source", Side::Left),
    ];
    lines(&table(
        headings,
        reports.iter().map(|report| {
            [
                report.run.to_string(),
                report.pipeline.clone(),
                report.status.to_string(),
                count(report.counts.admitted),
                count(report.counts.succeeded),
                count(report.counts.dead),
                count(report.counts.waiting),
                span(report.elapsed_ms),
                short(&report.source, 60),
            ]
        }),
    ))?;
    Ok(ExitCode::SUCCESS)
}
