//! The handlers that come with Redrive.
//!
//! | module | what is in it |
//! |---|---|
//! | [`protocol`] | the request and the answer that `http` and `command` share, and what a broken answer means |
//! | [`http`] | sends a batch by POST; reads at most as much as it may |
//! | [`openai`] | texts to vectors and prompts to answers, by a service compatible with OpenAI's |
//! | [`command`] | sends a batch to a long-lived child process, one line each way |
//! | [`external`] | lays a batch out for workers that ask over HTTP, under a lease |
//! | [`event`] | hands items over to whoever hears of them, and answers later |
//! | [`filter`] | takes items out by a CEL expression, with a child process for what may take long |
//! | [`pass`] | lets every item through |
//! | `service` | the POST that `http` and `openai` share: limits, hints, faults, bounded answers |
//! | [`secrets`] | keeps known secrets out of error texts |
//!
//! No handler keeps time and none tries again: the engine drops a call's future when its time is up, and what the
//! future held (a connection, a child with everything it started) ends with it.
pub mod command;
pub mod event;
pub mod external;
pub mod filter;
pub mod http;
pub mod openai;
mod otlp;
pub mod outbound;
pub mod pass;
pub mod protocol;
mod push;
pub mod secrets;
mod service;
mod shortage;
mod usage;
mod webhook;

pub use command::{CommandHandler, CommandSpec, Folders, RestartBudget};
pub use event::EventHandler;
pub use external::{ExternalHandler, WorkBoard};
pub use filter::{Filter, FilterHandler};
pub use http::{BodyForm, HttpHandler, HttpSpec};
pub use openai::{ChatHandler, ChatSpec, EmbedHandler, EmbedSpec, ModelSpec, Price};
pub use otlp::{OtlpCollector, OtlpSpec, Target as OtlpTarget};
pub use outbound::{Outbound, Peer, Reach};
pub use pass::PassHandler;
pub use push::Pushgateway;
pub use service::{Now, install_tls};
