//! What can be typed after `index`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use redrive_operate::Error;
use redrive_operate::index::{self, Begin, IndexSettings};
use redrive_operate::work::WorkSettings;

use super::{EndArgs, duration, lease};

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
    #[arg(long, value_parser = lease, default_value = "30s", value_name = "SPAN")]
    pub lease: Duration,
    /// What follows the end
    #[command(flatten)]
    pub end: EndArgs,
}

/// Who makes the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Embedder {
    /// The model in this binary.
    Builtin,
    /// A service.
    Openai,
}

impl IndexArgs {
    /// How the directory is indexed.
    ///
    /// # Errors
    /// When an option is missing, or has no meaning with the others.
    pub fn settings(&self) -> Result<IndexSettings, Error> {
        Ok(IndexSettings {
            embedder: self.embedder()?,
            chunk_tokens: self.chunk_tokens,
            overlap: self.overlap,
            hidden: self.hidden,
            follow_symlinks: self.follow_symlinks,
            ignore_rules: !self.no_ignore,
            max_bytes: self.max_bytes.clone(),
            processes: self.processes,
        })
    }

    /// How its index is begun with.
    pub fn begin(&self) -> Begin {
        Begin { rebuild: self.rebuild, reembed: self.reembed, new: self.new }
    }

    /// How it is worked on.
    pub fn work(&self) -> WorkSettings {
        // Who stays does retries as they fall due.
        let max_wait = Some(if self.watch { Duration::ZERO } else { self.max_wait });
        WorkSettings { lease: self.lease, max_wait, ..WorkSettings::default() }
    }

    fn embedder(&self) -> Result<index::Embedder, Error> {
        let of_service = [
            ("--base-url", self.base_url.is_some()),
            ("--model", self.model.is_some()),
            ("--api-key-env", self.api_key_env.is_some()),
            ("--dimensions", self.dimensions.is_some()),
        ];
        if self.embedder == Embedder::Builtin {
            if let Some((option, _)) = of_service.iter().find(|(_, given)| *given) {
                return Err(Error::wrong(format!("{option} has no meaning for the built-in model"))
                    .hint("say --embedder openai as well"));
            }
            return Ok(index::Embedder::Builtin);
        }
        let missing = |option: &str, example: &str| {
            Error::wrong(format!("--embedder openai needs {option}"))
                .hint(format!("for example {option} {example}"))
        };
        let base_url = self.base_url.clone();
        Ok(index::Embedder::Openai {
            base_url: base_url.ok_or_else(|| missing("--base-url", "http://127.0.0.1:11434/v1"))?,
            model: self.model.clone().ok_or_else(|| missing("--model", "nomic-embed-text"))?,
            api_key_env: self.api_key_env.clone(),
            dimensions: self.dimensions,
        })
    }
}
