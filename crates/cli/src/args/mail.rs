//! What can be typed after `mail` and `threads`.

use std::time::{Duration, UNIX_EPOCH};

use clap::Args as ClapArgs;
use redrive_core::time::Timestamp;
use redrive_operate::Error;
use redrive_operate::index;
use redrive_operate::mail::{Chat, MailSettings, ThreadsRequest};
use redrive_operate::work::WorkSettings;

use super::index::Embedder;
use super::{BusArgs, duration, lease};

/// Options of `mail`.
#[derive(Debug, Clone, ClapArgs)]
pub struct MailArgs {
    /// Mbox files (also packed by gzip), Maildirs, or directories with such in them
    #[arg(required = true, value_name = "ARCHIVE")]
    pub archives: Vec<String>,
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
    /// Have summaries written by the OpenAI-compatible chat service at this address; default: sentences are extracted
    #[arg(long, value_name = "URL", requires = "chat_model")]
    pub chat: Option<String>,
    /// Which of its models
    #[arg(long, value_name = "NAME", requires = "chat")]
    pub chat_model: Option<String>,
    /// The environment variable that holds the key for it
    #[arg(long, value_name = "VARIABLE", requires = "chat")]
    pub chat_key_env: Option<String>,
    /// Most tokens of a chunk
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub chunk_tokens: u32,
    /// Processes that read messages, and as many that embed; default: one for each core
    #[arg(long, value_name = "N")]
    pub processes: Option<u32>,
    /// Stay, take in what archives grow by, and do retries as they fall due
    #[arg(long)]
    pub watch: bool,
    /// Start new runs even if unfinished ones are there
    #[arg(long)]
    pub new: bool,
    /// End when only retries due later than this remain; with --bus also when services have answered nothing for so long
    #[arg(long, value_parser = duration, default_value = "30s", value_name = "SPAN")]
    pub max_wait: Duration,
    /// How long work is held without a sign of life before others may take it over
    #[arg(long, value_parser = lease, default_value = "30s", value_name = "SPAN")]
    pub lease: Duration,
    /// Where services hear of the stages that take long; without it, this process does them
    #[command(flatten)]
    pub bus: BusArgs,
}

impl MailArgs {
    /// How the mail is taken in.
    ///
    /// # Errors
    /// When an option is missing, wrong, or has no meaning with the others.
    pub fn settings(&self) -> Result<MailSettings, Error> {
        let chat = self.chat.clone().zip(self.chat_model.clone());
        let chat =
            chat.map(|(base_url, model)| Chat { base_url, model, api_key_env: self.chat_key_env.clone() });
        Ok(MailSettings {
            embedder: self.embedder()?,
            chat,
            chunk_tokens: self.chunk_tokens,
            processes: self.processes,
            services: self.bus.address()?.is_some(),
        })
    }

    /// How it is worked on.
    pub fn work(&self, services: bool) -> WorkSettings {
        // Services that answer are worth waiting for; those that are not there are not.
        let answers_within = services.then_some(self.max_wait);
        // Who stays does retries as they fall due.
        let max_wait = Some(if self.watch { Duration::ZERO } else { self.max_wait });
        WorkSettings { lease: self.lease, max_wait, answers_within, ..WorkSettings::default() }
    }

    fn embedder(&self) -> Result<index::Embedder, Error> {
        if self.embedder == Embedder::Builtin {
            let given = [
                ("--base-url", self.base_url.is_some()),
                ("--model", self.model.is_some()),
                ("--api-key-env", self.api_key_env.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                Some((option, _)) => {
                    Err(Error::wrong(format!("{option} has no meaning for the built-in model"))
                        .hint("say --embedder openai as well, or --chat for a model that writes summaries"))
                }
                None => Ok(index::Embedder::Builtin),
            };
        }
        let missing = |option: &str| {
            Error::wrong(format!("--embedder openai needs {option}"))
                .hint("for example --base-url http://127.0.0.1:11434/v1 --model nomic-embed-text")
        };
        Ok(index::Embedder::Openai {
            base_url: self.base_url.clone().ok_or_else(|| missing("--base-url"))?,
            model: self.model.clone().ok_or_else(|| missing("--model"))?,
            api_key_env: self.api_key_env.clone(),
            dimensions: None,
        })
    }
}

/// Options of `threads`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ThreadsArgs {
    /// Only threads with a message since: a date such as 2026-01-31, or how long ago, such as 7d
    #[arg(long, value_parser = when, value_name = "WHEN")]
    pub since: Option<When>,
    /// Only threads of mailing lists whose name has this in it
    #[arg(long, value_name = "NAME")]
    pub list: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
}

impl ThreadsArgs {
    /// What is asked for.
    pub fn request(&self, now: Timestamp) -> ThreadsRequest {
        let since = self.since.map(|when| when.at(now));
        ThreadsRequest { since, list: self.list.clone(), limit: self.limit }
    }
}

/// A moment, as somebody says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At this time.
    At(Timestamp),
    /// So long before now.
    Ago(Duration),
}

impl When {
    /// The moment.
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => {
                Timestamp(now.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
            }
        }
    }
}

/// Reads a date, a time, or how long ago something was.
pub fn when(text: &str) -> Result<When, String> {
    if let Ok(span) = humantime::parse_duration(text) {
        return Ok(When::Ago(span));
    }
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let time = humantime::parse_rfc3339(&whole)
        .map_err(|_| "not a time; write a date such as 2026-01-31, or how long ago, such as 7d".to_owned())?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| "before 1970".to_owned())?;
    Ok(When::At(Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_times_or_spans() {
        assert_eq!(when("1970-01-02"), Ok(When::At(Timestamp(86_400_000))));
        assert_eq!(when("1970-01-01T00:00:01Z"), Ok(When::At(Timestamp(1_000))));
        assert_eq!(when("2h").map(|when| when.at(Timestamp(7_200_500))), Ok(Timestamp(500)));
        assert!(when("yesterday").is_err() && when("2026-13-40").is_err());
    }
}
