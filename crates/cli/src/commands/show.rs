//! `redrive show`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_operate::runs;

use super::{Answer, Context, work};

/// Shows how a run stands.
pub async fn show(context: &Context, run: Option<RunId>) -> Answer {
    let floor = context.floor_to_read()?;
    work::tell_of(context, &floor, &runs::show(&floor, run).await?).await?;
    Ok(ExitCode::SUCCESS)
}
