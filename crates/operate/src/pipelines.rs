//! Pipelines: read a file, take its text apart, and make a definition ready to run.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redrive_engine::handler::Handler;
use redrive_engine::recipe::{GateWork, Recipe, StageWork};
use redrive_index::ParseHandler;
use redrive_pipeline::{Definition, StageDef, StageKind};
use redrive_store::RunRow;

use crate::error::{Error, Result};
use crate::index::IndexTarget;
use crate::wiring::Wiring;

/// Most bytes of a pipeline file. What is read may be a pipe or a device, whose length nobody knows before.
const LARGEST: u64 = 16 << 20;
/// A pipeline that comes with the sources.
const EXAMPLE: &str = "examples/flaky/pipeline.toml";

/// A pipeline and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Its text, which a run keeps.
    pub text: String,
    /// What the text says.
    pub definition: Definition,
    /// The folder that relative paths in it start from.
    pub folder: PathBuf,
}

impl Pipeline {
    /// Reads a pipeline file.
    ///
    /// # Errors
    /// When it cannot be read, or with every problem in it.
    pub fn read(file: &Path) -> Result<Self> {
        let text = read_text(file)?;
        let definition = parse(&text, &file.display().to_string())?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::fs::canonicalize(folder.unwrap_or(Path::new(".")))?;
        Ok(Self { text, definition, folder })
    }
}

/// Reads a pipeline file's text.
///
/// # Errors
/// When it cannot be read or is no text.
pub fn read_text(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|open| open.take(LARGEST + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        let error = Error::wrong(format!("cannot read {}: {error}", file.display()));
        match Path::new(EXAMPLE).exists() {
            true => error.hint(format!("{EXAMPLE} is one to begin with")),
            false => error,
        }
    })?;
    if bytes.len() as u64 > LARGEST {
        let message = format!("{} is larger than a pipeline may be ({} MiB)", file.display(), LARGEST >> 20);
        return Err(Error::wrong(message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        Error::wrong(format!("{} is not UTF-8 text (byte {valid})", file.display()))
    })
}

/// Takes a pipeline's text apart; `file` is what its problems are told for.
///
/// # Errors
/// With every problem in it.
pub fn parse(text: &str, file: &str) -> Result<Definition> {
    redrive_pipeline::parse(text, file).map_err(|problems| {
        let n = problems.len();
        Error::wrong(format!("{file} has {n} problem{}", if n == 1 { "" } else { "s" }))
            .with_problems(problems)
    })
}

/// The pipeline of a run, where this version can still read it.
#[must_use]
pub fn definition_of(row: &RunRow) -> Option<Definition> {
    redrive_pipeline::parse(&row.spec.definition, &row.spec.pipeline).ok()
}

/// Makes a pipeline ready to run. Relative paths start from `folder`; `index` is where an index goes.
///
/// # Errors
/// With everything that keeps a stage from being built.
pub fn recipe(
    wiring: &dyn Wiring,
    definition: &Definition,
    folder: &Path,
    index: Option<&IndexTarget>,
) -> Result<Recipe> {
    recipe_with(definition, |def| wiring.handler(def, folder, index))
}

/// Makes a pipeline ready to run with handlers that somebody else makes.
///
/// # Errors
/// With everything that keeps a stage from being built.
pub(crate) fn recipe_with(
    definition: &Definition,
    handler: impl Fn(&StageDef) -> std::result::Result<Arc<dyn Handler>, String>,
) -> Result<Recipe> {
    let mut problems = Vec::new();
    let mut stages = Vec::new();
    let mut gates: Vec<GateWork> = Vec::new();
    for def in definition.all_stages() {
        let gate = def.gate_name().map(|name| gate_place(&mut gates, definition, name));
        match handler(def) {
            Ok(handler) => stages.push(StageWork {
                handler,
                batch: def.batch as usize,
                batch_tokens: batch_tokens(def),
                gate,
                concurrency: def.concurrency as usize,
                reuse: def.reuse_mark(),
            }),
            Err(problem) => problems.push(format!("stage {}: {problem}", def.name)),
        }
    }
    if !problems.is_empty() {
        return Err(Error::wrong(problems.join("\n       ")));
    }
    Ok(Recipe {
        plan: definition.plan(),
        stages,
        gates,
        order: definition.order,
        share: definition.retry_share,
        budget: definition.budget.clone(),
        thresholds: definition.thresholds,
    })
}

/// The place of a gate among those of a recipe; a new one has what the pipeline says of it, or what is usual.
fn gate_place(gates: &mut Vec<GateWork>, definition: &Definition, name: String) -> usize {
    gates.iter().position(|gate| *gate.name == *name).unwrap_or_else(|| {
        let spec = definition.gates.get(&name).cloned().unwrap_or_default();
        gates.push(GateWork { name: name.into(), spec });
        gates.len() - 1
    })
}

/// Most tokens of one call.
fn batch_tokens(def: &StageDef) -> Option<u64> {
    match def.kind {
        StageKind::Parse { .. } => Some(ParseHandler::BATCH_TOKENS),
        _ => def.batch_tokens,
    }
}
