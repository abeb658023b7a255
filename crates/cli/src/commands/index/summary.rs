//! What came of indexing, for people and for machines.

use std::sync::atomic::Ordering;

use redrive_core::attempt::Outcome;
use redrive_core::item::{Item, State, StateKind};
use redrive_core::status::RunStatus;
use redrive_core::tally::Metric;
use redrive_engine::report::{RunReport, failures};
use redrive_index::WalkTally;
use redrive_ingest::worker::NOT_A_TEXT;
use redrive_operate::Error;
use redrive_store::index::IndexSize;
use redrive_store::{ItemFilter, ItemQuery};
use serde::Serialize;

use super::{Embedder, Pass, Passed, refusals};
use crate::output::text::{count, safe, short, span, things};
use crate::output::{json, lines, summary};
use crate::wiring;

/// Most files of a kind that are named.
const NAMED: usize = 5;
/// Most filtered files that are looked at.
const LOOKED_AT: usize = 10_000;

/// The run report, and what it means for the index.
#[derive(Serialize)]
struct IndexReport<'a> {
    #[serde(flatten)]
    run: &'a RunReport,
    index: &'a Figures<'a>,
}

#[derive(Serialize)]
struct Figures<'a> {
    root: &'a str,
    model: &'a str,
    /// Files that were indexed in this run.
    indexed: u64,
    /// Files that left the index in this run.
    removed: u64,
    /// Chunks whose text was embedded in this run.
    embedded: u64,
    /// Chunks of this run that the model knows no word of: they are in the index, and found by words only.
    words_only: u64,
    /// Chunks whose text had been embedded before.
    reused: u64,
    /// Chunks that failed for good: their files can be found without them.
    failed_chunks: u64,
    /// Files that are no text, and why; the first ones.
    no_text: Vec<(String, String)>,
    /// Files that failed for good, and why; the first ones.
    failed: Vec<(String, String)>,
    /// Files that changed, or went, between being listed and being read; the next pass takes them up.
    changed_meanwhile: u64,
    /// Files that earlier runs left in the index without some of their chunks.
    incomplete_before: u64,
    /// Child processes that died with work in hand while this command ran.
    children_died: u64,
    /// What an item that waits for a retry failed of last.
    last_failure: Option<String>,
    walk: &'a WalkTally,
    size: IndexSize,
}

/// Tells what came of a pass.
pub(super) async fn tell(pass: &Pass<'_>, passed: &Passed) -> Result<(), Error> {
    let report = &passed.worked.report;
    let figures = figures(pass, passed).await?;
    if pass.context.global.json {
        json(&IndexReport { run: report, index: &figures })?;
    } else {
        lines(&words(pass, passed, &figures))?;
    }
    if let Some(hint) = hint(pass, report, &figures) {
        pass.context.hint(&hint);
    }
    Ok(())
}

async fn figures<'a>(pass: &Pass<'a>, passed: &'a Passed) -> Result<Figures<'a>, Error> {
    let (report, store) = (&passed.worked.report, &*pass.stores.store);
    let plan = wiring::plan(pass.definition);
    let counters = store.counters(report.run).await?;
    let ended = |stage: &str, outcome: Outcome| -> u64 {
        let stage = plan.find(stage);
        let here = counters
            .iter()
            .filter(|(at, metric, _)| Some(*at) == stage && *metric == Metric::Outcome(outcome));
        here.map(|(_, _, n)| u64::try_from(*n).unwrap_or(0)).sum()
    };
    let parts = report.stages.iter().filter(|stage| stage.below.is_some());
    // A file that is gone passes `parse` as it is; any other is taken apart there.
    let removed = ended("parse", Outcome::Succeeded).min(report.counts.succeeded);
    let (no_text, changed_meanwhile) = left_out(pass, report).await?;
    // What went on without a vector passed the stage all the same.
    let (passed_embed, words_only) =
        (ended("embed", Outcome::Succeeded), pass.shelf.words_only.load(Ordering::Relaxed));
    Ok(Figures {
        root: pass.root,
        model: &pass.shelf.collection.spec.model,
        indexed: report.counts.succeeded - removed,
        removed,
        embedded: passed_embed.saturating_sub(words_only),
        words_only,
        reused: ended("embed", Outcome::Reused),
        failed_chunks: parts.map(|stage| stage.counts.dead).sum(),
        no_text,
        failed: failed(pass, report).await?,
        changed_meanwhile,
        incomplete_before: incomplete_before(pass, report).await?,
        children_died: passed.children_died,
        last_failure: last_failure(pass, report).await?,
        walk: &passed.tally,
        size: pass.stores.index.size(pass.shelf.collection.no).await?,
    })
}

/// The files that `parse` left out: those that are no text, and how many changed meanwhile.
async fn left_out(pass: &Pass<'_>, report: &RunReport) -> Result<(Vec<(String, String)>, u64), Error> {
    let (mut no_text, mut changed) = (Vec::new(), 0);
    if report.counts.filtered == 0 {
        return Ok((no_text, changed));
    }
    let state = Some(StateKind::Filtered);
    let filter = ItemFilter { run: Some(report.run), state, top: true, ..ItemFilter::default() };
    for item in pass.stores.store.items(ItemQuery { filter, after: None, limit: LOOKED_AT }).await? {
        match &item.state {
            State::Filtered { reason } if !reason.starts_with(NOT_A_TEXT) => changed += 1,
            State::Filtered { reason } if no_text.len() < NAMED => {
                no_text.push((item.key.to_string(), reason.clone()));
            }
            _ => {}
        }
    }
    Ok((no_text, changed))
}

/// The files that failed for good.
async fn failed(pass: &Pass<'_>, report: &RunReport) -> Result<Vec<(String, String)>, Error> {
    if report.counts.dead == 0 {
        return Ok(Vec::new());
    }
    let state = Some(StateKind::Dead);
    let filter = ItemFilter { run: Some(report.run), state, top: true, ..ItemFilter::default() };
    let items = pass.stores.store.items(ItemQuery { filter, after: None, limit: NAMED }).await?;
    let why = |item: &Item| item.last.as_ref().map(|last| last.message.to_string()).unwrap_or_default();
    Ok(items.iter().map(|item| (item.key.to_string(), why(item))).collect())
}

/// Whether earlier runs left something out is worth a look only where this one did nothing about it.
async fn incomplete_before(pass: &Pass<'_>, report: &RunReport) -> Result<u64, Error> {
    if report.counts.admitted > 0 || report.status != RunStatus::Completed {
        return Ok(0);
    }
    Ok(refusals::incomplete(pass.stores, pass.root).await?.len() as u64)
}

async fn last_failure(pass: &Pass<'_>, report: &RunReport) -> Result<Option<String>, Error> {
    let Some(row) = pass.stores.store.run(report.run).await? else { return Ok(None) };
    if report.counts.waiting + report.counts.joining == 0 {
        return Ok(None);
    }
    let plan = wiring::plan(pass.definition);
    let found = failures(&*pass.stores.store, &row, &plan, pass.context.env.clock.now(), 1).await?;
    let errors = found.items.into_iter().flat_map(|item| item.errors);
    Ok(errors.last().and_then(|error| error.message))
}

fn words(pass: &Pass<'_>, passed: &Passed, figures: &Figures<'_>) -> String {
    let (report, walk, size) = (&passed.worked.report, figures.walk, figures.size);
    let mut text = format!(
        "{}: {}, {} in the index\n",
        safe(figures.root),
        things(size.documents, "file"),
        things(size.chunks, "chunk")
    );
    let waiting = match report.status {
        // Nothing need have failed: it was not its turn yet.
        RunStatus::Interrupted => "not done yet",
        _ => "waiting for a retry",
    };
    let mut parts = vec![format!("{} indexed", count(figures.indexed))];
    let no_text = report.counts.filtered.saturating_sub(figures.changed_meanwhile);
    for (n, what) in [
        (walk.unchanged, "unchanged"),
        (figures.removed, "removed"),
        (no_text, "not a text"),
        (figures.changed_meanwhile, "changed meanwhile"),
        (report.counts.dead, "failed"),
        (report.counts.waiting + report.counts.joining, waiting),
        (walk.refused_before, "cannot be indexed and have not changed"),
        (figures.incomplete_before, "without passages that failed before"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", count(n)));
        }
    }
    text.push_str(&format!("  files: {}\n", parts.join(", ")));
    for (path, why) in figures.no_text.iter().chain(&figures.failed).chain(&walk.refused) {
        text.push_str(&format!("    {}: {}\n", safe(path), short(why, 100)));
    }
    if figures.embedded + figures.reused + figures.failed_chunks + figures.words_only > 0 {
        let failed = match figures.failed_chunks {
            0 => String::new(),
            n => format!(", {} failed: their files can be found without them", count(n)),
        };
        let (embedded, reused) = (count(figures.embedded), count(figures.reused));
        text.push_str(&format!("  chunks: {embedded} embedded, {reused} known before{failed}\n"));
    }
    if size.words_only > 0 {
        let passages = things(size.words_only, "passage");
        text.push_str(&format!("  {passages} by words only: the model knows no word in them\n"));
    }
    if size.empty > 0 {
        text.push_str(&format!("  {} without any text\n", things(size.empty, "file")));
    }
    if let Some(used) = report.usage.as_ref().filter(|_| pass.args.embedder != Embedder::Builtin) {
        text.push_str(&format!("  {}\n", summary::usage(used)));
    }
    if figures.children_died > 0 {
        let died = things(figures.children_died, "time");
        text.push_str(&format!("  {died} a child process died with work in hand; it was tried again\n"));
    }
    text.push_str(&walked(walk));
    text.push_str(&format!("  run {}: {} in {}", report.run, report.status, span(passed.took_ms)));
    if let Some(reason) = report.reason.as_ref().or(figures.last_failure.as_ref()) {
        text.push_str(&format!("\n  because {}", short(reason, 300)));
    }
    if let Some(due) = &report.next_retry {
        text.push_str(&format!("\n  next retry due {due}"));
    }
    text
}

/// What the walk left out, in words.
fn walked(walk: &WalkTally) -> String {
    let mut text = String::new();
    if walk.kept_back > 0 {
        text.push_str(&format!(
            "  there is no file at all, so nothing was removed: {} of before can still be found\n",
            things(walk.kept_back, "file")
        ));
    }
    if walk.skipped.is_empty() {
        return text;
    }
    let reasons: Vec<String> =
        walk.skipped.iter().map(|(why, n)| format!("{} {}", count(*n), super::told(why))).collect();
    text.push_str(&format!("  left out: {} (--list-left-out names them)\n", reasons.join(", ")));
    for (path, why) in &walk.examples {
        text.push_str(&format!("    {}: {}\n", safe(path), safe(why)));
    }
    text
}

fn hint(pass: &Pass<'_>, report: &RunReport, figures: &Figures<'_>) -> Option<String> {
    let (run, walk) = (report.run, figures.walk);
    match report.status {
        RunStatus::PartiallyCompleted => Some(format!(
            "`redrive failures {run}` shows what waits; the same command, or --watch, does it when it is due"
        )),
        RunStatus::PausedQuota | RunStatus::PausedOutage => Some(
            "mend what is wrong, then say the same command again: it goes on where it stopped".to_owned(),
        ),
        _ if report.counts.dead + figures.failed_chunks > 0 => {
            Some(format!("`redrive failures {run}` shows what failed and why"))
        }
        _ if walk.kept_back > 0 => Some(format!(
            "is the disk mounted? If nothing is meant to be there, `redrive index {} --rebuild` empties the index",
            pass.args.dir.display()
        )),
        _ if figures.changed_meanwhile > 0 => Some(format!(
            "{} changed while it was indexed; the same command takes that up",
            count(figures.changed_meanwhile)
        )),
        _ if walk.refused_before + figures.incomplete_before > 0 => Some(
            "`redrive dead list --pipeline index` shows what failed before; --retry-refused tries it again"
                .to_owned(),
        ),
        _ if walk.skipped.contains_key("too_large") => {
            Some("--max-bytes SIZE takes larger text files in".to_owned())
        }
        RunStatus::Completed if figures.size.chunks > 0 => {
            Some("`redrive search \"what you are looking for\"` searches it".to_owned())
        }
        RunStatus::Completed => Some("nothing in this directory can be searched".to_owned()),
        _ => summary::hint(report),
    }
}
