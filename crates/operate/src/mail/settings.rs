//! How mail is taken in, and the pipelines that do it, as the files they could have been.

use std::fmt::Write;

use redrive_pipeline::{Definition, Problem};
use serde::{Deserialize, Serialize};

use crate::bus::event::{ARCHIVE_INGESTED, CHUNKS_PREPARED, JSON_PARSED, SUMMARIZATION_REQUESTED};
use crate::index::Embedder;
use crate::index::settings::toml_string;

/// The name of the pipeline of archives.
pub const PIPELINE: &str = "mail";
/// The name of the pipeline of threads.
pub const THREADS_PIPELINE: &str = "mail-threads";

/// What a chat model is told.
const PROMPT: &str = "Summarise this mail thread in at most five sentences: what it is about, what was found, what was decided. Say only what is in the \
messages. After each sentence, name the messages that it rests on by their numbers in brackets, for example [2].\n\n{/text}";

/// How mail is taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailSettings {
    /// Who makes the vectors.
    pub embedder: Embedder,
    /// Who writes summaries; `None`: sentences are extracted.
    pub chat: Option<Chat>,
    /// Most tokens of a chunk.
    pub chunk_tokens: u32,
    /// Processes that read, and as many that embed; `None`: one for each core.
    pub processes: Option<u32>,
    /// Whether the stages that take long are told as events, for services of their own.
    pub services: bool,
}

/// A chat model of a service compatible with OpenAI's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// Where the service is.
    pub base_url: String,
    /// The model's name.
    pub model: String,
    /// The environment variable that holds the key for it.
    pub api_key_env: Option<String>,
}

impl MailSettings {
    /// The text of the pipeline that takes in the archives at these paths.
    #[must_use]
    pub fn text(&self, paths: &[String]) -> String {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let processes = self.processes.unwrap_or_else(|| u32::try_from(cores).unwrap_or(2));
        let paths: Vec<String> = paths.iter().map(|path| toml_string(path)).collect();
        format!(
            r#"name = "{PIPELINE}"
order = "fresh-first"
retry_share = 0.2
deadline = "none"

[source]
kind = "mbox"
path = [{paths}]

[run]
failure_budget = false

[[stage]]
name = "archive"
kind = "mail"
step = "list"
concurrency = 2
timeout = "6h"
{archive}retry = {{ preset = "document-archive", worker_limit = 50 }}

[[stage.children]]
name = "message"
kind = "mail"
step = "read"
chunk_tokens = {tokens}
concurrency = {processes}
timeout = "5m"
{message}retry = {{ preset = "document-message", crash_limit = 3, worker_limit = 50 }}

[[stage.children]]
name = "chunks"
kind = "mail"
step = "unfold"
retry = {{ preset = "document-message", worker_limit = 50 }}

[[stage.children.children]]
name = "embed"
kind = "embed"
{embed}index = true
{chunk}retry = {{ preset = "document-chunk", crash_limit = 3, worker_limit = 50 }}

[[stage.children.children]]
name = "upsert"
kind = "upsert"
batch = 512
retry = {{ preset = "document-chunk", worker_limit = 50 }}

[[stage.children]]
name = "keep"
kind = "mail"
step = "keep"
retry = {{ preset = "document-message", worker_limit = 50 }}

[[stage]]
name = "done"
kind = "mail"
step = "keep"
retry = {{ preset = "document-archive", worker_limit = 50 }}
"#,
            paths = paths.join(", "),
            tokens = self.chunk_tokens,
            embed = self.embedder.text(processes),
            archive = self.told(ARCHIVE_INGESTED),
            message = self.told(JSON_PARSED),
            chunk = self.told(CHUNKS_PREPARED),
        )
    }

    /// The text of the pipeline that summarises threads.
    #[must_use]
    pub fn threads_text(&self) -> String {
        let mut text = format!(
            "name = \"{THREADS_PIPELINE}\"\norder = \"fresh-first\"\nretry_share = 0.2\ndeadline = \"none\"\n\n[source]\nkind = \"threads\"\n\n\
             [run]\nfailure_budget = false\n"
        );
        let retry = "retry = { preset = \"document-thread\", worker_limit = 50 }\n";
        let told = self.told(SUMMARIZATION_REQUESTED);
        match &self.chat {
            None => {
                let _ = write!(
                    text,
                    "\n[[stage]]\nname = \"summarise\"\nkind = \"mail\"\nstep = \"summarise\"\nbatch = 16\n{told}{retry}"
                );
            }
            Some(Chat { base_url, model, api_key_env }) => {
                let _ = write!(
                    text,
                    "\n[[stage]]\nname = \"gather\"\nkind = \"mail\"\nstep = \"gather\"\nbatch = 16\n{retry}\n[[stage]]\nname = \"summarise\"\n\
                     kind = \"chat\"\nbase_url = {}\nmodel = {}\nprompt = {}\noutput = \"/answer\"\n",
                    toml_string(base_url),
                    toml_string(model),
                    toml_string(PROMPT)
                );
                if let Some(variable) = api_key_env {
                    let _ = writeln!(text, "api_key_env = {}", toml_string(variable));
                }
                text.push_str(&told);
                text.push_str(retry);
            }
        }
        let _ = write!(text, "\n[[stage]]\nname = \"keep\"\nkind = \"mail\"\nstep = \"keep\"\n{retry}");
        text
    }

    /// The line by which a stage is told as this event.
    fn told(&self, event: &str) -> String {
        if self.services { format!("event = \"{event}\"\n") } else { String::new() }
    }

    /// Both pipelines.
    ///
    /// # Errors
    /// With every setting that is wrong, by its key in the pipeline.
    pub fn definitions(&self, paths: &[String]) -> Result<(Definition, Definition), Vec<Problem>> {
        let mail = redrive_pipeline::parse(&self.text(paths), "redrive mail")?;
        Ok((mail, redrive_pipeline::parse(&self.threads_text(), "redrive mail")?))
    }
}
