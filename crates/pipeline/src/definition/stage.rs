//! The stages of a pipeline: what each does, and with what.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::plan::ChildFailure;
use redrive_core::policy::Policy;
use serde::Serialize;

use super::{Commands, Outbound};
use crate::scalar;

/// One stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageDef {
    /// Its name, unique in the pipeline.
    pub name: String,
    /// What it does.
    pub kind: StageKind,
    /// Most items of one call, 1 to 10 000; default 1, for embed and publish 64, for upsert 256.
    pub batch: u32,
    /// Most tokens of one call, as they are estimated; default none, for models of a service that embed 200 000.
    pub batch_tokens: Option<u64>,
    /// Most calls at once, 1 to 1024; default 16, for commands 4, for what indexes documents on this machine 2.
    pub concurrency: u32,
    /// How long one call may take; default 60 s.
    pub timeout: Duration,
    /// The gate it passes through; none for [`StageDef::default_gate`].
    pub gate: Option<String>,
    /// How it retries; default the preset `sample`.
    pub retry: Policy,
    /// The stages its children run through.
    pub children: Vec<StageDef>,
    /// What a child's death means for its parent; default `continue`.
    pub on_child_failure: ChildFailure,
    /// Whether an output that exists for the same input and configuration is used again; default false.
    pub reuse: bool,
    /// Whom it may call, as the whole pipeline does.
    pub outbound: Outbound,
    /// Which programs it may start, as the whole pipeline does.
    pub commands: Commands,
    /// JSON pointer to the verdict in the stage's output; none where the output has none.
    pub verdict: Option<String>,
    /// The name of the event by which others are told to do it; none where whoever works on the run does.
    pub event: Option<String>,
    /// How it waits for answers that come later; none when every call answers for its items.
    pub defer: Option<DeferDef>,
}

/// How a stage waits for answers that come later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferDef {
    /// How long an answer is awaited; default 24 h.
    pub stuck_after: Duration,
    /// Where the routes for answers are, as whoever answers reaches them; none says nothing of it.
    pub callback: Option<String>,
    /// How an answer is asked for; none when it comes by itself.
    pub poll: Option<PollDef>,
}

/// How an answer is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollDef {
    /// Where, by GET: `{id}` stands for the work, `{ticket}` for what the service gave.
    pub url: String,
    /// How often; default 5 s.
    pub every: Duration,
}

impl StageDef {
    /// The same stage for whoever hears its event: it is done at once.
    #[must_use]
    pub fn heard(&self) -> Self {
        let defer = self.defer.clone().filter(|_| self.event.is_none());
        Self { event: None, defer, ..self.clone() }
    }

    /// The address it calls, where it calls one.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        match &self.kind {
            StageKind::Http { url, .. } => Some(url),
            StageKind::Embed { model, .. } | StageKind::Chat { model, .. } => Some(&model.base_url),
            StageKind::Command { .. }
            | StageKind::External { .. }
            | StageKind::Event { .. }
            | StageKind::EmbedBuiltin { .. }
            | StageKind::Filter { .. }
            | StageKind::Pass
            | StageKind::Parse { .. }
            | StageKind::Mail { .. }
            | StageKind::Upsert
            | StageKind::Publish => None,
        }
    }

    /// A hash, as 64 hexadecimal digits, of everything that changes what the stage makes of an item.
    ///
    /// How often, how fast and how patiently it is called (batch, concurrency, timeout, gate, retry) is left out, so
    /// that tuning a pipeline does not throw away outputs that were paid for. So are keys and prices.
    #[must_use]
    pub fn config_hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"redrive stage 1\n");
        // Maps are sorted and fields have a fixed order, so equal stages have equal bytes.
        hasher.update(serde_json::json!(self.kind).to_string().as_bytes());
        if let Some(verdict) = &self.verdict {
            hasher.update(b"\nverdict ").update(verdict.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// The gate it passes through when it names none: one for each host, and for each model and operation of a host.
    /// What runs on this machine has none, nor has what others are told to do.
    #[must_use]
    pub fn default_gate(&self) -> Option<String> {
        if self.event.is_some() {
            return None;
        }
        match &self.kind {
            StageKind::Http { url, .. } => Some(scalar::authority(url)),
            StageKind::Embed { model, .. } => Some(model.gate("embeddings")),
            StageKind::Chat { model, .. } => Some(model.gate("chat")),
            StageKind::Command { .. }
            | StageKind::External { .. }
            | StageKind::Event { .. }
            | StageKind::EmbedBuiltin { .. }
            | StageKind::Filter { .. }
            | StageKind::Pass
            | StageKind::Parse { .. }
            | StageKind::Mail { .. }
            | StageKind::Upsert
            | StageKind::Publish => None,
        }
    }
}

/// What a stage does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StageKind {
    /// Calls a service.
    Http {
        /// Where, by POST.
        url: String,
        /// The form of the request.
        body: Body,
        /// Fixed headers.
        headers: BTreeMap<String, String>,
        /// Headers whose values are read from environment variables: header to variable.
        header_env: BTreeMap<String, String>,
        /// The environment variable with the secret that a webhook is signed with; none does not sign.
        #[serde(skip)]
        secret_env: Option<String>,
        /// Largest answer in bytes; default 16 MiB.
        max_answer: u64,
        /// JSON pointer at which the output is put into the payload; none replaces the payload.
        output: Option<String>,
    },
    /// Calls long-lived child processes.
    Command {
        /// Program and arguments, not interpreted by a shell.
        command: Vec<String>,
        /// Names of the environment variables it may see besides the basic ones.
        env: Vec<String>,
        /// Largest answer in bytes; default 16 MiB.
        max_answer: u64,
        /// The folder it runs in; none for the pipeline file's own.
        cwd: Option<String>,
        /// JSON pointer at which the output is put into the payload; none replaces the payload.
        output: Option<String>,
    },
    /// Is worked on by whoever asks for it over HTTP.
    External {
        /// The name of the pipeline, by which it is asked for.
        #[serde(skip)]
        pipeline: String,
        /// JSON pointer at which the output is put into the payload; none replaces the payload.
        output: Option<String>,
    },
    /// Is told to the world as an event; whoever hears it answers.
    Event {
        /// The name of the event.
        event: String,
        /// JSON pointer at which the output is put into the payload; none replaces the payload.
        output: Option<String>,
    },
    /// Turns texts into vectors by a model of a service.
    Embed {
        /// The model that does it.
        model: ModelDef,
        /// JSON pointer to the text; default `/text`.
        input: String,
        /// JSON pointer at which the vector is put into the payload; default `/embedding`.
        output: String,
        /// How many numbers a vector is asked to have; none for what the model gives.
        dimensions: Option<u32>,
        /// Whether chunks are embedded and their vectors kept in the store's index, instead of what `input` and
        /// `output` say; default false.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        index: bool,
    },
    /// Turns texts into vectors by the model that redrive brings along.
    EmbedBuiltin {
        /// JSON pointer to the text; default `/text`.
        input: String,
        /// JSON pointer at which the vector is put into the payload; default `/embedding`.
        output: String,
        /// Whether chunks are embedded and their vectors kept in the store's index, instead of what `input` and
        /// `output` say; default false.
        index: bool,
        /// After how many items a process that embeds is replaced, 0 for never; default 100 000.
        #[serde(skip)]
        recycle_after: u64,
        /// Most memory of a process that embeds, in bytes; default 1 GiB.
        #[serde(skip)]
        memory: u64,
    },
    /// Asks a chat model about each item.
    Chat {
        /// The model that is asked.
        model: ModelDef,
        /// What the user says: a text with JSON pointers in braces.
        prompt: String,
        /// What the system says before that, likewise.
        system: Option<String>,
        /// How freely it answers, 0 to 2.
        temperature: Option<f64>,
        /// Most tokens of an answer.
        max_tokens: Option<u64>,
        /// Asks for the same answer to the same question.
        seed: Option<i64>,
        /// Whether the answer is JSON; default false.
        json: bool,
        /// Whether an answer that was cut off is taken; default false.
        allow_truncated: bool,
        /// JSON pointer at which the answer is put into the payload; default `/answer`.
        output: String,
    },
    /// Lets only those items on for which an expression holds.
    Filter {
        /// The expression.
        keep: String,
    },
    /// Does nothing.
    Pass,
    /// Reads a file and expands it into chunks of text.
    Parse {
        /// Most tokens of a chunk, 16 to 8192; key `chunk_tokens`, default 256.
        max_tokens: u32,
        /// A section with fewer tokens is joined with its neighbours; at most half of `max_tokens`; default 48, or that
        /// half where it is less.
        min_tokens: u32,
        /// How many tokens a chunk repeats of the one before it; at most half of `max_tokens`; default 0.
        overlap: u32,
        /// Most memory of a process that parses, in bytes; default 1 GiB.
        #[serde(skip)]
        memory: u64,
        /// Most pages of a file; default 2000.
        max_pages: u32,
    },
    /// Does a step of what becomes of mail.
    Mail {
        /// The step.
        step: MailStep,
    },
    /// Puts chunks with their vectors into the store's index.
    Upsert,
    /// Makes what was indexed of a file the version that is searched.
    Publish,
}

impl StageKind {
    /// Tells whether it keeps vectors in the store's index.
    #[must_use]
    pub fn indexes(&self) -> bool {
        matches!(self, Self::Embed { index: true, .. } | Self::EmbedBuiltin { index: true, .. })
    }

    /// The name used in pipeline files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Http { .. } => "http",
            Self::Command { .. } => "command",
            Self::External { .. } => "external",
            Self::Event { .. } => "event",
            Self::Embed { .. } | Self::EmbedBuiltin { .. } => "embed",
            Self::Chat { .. } => "chat",
            Self::Filter { .. } => "filter",
            Self::Pass => "pass",
            Self::Parse { .. } => "parse",
            Self::Mail { .. } => "mail",
            Self::Upsert => "upsert",
            Self::Publish => "publish",
        }
    }
}

/// A step of what becomes of mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MailStep {
    /// Names the messages of an archive.
    List,
    /// Reads a message and cuts it, with the keys of [`StageKind::Parse`].
    Read {
        /// Most tokens of a chunk.
        max_tokens: u32,
        /// A section with fewer tokens is joined with its neighbours.
        min_tokens: u32,
        /// How many tokens a chunk repeats of the one before it.
        overlap: u32,
        /// Most memory of a process that reads, in bytes.
        #[serde(skip)]
        memory: u64,
        /// Most pages of an attachment.
        max_pages: u32,
    },
    /// Makes the chunks of a message items of their own.
    Unfold,
    /// Makes an archive, a message or a thread part of the index, with what is known of it.
    Keep,
    /// Extracts the sentences that say most of a thread.
    Summarise,
    /// Puts the text of a thread at `/text`, for a chat model.
    Gather,
}

impl MailStep {
    /// All, by the names used in pipeline files.
    pub(crate) const NAMES: [&str; 6] = ["list", "read", "unfold", "keep", "summarise", "gather"];
}

/// A model of a service compatible with OpenAI's. Only what can change an output is serialised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelDef {
    /// Where the service is; default OpenAI's own.
    pub base_url: String,
    /// The model's name.
    pub model: String,
    /// The environment variable that holds the key; none sends no key.
    #[serde(skip)]
    pub api_key_env: Option<String>,
    /// Fixed headers.
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are read from environment variables: header to variable.
    #[serde(skip)]
    pub header_env: BTreeMap<String, String>,
    /// Largest answer in bytes; default 64 MiB.
    #[serde(skip)]
    pub max_answer: u64,
    /// Most tokens of one item, as they are estimated; none for no limit.
    #[serde(skip)]
    pub max_item_tokens: Option<u64>,
    /// What the file says that the model costs.
    #[serde(skip)]
    pub price: Option<PriceDef>,
}

impl ModelDef {
    fn gate(&self, operation: &str) -> String {
        format!("{}/{}/{operation}", scalar::authority(&self.base_url), self.model)
    }
}

/// What a model costs, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriceDef {
    /// Of tokens sent.
    pub input: f64,
    /// Of tokens received; none when the file does not say.
    pub output: Option<f64>,
}

/// The form of an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// The handler protocol, with a list of items.
    #[default]
    Protocol,
    /// The bare payload of one item.
    Payload,
    /// The same, and of the answer only its status is of interest: the payload stays as it is.
    Webhook,
}
