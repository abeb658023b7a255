//! `redrive cancel`, `redrive pause` and `redrive kill`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_operate::items::{self, ItemName};
use redrive_operate::runs::{self, Runs};

use super::{Answer, Context, explain, work};
use crate::output::progress::Unit;

/// Takes a run out for good.
pub async fn cancel(context: &Context, run: RunId, yes: bool) -> Answer {
    let mut floor = context.floor()?;
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    runs::refuse_cancelling(&known)?;
    if known.row.control == Control::Cancelled {
        context.say(&format!("run {run} was cancelled already"));
    } else {
        context.confirm(&format!("Cancel run {run} of {}?", known.row.spec.pipeline), yes)?;
    }
    let watch = context.watch(&mut floor, "cancelling", Unit::Items);
    let report = runs::cancel(&floor, run).await?;
    drop(watch);
    work::tell_of(context, &floor, &report).await?;
    Ok(ExitCode::SUCCESS)
}

/// Stops a run for now.
pub async fn pause(context: &Context, run: RunId, why: &str) -> Answer {
    let floor = context.floor()?;
    work::tell_of(context, &floor, &runs::pause(&floor, run, why).await?).await?;
    Ok(ExitCode::SUCCESS)
}

/// Gives one item up.
pub async fn kill(context: &Context, name: ItemName, why: &str) -> Answer {
    explain::tell(context, &items::kill(&context.floor()?, &name, why).await?)
}
