//! The HTTP door: a daemon that works on runs, carries operations on, and answers requests, in one process.
//!
//! Every route is one entry of a table (`routes::table`): method, path, least role, parameters, shapes and what is called. The
//! router and the OpenAPI document are made of the same entries, so that neither can miss one. Rules are on the floor
//! (`redrive_operate`); what is here turns requests into its requests and its answers and errors into HTTP.
//!
//! Whoever asks is known by a token before anything else is looked at, on every route but the two that tell whether the
//! process lives (`guard`). Every body, header, parameter, page, connection and stream is bounded (`limits`).

mod app;
mod bodies;
mod call;
mod daemon;
mod door;
mod events;
mod guard;
mod keeper;
mod limits;
mod listen;
mod marks;
mod openapi;
mod pages;
mod patient_io;
mod problem;
mod replace;
mod reply;
mod route;
mod routes;
mod scheduler;
mod seats;
mod streams;
mod sweeper;
mod teller;
mod tls;
mod tokens;
mod words;
mod writes;

pub use daemon::{Daemon, Settings, Shared};
pub use tls::Certificate;
pub use tokens::{Made, NewToken, TokenList, TokenView, Tokens};
