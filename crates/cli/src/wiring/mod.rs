//! The composition root: the only place that names concrete stores and handlers.

mod handlers;
mod shelf;
mod source;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redrive_core::id::{ContentHash, StageNo};
use redrive_core::plan::{Plan, StagePlan};
use redrive_engine::recipe::{GateWork, Recipe, StageWork};
use redrive_engine::{crash, fault};
use redrive_operate::Error;
use redrive_pipeline::{Definition, Problem, StageDef};
use redrive_sqlite::{Options, SqliteStore};
use redrive_store::{Index, RunRow, Store};

use crate::output::note;
use crate::output::text::safe;

pub use shelf::{
    EmbedSettings, Embedding, ParseSettings, Shelf, check_keys, embedding_of, query_vector, walk_of,
};
pub use source::{Named, named_source, open_source, source_left};

/// A store and the index in it.
#[derive(Clone)]
pub struct Stores {
    /// Where items are.
    pub store: Arc<dyn Store>,
    /// What is searched.
    pub index: Arc<dyn Index>,
}

/// How a store is opened.
fn options() -> Options {
    Options { crash_hook: crash::point, fault_hook: fault::strikes, ..Options::default() }
}

impl From<SqliteStore> for Stores {
    fn from(store: SqliteStore) -> Self {
        let store = Arc::new(store);
        Self { store: store.clone(), index: store }
    }
}

/// Opens the store, and makes it when it is not there. A file that was there with nothing in it is told.
pub fn open_store(url: &str) -> Result<Stores, Error> {
    let path = store_path(url)?;
    let empty = std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() == 0);
    let store = SqliteStore::open(&path, options())?;
    if empty {
        note(&format!(
            "warning: {} was there and empty (0 bytes): a new store begins in it",
            safe(&path.display().to_string())
        ));
    }
    Ok(store.into())
}

/// Opens a store that has to be there.
pub fn existing_store(url: &str) -> Result<Stores, Error> {
    let path = there(url)?;
    Ok(SqliteStore::open_existing(&path, options())?.into())
}

/// Opens a store that has to be there, for a command that only reads: it need not be allowed to write.
pub fn store_to_read(url: &str) -> Result<Stores, Error> {
    let path = there(url)?;
    Ok(SqliteStore::open_to_read(&path, options())?.into())
}

fn there(url: &str) -> Result<PathBuf, Error> {
    let path = store_path(url)?;
    let missing = std::fs::symlink_metadata(&path)
        .is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory));
    if missing {
        return Err(Error::wrong(format!("there is no store at {}", path.display()))
            .hint("`redrive index DIR` and `redrive run PIPELINE.toml` make one, or name another with --store sqlite:PATH"));
    }
    Ok(path)
}

/// The file a store's URL names.
pub fn store_path(url: &str) -> Result<PathBuf, Error> {
    match url.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => Ok(PathBuf::from(path.trim_start_matches("//"))),
        Some(("postgres" | "postgresql", _)) => {
            Err(Error::wrong("this version keeps its state in SQLite only").hint("use --store sqlite:PATH"))
        }
        _ => Err(Error::wrong(format!("'{url}' is not a store")).hint("use --store sqlite:PATH")),
    }
}

/// Reads a pipeline file's text.
pub fn read_pipeline(file: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(file).map_err(|error| {
        Error::wrong(format!("cannot read {}: {error}", file.display()))
            .hint("examples/flaky/pipeline.toml is one to begin with")
    })?;
    String::from_utf8(bytes).map_err(|error| {
        Error::wrong(format!(
            "{} is not UTF-8 text (byte {})",
            file.display(),
            error.utf8_error().valid_up_to()
        ))
    })
}

/// Takes a pipeline's text apart; every problem is told.
pub fn definition(text: &str, file: &str) -> Result<Definition, Error> {
    redrive_pipeline::parse(text, file).map_err(|problems| {
        problems.iter().for_each(tell);
        let n = problems.len();
        Error::wrong(format!("{file} has {n} problem{}", if n == 1 { "" } else { "s" }))
    })
}

/// Tells one problem of a pipeline file.
pub fn tell(problem: &Problem) {
    note(&safe(&problem.to_string()));
    if let Some(hint) = &problem.hint {
        note(&format!("  hint: {}", safe(hint)));
    }
}

/// What decisions need to know of a pipeline.
pub fn plan(definition: &Definition) -> Plan {
    let mut stages = Vec::new();
    flatten(&definition.stages, None, &mut stages);
    Plan::new(stages, definition.deadline)
}

/// The pipeline of a run, where it can still be read.
pub fn definition_of(row: &RunRow) -> Option<Definition> {
    redrive_pipeline::parse(&row.spec.definition, &row.spec.pipeline).ok()
}

/// The plan of a run, where its pipeline can still be read.
pub fn plan_of(row: &RunRow) -> Option<Plan> {
    definition_of(row).map(|definition| plan(&definition))
}

fn flatten(list: &[StageDef], owner: Option<StageNo>, stages: &mut Vec<StagePlan>) {
    let mut before: Option<usize> = None;
    for def in list {
        let no = stages.len();
        if let Some(before) = before {
            stages[before].next = Some(number(no));
        }
        stages.push(StagePlan {
            name: def.name.clone(),
            next: None,
            first_child: None,
            owner,
            policy: def.retry.clone(),
            timeout: def.timeout,
            config: config(def),
            child_failure: def.on_child_failure,
        });
        if !def.children.is_empty() {
            stages[no].first_child = Some(number(no + 1));
            flatten(&def.children, Some(number(no)), stages);
        }
        before = Some(no);
    }
}

fn number(index: usize) -> StageNo {
    StageNo(u16::try_from(index).unwrap_or(u16::MAX))
}

/// Mark of everything that changes what a stage does and how it retries; attempts carry it.
fn config(def: &StageDef) -> i64 {
    let policy = serde_json::to_vec(&def.retry).unwrap_or_default();
    let timeout = def.timeout.as_millis().to_le_bytes();
    ContentHash::of(&[def.config_hash().as_bytes(), &policy, &timeout]).short()
}

/// The mark by which a stage's outputs are kept, if they are.
pub fn reuse_mark(def: &StageDef) -> Option<i64> {
    def.reuse.then(|| ContentHash::of(&[def.config_hash().as_bytes()]).short())
}

/// Makes a pipeline ready to run. Relative paths start from `folder`; `shelf` is where an index goes.
pub fn recipe(definition: &Definition, folder: &Path, shelf: Option<&Shelf>) -> Result<Recipe, Error> {
    redrive_stages::install_tls();
    let mut problems = Vec::new();
    let mut stages = Vec::new();
    let mut gates: Vec<GateWork> = Vec::new();
    for (def, gate) in definition.all_stages().zip(gate_names(definition)) {
        let gate = gate.map(|name| gate_place(&mut gates, definition, name));
        match handlers::handler(def, folder, shelf) {
            Ok(handler) => stages.push(StageWork {
                handler,
                batch: def.batch as usize,
                batch_tokens: handlers::batch_tokens(def),
                gate,
                concurrency: def.concurrency as usize,
                reuse: reuse_mark(def),
            }),
            Err(problem) => problems.push(format!("stage {}: {problem}", def.name)),
        }
    }
    if !problems.is_empty() {
        return Err(Error::wrong(problems.join("\n       ")));
    }
    Ok(Recipe {
        plan: plan(definition),
        stages,
        gates,
        order: definition.order,
        share: definition.retry_share,
        budget: definition.budget.clone(),
        thresholds: definition.thresholds,
    })
}

/// The gate of every stage, in the order of the plan.
pub fn gate_names(definition: &Definition) -> Vec<Option<String>> {
    definition.all_stages().map(|def| def.gate.clone().or_else(|| def.default_gate())).collect()
}

/// The place of a gate among those of a recipe; a new one has what the pipeline says of it, or what is usual.
fn gate_place(gates: &mut Vec<GateWork>, definition: &Definition, name: String) -> usize {
    gates.iter().position(|gate| *gate.name == *name).unwrap_or_else(|| {
        let spec = definition.gates.get(&name).cloned().unwrap_or_default();
        gates.push(GateWork { name: name.into(), spec });
        gates.len() - 1
    })
}
