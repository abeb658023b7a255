//! `redrive index`: a directory becomes a searchable index.

mod left_out;
mod pipeline;
mod refusals;
mod summary;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use redrive_core::status::{Control, RunStatus};
use redrive_core::time::Timestamp;
use redrive_engine::{admin, crash};
use redrive_index::{Files, WalkTally, canonical_root};
use redrive_ingest::walk::{SkipReason, Step, walk};
use redrive_operate::Error;
use redrive_pipeline::Definition;
use redrive_store::index::NewCollection;
use redrive_store::{NewRun, RunFilter, RunRow};

use super::work::{Work, Worked, work_quietly};
use super::{Answer, Context};
use crate::args::{WorkArgs, duration};
use crate::exit;
use crate::output::note;
use crate::wiring::{self, Shelf, Stores};

/// How soon a run is looked at again whose work another process has in hand.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Options of `index`.
#[derive(Debug, Clone, ClapArgs)]
pub struct IndexArgs {
    /// The directory
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Who makes the vectors: the built-in model, or an OpenAI-compatible service
    #[arg(long, value_enum, default_value_t = Embedder::Builtin, value_name = "WHO")]
    pub embedder: Embedder,
    /// Where the service is, for example http://127.0.0.1:11434/v1
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Which of its models
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// The environment variable that holds the key for it
    #[arg(long, value_name = "VARIABLE")]
    pub api_key_env: Option<String>,
    /// How many numbers a vector is asked to have, where the model offers a choice
    #[arg(long, value_name = "N")]
    pub dimensions: Option<u32>,
    /// Most tokens of a chunk
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub chunk_tokens: u32,
    /// Tokens that a chunk repeats of the one before
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub overlap: u32,
    /// Take in hidden files and directories, too
    #[arg(long)]
    pub hidden: bool,
    /// Follow symbolic links
    #[arg(long)]
    pub follow_symlinks: bool,
    /// Take in what .gitignore, .ignore and .redriveignore leave out, and node_modules, caches and Cargo's target, too
    #[arg(long)]
    pub no_ignore: bool,
    /// Only name what is left out and why; nothing is indexed
    #[arg(long, conflicts_with_all = ["watch", "rebuild", "reembed"])]
    pub list_left_out: bool,
    /// Leave out text files larger than this
    #[arg(long, default_value = "8MiB", value_name = "SIZE")]
    pub max_bytes: String,
    /// Processes that parse, and as many that embed; default: one for each core
    #[arg(long, value_name = "N")]
    pub processes: Option<u32>,
    /// Stay, follow changes of files, and do retries as they fall due
    #[arg(long)]
    pub watch: bool,
    /// Make the index of this directory anew, also with another model; vectors that are kept are used again
    #[arg(long)]
    pub rebuild: bool,
    /// Forget the index of this directory and embed every text anew: for a model that has changed under its name
    #[arg(long)]
    pub reembed: bool,
    /// Try files again that could not be indexed and have not changed
    #[arg(long)]
    pub retry_refused: bool,
    /// Start a new run even if an unfinished one is there
    #[arg(long)]
    pub new: bool,
    /// End when only retries due later than this remain
    #[arg(long, value_parser = duration, default_value = "30s", value_name = "SPAN")]
    pub max_wait: Duration,
    /// How long work is held without a sign of life before others may take it over
    #[arg(long, value_parser = crate::args::lease, default_value = "30s", value_name = "SPAN")]
    pub lease: Duration,
}

/// Who makes the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Embedder {
    /// The model in this binary.
    Builtin,
    /// A service.
    Openai,
}

/// What one pass over the directory needs.
#[derive(Clone, Copy)]
struct Pass<'a> {
    context: &'a Context,
    args: &'a IndexArgs,
    stores: &'a Stores,
    definition: &'a Definition,
    text: &'a str,
    shelf: &'a Shelf,
    root: &'a str,
}

/// What a pass brought.
struct Passed {
    worked: Worked,
    tally: WalkTally,
    took_ms: i64,
    children_died: u64,
}

/// A reason for which files are left out, as people are told it.
fn told(reason: &str) -> &str {
    match reason {
        "refused" => "cannot be indexed as they are",
        other => SkipReason::told(other),
    }
}

/// Indexes a directory.
pub async fn index(context: &Context, args: IndexArgs) -> Answer {
    let (_, root) = canonical_root(&args.dir)
        .map_err(|problem| Error::wrong(problem).hint("name a directory, for example `redrive index .`"))?;
    let text = pipeline::text(&args, &root)?;
    let definition = pipeline::definition(&text)?;
    if args.list_left_out {
        return left_out::list(context, &definition, &root).await;
    }
    wiring::check_keys(&definition)?;
    let stores = wiring::open_store(&context.global.store)?;
    if args.reembed {
        refuse_if_shared(&stores, &definition, &root).await?;
    }
    if args.reembed {
        forget(context, &stores, &root).await?;
    } else if args.rebuild {
        begin_anew(context, &stores, &definition, &root).await?;
    }
    if let Some(embedding) = wiring::embedding_of(&definition).filter(|_| args.reembed) {
        stores.index.drop_model(&embedding.model).await?;
    }
    let now = context.env.clock.now();
    let shelf = Shelf::open(&definition, &root, &stores.index, now).await?;
    let shelf = shelf.ok_or_else(|| Error::internal("the pipeline of an index makes none"))?;
    refusals::remember(&stores, &shelf, &root).await?;
    let pass = Pass {
        context,
        args: &args,
        stores: &stores,
        definition: &definition,
        text: &text,
        shelf: &shelf,
        root: &root,
    };
    if args.watch {
        return watch::stay(&pass).await;
    }
    let passed = pass.run(pass.files(args.retry_refused).await?).await?;
    let status = if passed.worked.interrupted { RunStatus::Interrupted } else { passed.worked.report.status };
    summary::tell(&pass, &passed).await?;
    Ok(exit::of(status))
}

impl Pass<'_> {
    /// One pass: walk, index what changed, do what is due.
    async fn run(&self, files: Files) -> Result<Passed, Error> {
        let tally: Arc<Mutex<WalkTally>> = files.tally();
        let row = self.begin().await?;
        let recipe = wiring::recipe(self.definition, self.shelf.root.as_path(), Some(self.shelf))?;
        let handlers: Vec<_> = recipe.stages.iter().map(|stage| stage.handler.clone()).collect();
        let work = Work { store: self.stores.store.clone(), row, recipe, source: Some(Box::new(files)) };
        let max_wait = Some(if self.args.watch { Duration::ZERO } else { self.args.max_wait });
        let args = WorkArgs { results: None, max_wait, lease: self.args.lease };
        let began = self.context.env.clock.now();
        let mut worked = work_quietly(self.context, work, &args).await?;
        let report = &mut worked.report;
        if matches!(report.status, RunStatus::PausedQuota | RunStatus::PausedOutage | RunStatus::PausedBudget)
        {
            // What waits for somebody is due at no time.
            (report.next_due, report.next_due_at, report.next_retry) = (None, None, None);
        }
        let parts = report.stages.iter().filter(|stage| stage.below.is_some());
        if report.status == RunStatus::Completed
            && parts.map(|stage| stage.counts.dead + stage.counts.purged).sum::<u64>() > 0
        {
            // Every file is there, but not all of each; what was purged is not there either.
            report.status = RunStatus::PartialSuccess;
        }
        let tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let took_ms = self.context.env.clock.now().0 - began.0;
        let children_died = handlers.iter().map(|handler| handler.deaths()).sum();
        Ok(Passed { worked, tally, took_ms, children_died })
    }

    /// Goes on with the unfinished run of this directory, or begins one.
    async fn begin(&self) -> Result<RunRow, Error> {
        let (store, now) = (&self.stores.store, self.context.env.clock.now());
        let new = NewRun {
            pipeline: self.definition.name.clone(),
            source: self.root.to_owned(),
            category: None,
            priority: 0,
            definition: self.text.to_owned(),
            folder: self.root.to_owned(),
        };
        if let Some(unfinished) = store.runs(RunFilter::going_on(&new, false), None, 1).await?.pop()
            && (self.args.new || unfinished.spec.definition != self.text)
        {
            let why = if self.args.new { "--new was said" } else { "it was made with other settings" };
            self.say(&format!("run {} is cancelled: {why}; what it embedded is kept", unfinished.id));
            cancel(self.context, self.stores, &unfinished).await?;
            if matches!(unfinished.control, Control::PausedQuota | Control::PausedOutage) {
                // Other settings are the answer to what it was paused for: the old reason no longer holds.
                self.resume_gates(now).await?;
            }
        }
        let (row, created) = store.begin_run(new, false, now).await?;
        if created {
            crash::point("run.created");
            return Ok(row);
        }
        self.say(&format!("going on with run {}", row.id));
        match row.control {
            Control::Go => Ok(row),
            Control::PausedQuota | Control::PausedOutage => {
                self.resume_gates(now).await?;
                Ok(admin::resume(&**store, row.id, now).await?)
            }
            Control::Paused | Control::PausedBudget | Control::Cancelled => {
                Err(Error::paused(format!("run {} of this directory is paused", row.id))
                    .hint(format!("`redrive resume {}` lets it go on", row.id)))
            }
        }
    }

    async fn resume_gates(&self, now: Timestamp) -> Result<(), Error> {
        let gates: Vec<String> = wiring::gate_names(self.definition).into_iter().flatten().collect();
        admin::resume_gates(&*self.stores.store, &gates, now).await?;
        Ok(())
    }

    /// The files that are to be looked at; `again` takes in those that are not in the index, or not all of them.
    async fn files(&self, again: bool) -> Result<Files, Error> {
        let again = if again { Some(refusals::incomplete(self.stores, self.root).await?) } else { None };
        self.shelf.files(again)
    }

    /// How long until something of an unfinished run of this directory is due; `None` when nothing is left to be done.
    async fn due_in(&self) -> Result<Option<Duration>, Error> {
        let filter = RunFilter {
            pipeline: Some(self.definition.name.clone()),
            source: Some(self.root.to_owned()),
            unfinished: true,
            uncancelled: false,
        };
        let Some(row) = self.stores.store.runs(filter, None, 1).await?.pop() else { return Ok(None) };
        let (due, _) = self.stores.store.next_due(row.id).await?;
        let now = self.context.env.clock.now();
        // With nothing that waits, somebody else has the rest in hand: a look now and then is enough.
        Ok(Some(due.map_or(ELSEWHERE, |due| due.since(now))))
    }

    fn say(&self, text: &str) {
        if !self.context.global.quiet {
            note(text);
        }
    }
}

async fn cancel(context: &Context, stores: &Stores, row: &RunRow) -> Result<(), Error> {
    let known = super::known_run(&*stores.store, Some(row.id)).await?;
    admin::cancel(&*stores.store, row.id, &known.plan, &super::actor(), &context.env).await?;
    Ok(())
}

/// Refuses to forget the vectors of a model that another index is searched by.
async fn refuse_if_shared(stores: &Stores, definition: &Definition, root: &str) -> Result<(), Error> {
    let model = wiring::embedding_of(definition).map(|embedding| embedding.model).unwrap_or_default();
    let others = stores.index.collections().await?;
    let other = others.iter().find(|other| other.spec.root != root && other.spec.model == model);
    match other {
        None => Ok(()),
        Some(other) => Err(Error::wrong(format!(
            "the index of {} is made with the model {model} too, and would be lost",
            other.spec.root
        ))
        .hint("keep it in a store of its own: --store sqlite:PATH")),
    }
}

/// Has the index of a directory made anew, for the model of this pipeline. What is in it can be found until it is replaced.
async fn begin_anew(
    context: &Context,
    stores: &Stores,
    definition: &Definition,
    root: &str,
) -> Result<(), Error> {
    let options = wiring::walk_of(definition).unwrap_or_default();
    let mut steps = walk(Path::new(root), &options).map_err(|error| Error::wrong(error.to_string()))?;
    if !steps.any(|step| matches!(step, Step::Found(_))) {
        // A walk that finds nothing removes nothing; who says this wants it empty.
        return forget(context, stores, root).await;
    }
    cancel_all(context, stores, root).await?;
    if let Some(wiring::Embedding { model, dimensions, settings }) = wiring::embedding_of(definition) {
        let new = NewCollection { root: root.to_owned(), model, dimensions, settings };
        stores.index.renew_collection(new).await?;
    }
    Ok(())
}

/// Forgets the index of a directory, and ends an unfinished run of it.
async fn forget(context: &Context, stores: &Stores, root: &str) -> Result<(), Error> {
    cancel_all(context, stores, root).await?;
    for collection in stores.index.collections().await? {
        if collection.spec.root == root {
            stores.index.drop_collection(collection.no).await?;
        }
    }
    Ok(())
}

/// Ends the unfinished runs over a directory.
async fn cancel_all(context: &Context, stores: &Stores, root: &str) -> Result<(), Error> {
    let filter = RunFilter {
        pipeline: Some(pipeline::NAME.to_owned()),
        source: Some(root.to_owned()),
        unfinished: true,
        uncancelled: false,
    };
    for row in stores.store.runs(filter, None, 100).await? {
        cancel(context, stores, &row).await?;
    }
    Ok(())
}
