//! Pipelines: read a file, take its text apart, and make a definition ready to run.

mod sent;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redrive_engine::handler::Handler;
use redrive_engine::recipe::{GateWork, Recipe, StageWork};
use redrive_index::ParseHandler;
use redrive_pipeline::{Definition, MailStep, Problem, StageDef, StageKind};
use redrive_store::{NewRun, RunRow};

use crate::error::{Code, Error, Result};
use crate::index::IndexTarget;
use crate::lines::Lines;
use crate::schedules::{KnownZone, UNKNOWN_HINT};
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
    /// The file, as it was named.
    pub file: String,
}

impl Pipeline {
    /// Reads a pipeline file.
    ///
    /// # Errors
    /// When it cannot be read, or with every problem in it.
    pub fn read(file: &Path) -> Result<Self> {
        let text = read_text(file)?;
        let name = file.display().to_string();
        let definition = parse(&text, &name)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::fs::canonicalize(folder.unwrap_or(Path::new(".")))?;
        refuse_own_name(&text, &definition, &name)?;
        Ok(Self { text, definition, folder, file: name })
    }

    /// A pipeline that Redrive itself has written.
    pub(crate) fn internal(text: String, folder: PathBuf) -> Result<Self> {
        let file = "the pipeline".to_owned();
        let definition = parse(&text, &file)?;
        Ok(Self { text, definition, folder, file })
    }
}

/// Refuses a name that only pipelines of Redrive's own have.
fn refuse_own_name(text: &str, definition: &Definition, file: &str) -> Result<()> {
    let own = NewRun::INTERNAL.trim_end_matches('.');
    if definition.name != own && !definition.name.starts_with(NewRun::INTERNAL) {
        return Ok(());
    }
    let key = "name".to_owned();
    let line = Lines::of(text).line(&key).unwrap_or(1);
    let message = format!("names that begin with {own} are Redrive's own");
    let hint = Some("choose another name".to_owned());
    Err(problems_in(file, vec![Problem { file: file.to_owned(), line, key, message, hint }]))
}

/// What is wrong with the expressions of a pipeline, which only whoever wires it can read, and with its time zone, which
/// only this machine knows; `file` is what it is told for.
#[must_use]
pub fn wrong_expressions(
    wiring: &dyn Wiring,
    definition: &Definition,
    text: &str,
    file: &str,
) -> Vec<Problem> {
    let mut stages = Vec::new();
    with_paths(&definition.stages, "", &mut stages);
    let lines = Lines::of(text);
    let wrong = stages.into_iter().filter_map(|(path, stage)| {
        let StageKind::Filter { keep } = &stage.kind else { return None };
        let message = wiring.check_filter(keep).err()?;
        let key = format!("stage.{path}.keep");
        let line = lines.line(&key).unwrap_or(1);
        Some(Problem {
            file: file.to_owned(),
            line,
            key,
            message: format!("in the expression, {message}"),
            hint: None,
        })
    });
    let mut wrong: Vec<Problem> = wrong.collect();
    let zone = definition.schedule.as_ref().map(|rule| KnownZone::find(&rule.time_zone));
    if let Some(Err(message)) = zone {
        let key = "schedule.time_zone".to_owned();
        let line = lines.line(&key).unwrap_or(1);
        let hint = Some(UNKNOWN_HINT.to_owned());
        wrong.push(Problem { file: file.to_owned(), line, key, message, hint });
    }
    wrong.sort_by_key(|problem| problem.line);
    wrong
}

/// Refuses a pipeline with an expression that cannot be read.
pub(crate) fn refuse_wrong_expressions(wiring: &dyn Wiring, pipeline: &Pipeline) -> Result<()> {
    let Pipeline { text, definition, file, .. } = pipeline;
    let wrong = wrong_expressions(wiring, definition, text, file);
    if wrong.is_empty() { Ok(()) } else { Err(problems_in(file, wrong)) }
}

/// Every stage with the path it has in keys.
pub(crate) fn with_paths<'a>(stages: &'a [StageDef], above: &str, all: &mut Vec<(String, &'a StageDef)>) {
    for stage in stages {
        let path = format!("{above}{}", stage.name);
        with_paths(&stage.children, &format!("{path}.children."), all);
        all.push((path, stage));
    }
}

fn problems_in(file: &str, problems: Vec<Problem>) -> Error {
    let n = problems.len();
    Error::wrong(format!("{file} has {n} problem{}", if n == 1 { "" } else { "s" })).with_problems(problems)
}

/// Reads a pipeline file's text.
///
/// # Errors
/// When it cannot be read or is no text.
pub fn read_text(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|open| open.take(LARGEST + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        let error =
            Error::wrong(format!("cannot read {}: {error}", file.display())).code(Code::UnreadableFile);
        match Path::new(EXAMPLE).exists() {
            true => error.hint(format!("{EXAMPLE} is one to begin with")),
            false => error,
        }
    })?;
    if bytes.len() as u64 > LARGEST {
        let message = format!("{} is larger than a pipeline may be ({} MiB)", file.display(), LARGEST >> 20);
        return Err(Error::wrong(message).code(Code::UnreadableFile));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        let file = file.display().to_string();
        let message = "the line is not UTF-8 text".to_owned();
        let hint = Some("save the file as UTF-8".to_owned());
        let problem = Problem { file: file.clone(), line, key: String::new(), message, hint };
        Error::wrong(format!("{file} has 1 problem")).with_problems(vec![problem])
    })
}

/// Takes a pipeline's text apart; `file` is what its problems are told for.
///
/// # Errors
/// With every problem in it.
pub fn parse(text: &str, file: &str) -> Result<Definition> {
    redrive_pipeline::parse(text, file).map_err(|problems| problems_in(file, problems))
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
        return Err(Error::wrong(problems.join("\n       ")).code(Code::StageNotReady));
    }
    Ok(Recipe {
        plan: definition.plan(),
        stages,
        gates,
        order: definition.order,
        share: definition.retry_share,
        budget: definition.budget.clone(),
        max_dead: definition.max_dead,
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
        StageKind::Parse { .. } | StageKind::Mail { step: MailStep::Read { .. } } => {
            Some(ParseHandler::BATCH_TOKENS)
        }
        _ => def.batch_tokens,
    }
}
