//! What the engine is measured with: generated items, handlers that do nothing or fail by plan, and the pipeline.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure as AttemptFailure, Kind};
use redrive_core::id::{ItemId, StageNo};
use redrive_core::item::NewItem;
use redrive_core::order::Order;
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::{Backoff, Limit, PolicySpec};
use redrive_core::status::Thresholds;
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use redrive_engine::recipe::{Recipe, StageWork};
use redrive_engine::source::{Piece, Source, SourceError};
use redrive_store::NewRun;

use crate::Failure;

/// Items in one submission; that of the JSON lines source.
pub const PIECE: usize = 1_000;

/// A size of run.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Items.
    pub items: usize,
    /// Bytes of content of each.
    pub payload: usize,
    /// Stages.
    pub stages: usize,
    /// Calls at a time, per stage.
    pub concurrency: usize,
    /// Items in a call.
    pub batch: usize,
}

impl Shape {
    /// Most items that a stage holds at a time: the batch size of the floor that it is compared with.
    pub fn capacity(&self) -> usize {
        self.concurrency * self.batch
    }
}

/// The n-th item.
pub fn item(n: usize, payload: usize) -> NewItem {
    let frame = r#"{"n":,"text":""}"#.len();
    let digits = n.to_string();
    let text = "x".repeat(payload.saturating_sub(frame + digits.len()));
    let content = format!(r#"{{"n":{digits},"text":"{text}"}}"#);
    NewItem::new(format!("item-{n}"), content.into_bytes(), n as u64)
}

/// Items made up as they are asked for.
pub struct Generated {
    next: usize,
    shape: Shape,
}

impl Generated {
    /// As many as the shape says.
    pub fn new(shape: Shape) -> Self {
        Self { next: 0, shape }
    }
}

impl Source for Generated {
    fn next_piece(&mut self) -> Result<Piece, SourceError> {
        let end = (self.next + PIECE).min(self.shape.items);
        let items = (self.next..end).map(|n| item(n, self.shape.payload)).collect();
        self.next = end;
        Ok(Piece { items, position: end.to_string(), done: end == self.shape.items })
    }
}

/// Lets every item through.
pub struct Pass;

#[async_trait]
impl Handler for Pass {
    async fn call(&self, request: Request) -> Answer {
        Reply::Items(request.items.iter().map(|_| ItemReply::Output(None)).collect()).into()
    }
}

/// Fails half of all attempts, by the item's id and the attempt's number.
pub struct Half;

#[async_trait]
impl Handler for Half {
    async fn call(&self, request: Request) -> Answer {
        let reply = |id: ItemId, attempt: u32| {
            if fails(id, attempt) {
                let failure = AttemptFailure::new(Class::Retryable, Kind::Server, refusal(id));
                ItemReply::Failed { failure: failure.with_status(503), shared: false }
            } else {
                ItemReply::Output(None)
            }
        };
        Reply::Items(request.items.iter().map(|input| reply(input.id, input.attempt)).collect()).into()
    }
}

/// What a failed attempt says.
pub fn refusal(id: ItemId) -> String {
    format!("503 from upstream: request {id} was refused, try again")
}

/// Whether that attempt at that item fails.
pub fn fails(id: ItemId, attempt: u32) -> bool {
    let mut z = u64::from(attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for half in id.0.chunks_exact(8) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(half);
        z = mixed(z ^ u64::from_le_bytes(bytes));
    }
    z >> 63 == 1
}

/// The finishing step of SplitMix64.
pub fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A pipeline of that shape in which every stage has this handler, retries at once and hardly ever gives up.
pub fn recipe(shape: Shape, handler: &Arc<dyn Handler>) -> Result<Recipe, Failure> {
    let spec = PolicySpec {
        max_attempts: Some(Limit::Attempts(10_000)),
        backoff: Some(Backoff::None),
        ..PolicySpec::default()
    };
    let policy = spec.build().map_err(|problems| format!("{problems:?}"))?;
    let stage = |no: usize| StagePlan {
        name: format!("stage-{no}"),
        next: (no + 1 < shape.stages).then(|| StageNo(u16::try_from(no + 1).unwrap_or(u16::MAX))),
        first_child: None,
        owner: None,
        policy: policy.clone(),
        timeout: Duration::from_secs(60),
        config: 1,
        child_failure: ChildFailure::Continue,
    };
    let work = StageWork {
        handler: handler.clone(),
        batch: shape.batch,
        batch_tokens: None,
        gate: None,
        concurrency: shape.concurrency,
        reuse: None,
    };
    Ok(Recipe {
        plan: Plan::new((0..shape.stages).map(stage).collect(), None),
        stages: vec![work; shape.stages],
        gates: Vec::new(),
        order: Order::Oldest,
        share: Order::DEFAULT_SHARE,
        budget: None,
        max_dead: None,
        thresholds: Thresholds::default(),
    })
}

/// A run to put the items in.
pub fn new_run() -> NewRun {
    NewRun {
        pipeline: "bench".to_owned(),
        source: "generated".to_owned(),
        category: None,
        priority: 0,
        definition: String::new(),
        folder: "/".to_owned(),
    }
}
