//! Notifications: what happens to a pipeline's runs is told to whom its file names.
//!
//! What is to be told is decided in the store, under a change number, before anybody is told: of two daemons one decides.
//! Each message is then an item of a standing run of Redrive's own, known by what happened, so that it is admitted once,
//! retried by its policy, dead-lettered, listed and explained as any other item is. Whoever works on runs sends it, and
//! nothing else waits for that.

mod send;
mod watch;

pub use watch::{Told, look};

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use send::refuse_targets;

/// Memos of what was told are called so, with the name of the pipeline.
const MEMO: &str = "notify/";

/// Something that is to be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Notice {
    /// What happened, so that it is known again.
    key: String,
    /// What kind of thing that is.
    kind: String,
    /// When it was seen.
    at: Timestamp,
    /// Who is told; `None`: all who want to hear of such things.
    to: Option<String>,
    /// What there is to know about it.
    data: Value,
}

/// What is known of a pipeline and was told.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Known {
    /// Runs that had not ended.
    open: BTreeSet<RunId>,
    /// When runs ended.
    ended: BTreeMap<RunId, String>,
    /// What runs had done when they ended last.
    #[serde(default)]
    done: BTreeMap<RunId, Value>,
    /// How runs are paused.
    paused: BTreeMap<RunId, String>,
    /// Gates that wait for somebody.
    gates: BTreeSet<String>,
    /// Runs with starved items, by who was told.
    starved: BTreeMap<String, BTreeSet<RunId>>,
    /// When somebody was told that many items had died.
    dead: BTreeMap<String, Timestamp>,
    /// What was decided, and is not known to have been handed over.
    pending: Vec<Notice>,
}
