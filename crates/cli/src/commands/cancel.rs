//! `redrive cancel`, `redrive pause` and `redrive kill`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_engine::admin;
use redrive_engine::report::run_report;
use redrive_operate::Error;
use redrive_store::{Pause, RunChange};

use super::explain::{explain, one_item};
use super::{Answer, Context, actor, known_run, work};

/// Takes a run out for good.
pub async fn cancel(context: &Context, run: RunId, yes: bool) -> Answer {
    let store = context.store()?;
    let known = known_run(&*store, Some(run)).await?;
    if known.row.finished_at.is_some() {
        return Err(Error::wrong(format!("run {run} is finished already")));
    }
    context.confirm(&format!("Cancel run {run} of {}?", known.row.spec.pipeline), yes)?;
    admin::cancel(&*store, run, &known.plan, &actor(), &context.env).await?;
    let row = store.run(run).await?.unwrap_or(known.row);
    let now = context.env.clock.now();
    let report = run_report(&*store, &row, &known.plan, known.definition.thresholds, now).await?;
    work::tell(context, &report)?;
    Ok(ExitCode::SUCCESS)
}

/// Stops a run for now.
pub async fn pause(context: &Context, run: RunId) -> Answer {
    let store = context.store()?;
    let known = known_run(&*store, Some(run)).await?;
    if known.row.control == Control::Cancelled || known.row.finished_at.is_some() {
        return Err(Error::wrong(format!("run {run} is finished already")));
    }
    let reason = Some(format!("paused by {}", actor()));
    let since = known.row.pause.since.or(Some(context.env.clock.now()));
    let pause = Pause { since, ..known.row.pause };
    let change =
        RunChange { control: Some((Control::Paused, reason)), pause: Some(pause), ..RunChange::default() };
    let row = store.change_run(run, change).await?;
    let now = context.env.clock.now();
    let report = run_report(&*store, &row, &known.plan, known.definition.thresholds, now).await?;
    work::tell(context, &report)?;
    Ok(ExitCode::SUCCESS)
}

/// Gives one item up.
pub async fn kill(context: &Context, name: &str, run: Option<RunId>, why: &str) -> Answer {
    let store = context.store()?;
    let item = one_item(&*store, name, run).await?;
    let known = known_run(&*store, Some(item.run)).await?;
    let why = format!("{why} ({})", actor());
    if !admin::kill(&*store, &item, &known.plan, &why, &context.env).await? {
        return Err(Error::wrong(format!("item {} is {} already", item.id, item.state.kind())));
    }
    explain(context, &item.id.to_string(), None).await
}
