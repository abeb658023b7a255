//! What `redrive run --dry-run` tells.

use std::process::ExitCode;

use redrive_operate::runs::{DryRun, Lines, StageAhead, Would};

use super::run::not_gone_on_with;
use super::{Answer, Context, edit};
use crate::output::json;
use crate::output::screen::Screen;
use crate::output::table::{Side, table};
use crate::output::text::{count, safe, short, things};

/// Tells what a run would do.
pub fn tell(context: &Context, found: &DryRun) -> Answer {
    if context.global.json {
        json(found)?;
    } else {
        context.tell(&words(found, &context.screen()))?;
        context.hint("nothing was done; the same command without --dry-run does it");
    }
    Ok(ExitCode::SUCCESS)
}

fn words(found: &DryRun, screen: &Screen) -> String {
    let (pipeline, source) = (&found.pipeline, screen.place(&found.source));
    let mut told = Vec::new();
    told.extend(found.other.as_ref().map(not_gone_on_with));
    let status = found.status.map_or_else(String::new, |status| format!(" ({status})"));
    match (found.would, found.run) {
        (Would::GoOn, Some(run)) => {
            told.push(format!("run {run} of {pipeline} over {source} would go on{status}"));
        }
        (Would::Nothing, Some(run)) => {
            told.push(format!(
                "run {run} of {pipeline} over {source} is paused{status}: nothing would be done"
            ));
        }
        _ => told.push(format!("a new run of {pipeline} over {source} would begin")),
    }
    told.extend(found.edit.iter().map(|edit| format!("  {}", edit::words(edit))));
    if found.unfinished > 0 {
        told.push(format!("  {} of it not finished", are(found.unfinished, "item")));
    }
    if found.would != Would::Nothing {
        told.push(format!("  {}", in_source(&found.read)));
        if !found.read.admitted_all {
            told.push("  the source would not be admitted to its end".to_owned());
        }
        told.extend(refusals(found));
        told.extend(found.missing.iter().map(|key| format!("  nothing in the source has the key {key:?}")));
    }
    format!("{}\n\n{}", safe(&told.join("\n")), stages(&found.stages))
}

fn are(n: u64, name: &str) -> String {
    format!("{} {}", things(n, name), if n == 1 { "is" } else { "are" })
}

fn in_source(read: &Lines) -> String {
    if read.kept_back > 0 {
        return format!("the source is empty: {} would stay", things(read.kept_back, "item"));
    }
    let named = [
        ("new", read.new),
        ("changed", read.changed),
        ("back again", read.back),
        ("removed", read.removed),
        ("known", read.known),
        ("refused", read.refused),
        ("repeated", read.duplicates),
    ];
    let words: Vec<String> =
        named.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{} {name}", count(*n))).collect();
    match words.is_empty() {
        true => "in the source: nothing".to_owned(),
        false => format!("in the source: {}", words.join(", ")),
    }
}

fn refusals(found: &DryRun) -> Vec<String> {
    let mut told: Vec<String> =
        found.refusals.iter().map(|refused| format!("    {}", short(&refused.why, 76))).collect();
    let rest = found.read.refused.saturating_sub(found.refusals.len() as u64);
    if rest > 0 {
        told.push(format!("    and {} more that cannot be used", count(rest)));
    }
    told
}

fn stages(ahead: &[StageAhead]) -> String {
    let headings = [
        ("stage", Side::Left),
        ("kind", Side::Whole),
        ("gate", Side::Left),
        ("batch", Side::Right),
        ("items", Side::Right),
        ("calls", Side::Right),
        ("max attempts", Side::Right),
    ];
    let most = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), count);
    let rows = ahead.iter().map(|stage| {
        [
            stage.name.clone(),
            stage.kind.clone(),
            stage.gate.clone().unwrap_or_else(|| "–".to_owned()),
            count(stage.batch),
            most(stage.items),
            most(stage.calls),
            stage.max_attempts.map_or_else(|| "any".to_owned(), |most| count(most.into())),
        ]
    });
    table(headings, rows)
}
