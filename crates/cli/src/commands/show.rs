//! `redrive show`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_operate::runs;

use super::{Answer, Context, work};

/// Shows how a run stands.
pub async fn show(context: &Context, run: Option<RunId>) -> Answer {
    work::tell(context, &runs::show(&context.floor_to_read()?, run).await?)?;
    Ok(ExitCode::SUCCESS)
}
