//! The handlers against partners that misbehave.

mod chat;
mod command;
mod command_ends;
mod embed;
mod external;
mod http;
mod http_calls;
mod model_server;
mod server;
mod support;
