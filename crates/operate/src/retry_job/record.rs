//! What sweeps have done, kept in the store for metrics.

use std::collections::BTreeMap;

use redrive_store::{Memo, Store};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::memo;
use crate::monitor::families::SWEEP_BOUNDS;

/// The memo of it.
pub(super) const MEMO: &str = "retry-job";
/// Collections that are kept apart; those beyond are not counted.
const MOST: usize = 500;

/// What sweeps have done, ever.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// When the last one began, in milliseconds.
    pub began_at: Option<i64>,
    /// When the last one that went well ended.
    pub succeeded_at: Option<i64>,
    /// Those that went well.
    pub succeeded: u64,
    /// Those that broke off, or went on after an error.
    pub failed: u64,
    /// Errors by what they were.
    pub errors: BTreeMap<String, u64>,
    /// How long they took, by the bounds of the histogram.
    pub took: Vec<u64>,
    /// All of that, in milliseconds.
    pub took_ms: u64,
    done: Vec<Collection>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Collection {
    pipeline: String,
    made_by: Option<String>,
    #[serde(flatten)]
    done: Done,
}

/// What was done to a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Done {
    /// Items that were put back into line, or found there because their time had come.
    pub requeued: u64,
    /// Items whose time had not come.
    pub skipped: u64,
}

/// A pipeline's own items, or those that one of its stages makes.
pub type Of = (String, Option<String>);

impl Record {
    /// By collection.
    #[must_use]
    pub fn collections(&self) -> BTreeMap<Of, Done> {
        self.done.iter().map(|one| ((one.pipeline.clone(), one.made_by.clone()), one.done)).collect()
    }

    /// Adds what was done to a collection.
    pub(super) fn add(&mut self, of: Of, done: Done) {
        let (pipeline, made_by) = of;
        let same = |one: &&mut Collection| one.pipeline == pipeline && one.made_by == made_by;
        if let Some(known) = self.done.iter_mut().find(same) {
            known.done.requeued += done.requeued;
            known.done.skipped += done.skipped;
        } else if self.done.len() < MOST {
            self.done.push(Collection { pipeline, made_by, done });
        }
    }

    /// Adds how long a sweep took.
    pub(super) fn took(&mut self, span: std::time::Duration) {
        let seconds = span.as_secs_f64();
        let at = SWEEP_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(SWEEP_BOUNDS.len());
        self.took.resize(SWEEP_BOUNDS.len() + 1, 0);
        self.took[at] += 1;
        self.took_ms += u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    }
}

pub(super) async fn kept(store: &dyn Store) -> Result<Option<Memo>> {
    Ok(store.memos(MEMO.to_owned()).await?.into_iter().find(|memo| memo.name == MEMO))
}

/// What sweeps have done.
///
/// # Errors
/// When the store fails, or a newer version wrote it.
pub async fn record(store: &dyn Store) -> Result<Record> {
    Ok(kept(store).await?.map(|memo| memo::read(&memo)).transpose()?.unwrap_or_default())
}
