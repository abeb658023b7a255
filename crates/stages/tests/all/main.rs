//! The handlers against partners that misbehave.

mod command;
mod command_ends;
mod http;
mod http_calls;
mod server;
mod support;
