//! `redrive search`.

use std::process::ExitCode;

use redrive_index::search::show;
use redrive_operate::search;

use super::{Answer, Context};
use crate::args::SearchArgs;
use crate::output::json;

/// Finds passages.
pub async fn search(context: &Context, args: SearchArgs) -> Answer {
    let found = search::search(&context.floor_to_read()?, &args.request(context.env.clock.now())).await?;
    if found.by_words_alone {
        context.hint("there is no vector to compare; it is searched for by words alone");
    }
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.report.hits.is_empty() {
        context.hint("nothing was found; `redrive stats` shows what is in the index");
    } else {
        context.tell(&show::lines(&found.report, context.screen().colour).join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
