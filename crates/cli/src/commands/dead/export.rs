//! `redrive dead export` and `redrive dead import`.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use redrive_core::id::ItemId;
use redrive_core::item::StateKind;
use redrive_engine::admin::redrive_edited;
use redrive_engine::report::explain;
use redrive_store::{ItemFilter, ItemQuery};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::filter::resolve;
use crate::args::DeadFilter;
use crate::commands::{Answer, Context, known_run};
use crate::exit::{self, Failure};
use crate::output::note;
use crate::output::text::count;

const PAGE: usize = 200;

/// Writes dead items as JSON Lines, each as `explain --json` shows it.
pub async fn export(context: &Context, typed: &DeadFilter, output: Option<&Path>) -> Answer {
    let store = context.store()?;
    let filters = resolve(&*store, typed, context.env.clock.now()).await?;
    let mut out: Box<dyn Write> = match output {
        Some(path) => Box::new(std::io::BufWriter::new(
            std::fs::File::create(path)
                .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?,
        )),
        None => Box::new(std::io::stdout().lock()),
    };
    let mut written = 0;
    for filter in filters {
        let mut after = None;
        loop {
            let page = store.items(ItemQuery { filter: filter.clone(), after, limit: PAGE }).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.seq);
            for item in &page {
                let known = known_run(&*store, Some(item.run)).await?;
                let life =
                    explain(&*store, &known.row, item, &known.plan, None, context.env.clock.now()).await?;
                let line =
                    serde_json::to_string(&life).map_err(|error| Failure::internal(error.to_string()))?;
                writeln!(out, "{line}")?;
                written += 1;
            }
        }
    }
    out.flush()?;
    if !context.global.quiet {
        note(&format!("{} dead items written", count(written)));
    }
    Ok(ExitCode::SUCCESS)
}

/// The part of an exported line that is read back.
#[derive(Deserialize)]
struct Line {
    item: LineItem,
}

#[derive(Deserialize)]
struct LineItem {
    id: ItemId,
    payload: Box<RawValue>,
}

/// Sends dead items back with the content of an exported and edited file. Every line that cannot be used is told.
pub async fn import(context: &Context, file: &str) -> Answer {
    let store = context.store()?;
    let reader: Box<dyn BufRead> = if file == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let opened = std::fs::File::open(file)
            .map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))?;
        Box::new(std::io::BufReader::new(opened))
    };
    let (mut sent, mut left) = (0_u64, 0_u64);
    for (number, line) in reader.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match import_line(context, &*store, &line).await? {
            None => sent += 1,
            Some(why) => {
                left += 1;
                note(&format!("{file}:{}: {why}", number + 1));
            }
        }
    }
    super::told(context, sent, left, false, "sent back")?;
    Ok(if left == 0 { ExitCode::SUCCESS } else { exit::partial() })
}

async fn import_line(
    context: &Context,
    store: &dyn redrive_store::Store,
    line: &str,
) -> Result<Option<String>, Failure> {
    let parsed: Line = match serde_json::from_str(line) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(Some(format!("not a line of an export: {error}"))),
    };
    let id = parsed.item.id;
    let filter = ItemFilter { ids: Some((id, id)), ..ItemFilter::default() };
    let Some(item) = store.items(ItemQuery { filter, after: None, limit: 1 }).await?.into_iter().next()
    else {
        return Ok(Some(format!("item {id} is not in this store")));
    };
    if item.state.kind() != StateKind::Dead {
        return Ok(Some(format!("item {id} is {}, not dead", item.state.kind())));
    }
    let known = known_run(store, Some(item.run)).await?;
    let payload = parsed.item.payload.get().as_bytes().into();
    let sent = redrive_edited(store, &known.plan, &item, payload, &context.env).await?;
    Ok((!sent).then(|| format!("item {id} changed meanwhile, or what it came from was taken out")))
}
