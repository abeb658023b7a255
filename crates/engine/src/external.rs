//! Workers outside of the process, in any language: what they ask for and what they are told.
//!
//! A stage for them is an ordinary stage: its handler puts the batch of a call on a [`Board`], and an external worker takes it
//! from there under a lease. So whatever holds for calls (gates, places, batches, time limits, retries, fences) holds for these,
//! and nothing is taken from the store while nobody asks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::id::RunId;
use serde_json::value::RawValue;

use crate::handler::Input;
use crate::receipt::Kept;

/// Who answers for a lease: whoever asked for it, by the name that was let in.
pub type Holder = str;

/// What an external worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Only work of this pipeline.
    pub pipeline: Option<String>,
    /// Only work of these stages; empty: of any.
    pub stages: Vec<String>,
    /// At most so many items.
    pub max_items: usize,
    /// How long to wait for some.
    pub wait: Duration,
    /// How long they are held without a sign of life.
    pub lease: Duration,
    /// The worker's name, for people.
    pub worker: String,
}

/// A batch that an external worker holds.
#[derive(Debug, Clone)]
pub struct Leased {
    /// What the worker shows to say anything about it.
    pub token: String,
    /// The pipeline.
    pub pipeline: Arc<str>,
    /// The stage.
    pub stage: Arc<str>,
    /// The run.
    pub run: RunId,
    /// The items.
    pub items: Vec<Input>,
    /// How long it is held from now on.
    pub left: Duration,
    /// How long it can be held at most, whatever signs of life come.
    pub most: Duration,
}

/// What an external worker says of a batch.
#[derive(Debug)]
pub enum Said {
    /// Results of some of its items, in the words of the handler protocol.
    Results {
        /// Each of them.
        results: Vec<Box<RawValue>>,
        /// Whether these were the last: items that were left out have failed.
        done: bool,
        /// What the work consumed.
        usage: Option<Box<RawValue>>,
    },
    /// All items that it has not answered for have failed like this: an `error` of the handler protocol.
    Failed(Box<RawValue>),
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How long the batch is held from now on.
    pub left: Duration,
    /// How long it can be held at most, whatever signs of life come.
    pub most: Duration,
    /// Whether the process is about to stop: what is not done when the lease ends goes back, and costs nothing.
    pub stopping: bool,
}

/// What came of something that a worker said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It was taken, and the others are waited for; all of it is recorded together.
    Part {
        /// Results that were taken.
        accepted: usize,
        /// Items that have none yet.
        left: usize,
        /// How the lease stands.
        standing: Standing,
    },
    /// The batch is over, and what became of it is kept.
    Over {
        /// Results that were taken.
        accepted: usize,
        /// What is kept.
        kept: Kept,
    },
}

/// Why something was not done for an external worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Nobody works on runs in this process.
    NobodyWorks,
    /// Too many wait already.
    Crowded,
    /// The token was not made here, or not for whoever shows it.
    Foreign,
    /// The batch is not held any more: it was answered, its lease or its time ended, or the process was started anew.
    Gone,
    /// What was said makes no sense, and why.
    Wrong(String),
    /// What came of it was not kept: the process stops, or its store does not answer.
    Lost,
}

/// Where batches are put for external workers.
#[async_trait]
pub trait Board: Send + Sync {
    /// From now on workers may ask here.
    fn open(&self);

    /// The process is about to stop: whoever waits is answered, and what nobody has taken goes back.
    fn drain(&self);

    /// Whether the process is about to stop.
    fn is_stopping(&self) -> bool;

    /// Waits for a batch. Whoever drops this asks no more.
    ///
    /// # Errors
    /// When nobody works here, or too many wait.
    async fn claim(&self, holder: &Holder, ask: Ask) -> Result<Option<Leased>, Refused>;

    /// Prolongs a lease, by as long as it was asked for, or by this.
    ///
    /// # Errors
    /// When the batch is not held under this token.
    fn heartbeat(&self, holder: &Holder, token: &str, lease: Option<Duration>) -> Result<Standing, Refused>;

    /// Takes what a worker says. Where that was the last of it, waits until it is kept.
    ///
    /// # Errors
    /// When the batch is not held under this token, or what is said makes no sense; nothing is changed then.
    async fn hear(&self, holder: &Holder, token: &str, said: Said) -> Result<Heard, Refused>;
}
