//! `redrive submit` and `redrive close`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_operate::pipelines::Pipeline;
use redrive_operate::sources::SourceName;
use redrive_operate::submit::{self, Given, Handed, HandedIn, HandedOver, Inbox, Stream};
use redrive_operate::{Error, runs};

use super::run::{not_gone_on_with, warn};
use super::{Answer, Context, edit, work};
use crate::args::SubmitArgs;
use crate::exit;
use crate::output::screen::Screen;
use crate::output::text::{count, safe};
use crate::output::{advice, json, note};
use crate::wiring::Handlers;

/// Most refused items that are told one by one.
const TOLD: u64 = 20;

/// Hands a run over, or items to a run that stays open.
pub async fn submit(context: &Context, args: SubmitArgs) -> Answer {
    let pipeline = Pipeline::read(&args.file)?;
    warn(context, &pipeline.definition.warnings);
    let external = external(&pipeline);
    if args.items.is_some() || !args.item.is_empty() {
        return hand_in(context, args, pipeline, external).await;
    }
    let source = SourceName::find(&pipeline.definition, &args.input, &pipeline.folder)?;
    // What is wrong with the pipeline, or a source that is not there, is told before a store is made.
    let prepared = runs::prepare(&Handlers::new(), pipeline, source)?;
    let handed = submit::run(&context.floor_to_make()?, prepared, args.begin()).await?;
    if let Some(other) = &handed.other {
        context.say(&not_gone_on_with(other));
    }
    handed.edit.iter().for_each(|edit| context.say(&edit::words(edit)));
    keeps(context, &args, &handed);
    match context.global.json {
        true => json(&handed)?,
        false => context.tell(&handed_over(&handed, &context.screen()))?,
    }
    let run = handed.run;
    let works = external.unwrap_or_else(|| "`redrive work` works on it".to_owned());
    context.hint(&format!("{works}, `redrive show {run}` shows it"));
    Ok(ExitCode::SUCCESS)
}

/// Who does what no `redrive work` does, where a stage is of that kind.
fn external(pipeline: &Pipeline) -> Option<String> {
    let plan = pipeline.definition.plan();
    let first = plan.external().first().and_then(|no| plan.stage(*no));
    first.map(|stage| advice::asked_for(&stage.name))
}

/// A run that was there stays in the category and at the priority that it was begun with.
fn keeps(context: &Context, args: &SubmitArgs, handed: &HandedOver) {
    let other_category = args.category.is_some() && args.category != handed.category;
    let other_priority = args.priority.is_some_and(|asked| asked != handed.priority);
    if other_category || other_priority {
        let category = handed.category.as_deref().unwrap_or("none");
        context.say(&format!(
            "run {} was there and keeps its category ({category}) and priority ({})",
            handed.run, handed.priority
        ));
    }
}

fn handed_over(handed: &HandedOver, screen: &Screen) -> String {
    let HandedOver { run, pipeline, source, created, .. } = handed;
    let how = match created {
        true => "is handed over",
        false => "was there already, and is handed over again",
    };
    let mut text = format!("run {run} of {pipeline} over {} {how}", screen.place(source));
    if let Some(read) = &handed.read {
        text.push_str(&format!(
            "\n  {} new, {} changed, {} refused",
            count(read.new - read.refused.min(read.new)),
            count(read.changed + read.back),
            count(read.refused)
        ));
    }
    text
}

/// Hands items to the standing runs of a pipeline.
async fn hand_in(
    context: &Context,
    args: SubmitArgs,
    pipeline: Pipeline,
    external: Option<String>,
) -> Answer {
    if args.key.is_some() && args.item.len() > 1 {
        return Err(Error::wrong("--key names one item, and there are several")
            .hint("say --items FILE --envelope, with a key in every line"));
    }
    let handlers = Handlers::new();
    let definition = pipeline.definition.clone();
    let ready = submit::prepare(&handlers, pipeline, args.hand_in())?;
    let stream = args.items.as_ref().map(|path| Stream::open(&handlers, path, &definition, args.envelope));
    let stream = stream.transpose()?;
    let floor = context.floor_to_make()?;
    let mut inbox = Inbox::open(&floor, ready);
    let mut told = Refusals { what: if stream.is_some() { "line" } else { "item" }, told: 0 };
    let handed = match stream {
        Some(stream) => inbox.stream(stream, &mut |item| told.tell(item)).await?,
        None => {
            let given = |payload| Given { key: args.key.clone(), payload, category: None };
            let handed = inbox.items(args.item.into_iter().map(given).collect()).await?;
            handed.items.iter().for_each(|item| told.tell(item));
            handed
        }
    };
    tell(context, &handed, external)
}

/// Tells of refused items, the first few by name.
struct Refusals {
    what: &'static str,
    told: u64,
}

impl Refusals {
    fn tell(&mut self, item: &Handed) {
        let Some(reason) = &item.reason else { return };
        self.told += 1;
        if self.told <= TOLD {
            note(&safe(&format!("{} {} {reason}; it is refused", self.what, item.line)));
        } else if self.told == TOLD + 1 {
            note("more are refused; they are counted");
        }
    }
}

fn tell(context: &Context, handed: &HandedIn, external: Option<String>) -> Answer {
    for run in &handed.runs {
        run.edit.iter().for_each(|edit| context.say(&edit::words(edit)));
    }
    match context.global.json {
        true => json(handed)?,
        false => context.tell(&handed_in(handed))?,
    }
    if let Some(paused) = handed.runs.iter().find(|run| run.paused) {
        context.hint(&format!("run {0} is paused: `redrive resume {0}` goes on", paused.run));
    } else if let Some(run) = handed.runs.first() {
        let works = external.unwrap_or_else(|| "`redrive work` works on them".to_owned());
        context.hint(&format!("{works}; `redrive items --run {}` lists what was handed in", run.run));
    }
    Ok(match (handed.counts.refused, handed.counts.taken()) {
        (0, _) => ExitCode::SUCCESS,
        (_, 0) => exit::usage(),
        (_, _) => exit::partial(),
    })
}

fn handed_in(handed: &HandedIn) -> String {
    let counts = &handed.counts;
    let named = [
        ("admitted", counts.admitted),
        ("changed", counts.changed),
        ("known", counts.known),
        ("refused", counts.refused),
    ];
    let shown = named.iter().filter(|(name, n)| *n > 0 || *name == "admitted");
    let words: Vec<String> = shown.map(|(name, n)| format!("{} {name}", count(*n))).collect();
    let mut text = format!("{}: {}", handed.pipeline, words.join(", "));
    for run in &handed.runs {
        let new = if run.created { "new " } else { "" };
        let of = run.category.as_ref().map(|category| format!(" of category {category}")).unwrap_or_default();
        text.push_str(&format!("\n  in the {new}run {}{of}", run.run));
    }
    text
}

/// Closes a standing run.
pub async fn close(context: &Context, run: RunId) -> Answer {
    let floor = context.floor()?;
    let closed = submit::close(&floor, run).await?;
    if closed.before {
        context.say(&format!("run {run} was closed before"));
    }
    work::tell_of(context, &floor, &closed.report).await?;
    Ok(ExitCode::SUCCESS)
}
