//! Care of the store: room is given back, and a copy of it is made.

use std::path::PathBuf;
use std::sync::Arc;

use redrive_engine::report::Crew;
use redrive_store::{Scrub, Scrubbed};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::{Floor, Role};

/// Less than this is not worth a word.
const WORTHWHILE: u64 = 1 << 20;

/// Room that is free in the file of a store, where it is much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Room {
    /// Bytes that are free.
    pub free: u64,
    /// Bytes of the file.
    pub of: u64,
}

impl Room {
    /// The room that is left after scrubbing, if it is a fifth of the file or more.
    pub(crate) fn left(by: &Scrubbed) -> Option<Self> {
        let much = by.free >= WORTHWHILE && by.free.saturating_mul(5) >= by.bytes;
        much.then_some(Self { free: by.free, of: by.bytes })
    }
}

/// Room that was given back to the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compacted {
    /// Bytes of the store before.
    pub bytes_before: u64,
    /// Bytes of it now.
    pub bytes_after: u64,
    /// Contents and outputs that nobody referred to any more, which are gone.
    pub contents: u64,
    /// How long it took.
    pub took_ms: u64,
    /// What could not be done, and what to do about it.
    #[serde(skip)]
    pub left: Option<String>,
}

/// Gives back all the room in the file of the store that nothing needs. It writes the file anew, whole or not at all.
///
/// # Errors
/// While a worker is at work, which would be kept waiting; when there is no room for a second copy of the file, or the store
/// fails. Nothing is changed then.
pub async fn compact(floor: &Floor) -> Result<Compacted> {
    floor.require(Role::Admin)?;
    if let Some(worker) = Crew::read(&*floor.store, &floor.env).await?.first() {
        let runs: Vec<String> = worker.spec.runs.iter().map(ToString::to_string).collect();
        let on = if runs.is_empty() { String::new() } else { format!(" on {}", runs.join(", ")) };
        return Err(Error::refused(format!("worker {} is at work{on}; it would have to wait", worker.id))
            .hint("say it again when the work is done, or stop the worker first (Ctrl-C lets it finish its calls)"));
    }
    let begun = floor.env.clock.uptime();
    floor.env.progress.reached(0, None);
    let scrubbed = floor.store.scrub(Scrub::All).await?;
    Ok(Compacted {
        bytes_before: scrubbed.bytes + scrubbed.given_back,
        bytes_after: scrubbed.bytes,
        contents: scrubbed.contents,
        took_ms: took(floor, begun),
        left: scrubbed.left,
    })
}

/// A copy that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// Its bytes.
    pub bytes: u64,
    /// How long it took.
    pub took_ms: u64,
}

/// Copies the whole store, as it is at one moment, into a file that is there and empty, and looks through the copy. Others
/// may write meanwhile. Who asks has made the file, and keeps it or throws it away.
///
/// # Errors
/// When the store or the file fails; what is in the file then is worth nothing.
pub async fn backup(floor: &Floor, into: PathBuf) -> Result<Copied> {
    floor.require(Role::Admin)?;
    let begun = floor.env.clock.uptime();
    let progress = Arc::clone(&floor.env.progress);
    let heard = Arc::new(move |done, all| progress.reached(done, Some(all)));
    let bytes = floor.store.copy_into(into, heard).await?;
    Ok(Copied { bytes, took_ms: took(floor, begun) })
}

fn took(floor: &Floor, begun: std::time::Duration) -> u64 {
    let took = floor.env.clock.uptime().saturating_sub(begun);
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
