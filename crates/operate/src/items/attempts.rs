//! The attempts of one item, in pages.

use redrive_core::id::StageNo;
use redrive_engine::report::{AttemptView, attempts_before};
use redrive_store::AttemptPlace;
use serde::Serialize;

use super::{ItemName, find_newest};
use crate::Floor;
use crate::error::{Error, Result};
use crate::runs::Runs;

/// A page of an item's attempts.
#[derive(Debug, Clone, Serialize)]
pub struct AttemptPage {
    /// The attempts, newest first; the one that runs before all others.
    pub items: Vec<AttemptView>,
    /// Where the next page goes on; `None` when this is the last.
    pub next: Option<String>,
}

/// Lists an item's attempts, newest first. Of several runs that have an item of that key, the newest is meant.
///
/// # Errors
/// When none or several are meant, it was purged, the cursor is none, or the store fails.
pub async fn attempts(
    floor: &Floor,
    name: &ItemName,
    after: Option<&str>,
    limit: usize,
) -> Result<AttemptPage> {
    let before = after.map(read).transpose()?;
    let item = find_newest(&*floor.store, name).await?;
    let known = Runs::of(&*floor.store).find(Some(item.run)).await?;
    let limit = limit.max(1);
    // One more tells whether there is another page.
    let mut found = attempts_before(&*floor.store, &item, &known.plan, before, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|(place, _)| cursor(*place));
    Ok(AttemptPage { items: found.into_iter().map(|(_, view)| view).collect(), next })
}

fn cursor(place: AttemptPlace) -> String {
    format!("{}.{}.{}", place.generation, place.stage.0, place.attempt)
}

/// Reads what [`cursor`] wrote.
fn read(cursor: &str) -> Result<AttemptPlace> {
    let wrong = || Error::wrong("that is no cursor of this list").hint("take `next` of the page before");
    let mut parts = cursor.splitn(3, '.');
    let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok()).ok_or_else(wrong);
    let (generation, stage, attempt) = (number()?, number()?, number()?);
    Ok(AttemptPlace { generation, stage: StageNo(stage.try_into().map_err(|_| wrong())?), attempt })
}
