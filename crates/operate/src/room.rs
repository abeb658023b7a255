//! Whether the store can be written.

use redrive_store::Memo;

use crate::Floor;
use crate::error::Result;

/// Where what is tried is written.
const MEMO: &str = "room";
/// How much is written where a little may fit in though a page of items does not.
const MUCH: usize = 64 << 10;

/// Writes something that says nothing: a little, or as much as a few items have.
///
/// # Errors
/// When it cannot be written.
pub async fn try_writing(floor: &Floor, much: bool) -> Result<()> {
    let known = floor.store.memos(MEMO.to_owned()).await?.into_iter().find(|memo| memo.name == MEMO);
    let state = ".".repeat(if much { MUCH } else { 1 });
    let rev = known.map_or(0, |memo| memo.rev);
    // Where somebody was faster, he found room.
    floor.store.save_memo(Memo { name: MEMO.to_owned(), rev, state, updated_at: floor.now() }).await?;
    Ok(())
}
