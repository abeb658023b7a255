//! Everything a person or a program can ask of Redrive, as typed requests and answers.
//!
//! | capability | module |
//! |---|---|
//! | begin, find, edit, pause, resume and cancel runs, say how they stand | [`runs`] |
//! | hand work over: a run, or items for a run that stays open | [`submit`] |
//! | work on a run until it ends | [`work`] |
//! | one call of one stage, to see what it does | [`tryout`] |
//! | what became of a run's items | [`results`] |
//! | one item's life, and its end by an operator's word | [`items`] |
//! | answers of items that were handed over | [`answers`] |
//! | items that go again: waiting ones now, ended ones from a stage | [`again`] |
//! | dead letters: list, groups, preview, redrive with a canary, export, import, purge | [`dead`] |
//! | everything that goes on, at one look, and what follows from several | [`overview`] |
//! | operations on many items: who asked for what, and how far it is | [`operations`] |
//! | gates: how fast each dependency is called, and what keeps it closed | [`gates`] |
//! | what failed, how reliable stages are, whether the laws hold, what can be forgotten | [`reports`] |
//! | give room back, copy the store | [`care`] |
//! | whether the store can be written | [`room`] |
//! | make a directory searchable and keep it so | [`index`] |
//! | find passages, read on around one | [`search`], [`passages`] |
//! | what retry policies do, before anything depends on them | [`policies`] |
//! | the pipelines of a folder, which may change at any time | [`catalog`] |
//! | who is told when something happens | [`notices`] |
//! | what a daemon forgets by itself, and when | [`retention`] |
//! | what a daemon sweeps and audits by itself | [`retry_job`], [`audit`] |
//! | what monitoring reads | [`monitor`] |
//! | what the world is told, and hands in, over a bus | [`bus`] |
//! | what is sent to a collector of OpenTelemetry | [`telemetry`] |
//! | what a daemon begins by itself, and when | [`schedules`] |
//! | pipelines and sources | [`pipelines`], [`sources`] |
//! | the shapes of all answers | [`schemas`] |
//!
//! This crate is the floor that every door stands on: the command line, the server, agents. Rules are here; printing,
//! exit codes, statuses, signals and progress bars are not. Concrete stores and handlers are handed in, the latter
//! through [`Wiring`]. A request that cannot be answered ends with one [`Error`]: its kind, a message, and a hint.

pub mod again;
pub mod answers;
mod asker;
pub mod audit;
pub mod bus;
pub mod care;
pub mod catalog;
pub mod conflicts;
pub mod dead;
mod error;
pub mod external;
pub mod gates;
pub mod index;
pub mod items;
mod lines;
pub mod mail;
mod memo;
pub mod monitor;
pub mod notices;
pub mod operations;
pub mod overview;
pub mod passages;
pub mod pauses;
pub mod pipelines;
pub mod policies;
pub mod reports;
pub mod results;
pub mod retention;
pub mod retry_job;
pub mod room;
pub mod runs;
pub mod schedules;
pub mod schemas;
pub mod search;
pub mod sources;
pub mod submit;
pub mod telemetry;
pub mod tryout;
pub mod whole;
mod wiring;
pub mod work;

use std::sync::Arc;

use redrive_core::time::Timestamp;
use redrive_engine::admin::Act;
use redrive_engine::env::Env;
use redrive_store::{Index, Store};

pub use asker::{Asker, Role};
pub use error::{Code, Error, Kind, Result};
pub use wiring::Wiring;

/// What requests are answered with: a store and the index in it, clock and dice, who asks, and who makes handlers.
#[derive(Clone)]
pub struct Floor {
    /// Where items are.
    pub store: Arc<dyn Store>,
    /// What is searched.
    pub index: Arc<dyn Index>,
    /// Clock and dice.
    pub env: Env,
    /// Who asks.
    pub asker: Asker,
    /// Who makes handlers.
    pub wiring: Arc<dyn Wiring>,
}

impl Floor {
    /// Who asks, as the end of a sentence: ` by ann`, or nothing where that is not known.
    fn by(&self) -> String {
        let name = &self.asker.name;
        if name.is_empty() { String::new() } else { format!(" by {name}") }
    }

    /// What somebody said, with who said it where that is known.
    fn said(&self, why: &str) -> String {
        let name = &self.asker.name;
        if name.is_empty() { why.to_owned() } else { format!("{why} ({name})") }
    }

    /// Writes down that whoever asks does something at once.
    async fn write_down(&self, act: Act) -> Result<()> {
        Ok(redrive_engine::admin::write_down(&*self.store, act, &self.asker.name, self.now()).await?)
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.env.clock.now()
    }
}
