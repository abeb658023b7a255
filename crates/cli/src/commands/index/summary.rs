//! What came of indexing, for people and for machines.

use redrive_core::status::RunStatus;
use redrive_index::WalkTally;
use redrive_operate::Error;
use redrive_operate::index::{IndexReport, Indexer, Pass};

use crate::args::{Embedder, IndexArgs};
use crate::commands::Context;
use crate::output::screen::Screen;
use crate::output::text::{count, safe, short, span, things};
use crate::output::{advice, json, usage};

/// Tells what came of a pass.
pub(super) async fn tell(
    context: &Context,
    args: &IndexArgs,
    indexer: &Indexer<'_>,
    pass: &Pass,
) -> Result<(), Error> {
    let found = indexer.report(pass).await?;
    if context.global.json {
        json(&found)?;
    } else {
        context.tell(&words(args, &found, pass.took_ms, &context.screen()))?;
    }
    if let Some(hint) = hint(args, &found) {
        context.hint(&hint);
    }
    Ok(())
}

fn words(args: &IndexArgs, found: &IndexReport, took_ms: i64, screen: &Screen) -> String {
    let IndexReport { run: report, index: figures } = found;
    let (walk, size) = (&figures.walk, figures.size);
    let mut text = format!(
        "{}: {}, {} in the index\n",
        safe(&screen.place(&figures.root)),
        things(size.documents, "file"),
        things(size.chunks, "chunk")
    );
    let waiting = match report.status {
        // Nothing need have failed: it was not its turn yet.
        RunStatus::Queued | RunStatus::Interrupted => "not done yet",
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
    if let Some(used) = report.usage.as_ref().filter(|_| args.embedder != Embedder::Builtin) {
        text.push_str(&format!("  {}\n", usage::line(used)));
    }
    if figures.children_died > 0 {
        let died = things(figures.children_died, "time");
        text.push_str(&format!("  {died} a child process died with work in hand; it was tried again\n"));
    }
    text.push_str(&walked(walk));
    text.push_str(&format!(
        "  run {}: {} in {}",
        report.run,
        screen.state(report.status.name()),
        span(took_ms)
    ));
    if let Some(reason) = report.reason.as_ref().or(figures.last_failure.as_ref()) {
        text.push_str(&format!("\n  because {}", short(reason, 300)));
    }
    if let Some(due) = &report.next_retry {
        text.push_str(&format!("\n  next retry due {}", screen.when(due)));
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

fn hint(args: &IndexArgs, found: &IndexReport) -> Option<String> {
    let IndexReport { run: report, index: figures } = found;
    let (run, walk) = (report.run, &figures.walk);
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
            args.dir.display()
        )),
        _ if figures.changed_meanwhile > 0 => Some(format!(
            "{} changed while it was indexed; the same command takes that up",
            things(figures.changed_meanwhile, "file")
        )),
        _ if walk.refused_before + figures.incomplete_before > 0 => Some(
            "`redrive dead list --pipeline index` shows what failed before; --retry-refused tries it again"
                .to_owned(),
        ),
        _ if walk.skipped.contains_key("too_large") => {
            Some("--max-bytes SIZE takes larger text files in".to_owned())
        }
        // Who has searched it before needs no telling.
        RunStatus::Completed if figures.size.chunks > 0 => (walk.unchanged == 0)
            .then(|| "`redrive search \"what you are looking for\"` searches it".to_owned()),
        RunStatus::Completed => Some("nothing in this directory can be searched".to_owned()),
        _ => advice::next(report, &[]),
    }
}
