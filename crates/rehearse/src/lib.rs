//! A provider that misbehaves on purpose.
//!
//! A [`Plan`] says how: limits, latency, faults, poison, exhausted credit. [`Rehearsal::start`] listens and plays it:
//! Redrive's handler protocol, OpenAI's embeddings and chat completions. A [`Report`] says what it did, so that a run
//! can be checked against it.
//!
//! Every decision is a function of the plan, its seed, the number of the call and the time since the first call. Time
//! comes in through [`redrive_engine::env::Env`]; the same calls in the same order meet the same faults.

mod answer;
mod asked;
mod call;
mod chance;
mod decide;
mod fate;
mod hint;
mod ledger;
mod limits;
mod meter;
mod outgoing;
mod plan;
mod report;
mod server;
mod service;
mod show;
mod told;

pub use plan::{Builtin, Plan, PlanError, Problem, tokens};
pub use report::{PoisonHit, Report, Second};
pub use server::{Rehearsal, Running};
