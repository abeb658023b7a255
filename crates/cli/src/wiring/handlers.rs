//! A handler for every kind of stage.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use redrive_core::event::ItemReply;
use redrive_core::secret::Secret;
use redrive_engine::env::{self, SystemClock, system_now};
use redrive_engine::external::Board;
use redrive_engine::handler::{Handler, Input};
use redrive_engine::tap::Tap;
use redrive_index::mail;
use redrive_index::{IndexEmbed, ParseHandler, PublishHandler, UpsertHandler};
use redrive_operate::Wiring;
use redrive_operate::index::{IndexTarget, ServiceModel};
use redrive_pipeline::{Body, Commands, DeferDef, MailStep, ModelDef, StageDef, StageKind};
use redrive_stages::protocol::{Decoder, Defer};
use redrive_stages::secrets::Secrets;
use redrive_stages::{
    BodyForm, CommandHandler, CommandSpec, EventHandler, ExternalHandler, Filter, FilterHandler, Folders,
    HttpHandler, HttpSpec, Outbound, PassHandler, Reach, RestartBudget, WorkBoard,
};
use serde_json::value::RawValue;

use super::program::{command_folder, find_program};
use super::secret::secret;
use super::{EmbedSettings, FilterSettings, MailSettings, ParseSettings};

/// A child that dies this often without one answer is not started again at once.
const DEATHS: u32 = 10;
/// Most address space of a child that evaluates for a filter: the numbers of a payload of 16 MiB take more than half of it.
const FILTER_MEMORY: u64 = 1 << 30;
/// Most children that evaluate for one filter.
const MOST_EVALUATORS: usize = 8;

/// Makes handlers for the stages of pipelines.
pub struct Handlers {
    outbound: Arc<Outbound>,
    /// Where the programs are that pipelines which are sent may start.
    folders: Arc<Folders>,
    /// Where the work of external stages is put, or why there is no such place.
    board: Result<Arc<WorkBoard>, String>,
}

impl Handlers {
    /// Makes ready for services that are reached by TLS, and for external workers.
    pub fn new() -> Self {
        Self::held_to(Outbound::default(), Folders::default())
    }

    /// The same, with a word on who may be called and what may be started.
    pub fn held_to(outbound: Outbound, folders: Folders) -> Self {
        redrive_stages::install_tls();
        let key = env::secret().map_err(|error| format!("the system gives no random bits: {error}"));
        let board = key.map(|key| Arc::new(WorkBoard::new(Arc::new(SystemClock), key)));
        Self { outbound: Arc::new(outbound), folders: Arc::new(folders), board }
    }

    /// Whom a stage may call.
    fn reach(&self, outbound: redrive_pipeline::Outbound) -> Reach {
        Reach { outbound: self.outbound.clone(), public_only: outbound == redrive_pipeline::Outbound::Public }
    }

    fn making<'a>(&'a self, def: &'a StageDef, folder: &'a Path) -> Making<'a> {
        let reach = self.reach(def.outbound);
        let only = (def.commands == Commands::Allowed).then(|| self.folders.clone());
        Making { def, folder, target: None, reach, only, tap: None, board: &self.board }
    }
}

impl Wiring for Handlers {
    fn handler(
        &self,
        stage: &StageDef,
        folder: &Path,
        index: Option<&IndexTarget>,
    ) -> Result<Arc<dyn Handler>, String> {
        Making { target: index, ..self.making(stage, folder) }.handler()
    }

    fn tapped_handler(
        &self,
        stage: &StageDef,
        folder: &Path,
        tap: Arc<Tap>,
    ) -> Result<Arc<dyn Handler>, String> {
        // Whoever looks on wants to see the call, and nobody told of it.
        Making { tap: Some(tap), ..self.making(&stage.heard(), folder) }.handler()
    }

    fn check_filter(&self, keep: &str) -> Result<(), String> {
        Filter::read(keep).map(drop)
    }

    fn check_model(&self, def: &ModelDef) -> Result<(), String> {
        model(def, 1).map(drop)
    }

    fn check_outbound(&self, stage: &StageDef) -> Result<(), String> {
        let poll = stage.defer.as_ref().and_then(|defer| defer.poll.as_ref()).map(|poll| poll.url.as_str());
        let mut all = stage.address().into_iter().chain(poll);
        all.try_for_each(|url| self.reach(stage.outbound).check_url(url))
    }

    fn check_command(&self, stage: &StageDef) -> Result<(), String> {
        let StageKind::Command { command, cwd, .. } = &stage.kind else { return Ok(()) };
        held_in_folder(cwd.as_deref())?;
        self.folders.find(command.first().map(String::as_str).unwrap_or_default()).map(drop)
    }

    fn read_answer(&self, stage: &StageDef, item: &Input, result: &RawValue) -> Result<ItemReply, String> {
        let output = answered_at(stage)?;
        let secrets = match &stage.kind {
            StageKind::Http { header_env, .. } => secret_headers(header_env).unwrap_or_default(),
            _ => Vec::new(),
        };
        let secrets = Secrets::new(secrets.iter().map(|(_, value)| value.expose()));
        if matches!(stage.kind, StageKind::Chat { json: false, .. } | StageKind::Mail { .. }) {
            is_text(result)?;
        }
        Decoder { secrets, output, verdict: stage.verdict.clone(), defer: None }.read_answer(result, item)
    }

    fn query_embedder(&self, def: &ServiceModel) -> Result<Arc<dyn Handler>, String> {
        let access = Access {
            api_key_env: def.api_key_env.as_deref(),
            headers: &def.headers,
            header_env: &def.header_env,
        };
        let model = redrive_stages::ModelSpec {
            reach: self.reach(redrive_pipeline::Outbound::Any),
            ..access.model(&def.base_url, &def.model)?
        };
        let spec = redrive_stages::EmbedSpec {
            output: String::new(),
            dimensions: def.dimensions.map(|dimensions| dimensions as usize),
            ..redrive_stages::EmbedSpec::new(model)
        };
        Ok(Arc::new(redrive_stages::EmbedHandler::new(spec, Arc::new(system_now))?))
    }

    fn board(&self) -> Option<Arc<dyn Board>> {
        self.board.as_ref().ok().map(|board| board.clone() as Arc<dyn Board>)
    }

    fn standard_input(&self) -> Option<Box<dyn Read + Send>> {
        Some(Box::new(std::io::stdin()))
    }
}

/// Sees to it that the output of an answer, where it has one, is a text.
fn is_text(result: &RawValue) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct Output {
        #[serde(default)]
        #[expect(dead_code, reason = "only its form is looked at")]
        output: Option<String>,
    }
    let read = serde_json::from_str::<Output>(result.get());
    read.map(drop).map_err(|error| format!("the output is no text: {error}"))
}

/// Where the output of an answer that comes later is put into the payload; `None` replaces the payload.
fn answered_at(stage: &StageDef) -> Result<Option<String>, String> {
    match &stage.kind {
        StageKind::Http { output, .. }
        | StageKind::Command { output, .. }
        | StageKind::Event { output, .. } => Ok(output.clone()),
        StageKind::Chat { output, .. } => Ok(Some(output.clone())),
        StageKind::Embed { output, index: false, .. }
        | StageKind::EmbedBuiltin { output, index: false, .. } => Ok(Some(output.clone())),
        StageKind::Mail { step: MailStep::Summarise } => Ok(Some("/answer".to_owned())),
        _ if stage.event.is_some() => {
            let message = "what it makes goes into the index; `redrive work --event NAME` does it";
            Err(format!("stage {} takes no answers as JSON: {message}", stage.name))
        }
        _ => Err(format!("stage {} answers at once", stage.name)),
    }
}

/// A stage whose handler is made.
struct Making<'a> {
    def: &'a StageDef,
    folder: &'a Path,
    target: Option<&'a IndexTarget>,
    /// Whom it may call.
    reach: Reach,
    /// The folders whose programs alone it may start; `None`: any program.
    only: Option<Arc<Folders>>,
    /// Where somebody looks on.
    tap: Option<Arc<Tap>>,
    board: &'a Result<Arc<WorkBoard>, String>,
}

impl Making<'_> {
    /// The handler of whoever works on the run.
    fn handler(&self) -> Result<Arc<dyn Handler>, String> {
        match &self.def.event {
            Some(event) => self.told(event),
            None => self.own(),
        }
    }

    /// Tells others of each item, but for those that need no call.
    fn told(&self, event: &str) -> Result<Arc<dyn Handler>, String> {
        let defer = self.def.defer.as_ref().ok_or_else(other_kind)?;
        let told = Arc::new(EventHandler::new(event, defer.stuck_after));
        if self.def.kind.indexes() { Ok(Arc::new(indexed(told, need(self.target)?))) } else { Ok(told) }
    }

    fn own(&self) -> Result<Arc<dyn Handler>, String> {
        match &self.def.kind {
            StageKind::Http { .. } => self.http(),
            StageKind::Command { .. } => self.command(),
            StageKind::External { pipeline, output } => {
                let board = self.board.clone()?;
                let (output, verdict) = (output.clone(), self.def.verdict.clone());
                Ok(Arc::new(ExternalHandler::new(board, pipeline, &self.def.name, output, verdict)))
            }
            StageKind::Event { event, .. } => {
                let defer = self.def.defer.as_ref().ok_or_else(other_kind)?;
                Ok(Arc::new(EventHandler::new(event, defer.stuck_after)))
            }
            StageKind::Embed { .. } => self.embed(),
            StageKind::EmbedBuiltin { .. } => self.embed_builtin(),
            StageKind::Parse { .. } => self.parse(),
            StageKind::Upsert => {
                let IndexTarget { index, collection, mark, .. } = need(self.target)?;
                let (no, model) = (collection.no, collection.model_no);
                Ok(Arc::new(UpsertHandler::new(index.clone(), no, model, *mark)))
            }
            StageKind::Publish => {
                let target = need(self.target)?;
                Ok(Arc::new(PublishHandler::new(target.collection.no, target.mark)))
            }
            StageKind::Mail { step } => self.mail(*step),
            StageKind::Chat { .. } => match self.target {
                Some(target) if target.is_mail => Ok(Arc::new(mail::AskHandler::new(self.chat()?))),
                _ => self.chat(),
            },
            StageKind::Filter { keep } => self.filter(keep),
            StageKind::Pass => Ok(Arc::new(PassHandler::judging(self.def.verdict.clone()))),
        }
    }

    /// A filter, with children for what it does not evaluate itself.
    fn filter(&self, keep: &str) -> Result<Arc<dyn Handler>, String> {
        let filter = Filter::read(keep)?;
        let settings = FilterSettings { keep: keep.to_owned(), memory: FILTER_MEMORY };
        let mut spec = own_child("filter-worker", &settings)?;
        // Evaluating is nothing but reckoning: more of them than processors would only share them.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        spec.processes = self.concurrency().min(processors).min(MOST_EVALUATORS);
        let child = Arc::new(CommandHandler::new(spec)?);
        Ok(Arc::new(FilterHandler::new(filter, child).judging(self.def.verdict.clone())))
    }

    /// How it waits for answers that come later.
    fn defer(&self) -> Option<Defer> {
        let DeferDef { stuck_after, callback, poll } = self.def.defer.as_ref()?;
        let every = poll.as_ref().map(|poll| poll.every);
        Some(Defer { within: *stuck_after, every, callback: callback.clone() })
    }

    fn concurrency(&self) -> usize {
        self.def.concurrency as usize
    }

    fn model(&self, def: &ModelDef, index: bool) -> Result<redrive_stages::ModelSpec, String> {
        Ok(redrive_stages::ModelSpec {
            remedy: Some(remedy(def, index)),
            reach: self.reach.clone(),
            tap: self.tap.clone(),
            ..model(def, self.concurrency())?
        })
    }

    fn http(&self) -> Result<Arc<dyn Handler>, String> {
        let StageKind::Http { url, body, headers, header_env, secret_env, max_answer, output } =
            &self.def.kind
        else {
            return Err(other_kind());
        };
        let spec = HttpSpec {
            body: match body {
                Body::Protocol => BodyForm::Protocol,
                Body::Payload => BodyForm::Payload,
                Body::Webhook => BodyForm::Webhook,
            },
            headers: headers.clone().into_iter().collect(),
            secret_headers: secret_headers(header_env)?,
            signing_secret: secret_env.as_deref().map(signing_secret).transpose()?,
            max_answer: usize::try_from(*max_answer).unwrap_or(usize::MAX),
            output: output.clone(),
            verdict: self.def.verdict.clone(),
            defer: self.defer(),
            poll: self.def.defer.as_ref().and_then(|defer| defer.poll.as_ref()).map(|poll| poll.url.clone()),
            concurrency: self.concurrency(),
            reach: self.reach.clone(),
            tap: self.tap.clone(),
            ..HttpSpec::new(url)
        };
        Ok(Arc::new(HttpHandler::new(spec, Arc::new(system_now))?))
    }

    fn command(&self) -> Result<Arc<dyn Handler>, String> {
        let StageKind::Command { command, env, max_answer, cwd, output } = &self.def.kind else {
            return Err(other_kind());
        };
        let place = command_folder(cwd.as_deref(), self.folder);
        match &self.only {
            // Its program is looked for with every start, so that an item says what keeps it.
            Some(_) => held_in_folder(cwd.as_deref())?,
            None => {
                find_program(command.first().map(String::as_str).unwrap_or_default(), &place)?;
            }
        }
        let given = env.iter().filter_map(|name| Some((name.clone(), secret(name)?)));
        let spec = CommandSpec {
            cwd: Some(place),
            only: self.only.clone(),
            env: given.collect(),
            max_answer: usize::try_from(*max_answer).unwrap_or(usize::MAX),
            processes: self.concurrency(),
            output: output.clone(),
            verdict: self.def.verdict.clone(),
            defer: self.defer(),
            tap: self.tap.clone(),
            ..CommandSpec::new(command.clone())
        };
        Ok(Arc::new(CommandHandler::new(spec)?))
    }

    fn embed(&self) -> Result<Arc<dyn Handler>, String> {
        let StageKind::Embed { model, input, output, dimensions, index } = &self.def.kind else {
            return Err(other_kind());
        };
        let spec = redrive_stages::EmbedSpec {
            model: self.model(model, *index)?,
            // What is kept in the index is the vector alone.
            input: if *index { "/text".to_owned() } else { input.clone() },
            output: if *index { String::new() } else { output.clone() },
            dimensions: dimensions.map(|dimensions| dimensions as usize),
            judged_elsewhere: *index,
        };
        let embed = Arc::new(redrive_stages::EmbedHandler::new(spec, Arc::new(system_now))?);
        if *index { Ok(Arc::new(indexed(embed, need(self.target)?))) } else { Ok(embed) }
    }

    fn embed_builtin(&self) -> Result<Arc<dyn Handler>, String> {
        let StageKind::EmbedBuiltin { input, output, index, recycle_after, memory } = &self.def.kind else {
            return Err(other_kind());
        };
        let settings = EmbedSettings {
            input: if *index { "/text".to_owned() } else { input.clone() },
            numbers: !*index,
            memory: *memory,
        };
        let mut spec = own_child("embed-worker", &settings)?;
        spec.processes = self.concurrency();
        spec.recycle_after = Some(*recycle_after).filter(|items| *items > 0);
        spec.output = (!*index).then(|| output.clone());
        spec.tap.clone_from(&self.tap);
        let embed = Arc::new(pool(spec)?);
        if *index { Ok(Arc::new(indexed(embed, need(self.target)?))) } else { Ok(embed) }
    }

    fn parse(&self) -> Result<Arc<dyn Handler>, String> {
        let StageKind::Parse { max_tokens, min_tokens, overlap, memory, max_pages } = &self.def.kind else {
            return Err(other_kind());
        };
        let target = need(self.target)?;
        let settings = ParseSettings {
            max_tokens: *max_tokens as usize,
            min_tokens: *min_tokens as usize,
            overlap: *overlap as usize,
            max_pages: *max_pages,
            max_bytes: target.walk.max_bytes,
            max_container_bytes: target.walk.max_container_bytes,
            follow_symlinks: target.walk.follow_symlinks,
            hidden: target.walk.hidden,
            ignore_rules: target.walk.ignore_rules,
            memory: *memory,
        };
        let mut spec = own_child("parse-worker", &settings)?;
        spec.cwd = Some(target.root.clone());
        spec.processes = self.concurrency();
        spec.max_answer = redrive_ingest::worker::WorkerOptions::default().max_answer;
        Ok(Arc::new(ParseHandler::new(Arc::new(pool(spec)?))))
    }

    fn mail(&self, step: MailStep) -> Result<Arc<dyn Handler>, String> {
        let target = need(self.target)?;
        let (index, no) = (target.index.clone(), target.collection.no);
        Ok(match step {
            MailStep::List => {
                Arc::new(mail::ListHandler::new(index, no, target.mark).counting(target.listed.clone()))
            }
            MailStep::Read { max_tokens, min_tokens, overlap, memory, max_pages } => {
                let settings = MailSettings {
                    max_tokens: max_tokens as usize,
                    min_tokens: min_tokens as usize,
                    overlap: overlap as usize,
                    max_pages,
                    memory,
                };
                let mut spec = own_child("mail-worker", &settings)?;
                spec.processes = self.concurrency();
                spec.max_answer = redrive_ingest::worker::WorkerOptions::default().max_answer;
                Arc::new(mail::ReadHandler::new(Arc::new(pool(spec)?)))
            }
            MailStep::Unfold => Arc::new(mail::UnfoldHandler),
            MailStep::Keep => Arc::new(mail::KeepHandler::new(no, target.mark, target.chat_model.clone())),
            MailStep::Summarise => Arc::new(mail::DigestHandler::new(index, false)),
            MailStep::Gather => Arc::new(mail::DigestHandler::new(index, true)),
        })
    }

    fn chat(&self) -> Result<Arc<dyn Handler>, String> {
        let StageKind::Chat {
            model,
            prompt,
            system,
            temperature,
            max_tokens,
            seed,
            json,
            allow_truncated,
            output,
        } = &self.def.kind
        else {
            return Err(other_kind());
        };
        let spec = redrive_stages::ChatSpec {
            model: self.model(model, false)?,
            prompt: prompt.clone(),
            system: system.clone(),
            temperature: *temperature,
            max_tokens: *max_tokens,
            seed: *seed,
            json: *json,
            allow_truncated: *allow_truncated,
            output: output.clone(),
            verdict: self.def.verdict.clone(),
        };
        Ok(Arc::new(redrive_stages::ChatHandler::new(spec, Arc::new(system_now))?))
    }
}

/// A program of an allowed folder runs there and nowhere else.
fn held_in_folder(cwd: Option<&str>) -> Result<(), String> {
    match cwd {
        None => Ok(()),
        Some(_) => Err("a program of an allowed folder runs in that folder; leave `cwd` out".to_owned()),
    }
}

fn other_kind() -> String {
    "it is of another kind".to_owned()
}

fn need(target: Option<&IndexTarget>) -> Result<&IndexTarget, String> {
    target.ok_or_else(|| "there is no index to write to".to_owned())
}

fn indexed(embed: Arc<dyn Handler>, target: &IndexTarget) -> IndexEmbed {
    let model = target.collection.model_no;
    IndexEmbed::new(embed, target.index.clone(), model, target.collection.spec.dimensions)
        .counting(target.words_only.clone())
}

/// What to do when a model's key is refused.
fn remedy(def: &ModelDef, index: bool) -> String {
    match (&def.api_key_env, def.header_env.values().next()) {
        (Some(variable), _) => format!("look at the key in {variable}"),
        (None, Some(variable)) => format!("look at the header from {variable}"),
        (None, None) if index => "name the variable that holds the key: --api-key-env VARIABLE".to_owned(),
        (None, None) => "name the variable that holds the key: api_key_env = \"VARIABLE\"".to_owned(),
    }
}

/// This very program, as a child that does one kind of work.
fn own_child(command: &str, settings: &impl serde::Serialize) -> Result<CommandSpec, String> {
    let program = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let program = program.to_str().ok_or("the path of this program is not UTF-8")?.to_owned();
    let settings = serde_json::to_string(settings).map_err(|error| error.to_string())?;
    Ok(CommandSpec::new([program, command.to_owned(), settings]))
}

fn pool(spec: CommandSpec) -> Result<CommandHandler, String> {
    let budget = RestartBudget { deaths: DEATHS };
    Ok(CommandHandler::new(spec)?.with_restart_budget(budget, Arc::new(system_now)))
}

/// How a service is told who calls.
struct Access<'a> {
    api_key_env: Option<&'a str>,
    headers: &'a BTreeMap<String, String>,
    header_env: &'a BTreeMap<String, String>,
}

impl Access<'_> {
    /// A model at this address, with its key read from the environment.
    fn model(&self, base_url: &str, model: &str) -> Result<redrive_stages::ModelSpec, String> {
        let key = self.api_key_env.map(|variable| {
            let key = secret(variable).filter(|key| !key.is_blank());
            key.ok_or_else(|| format!("api_key_env: the environment variable {variable} is not set"))
        });
        Ok(redrive_stages::ModelSpec {
            api_key: key.transpose()?,
            headers: self.headers.clone().into_iter().collect(),
            secret_headers: secret_headers(self.header_env)?,
            ..redrive_stages::ModelSpec::new(base_url, model)
        })
    }
}

/// How a model of a stage is reached.
fn model(def: &ModelDef, concurrency: usize) -> Result<redrive_stages::ModelSpec, String> {
    let access = Access {
        api_key_env: def.api_key_env.as_deref(),
        headers: &def.headers,
        header_env: &def.header_env,
    };
    let price =
        |price: redrive_pipeline::PriceDef| redrive_stages::Price::usd_per_million(price.input, price.output);
    Ok(redrive_stages::ModelSpec {
        max_answer: usize::try_from(def.max_answer).unwrap_or(usize::MAX),
        max_item_tokens: def.max_item_tokens,
        price: def.price.and_then(price),
        concurrency,
        ..access.model(&def.base_url, &def.model)?
    })
}

fn signing_secret(variable: &str) -> Result<Secret, String> {
    secret(variable).ok_or_else(|| format!("secret_env: the environment variable {variable} is not set"))
}

/// Headers with their values read from the environment.
fn secret_headers(header_env: &BTreeMap<String, String>) -> Result<Vec<(String, Secret)>, String> {
    let read = |(name, variable): (&String, &String)| {
        let value = secret(variable)
            .ok_or_else(|| format!("header_env.{name}: the environment variable {variable} is not set"))?;
        Ok((name.clone(), value))
    };
    header_env.iter().map(read).collect()
}
