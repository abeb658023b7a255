//! `redrive run` and `redrive resume`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redrive_core::status::Control;
use redrive_engine::report::run_report;
use redrive_engine::{admin, crash};
use redrive_operate::Error;
use redrive_pipeline::{Definition, SourceKind};
use redrive_store::{NewRun, RunChange, RunRow, Store};

use super::going_on::{self, Changed};
use super::work::{Work, results_target, tell, work};
use super::{Answer, Context, known_run};
use crate::args::{ResumeArgs, RunArgs};
use crate::output::note;
use crate::output::target::Guard;
use crate::wiring::{self, Named, Shelf, Stores};

/// Runs a pipeline over its source, or goes on with a run of both: with what is unfinished, and with what has changed.
pub async fn run(context: &Context, args: RunArgs) -> Answer {
    let text = wiring::read_pipeline(&args.file)?;
    let definition = wiring::definition(&text, &args.file.display().to_string())?;
    warn(context, &definition);
    let folder = folder_of(&args.file)?;
    let named = wiring::named_source(&definition, &args.input, &folder)?;
    let mut guard = Guard::of_store(&context.global.store)?;
    guard.pipeline(&args.file, &definition, &folder);
    guard.source(named.name(), &definition);
    let mut results = results_target(&args.work, guard)?;
    let now = context.env.clock.now();
    let prepared = |shelf: Option<&Shelf>| -> Result<_, Error> {
        let recipe = wiring::recipe(&definition, &folder, shelf)?;
        Ok((recipe, wiring::open_source(&named, &definition, None, shelf)?))
    };
    // What is wrong with the pipeline, or a source that is not there, is told before a store is made; an index is in it.
    let lines = matches!(definition.source.kind, SourceKind::Lines(_));
    let (Stores { store, .. }, shelf, (recipe, unread)) = if lines {
        let prepared = prepared(None)?;
        (wiring::open_store(&context.global.store)?, None, prepared)
    } else {
        let stores = wiring::open_store(&context.global.store)?;
        let shelf = Shelf::open(&definition, named.name(), &stores.index, now).await?;
        let prepared = prepared(shelf.as_ref())?;
        (stores, shelf, prepared)
    };
    if let Some(results) = &mut results {
        results.spare_runs(&*store).await?;
    }
    let new = NewRun {
        pipeline: definition.name.clone(),
        source: named.name().to_owned(),
        category: definition.category.clone(),
        priority: definition.priority,
        definition: text.clone(),
        folder: folder.display().to_string(),
    };
    // An index knows itself what has changed since its last run.
    let goes_on = shelf.is_none();
    let (mut row, mut created) = match args.new {
        true => (store.create_run(new.clone(), now).await?, true),
        false => store.begin_run(new.clone(), goes_on, now).await?,
    };
    if !created && row.finished_at.is_some() && !can_go_on(context, &row, &definition, &args) {
        (row, created) = store.begin_run(new, false, now).await?;
    }
    if created {
        crash::point("run.created");
        return work(context, Work { store, row, recipe, source: Some(unread) }, &args.work, results).await;
    }
    if row.control != Control::Go {
        return paused(context, &*store, &row, &definition).await;
    }
    let mut row = go_on(context, &store, row, &definition, &text, args.keep_passed).await?;
    if row.finished_at.is_some() {
        // It is in use: what was forgotten by its age would be done again.
        let opened = RunChange { finished_at: Some(None), ..RunChange::default() };
        row = store.change_run(row.id, opened).await?;
    }
    // What is given on standard input or by a pipe is always read; what is known of it is not admitted twice.
    let source = match named.is_read_once() {
        true => unread,
        false => wiring::open_source(&named, &definition, row.cursor.as_deref(), shelf.as_ref())?,
    };
    work(context, Work { store, row, recipe, source: Some(source) }, &args.work, results).await
}

/// Whether a finished run can be gone on with by this pipeline; tells why not.
fn can_go_on(context: &Context, row: &RunRow, definition: &Definition, args: &RunArgs) -> bool {
    let other = match going_on::compare(row, definition) {
        Changed::Nothing | Changed::Stage { .. } => return true,
        Changed::Nested { .. } if args.keep_passed => return true,
        Changed::Stages => "had other stages".to_owned(),
        Changed::Nested { name } => {
            format!("had stage {name}, which children run through, configured otherwise")
        }
    };
    if !context.global.quiet {
        let does = "a new run does everything; outputs that stages keep are reused";
        note(&format!("run {} {other}: {does}", row.id));
    }
    false
}

/// Lets a paused or interrupted run go on, and works on it.
pub async fn resume(context: &Context, args: ResumeArgs) -> Answer {
    let Stores { store, index } = wiring::existing_store(&context.global.store)?;
    let known = known_run(&*store, Some(args.run)).await?;
    let (mut row, mut definition) = (known.row, known.definition);
    if row.control == Control::Cancelled {
        return Err(Error::wrong(format!("run {} was cancelled", row.id))
            .hint("`redrive run PIPELINE.toml --new` starts anew"));
    }
    let mut folder = PathBuf::from(&row.spec.folder);
    let mut guard = Guard::of_store(&context.global.store)?;
    let edited = match &args.pipeline {
        None => None,
        Some(file) => {
            let text = wiring::read_pipeline(file)?;
            definition = wiring::definition(&text, &file.display().to_string())?;
            folder = folder_of(file)?;
            guard.pipeline(file, &definition, &folder);
            Some(text)
        }
    };
    let mut results = results_target(&args.work, guard)?;
    if let Some(results) = &mut results {
        results.spare_runs(&*store).await?;
    }
    if let Some(text) = edited {
        row = going_on::take_over(context, &*store, row, &definition, &text, args.keep_passed).await?;
    }
    warn(context, &definition);
    let now = context.env.clock.now();
    let named = Named::of(&row);
    if named.is_read_once() && !row.admitted_all {
        return Err(Error::wrong(format!(
            "run {} reads standard input or a pipe, which was not read to its end",
            row.id
        ))
        .hint("give the same input to the same `redrive run` command; what is known is not admitted twice"));
    }
    let shelf = Shelf::open(&definition, &row.spec.source, &index, now).await?;
    let recipe = wiring::recipe(&definition, &folder, shelf.as_ref())?;
    let source = match wiring::source_left(&row, &definition, shelf.as_ref())? {
        None if !named.is_read_once() && shelf.is_none() => {
            // It was read to its end; if it is still there, it is looked at again.
            wiring::open_source(&named, &definition, row.cursor.as_deref(), None).ok()
        }
        left => left,
    };
    let names: Vec<String> = wiring::gate_names(&definition).into_iter().flatten().collect();
    for gate in admin::resume_gates(&*store, &names, context.env.clock.now()).await? {
        if !context.global.quiet {
            note(&format!("gate {gate} goes on"));
        }
    }
    row = admin::resume(&*store, row.id, context.env.clock.now()).await?;
    work(context, Work { store, row, recipe, source }, &args.work, results).await
}

/// Tells how a paused run stands; only `redrive resume` lets it go on.
async fn paused(context: &Context, store: &dyn Store, row: &RunRow, definition: &Definition) -> Answer {
    note(&format!(
        "run {} of this pipeline and source is paused; nothing was done (--new starts another run)",
        row.id
    ));
    let plan = wiring::plan(definition);
    let report = run_report(store, row, &plan, definition.thresholds, context.env.clock.now()).await?;
    tell(context, &report)
}

async fn go_on(
    context: &Context,
    store: &Arc<dyn Store>,
    row: RunRow,
    definition: &Definition,
    text: &str,
    keep_passed: bool,
) -> Result<RunRow, Error> {
    if !context.global.quiet {
        note(&format!("going on with run {}", row.id));
    }
    going_on::take_over(context, &**store, row, definition, text, keep_passed).await
}

fn folder_of(file: &Path) -> Result<PathBuf, Error> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(std::fs::canonicalize(folder)?)
}

fn warn(context: &Context, definition: &Definition) {
    if context.global.quiet {
        return;
    }
    definition.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
}
