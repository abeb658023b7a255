//! What a stage does its work with.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::answer::{AnswerToken, Handed};
use redrive_core::event::ItemReply;
use redrive_core::failure::Failure;
use redrive_core::gate::Limits;
use redrive_core::id::{ItemId, RunId, StageNo};
use redrive_core::item::Payload;
use redrive_core::pool::Rank;
use redrive_core::usage::Usage;
use redrive_store::{RunChange, Store};
use tokio::sync::Notify;

use crate::receipt::Receipt;

/// Does one stage's work. There is one per stage of a pipeline, shared by all calls.
///
/// The engine owns time and retries: it drops the future of [`Handler::call`] when the call's time is up or the run is
/// stopped, and a handler must then leave nothing behind that could answer late. A handler never retries by itself.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Works on a batch.
    async fn call(&self, request: Request) -> Answer;

    /// About how many tokens a call for this content takes; 0 where tokens mean nothing.
    fn tokens(&self, _payload: &Payload) -> u64 {
        0
    }

    /// Whether it is worth asking [`Handler::recall`].
    fn remembers(&self) -> bool {
        false
    }

    /// Tells which of these contents need no call, because what the stage makes of them is kept already. Asked before
    /// anything else, so that an item that needs no call never waits for a place or a gate.
    async fn recall(&self, _payloads: &[Payload]) -> Vec<bool> {
        Vec::new()
    }

    /// What it can take at present, where that may be less than it was given; `None`: as much as it is asked.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Takes what it rings when it has room again that it had not. Called once for each run that is worked on.
    fn rings_for_room(&self, _wake: &Arc<Notify>) {}

    /// Takes what it may keep facts in that have to outlive the process. Called once, before the first call.
    fn remember(&self, _memory: RunMemory) {}

    /// How long it is left until an answer is asked for again that has not come; `None` when answers come by themselves.
    fn asks_every(&self) -> Option<Duration> {
        None
    }

    /// How many processes that worked for it have died with work in hand.
    fn deaths(&self) -> u64 {
        0
    }

    /// Ends whatever the handler keeps running. Called once, when the engine stops.
    async fn close(&self) {}
}

/// What a handler can take at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Calls at once, those under way included; 0: nobody is there to answer one, and nothing is to be taken for it.
    pub calls: usize,
    /// Most items of the next call; `None`: as many as the stage's batch has.
    pub items: Option<usize>,
    /// There is no room, and will be none in this process.
    pub never: bool,
}

/// Facts that a stage found out in a run, and has to know again after a restart and in every other process.
#[derive(Clone)]
pub struct RunMemory {
    /// Where the run is kept.
    pub store: Arc<dyn Store>,
    /// The run.
    pub run: RunId,
    /// The stage.
    pub stage: Arc<str>,
}

impl RunMemory {
    /// Keeps a number under a name of the stage's own, unless one is kept; returns the one that is.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn keep(&self, name: &str, number: u64) -> Result<u64, redrive_store::Error> {
        let name = format!("{}.{name}", self.stage);
        let learn = Some((name.clone(), number));
        let row = self.store.change_run(self.run, RunChange { learn, ..RunChange::default() }).await?;
        Ok(row.learnt.get(&name).copied().unwrap_or(number))
    }
}

/// A batch for a handler.
#[derive(Debug, Clone)]
pub struct Request {
    /// The run of the items.
    pub run: RunId,
    /// Where the run stands among others.
    pub rank: Rank,
    /// The stage's name.
    pub stage: Arc<str>,
    /// The items; never empty, at most the stage's batch size.
    pub items: Vec<Input>,
    /// How long the engine will wait for the answer.
    pub timeout: Duration,
}

/// One item of a batch.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its id, as operators know it.
    pub id: ItemId,
    /// Its key.
    pub key: Arc<str>,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Its content: JSON.
    pub payload: Payload,
    /// What the answer names when it comes later.
    pub token: AnswerToken,
    /// Set when it is handed over already: its answer is asked for. Such an item is alone in its call.
    pub handed: Option<Handed>,
    /// Names the work: stays the same for this item, stage and content, whatever the attempt, and changes with any of them.
    /// It is the `id` that handlers get.
    pub idempotency_key: Arc<str>,
    /// The span of this attempt, in the form of the W3C header `traceparent`, where services are told of it.
    pub traceparent: Option<Arc<str>>,
}

impl Input {
    /// An item at its first attempt at the first stage.
    #[must_use]
    pub fn new(id: ItemId, key: impl Into<Arc<str>>, payload: Payload, work: impl Into<Arc<str>>) -> Self {
        let token = AnswerToken { item: id, stage: StageNo(0), generation: 0, attempt: 1 };
        Self {
            id,
            key: key.into(),
            attempt: 1,
            payload,
            token,
            handed: None,
            idempotency_key: work.into(),
            traceparent: None,
        }
    }
}

/// What a call brought: the reply, and what can be learnt from it about the service.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What became of the items.
    pub reply: Reply,
    /// What the call consumed, where the service said so.
    pub usage: Option<Usage>,
    /// What the service said about its limits.
    pub limits: Limits,
    /// Is told when what became of the items is kept, where somebody waits for that.
    pub receipt: Option<Receipt>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, usage: None, limits: Limits::default(), receipt: None }
    }
}

/// What became of the items of a call.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A reply per item, in the order of the request.
    Items(Vec<ItemReply>),
    /// The call failed as a whole; no item is known to be at fault.
    Whole(Failure),
    /// What became of some of the items; the others go back as they were, and it costs them nothing.
    Part {
        /// A reply for each item that has one, in the order of the request.
        replies: Vec<Option<ItemReply>>,
        /// Whether somebody had begun with the others.
        begun: bool,
    },
}
