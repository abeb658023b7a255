//! `redrive mcp`: agents ask, over standard input and output. Nothing else may be written there.

use std::process::ExitCode;

use redrive_operate::Error;

use super::{Answer, Context};
use crate::args::McpArgs;

/// Answers one agent until it goes.
pub async fn mcp(context: &Context, args: McpArgs) -> Answer {
    // Whoever may not write has no store that could be written.
    let mut floor = if args.write { context.floor()? } else { context.floor_to_read()? };
    floor.asker.name = format!("mcp {}", floor.asker.name).trim_end().to_owned();
    redrive_mcp::serve(floor, args.into()).await.map_err(|why| {
        Error::wrong(format!("the client did not speak the Model Context Protocol: {why}"))
            .hint("agents start this command by themselves; docs/agents.md says how they are told to")
    })?;
    Ok(ExitCode::SUCCESS)
}
