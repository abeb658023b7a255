//! What the provider did, so that a run can be checked against it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the provider did. `calls` is the sum of `ok`, `rejected`, `failed`, `cut`, `spoilt`, `abandoned` and `open`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The plan's name.
    pub plan: String,
    /// What its dice were made of.
    pub seed: u64,
    /// Calls that came in.
    pub calls: u64,
    /// Calls with a good answer.
    pub ok: u64,
    /// Calls that were told to come back later, or that credit is exhausted (429).
    pub rejected: u64,
    /// Calls with another error status.
    pub failed: u64,
    /// Calls whose connection was closed before the answer or within it.
    pub cut: u64,
    /// Calls with status 200 and a broken, endless or trickling answer.
    pub spoilt: u64,
    /// Calls whose caller went away before the answer.
    pub abandoned: u64,
    /// Calls that are not answered yet.
    pub open: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Calls by path; those beyond the first hundred paths are under `…`.
    pub routes: BTreeMap<String, u64>,
    /// Faults that hit, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Items or texts in good answers.
    pub items_served: u64,
    /// Tokens in good answers.
    pub tokens_served: u64,
    /// Different items or texts in good answers.
    pub distinct_served: u64,
    /// How many of those were in more than one good answer.
    pub served_twice: u64,
    /// Good answers to items that had one before: what was paid for nothing.
    pub paid_again: u64,
    /// Items or texts in good answers that were too many to be told apart.
    pub not_told_apart: u64,
    /// Poison that was met.
    pub poison: Vec<PoisonHit>,
    /// Calls that came before the end of a `Retry-After` that the provider had sent and meant.
    pub early_calls: u64,
    /// Those of them that had an item which had got that `Retry-After` itself.
    pub early_items: u64,
    /// The most calls at once.
    pub highest_concurrency: u64,
    /// When the first call came, as RFC 3339.
    pub first_call: Option<String>,
    /// When the last call came.
    pub last_call: Option<String>,
    /// Milliseconds between the two.
    pub lasted_ms: u64,
    /// Milliseconds from the first call to the last good answer.
    pub last_ok_ms: u64,
    /// Answers by second since the first call, for a day at most; seconds without an answer are left out.
    pub series: Vec<Second>,
}

/// Poison that was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoisonHit {
    /// What the text contains.
    pub marker: String,
    /// The item's key, or a hash of the text.
    pub item: String,
    /// Calls that failed of it.
    pub calls: u64,
}

/// The answers within one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the first call.
    pub second: u64,
    /// Good answers.
    pub ok: u64,
    /// Rejections (429).
    pub rejected: u64,
    /// Everything else.
    pub failed: u64,
}
