//! `redrive work`.

use std::process::ExitCode;
use std::sync::Arc;

use redrive_operate::work::{Served, serve};
use redrive_operate::{Error, Floor};
use redrive_store::RunFilter;

use super::on_end::OnEnd;
use super::services::serve_events;
use super::work::Watching;
use super::{Answer, Context};
use crate::args::CrewArgs;
use crate::exit;
use crate::output::json;
use crate::output::text::{count, things};
use crate::wiring::Handlers;

/// Works on every run that has something to do.
pub async fn work(context: &Context, args: CrewArgs) -> Answer {
    if !args.events.is_empty() {
        return serve_events(context, args).await;
    }
    // A worker that waits for work may come up before anybody handed something over.
    let floor = if args.until_idle { context.floor()? } else { context.floor_to_make()? };
    let handlers = Handlers::held_to(args.outbound.settings(), args.commands.folders()?);
    let floor = Floor { wiring: Arc::new(handlers), ..floor };
    let on_end = OnEnd::of(context, args.end.on_end.as_deref());
    let watching = Arc::new(Watching::of(context).with_end(on_end));
    let served = serve(&floor, args.serve(), watching.clone()).await;
    watching.finish().await;
    let served = served?;
    match context.global.json {
        true => json(&served)?,
        false => context.tell(&words(&served))?,
    }
    if let Some(run) = served.left.keys().next() {
        context.hint(&format!("`redrive show {run}` says how a run stands that was left"));
    }
    if args.until_idle {
        unknown_pipelines(context, &floor, &args.pipelines).await?;
    }
    Ok(code(&served, args.until_idle))
}

/// Names the pipelines that were asked for and that no run of the store has: they may be spelt otherwise.
async fn unknown_pipelines(context: &Context, floor: &Floor, asked: &[String]) -> Result<(), Error> {
    for name in asked {
        let filter = RunFilter { pipeline: Some(name.clone()), ..RunFilter::default() };
        if floor.store.runs(filter, None, 1).await?.is_empty() {
            context.hint(&format!("no run of this store is of a pipeline {name}; `redrive runs` lists them"));
        }
    }
    Ok(())
}

pub fn words(served: &Served) -> String {
    let Served { finished, left, unworkable, .. } = served;
    let mut text = format!("{} finished", things(*finished, "run"));
    if !left.is_empty() {
        text.push_str(&format!(", {} left", count(left.len() as u64)));
        let named: Vec<String> = left.iter().take(5).map(|(run, status)| format!("{run} {status}")).collect();
        text.push_str(&format!(" ({}{})", named.join(", "), if left.len() > 5 { ", …" } else { "" }));
    }
    for (run, why) in unworkable.iter().take(5) {
        text.push_str(&format!("\n  {run} cannot be worked on here: {why}"));
    }
    text
}

/// A worker that is there to wait for more has done its part when it is told to stop.
fn code(served: &Served, until_idle: bool) -> ExitCode {
    if !until_idle {
        return ExitCode::SUCCESS;
    }
    if !served.unworkable.is_empty() && !served.interrupted {
        return exit::usage();
    }
    let all = served.statuses.iter().copied().chain(served.left.values().copied());
    exit::of_work(all, served.interrupted, true)
}
