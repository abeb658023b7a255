//! `redrive results`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_core::verdict::Verdict;
use redrive_operate::Error;
use redrive_operate::results::Results;
use serde::Serialize;
use tokio::sync::watch;

use super::{Answer, Context};
use crate::args::ResultsArgs;
use crate::exit;
use crate::output::results::{Form, Writer, Written};
use crate::output::target::{Existing, Guard, Sink, Target};
use crate::output::text::things;
use crate::output::{compact, json};

/// What stands before the results in a document, or goes with what was written into a file.
#[derive(Serialize)]
struct Of<'a> {
    run: RunId,
    stage: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<Verdict>,
}

/// What was written into a file.
#[derive(Serialize)]
struct InFile<'a> {
    #[serde(flatten)]
    of: Of<'a>,
    file: String,
    #[serde(flatten)]
    written: &'a Written,
}

/// Prints what became of a run's items.
pub async fn results(context: &Context, args: ResultsArgs) -> Answer {
    let mut target = match &args.output {
        Some(path) => {
            let guard = Guard::of_store(&context.global.store)?;
            Some(Target::look("--output", path, Existing::Replaced, guard)?)
        }
        None => None,
    };
    let floor = context.floor_to_read()?;
    if let Some(target) = &mut target {
        target.spare_runs(&*floor.store).await?;
    }
    let results = Results::find(&floor, &args.asked()).await?;
    let of = || Of { run: results.run(), stage: args.stage.as_deref(), verdict: args.verdict };
    let sink = match &target {
        Some(target) => target.open().await?,
        None => Sink::standard_output()?,
    };
    // A file holds lines; a document is for standard output.
    let form = if context.global.json && target.is_none() { Form::List } else { Form::Lines };
    let mut writer = Writer::new(sink, form).with_hints(!context.global.quiet);
    if form == Form::List {
        writer.put(&format!("{},\"items\":[\n", compact(&of())?.trim_end_matches('}')))?;
    }
    let interrupted = if args.follow {
        results.follow(&mut writer, asked_to_stop()).await?
    } else {
        results.all(&mut writer).await?;
        false
    };
    if form == Form::List {
        let tail = compact(writer.written())?;
        writer.put(&format!("\n],{}\n", tail.trim_start_matches('{')))?;
    }
    let written = writer.finish()?;
    written.tell_the_rest();
    told(context, of(), target.as_ref(), &written)?;
    Ok(match (interrupted, written.left_out) {
        (true, _) => exit::interrupted(),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => exit::broken(),
    })
}

fn told(context: &Context, of: Of<'_>, target: Option<&Target>, written: &Written) -> Result<(), Error> {
    let stage = of.stage.unwrap_or_default();
    if let (Some(target), true) = (target, context.global.json) {
        json(&InFile { of, file: target.shown(), written })?;
    }
    if let Some(target) = target {
        context.say(&format!("{} in {}", things(written.written, "result"), target.shown()));
    }
    if written.not_kept > 0 {
        context.say(&format!(
            "{} passed {stage}, and what it made is not kept; `reuse = true` keeps it for later runs",
            things(written.not_kept, "item")
        ));
    }
    Ok(())
}

/// Changes when somebody wants an end.
fn asked_to_stop() -> watch::Receiver<bool> {
    use tokio::signal::unix::{SignalKind, signal};
    let (teller, asked) = watch::channel(false);
    // Listened to from now on, whenever the task begins.
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    tokio::spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return std::future::pending().await };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        teller.send_replace(true);
    });
    asked
}
