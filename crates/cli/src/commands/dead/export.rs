//! `redrive dead export` and `redrive dead import`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;

use redrive_core::id::{ItemId, RunId};
use redrive_core::item::{Item, StateKind};
use redrive_engine::admin::redrive_edited;
use redrive_engine::report::explain;
use redrive_operate::Error;
use redrive_store::{ItemFilter, ItemQuery, Store};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::filter::resolve;
use crate::args::DeadFilter;
use crate::commands::{Answer, Context, KnownRun, known_run};
use crate::exit;
use crate::output::target::{Existing, Guard, Sink, Target};
use crate::output::text::{count, safe};
use crate::output::{json, note};

const PAGE: usize = 200;

/// Writes dead items as JSON Lines, each as `explain --json` shows it.
pub async fn export(context: &Context, typed: &DeadFilter, output: Option<&Path>, overwrite: bool) -> Answer {
    let existing = if overwrite { Existing::Replaced } else { Existing::Kept };
    let guard = Guard::of_store(&context.global.store)?;
    let mut target = output.map(|path| Target::look("--output", path, existing, guard)).transpose()?;
    let store = context.store_to_read()?;
    if let Some(target) = &mut target {
        target.spare_runs(&*store).await?;
    }
    let filters = resolve(&*store, typed, context.env.clock.now()).await?;
    let mut sink = match &target {
        Some(target) => target.open().await?,
        None => Sink::standard_output()?,
    };
    let mut exported = Exported { context, store: &*store, runs: BTreeMap::new(), written: 0, damaged: 0 };
    for filter in filters {
        exported.all(filter, &mut sink).await?;
    }
    let Exported { written, damaged, .. } = exported;
    // What was edited is worth more than the news that nothing is dead.
    let untouched = written == 0 && target.as_ref().is_some_and(Target::holds_something);
    if !untouched {
        sink.finish()?;
    }
    if let (Some(target), true) = (&target, context.global.json) {
        json(&serde_json::json!({ "file": target.shown(), "written": written, "damaged": damaged }))?;
    }
    if !context.global.quiet {
        let kept =
            target.as_ref().filter(|_| untouched).map(|target| format!("; {} is as it was", target.shown()));
        note(&format!("{} dead items written{}", count(written), kept.unwrap_or_default()));
    }
    Ok(if damaged == 0 { ExitCode::SUCCESS } else { exit::broken() })
}

/// An export under way.
struct Exported<'a> {
    context: &'a Context,
    store: &'a dyn Store,
    runs: BTreeMap<RunId, KnownRun>,
    written: u64,
    damaged: u64,
}

impl Exported<'_> {
    async fn all(&mut self, filter: ItemFilter, sink: &mut Sink) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.store.items(ItemQuery { filter: filter.clone(), after, limit: PAGE }).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.seq);
            for item in &page {
                self.one(item, sink).await?;
                if sink.reader_left() {
                    return Ok(());
                }
            }
        }
    }

    async fn one(&mut self, item: &Item, sink: &mut Sink) -> Result<(), Error> {
        let known = match self.runs.entry(item.run) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(known_run(self.store, Some(item.run)).await?),
        };
        let now = self.context.env.clock.now();
        let life = explain(self.store, &known.row, item, &known.plan, None, now).await?;
        if let Some(damage) = &life.item.damage {
            self.damaged += 1;
            note(&safe(&format!(
                "{} ({}) is written without its content, which is damaged: {damage}",
                item.key, item.id
            )));
        }
        let mut line = serde_json::to_vec(&life).map_err(|error| Error::internal(error.to_string()))?;
        line.push(b'\n');
        sink.put(&line)?;
        self.written += 1;
        Ok(())
    }
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
            .map_err(|error| Error::wrong(format!("cannot read {file}: {error}")))?;
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

async fn import_line(context: &Context, store: &dyn Store, line: &str) -> Result<Option<String>, Error> {
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
