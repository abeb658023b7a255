//! `redrive run` and `redrive resume`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redrive_core::status::Control;
use redrive_engine::report::run_report;
use redrive_engine::{admin, crash};
use redrive_pipeline::{Definition, SourceKind};
use redrive_store::{NewRun, RunChange, RunRow, Store};

use super::work::{Work, results_target, tell, work};
use super::{Answer, Context, known_run};
use crate::args::{ResumeArgs, RunArgs};
use crate::exit::Failure;
use crate::output::note;
use crate::output::target::Guard;
use crate::wiring::{self, Shelf, Stores};

/// Runs a pipeline over its source, or goes on with an unfinished run of both.
pub async fn run(context: &Context, args: RunArgs) -> Answer {
    let text = wiring::read_pipeline(&args.file)?;
    let definition = wiring::definition(&text, &args.file.display().to_string())?;
    warn(context, &definition);
    let folder = folder_of(&args.file)?;
    let source = source_name(&definition, args.input.as_deref(), &folder)?;
    let mut guard = Guard::of_store(&context.global.store)?;
    guard.pipeline(&args.file, &definition, &folder);
    guard.source(&source, &definition);
    let mut results = results_target(&args.work, guard)?;
    let now = context.env.clock.now();
    let prepared = |shelf: Option<&Shelf>| -> Result<_, Failure> {
        let recipe = wiring::recipe(&definition, &folder, shelf)?;
        Ok((recipe, wiring::source(&source, &definition, None, shelf)?))
    };
    // What is wrong with the pipeline, or a source that is not there, is told before a store is made; an index is in it.
    let (Stores { store, .. }, shelf, (recipe, unread)) = if definition.source.kind == SourceKind::Jsonl {
        let prepared = prepared(None)?;
        (wiring::open_store(&context.global.store)?, None, prepared)
    } else {
        let stores = wiring::open_store(&context.global.store)?;
        let shelf = Shelf::open(&definition, &source, &stores.index, now).await?;
        let prepared = prepared(shelf.as_ref())?;
        (stores, shelf, prepared)
    };
    if let Some(results) = &mut results {
        results.spare_runs(&*store).await?;
    }
    let new = NewRun {
        pipeline: definition.name.clone(),
        source: source.clone(),
        category: definition.category.clone(),
        priority: definition.priority,
        definition: text.clone(),
        folder: folder.display().to_string(),
    };
    let (row, created) = match args.new {
        true => (store.create_run(new, now).await?, true),
        false => store.begin_run(new, now).await?,
    };
    let (row, source) = if created {
        crash::point("run.created");
        (row, Some(unread))
    } else {
        if row.control != Control::Go {
            return paused(context, &*store, &row, &definition).await;
        }
        let row = go_on(context, &store, row, &definition, &text).await?;
        // What is given on standard input is always read; what is known of it is not admitted twice.
        let left = if source == "-" {
            Some(unread)
        } else if row.admitted_all {
            None
        } else {
            Some(wiring::source(&source, &definition, row.cursor.as_deref(), shelf.as_ref())?)
        };
        (row, left)
    };
    work(context, Work { store, row, recipe, source }, &args.work, results).await
}

/// Lets a paused or interrupted run go on, and works on it.
pub async fn resume(context: &Context, args: ResumeArgs) -> Answer {
    let Stores { store, index } = wiring::existing_store(&context.global.store)?;
    let known = known_run(&*store, Some(args.run)).await?;
    let (mut row, mut definition) = (known.row, known.definition);
    if row.control == Control::Cancelled {
        return Err(Failure::usage(format!("run {} was cancelled", row.id))
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
        row = change_definition(&*store, row, &definition, &text).await?;
    }
    warn(context, &definition);
    let now = context.env.clock.now();
    let shelf = Shelf::open(&definition, &row.spec.source, &index, now).await?;
    let recipe = wiring::recipe(&definition, &folder, shelf.as_ref())?;
    let source = wiring::source_left(&row, &definition, shelf.as_ref())?;
    if row.spec.source == "-" && !row.admitted_all {
        return Err(Failure::usage(format!(
            "run {} reads standard input, which was not read to its end",
            row.id
        ))
        .hint("give the same input to the same `redrive run` command; what is known is not admitted twice"));
    }
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
) -> Result<RunRow, Failure> {
    if !context.global.quiet {
        note(&format!("going on with run {}", row.id));
    }
    change_definition(&**store, row, definition, text).await
}

/// Takes over an edited pipeline file, as long as the items of the run can find their stages in it.
async fn change_definition(
    store: &dyn Store,
    row: RunRow,
    definition: &Definition,
    text: &str,
) -> Result<RunRow, Failure> {
    if row.spec.definition == text {
        return Ok(row);
    }
    let names = |definition: &Definition| -> Vec<(String, usize)> {
        definition.all_stages().map(|stage| (stage.name.clone(), stage.children.len())).collect()
    };
    let before = wiring::definition_of(&row).map(|before| names(&before));
    if before.is_some_and(|before| before != names(definition)) {
        return Err(Failure::usage(format!(
            "run {} is under way with other stages than this file has",
            row.id
        ))
        .hint("finish it with the old stages, `redrive cancel` it, or start another run with --new"));
    }
    let change = RunChange { definition: Some(text.to_owned()), ..RunChange::default() };
    Ok(store.change_run(row.id, change).await?)
}

fn source_name(definition: &Definition, input: Option<&str>, folder: &Path) -> Result<String, Failure> {
    let path = match (input, definition.source.path.as_deref()) {
        (Some("-"), _) | (None, Some("-")) => return Ok("-".to_owned()),
        (Some(input), _) => PathBuf::from(input),
        (None, Some(path)) => folder.join(path),
        (None, None) => {
            return Err(Failure::usage("the pipeline names no source")
                .hint("say --input FILE, or give the file a [source] with a path"));
        }
    };
    let path = std::fs::canonicalize(&path).map_err(|error| {
        Failure::usage(format!("cannot read the source {}: {error}", path.display()))
            .hint("say --input FILE, or mend path in the pipeline's [source]")
    })?;
    Ok(path.display().to_string())
}

fn folder_of(file: &Path) -> Result<PathBuf, Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(std::fs::canonicalize(folder)?)
}

fn warn(context: &Context, definition: &Definition) {
    if context.global.quiet {
        return;
    }
    definition.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
}
