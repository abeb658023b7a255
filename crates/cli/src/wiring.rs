//! The composition root: the only file that names concrete stores and handlers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redrive_core::id::{ContentHash, StageNo};
use redrive_core::plan::{Plan, StagePlan};
use redrive_engine::crash;
use redrive_engine::env::system_now;
use redrive_engine::handler::Handler;
use redrive_engine::recipe::{GateWork, Recipe, StageWork};
use redrive_engine::source::{JsonLines, Source};
use redrive_pipeline::{Body, Definition, Problem, StageDef, StageKind};
use redrive_sqlite::{Options, SqliteStore};
use redrive_stages::{
    BodyForm, CommandHandler, CommandSpec, FilterHandler, HttpHandler, HttpSpec, PassHandler,
};
use redrive_store::{RunRow, Store};

use crate::exit::Failure;
use crate::output::note;

/// Opens the store, and makes it when it is not there.
pub fn open_store(url: &str) -> Result<Arc<dyn Store>, Failure> {
    let options = Options { crash_hook: crash::point, ..Options::default() };
    Ok(Arc::new(SqliteStore::open(&store_path(url)?, options)?))
}

/// Opens a store that has to be there.
pub fn existing_store(url: &str) -> Result<Arc<dyn Store>, Failure> {
    let path = store_path(url)?;
    if !path.exists() {
        return Err(Failure::usage(format!("there is no store at {}", path.display()))
            .hint("`redrive run PIPELINE.toml` makes one, or name another with --store sqlite:PATH"));
    }
    open_store(url)
}

/// The file a store's URL names.
pub fn store_path(url: &str) -> Result<PathBuf, Failure> {
    match url.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => Ok(PathBuf::from(path.trim_start_matches("//"))),
        Some(("postgres" | "postgresql", _)) => {
            Err(Failure::usage("this version keeps its state in SQLite only").hint("use --store sqlite:PATH"))
        }
        _ => Err(Failure::usage(format!("'{url}' is not a store")).hint("use --store sqlite:PATH")),
    }
}

/// Reads a pipeline file's text.
pub fn read_pipeline(file: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(file).map_err(|error| {
        Failure::usage(format!("cannot read {}: {error}", file.display()))
            .hint("examples/flaky/pipeline.toml is one to begin with")
    })?;
    String::from_utf8(bytes).map_err(|error| {
        Failure::usage(format!(
            "{} is not UTF-8 text (byte {})",
            file.display(),
            error.utf8_error().valid_up_to()
        ))
    })
}

/// Takes a pipeline's text apart; every problem is told.
pub fn definition(text: &str, file: &str) -> Result<Definition, Failure> {
    redrive_pipeline::parse(text, file).map_err(|problems| {
        problems.iter().for_each(tell);
        let n = problems.len();
        Failure::usage(format!("{file} has {n} problem{}", if n == 1 { "" } else { "s" }))
    })
}

/// Tells one problem of a pipeline file.
pub fn tell(problem: &Problem) {
    note(&crate::output::text::safe(&problem.to_string()));
    if let Some(hint) = &problem.hint {
        note(&format!("  hint: {}", crate::output::text::safe(hint)));
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

/// Makes a pipeline ready to run. Relative paths start from `folder`.
pub fn recipe(definition: &Definition, folder: &Path) -> Result<Recipe, Failure> {
    redrive_stages::install_tls();
    let mut problems = Vec::new();
    let mut stages = Vec::new();
    let mut gates: Vec<GateWork> = Vec::new();
    for (def, gate) in definition.all_stages().zip(gate_names(definition)) {
        let gate = gate.map(|name| gate_place(&mut gates, definition, name));
        match handler(def, folder) {
            Ok(handler) => stages.push(StageWork {
                handler,
                batch: def.batch as usize,
                batch_tokens: def.batch_tokens,
                gate,
                concurrency: def.concurrency as usize,
                reuse: def.reuse.then(|| ContentHash::of(&[def.config_hash().as_bytes()]).short()),
            }),
            Err(problem) => problems.push(format!("stage {}: {problem}", def.name)),
        }
    }
    if !problems.is_empty() {
        return Err(Failure::usage(problems.join("\n       ")));
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

fn handler(def: &StageDef, folder: &Path) -> Result<Arc<dyn Handler>, String> {
    let concurrency = def.concurrency as usize;
    match &def.kind {
        StageKind::Http { url, body, headers, header_env, max_answer, output } => {
            let spec = HttpSpec {
                body: match body {
                    Body::Protocol => BodyForm::Protocol,
                    Body::Payload => BodyForm::Payload,
                },
                headers: headers.clone().into_iter().collect(),
                secret_headers: secret_headers(header_env)?,
                max_answer: usize::try_from(*max_answer).unwrap_or(usize::MAX),
                output: output.clone(),
                concurrency,
                ..HttpSpec::new(url)
            };
            Ok(Arc::new(HttpHandler::new(spec, Arc::new(system_now))?))
        }
        StageKind::Command { command, env, max_answer, cwd, output } => {
            let given =
                env.iter().filter_map(|name| std::env::var(name).ok().map(|value| (name.clone(), value)));
            let spec = CommandSpec {
                cwd: Some(cwd.as_ref().map_or_else(|| folder.to_owned(), |cwd| folder.join(cwd))),
                env: given.collect(),
                max_answer: usize::try_from(*max_answer).unwrap_or(usize::MAX),
                processes: concurrency,
                output: output.clone(),
                ..CommandSpec::new(command.clone())
            };
            Ok(Arc::new(CommandHandler::new(spec)?))
        }
        StageKind::Embed { model: def, input, output, dimensions } => {
            let spec = redrive_stages::EmbedSpec {
                model: model(def, concurrency)?,
                input: input.clone(),
                output: output.clone(),
                dimensions: dimensions.map(|dimensions| dimensions as usize),
            };
            Ok(Arc::new(redrive_stages::EmbedHandler::new(spec, Arc::new(system_now))?))
        }
        StageKind::Chat {
            model: def,
            prompt,
            system,
            temperature,
            max_tokens,
            seed,
            json,
            allow_truncated,
            output,
        } => {
            let spec = redrive_stages::ChatSpec {
                model: model(def, concurrency)?,
                prompt: prompt.clone(),
                system: system.clone(),
                temperature: *temperature,
                max_tokens: *max_tokens,
                seed: *seed,
                json: *json,
                allow_truncated: *allow_truncated,
                output: output.clone(),
            };
            Ok(Arc::new(redrive_stages::ChatHandler::new(spec, Arc::new(system_now))?))
        }
        StageKind::Filter { keep } => Ok(Arc::new(FilterHandler::new(keep)?)),
        StageKind::Pass => Ok(Arc::new(PassHandler)),
    }
}

/// How a model is reached, with its key read from the environment.
fn model(def: &redrive_pipeline::ModelDef, concurrency: usize) -> Result<redrive_stages::ModelSpec, String> {
    let key = def.api_key_env.as_deref().map(|variable| {
        let key = std::env::var(variable).ok().filter(|key| !key.trim().is_empty());
        key.ok_or_else(|| format!("api_key_env: the environment variable {variable} is not set"))
    });
    let price =
        |price: redrive_pipeline::PriceDef| redrive_stages::Price::usd_per_million(price.input, price.output);
    Ok(redrive_stages::ModelSpec {
        api_key: key.transpose()?,
        headers: def.headers.clone().into_iter().collect(),
        secret_headers: secret_headers(&def.header_env)?,
        max_answer: usize::try_from(def.max_answer).unwrap_or(usize::MAX),
        max_item_tokens: def.max_item_tokens,
        price: def.price.and_then(price),
        concurrency,
        ..redrive_stages::ModelSpec::new(&def.base_url, &def.model)
    })
}

/// Headers with their values read from the environment.
fn secret_headers(
    header_env: &std::collections::BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, String> {
    let read = |(name, variable): (&String, &String)| {
        let value = std::env::var(variable)
            .map_err(|_| format!("header_env.{name}: the environment variable {variable} is not set"))?;
        Ok((name.clone(), value))
    };
    header_env.iter().map(read).collect()
}

/// Opens what is left of a run's source; `None` when all was read, or it cannot be read again.
pub fn source_left(row: &RunRow, definition: &Definition) -> Result<Option<Box<dyn Source>>, Failure> {
    if row.admitted_all || row.spec.source == "-" {
        return Ok(None);
    }
    source(&row.spec.source, definition.source.key.clone(), row.cursor.as_deref()).map(Some)
}

/// Opens a source. `position` is how far it was read before.
pub fn source(name: &str, key: Option<String>, position: Option<&str>) -> Result<Box<dyn Source>, Failure> {
    if name == "-" {
        return Ok(Box::new(JsonLines::stream("standard input", Box::new(std::io::stdin()), key)));
    }
    let lines = JsonLines::open(Path::new(name), key, position).map_err(|error| {
        Failure::usage(error.to_string())
            .hint("name the source with --input FILE, or in the pipeline's [source] path")
    })?;
    Ok(Box::new(lines))
}
