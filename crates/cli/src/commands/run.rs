//! `redrive run` and `redrive resume`.

use redrive_engine::admit::Part;
use redrive_operate::pipelines::Pipeline;
use redrive_operate::runs::{self, Begin, Next, Other, Resume};
use redrive_operate::sources::SourceName;
use redrive_pipeline::Problem;

use super::on_end::{End, OnEnd};
use super::work::{results_target, tell_of, work};
use super::{Answer, Context, dry_run, edit};
use crate::args::{ResumeArgs, RunArgs};
use crate::exit;
use crate::output::note;
use crate::output::target::Guard;
use crate::wiring::Handlers;

/// Runs a pipeline over its source, or goes on with a run of both: with what is unfinished, and with what has changed.
pub async fn run(context: &Context, args: RunArgs) -> Answer {
    let pipeline = Pipeline::read(&args.file)?;
    warn(context, &pipeline.definition.warnings);
    if pipeline.definition.schedule.is_some() && !args.dry_run {
        context.hint(
            "this is one run, now; its [schedule] is looked after by `redrive serve --pipelines DIR` alone",
        );
    }
    let source = SourceName::find(&pipeline.definition, &args.input, &pipeline.folder)?;
    let way_out = if source.is_inbox() { "" } else { " (--new starts another run)" };
    let mut guard = Guard::of_store(&context.global.store)?;
    guard.pipeline(&args.file, &pipeline.definition, &pipeline.folder);
    guard.source(source.name(), &pipeline.definition);
    let mut results = results_target(&args.work, guard)?;
    // What is wrong with the pipeline, or a source that is not there, is told before a store is made.
    let mut prepared = runs::prepare(&Handlers::new(), pipeline, source)?;
    let part = Part::new(args.limit, args.only.iter().cloned().collect());
    if !part.is_all() {
        prepared = prepared.of_part(part)?;
    }
    let request = Begin { new: args.new, keep_passed: args.keep_passed, ..Begin::default() };
    if args.dry_run {
        return dry_run::tell(context, &runs::dry_run(&context.floor_to_look()?, prepared, &request).await?);
    }
    let floor = context.floor_to_make()?;
    if let Some(results) = &mut results {
        results.spare_runs(&*floor.store).await?;
    }
    let begun = runs::begin(&floor, prepared, request).await?;
    if let Some(other) = &begun.other {
        context.say(&not_gone_on_with(other));
    }
    let run = begun.run;
    match begun.next {
        Next::Paused(report) => {
            note(&format!("run {run} of this pipeline and source is paused; nothing was done{way_out}"));
            let told = tell_of(context, &floor, &report).await;
            if let Some(on_end) = OnEnd::of(context, args.work.end.on_end.as_deref()) {
                on_end.start(&End::of(&report, exit::status_code(report.status))).await;
            }
            if begun.edited_while_paused {
                let file = args.file.display();
                context.hint(&format!(
                    "{file} was edited since; `redrive resume {run} --pipeline {file}` goes on with it as it is now"
                ));
            }
            told
        }
        Next::Work(ready) => {
            if !begun.created {
                context.say(&format!("going on with run {run}"));
            }
            begun.edit.iter().for_each(|edit| context.say(&edit::words(edit)));
            work(context, &floor, *ready, &args.work, results).await
        }
    }
}

pub(super) fn not_gone_on_with(other: &Other) -> String {
    let had = match &other.nested {
        None => "had other stages".to_owned(),
        Some(name) => format!("had stage {name}, which children run through, configured otherwise"),
    };
    format!("run {} {had}: a new run does everything; outputs that stages keep are reused", other.run)
}

/// Lets a paused or interrupted run go on, and works on it.
pub async fn resume(context: &Context, args: ResumeArgs) -> Answer {
    let floor = context.floor()?;
    let mut guard = Guard::of_store(&context.global.store)?;
    let pipeline = match &args.pipeline {
        None => None,
        Some(file) => {
            let pipeline = Pipeline::read(file)?;
            guard.pipeline(file, &pipeline.definition, &pipeline.folder);
            Some(pipeline)
        }
    };
    let mut results = results_target(&args.work, guard)?;
    if let Some(results) = &mut results {
        results.spare_runs(&*floor.store).await?;
    }
    let request = Resume { run: args.run, pipeline, keep_passed: args.keep_passed };
    let resumed = runs::resume(&floor, request).await?;
    resumed.edit.iter().for_each(|edit| context.say(&edit::words(edit)));
    warn(context, &resumed.warnings);
    if let Some(why) = &resumed.unreadable {
        note(&format!("warning: {why}; the run goes on with what was read of its source before"));
    }
    resumed.gates.iter().for_each(|gate| context.say(&format!("gate {gate} goes on")));
    work(context, &floor, *resumed.work, &args.work, results).await
}

pub(super) fn warn(context: &Context, warnings: &[Problem]) {
    warnings.iter().for_each(|warning| context.say(&format!("warning: {warning}")));
}
