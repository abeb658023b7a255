//! `redrive show`.

use redrive_core::id::RunId;
use redrive_engine::report::run_report;

use super::{Answer, Context, known_run, work};

/// Shows how a run stands.
pub async fn show(context: &Context, run: Option<RunId>) -> Answer {
    let store = context.store_to_read()?;
    let known = known_run(&*store, run).await?;
    let now = context.env.clock.now();
    let report = run_report(&*store, &known.row, &known.plan, known.thresholds(), now).await?;
    work::tell(context, &report)?;
    Ok(std::process::ExitCode::SUCCESS)
}
