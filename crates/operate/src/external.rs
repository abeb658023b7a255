//! Workers outside of the process: they claim batches of `external` stages, prolong their leases, and say what became of them.
//!
//! Nothing is decided here but who may do it and how much may be asked for: the batches are calls of the daemon's own workers,
//! and what is said of them goes the way of every answer.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::id::{ItemId, RunId};
use redrive_core::time::millis;
use redrive_engine::external::{Ask, Board, Heard, Leased, Refused, Said, Standing};
use redrive_engine::handler::Input;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Code, Error, Result};
use crate::{Floor, Role, whole};

/// Most items of one claim.
pub const MOST_ITEMS: usize = 10_000;
/// Longest wait of one claim, in milliseconds.
pub const LONGEST_WAIT_MS: u64 = 60_000;
/// Shortest and longest lease, in milliseconds.
pub const LEASE_MS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;
/// Most stages that are named.
const MOST_STAGES: usize = 100;
/// Longest name of a worker, and of what it asks for.
const LONGEST_NAME: usize = 200;

/// What an external worker asks for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Claim {
    /// Only work of this pipeline.
    pub pipeline: Option<String>,
    /// Only work of these stages; empty: of any.
    pub stages: Vec<String>,
    /// At most so many items.
    #[serde(deserialize_with = "whole::number")]
    pub max_items: usize,
    /// How long to wait for some, in milliseconds.
    #[serde(deserialize_with = "whole::number")]
    pub wait_ms: u64,
    /// How long they are held without a sign of life, in milliseconds.
    #[serde(deserialize_with = "whole::number")]
    pub lease_ms: u64,
    /// The worker's name, for people.
    pub worker: Option<String>,
}

impl Default for Claim {
    fn default() -> Self {
        Self {
            pipeline: None,
            stages: Vec::new(),
            max_items: 1,
            wait_ms: 10_000,
            lease_ms: 30_000,
            worker: None,
        }
    }
}

impl Claim {
    /// Refuses names that are too long, or too many.
    fn check_names(&self) -> Result<()> {
        let is_long = |name: &String| name.chars().nth(LONGEST_NAME).is_some();
        if self.stages.len() > MOST_STAGES {
            let named = self.stages.len();
            return Err(Error::wrong(format!(
                "a claim names at most {MOST_STAGES} `stages`, and this one {named}"
            )));
        }
        let long = [
            ("worker", self.worker.iter().any(is_long)),
            ("pipeline", self.pipeline.iter().any(is_long)),
            ("stages", self.stages.iter().any(is_long)),
        ];
        match long.iter().find(|(_, long)| *long) {
            Some((key, _)) => {
                Err(Error::wrong(format!("`{key}`: a name has at most {LONGEST_NAME} characters")))
            }
            None => Ok(()),
        }
    }
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The lease.
    pub lease: String,
    /// How long the batch is held from now on, in milliseconds; as long as was asked for with the claim otherwise.
    #[serde(default, deserialize_with = "whole::optional")]
    pub lease_ms: Option<u64>,
}

/// What became of items.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// The lease.
    pub lease: String,
    /// Results, in the words of the handler protocol.
    #[serde(default)]
    pub results: Vec<Box<RawValue>>,
    /// Whether these were the last: what was left out has failed.
    #[serde(default)]
    pub done: bool,
    /// What the work consumed.
    #[serde(default)]
    pub usage: Option<Box<RawValue>>,
}

/// Everything that has no result yet failed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// The lease.
    pub lease: String,
    /// How: an `error` of the handler protocol.
    pub error: Box<RawValue>,
}

/// A batch, or nothing.
#[derive(Debug, Serialize)]
pub struct Claimed {
    /// What the worker shows to say anything about the batch; `null` when there was none.
    pub lease: Option<String>,
    /// How long it is held from now on, in milliseconds.
    pub lease_ms: Option<i64>,
    /// How long it can be held at most, whatever signs of life come: the stage's timeout.
    pub most_ms: Option<i64>,
    /// The pipeline.
    pub pipeline: Option<Arc<str>>,
    /// The stage.
    pub stage: Option<Arc<str>>,
    /// The run.
    pub run: Option<RunId>,
    /// The items.
    pub items: Vec<WorkItem>,
    /// Whether the process is about to stop.
    pub stopping: bool,
}

/// An item of a batch, as handlers get it.
#[derive(Debug, Serialize)]
pub struct WorkItem {
    /// Names the work: results name it so. It stays the same for the same item, stage and content, whatever the attempt.
    pub id: Arc<str>,
    /// Its id, as operators know it.
    pub item: ItemId,
    /// Its key.
    pub key: Arc<str>,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Its content.
    pub payload: Option<Box<RawValue>>,
}

impl WorkItem {
    fn of(input: Input) -> Self {
        let text = String::from_utf8(input.payload.to_vec()).ok();
        let payload = text.and_then(|text| RawValue::from_string(text).ok());
        let Input { id: item, key, attempt, idempotency_key: id, .. } = input;
        Self { id, item, key, attempt, payload }
    }
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LeaseView {
    /// How long the batch is held from now on, in milliseconds.
    pub lease_ms: i64,
    /// How long it can be held at most.
    pub most_ms: i64,
    /// Whether the process is about to stop: what is not done when the lease ends goes back, and costs nothing.
    pub stopping: bool,
}

impl From<Standing> for LeaseView {
    fn from(standing: Standing) -> Self {
        let Standing { left, most, stopping } = standing;
        Self { lease_ms: millis(left), most_ms: millis(most), stopping }
    }
}

/// What came of what a worker said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HeardView {
    /// Results that were taken.
    pub accepted: usize,
    /// Items that have none yet; 0: the batch is over, and its lease with it.
    pub left: usize,
    /// Items whose end is kept now. Results of a part are kept with the rest of the batch.
    pub recorded: usize,
    /// Items that were changed or taken over meanwhile, so that their results were dropped.
    pub stale: usize,
    /// How the lease stands; `null` when the batch is over.
    pub lease: Option<LeaseView>,
}

impl From<Heard> for HeardView {
    fn from(heard: Heard) -> Self {
        match heard {
            Heard::Part { accepted, left, standing } => {
                Self { accepted, left, recorded: 0, stale: 0, lease: Some(standing.into()) }
            }
            Heard::Over { accepted, kept } => {
                Self { accepted, left: 0, recorded: kept.recorded, stale: kept.stale, lease: None }
            }
        }
    }
}

/// Waits for a batch and takes it.
///
/// # Errors
/// When whoever asks may not work or see contents, the request is wrong, nobody works here, or too many wait.
pub async fn claim(floor: &Floor, claim: Claim) -> Result<Claimed> {
    floor.require(Role::Worker)?;
    floor.require_payloads()?;
    claim.check_names()?;
    let worker = claim.worker.unwrap_or_else(|| floor.asker.name.clone());
    if !(1..=MOST_ITEMS).contains(&claim.max_items) {
        return Err(Error::wrong(format!("max_items is a number from 1 to {MOST_ITEMS}")));
    }
    if claim.wait_ms > LONGEST_WAIT_MS {
        return Err(Error::wrong(format!("wait_ms is a number from 0 to {LONGEST_WAIT_MS}")));
    }
    let ask = Ask {
        pipeline: claim.pipeline,
        stages: claim.stages,
        max_items: claim.max_items,
        wait: Duration::from_millis(claim.wait_ms),
        lease: lease(claim.lease_ms)?,
        worker,
    };
    let board = board(floor)?;
    let leased = board.claim(&floor.asker.name, ask).await.map_err(refused)?;
    Ok(claimed(leased, board.is_stopping()))
}

fn claimed(leased: Option<Leased>, stopping: bool) -> Claimed {
    let Some(Leased { token, pipeline, stage, run, items, left, most }) = leased else {
        return Claimed {
            lease: None,
            lease_ms: None,
            most_ms: None,
            pipeline: None,
            stage: None,
            run: None,
            items: Vec::new(),
            stopping,
        };
    };
    Claimed {
        lease: Some(token),
        lease_ms: Some(millis(left)),
        most_ms: Some(millis(most)),
        pipeline: Some(pipeline),
        stage: Some(stage),
        run: Some(run),
        items: items.into_iter().map(WorkItem::of).collect(),
        stopping,
    }
}

/// Prolongs a lease.
///
/// # Errors
/// When the batch is not held under it by whoever asks.
pub fn heartbeat(floor: &Floor, request: &Heartbeat) -> Result<LeaseView> {
    floor.require(Role::Worker)?;
    let by = request.lease_ms.map(lease).transpose()?;
    let standing = board(floor)?.heartbeat(&floor.asker.name, &request.lease, by).map_err(refused)?;
    Ok(standing.into())
}

/// Takes results. The answer to the last of a batch comes when they are kept.
///
/// # Errors
/// When the batch is not held under the lease by whoever asks, or a result is of none of its items; nothing is changed then.
pub async fn complete(floor: &Floor, request: Complete) -> Result<HeardView> {
    let Complete { lease, results, done, usage } = request;
    if results.is_empty() && !done {
        return Err(Error::wrong("there are no results").hint("`done` alone says that all have failed"));
    }
    hear(floor, &lease, Said::Results { results, done, usage }).await
}

/// Takes that everything without a result failed.
///
/// # Errors
/// As [`complete`].
pub async fn fail(floor: &Floor, request: Fail) -> Result<HeardView> {
    if !request.error.get().starts_with('{') {
        return Err(Error::wrong("`error` is an object with `class`, `message` and `retry_after_ms`"));
    }
    hear(floor, &request.lease, Said::Failed(request.error)).await
}

async fn hear(floor: &Floor, lease: &str, said: Said) -> Result<HeardView> {
    floor.require(Role::Worker)?;
    Ok(board(floor)?.hear(&floor.asker.name, lease, said).await.map_err(refused)?.into())
}

fn lease(ms: u64) -> Result<Duration> {
    match LEASE_MS.contains(&ms) {
        true => Ok(Duration::from_millis(ms)),
        false => {
            Err(Error::wrong(format!("lease_ms is a number from {} to {}", LEASE_MS.start(), LEASE_MS.end())))
        }
    }
}

fn board(floor: &Floor) -> Result<Arc<dyn Board>> {
    floor.wiring.board().ok_or_else(|| refused(Refused::NobodyWorks))
}

fn refused(why: Refused) -> Error {
    match why {
        Refused::NobodyWorks => Error::refused("nobody works on runs in this process")
            .hint("ask a daemon that was started without --no-work"),
        Refused::Crowded => Error::busy("as many workers as may wait do so already")
            .hint("ask for more items at once instead, or again later"),
        Refused::Foreign => Error::forbidden("the lease was not made for whoever shows it")
            .code(Code::LeaseForeign)
            .hint("show it as it was claimed, with the token it was claimed with"),
        Refused::Gone => Error::refused("the batch is not held under this lease any more; nothing was changed")
            .code(Code::LeaseOver)
            .hint("it was answered already, its lease or the stage's timeout ended, or the daemon was started anew; claim again"),
        Refused::Wrong(why) => Error::wrong(why).hint("nothing was changed; the lease goes on"),
        Refused::Lost => Error::refused("what became of the batch could not be kept")
            .code(Code::LeaseOver)
            .hint("its items are worked on again; claim again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_refused_by_its_own_key() {
        let long = || "é".repeat(LONGEST_NAME + 1);
        let told = |claim: Claim| claim.check_names().expect_err("refused").message;
        let worker = told(Claim { worker: Some("x".repeat(1 << 20)), ..Claim::default() });
        assert_eq!(worker, "`worker`: a name has at most 200 characters");
        assert!(told(Claim { pipeline: Some(long()), ..Claim::default() }).starts_with("`pipeline`"));
        assert!(told(Claim { stages: vec![long()], ..Claim::default() }).starts_with("`stages`"));
        let many = Claim { stages: vec!["s".to_owned(); MOST_STAGES + 1], ..Claim::default() };
        assert!(told(many).contains("at most 100 `stages`, and this one 101"));
        let most = Claim { worker: Some("é".repeat(LONGEST_NAME)), ..Claim::default() };
        assert!(most.check_names().is_ok());
    }
}
