//! `redrive try`.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use redrive_core::failure::Class;
use redrive_core::item::StateKind;
use redrive_operate::Error;
use redrive_operate::items::ItemName;
use redrive_operate::pipelines::Pipeline;
use redrive_operate::tryout::{Follows, Tried, With, try_stage};

use super::run::warn;
use super::{Answer, Context};
use crate::args::TryArgs;
use crate::exit;
use crate::output::text::{count, safe, short, span};
use crate::output::{json, lines, note};

/// Most bytes of a payload.
const LARGEST: u64 = 16 << 20;
/// Most characters of a body, or of a content, that are shown; `--json` has more.
const EXCERPT: usize = 1_500;

/// Calls one stage once, and shows what comes of it.
pub async fn tryout(context: &Context, args: TryArgs) -> Answer {
    let pipeline = Pipeline::read(&args.file)?;
    warn(context, &pipeline.definition.warnings);
    let with = match (args.payload, args.item) {
        (Some(payload), _) => With::Payload { text: given(&payload)?, key: args.key },
        (None, Some(item)) => With::Item(ItemName { item, run: args.run }),
        (None, None) => {
            return Err(Error::wrong("nothing to try the stage with").hint("say --payload or --item"));
        }
    };
    let floor = context.floor_to_look()?;
    let tried = try_stage(&floor, &pipeline, &args.stage, &with).await?;
    for warning in &tried.warnings {
        note(&safe(&format!("warning: {warning}; this one call was made all the same")));
    }
    if context.global.json {
        json(&tried)?;
    } else {
        lines(&safe(&words(&tried)))?;
    }
    Ok(if tried.is_well() { ExitCode::SUCCESS } else { exit::partial() })
}

/// A payload as it was given: itself, in a file, or on standard input.
fn given(payload: &str) -> Result<String, Error> {
    let read = match payload.strip_prefix('@') {
        Some(file) => std::fs::File::open(Path::new(file)).and_then(text),
        None if payload == "-" => text(std::io::stdin()),
        None => return Ok(payload.to_owned()),
    };
    let from = payload.strip_prefix('@').unwrap_or("standard input");
    let text = read.map_err(|error| Error::wrong(format!("cannot read the payload from {from}: {error}")))?;
    if text.len() as u64 > LARGEST {
        return Err(Error::wrong(format!("the payload in {from} is larger than {LARGEST} bytes")));
    }
    Ok(text)
}

fn text(from: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    from.take(LARGEST + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn words(tried: &Tried) -> String {
    let mut told = vec![format!(
        "stage {} ({}) of {}, key {}",
        tried.stage,
        tried.kind,
        tried.pipeline,
        short(&tried.key, 60)
    )];
    told.push(String::new());
    match &tried.wire {
        Some(wire) => {
            told.push(format!("request: {}", wire.to));
            told.extend(wire.headers.iter().map(|(name, value)| format!("  {name}: {value}")));
            told.push(excerpt(&wire.body));
        }
        None => {
            told.push("no request is sent; the stage was given".to_owned());
            told.push(excerpt(tried.payload.as_ref().map_or("", |payload| payload.get())));
        }
    }
    told.push(String::new());
    told.push(answer(tried));
    if let Some(came) =
        tried.wire.as_ref().and_then(|wire| wire.answer.as_ref()).filter(|came| came.bytes > 0)
    {
        told.push(excerpt(&came.body));
    }
    if let Some(usage) = &tried.usage {
        told.push(format!("  tokens {} in, {} out", count(usage.tokens_in), count(usage.tokens_out)));
    }
    told.push(String::new());
    told.extend(outcome(tried));
    told.push(follows(&tried.follows, tried));
    told.join("\n")
}

fn answer(tried: &Tried) -> String {
    let took =
        tried.duration_ms.map_or_else(|| "no call was made".to_owned(), |ms| format!("after {}", span(ms)));
    match tried.wire.as_ref().map(|wire| &wire.answer) {
        None => format!("answer: {took}"),
        Some(None) => format!("answer: none, {took}"),
        Some(Some(came)) => {
            let status = came.status.map_or_else(String::new, |status| format!("HTTP {status}, "));
            format!("answer: {status}{} bytes, {took}", count(came.bytes as u64))
        }
    }
}

/// A body in lines of its own, as readable as it can be made, cut.
fn excerpt(body: &str) -> String {
    let pretty = serde_json::from_str::<serde_json::Value>(body).ok();
    let pretty = pretty.and_then(|value| serde_json::to_string_pretty(&value).ok());
    let whole = pretty.unwrap_or_else(|| body.trim_end().to_owned());
    let mut cut: String = whole.chars().take(EXCERPT).collect();
    if cut.len() < whole.len() {
        cut.push_str("\n… (--json shows more)");
    }
    cut.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn outcome(tried: &Tried) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(failure) = &tried.failure {
        let status = failure.status.map_or_else(String::new, |status| format!(", status {status}"));
        told.push(format!(
            "{}: class {}, kind {}{status}, group {}",
            tried.outcome, failure.class, failure.kind, failure.group
        ));
        told.push(excerpt(&failure.message));
        if let Some(hint) = failure.hint_ms {
            told.push(format!("  it asks to be left alone for {}", span(hint)));
        }
        return told;
    }
    match (&tried.filtered, &tried.output, tried.children.len()) {
        (Some(reason), ..) => told.push(format!("filtered: {reason}")),
        (None, _, 1..) => {
            told.push(format!("{} into these (at most twenty are shown):", tried.outcome));
            for child in &tried.children {
                let payload = child.payload.as_ref().map_or("", |payload| payload.get());
                told.push(format!("  {} {}", short(&child.key, 30), short(payload, 44)));
            }
        }
        (None, Some(output), 0) => {
            let verdict = tried.verdict.map_or_else(String::new, |verdict| format!(", verdict {verdict}"));
            told.push(format!("{}{verdict}:", tried.outcome));
            told.push(excerpt(output.get()));
        }
        (None, None, 0) => told.push(tried.outcome.to_owned()),
    }
    told
}

/// What would follow, in a sentence.
fn follows(follows: &Follows, tried: &Tried) -> String {
    let wait = follows.wait_ms.map_or_else(String::new, span);
    let cause = follows.wait_cause.unwrap_or("immediate");
    let of = follows.of.map_or_else(|| "of any number".to_owned(), |of| format!("of {of}"));
    // Crashes are counted by themselves and spend no failure.
    let crashed = tried.failure.as_ref().is_some_and(|failure| failure.class == Class::Crash.name());
    let one = if crashed { "crash" } else { "failure" };
    let so = match follows.state {
        StateKind::Succeeded => "it has passed the last stage: succeeded".to_owned(),
        StateKind::Filtered => "it is taken out, as filtered".to_owned(),
        StateKind::Joining => "it waits for its children".to_owned(),
        StateKind::Dead => format!(
            "it is dead ({}), after {one} {} {of}",
            follows.dead_because.unwrap_or("final"),
            follows.failures
        ),
        StateKind::Waiting if tried.is_well() => format!("it goes on to stage {}", follows.stage),
        StateKind::Waiting if tried.outcome == "throttled" => {
            format!("it waits about {wait} ({cause}) and spends no attempt")
        }
        StateKind::Waiting => {
            format!("{one} {} {of}: it is tried again after about {wait} ({cause})", follows.failures)
        }
        StateKind::Running | StateKind::Superseded | StateKind::Cancelled => follows.state.to_string(),
    };
    match &follows.pauses_run {
        Some(why) => format!("then: {so}; the run is paused: {}", short(why, 200)),
        None => format!("then: {so}"),
    }
}
