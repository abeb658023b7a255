//! How a directory is indexed, and the pipeline that makes an index, as the file it could have been.

use std::fmt::Write;

use redrive_pipeline::{Definition, Problem};
use serde::{Deserialize, Serialize};

/// The name of the pipeline.
pub const PIPELINE: &str = "index";

/// How a directory is indexed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexSettings {
    /// Who makes the vectors.
    pub embedder: Embedder,
    /// Most tokens of a chunk.
    pub chunk_tokens: u32,
    /// Tokens that a chunk repeats of the one before.
    pub overlap: u32,
    /// Whether hidden files and directories are taken in.
    pub hidden: bool,
    /// Whether symbolic links are followed.
    pub follow_symlinks: bool,
    /// Whether ignore files are heeded.
    pub ignore_rules: bool,
    /// Text files larger than this are left out, for example `8MiB`.
    pub max_bytes: String,
    /// Processes that parse, and as many that embed; `None`: one for each core.
    pub processes: Option<u32>,
}

/// Who makes the vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "provider", rename_all = "snake_case")]
pub enum Embedder {
    /// The model that redrive brings along.
    Builtin,
    /// A model of a service compatible with OpenAI's.
    Openai {
        /// Where the service is.
        base_url: String,
        /// The model's name.
        model: String,
        /// The environment variable that holds the key for it.
        api_key_env: Option<String>,
        /// How many numbers a vector is asked to have.
        dimensions: Option<u32>,
    },
}

impl IndexSettings {
    /// The text of the pipeline that makes an index of the directory `root`.
    #[must_use]
    pub fn text(&self, root: &str) -> String {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let processes = self.processes.unwrap_or_else(|| u32::try_from(cores).unwrap_or(2));
        format!(
            r#"name = "{PIPELINE}"
order = "fresh-first"
retry_share = 0.2
deadline = "none"

[source]
kind = "files"
path = {root}
hidden = {hidden}
follow_symlinks = {follow}
ignore_rules = {rules}
max_bytes = {max_bytes}

[run]
failure_budget = false

[[stage]]
name = "parse"
kind = "parse"
chunk_tokens = {tokens}
overlap = {overlap}
concurrency = {processes}
timeout = "60s"
retry = {{ preset = "index", crash_limit = 3, worker_limit = 50 }}

[[stage.children]]
name = "embed"
kind = "embed"
{embed}index = true
retry = {{ preset = "index", crash_limit = 3, worker_limit = 50 }}

[[stage.children]]
name = "upsert"
kind = "upsert"
batch = 512
retry = {{ preset = "index", worker_limit = 50 }}

[[stage]]
name = "publish"
kind = "publish"
retry = {{ preset = "index", worker_limit = 50 }}
"#,
            root = toml_string(root),
            hidden = self.hidden,
            follow = self.follow_symlinks,
            rules = self.ignore_rules,
            max_bytes = toml_string(&self.max_bytes),
            tokens = self.chunk_tokens,
            overlap = self.overlap,
            embed = self.embedder.text(processes),
        )
    }

    /// The pipeline that makes an index of the directory `root`.
    ///
    /// # Errors
    /// With every setting that is wrong, by its key in the pipeline.
    pub fn definition(&self, root: &str) -> Result<Definition, Vec<Problem>> {
        redrive_pipeline::parse(&self.text(root), "redrive index")
    }
}

impl Embedder {
    pub(crate) fn text(&self, processes: u32) -> String {
        let Self::Openai { base_url, model, api_key_env, dimensions } = self else {
            // A child gets enough at a time that asking costs little beside the answer.
            return format!("provider = \"builtin\"\nbatch = 128\nconcurrency = {processes}\n");
        };
        let (base_url, model) = (toml_string(base_url), toml_string(model));
        let mut text = format!("provider = \"openai\"\nbase_url = {base_url}\nmodel = {model}\n");
        if let Some(variable) = api_key_env {
            let _ = writeln!(text, "api_key_env = {}", toml_string(variable));
        }
        if let Some(dimensions) = dimensions {
            let _ = writeln!(text, "dimensions = {dimensions}");
        }
        text
    }
}

/// A text as TOML writes it; what JSON escapes TOML reads alike, but for what is left here.
pub(crate) fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
