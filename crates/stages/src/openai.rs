//! Stages that ask a model through a service compatible with OpenAI's.
//!
//! | module | what is in it |
//! |---|---|
//! | `embed` | texts to vectors, a batch in one call |
//! | `chat` | a prompt to an answer, one item in one call |
//! | `model` | the client both share: one POST, no tries of its own |
//! | `profile` | what a refusal means: status, code, type and text together |
//! | `end` | how an answer ended, and what it says: half a text is no answer |
//! | `dimension` | whether vectors are as long as those before them |
//! | `vector` | whether vectors can be used; one that cannot makes the whole answer unusable |
//! | `prompt` | texts with JSON pointers in them |
//! | `price` | what tokens cost, where somebody said so |
//!
//! Nothing of a wrong answer is used: an output is either as it was asked for, or the call failed.

mod chat;
mod dimension;
mod embed;
mod end;
mod model;
mod price;
mod profile;
mod prompt;
mod vector;

use std::sync::Arc;
use std::time::Duration;

use redrive_core::secret::Secret;
use redrive_engine::tap::Tap;

use crate::outbound::Reach;

pub use chat::{ChatHandler, ChatSpec};
pub use embed::{EmbedHandler, EmbedSpec};
pub use price::Price;
pub use prompt::Prompt;

/// Where OpenAI's own service is.
pub const OPENAI_URL: &str = "https://api.openai.com/v1";
/// Its host: the only one whose prices and parameters are known.
const OPENAI_HOST: &str = "api.openai.com";

/// How a model is reached.
#[derive(Clone)]
pub struct ModelSpec {
    /// Where the service is, up to and with `/v1`; a query is kept.
    pub base_url: String,
    /// The model's name, as the service knows it.
    pub model: String,
    /// The key, already read from where it is kept; sent as `Authorization: Bearer`. `None`: no such header.
    pub api_key: Option<Secret>,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Headers whose values are secret.
    pub secret_headers: Vec<(String, Secret)>,
    /// Most bytes of an answer.
    pub max_answer: usize,
    /// Most tokens of one item, as they are estimated; a longer one is refused without a call. `None`: no such limit.
    pub max_item_tokens: Option<u64>,
    /// What tokens cost. `None`: what is known of OpenAI's own service, and nothing of any other.
    pub price: Option<Price>,
    /// What to do when the key is refused, in a few words; they become part of the message.
    pub remedy: Option<String>,
    /// How many calls may be open at once, and so how many connections are worth keeping.
    pub concurrency: usize,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// Whom it may call.
    pub reach: Reach,
    /// Where somebody looks on.
    pub tap: Option<Arc<Tap>>,
}

impl ModelSpec {
    /// Asks this model of the service at this address, with everything else as usual: no key, answers of up to
    /// 64 MiB, ten seconds to connect.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            headers: Vec::new(),
            secret_headers: Vec::new(),
            max_answer: 64 << 20,
            max_item_tokens: None,
            price: None,
            remedy: None,
            concurrency: 1,
            connect_timeout: Duration::from_secs(10),
            reach: Reach::default(),
            tap: None,
        }
    }
}
