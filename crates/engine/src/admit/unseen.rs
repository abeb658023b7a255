//! What a source does not have any more is taken out.

use redrive_core::decide::{Moment, decide};
use redrive_core::event::{Event, Gone};
use redrive_core::id::{RunId, StageNo};
use redrive_core::reading::Reading;
use redrive_store::{Change, Error, ItemFilter, ItemQuery, Result, Store, Submit};

use crate::admin::live_descendants;
use crate::env::Env;
use crate::recipe::Recipe;

/// Items looked at in one go.
const PAGE: usize = 500;

/// Takes out the items of a run that a whole reading of its source has not seen, with what came from them and is not
/// finished. Returns how many.
///
/// # Errors
/// When the store fails; what was taken out stays so, and the rest can be taken out by saying it again.
pub async fn remove_unseen(
    store: &dyn Store,
    recipe: &Recipe,
    env: &Env,
    run: RunId,
    reading: Reading,
) -> Result<u64> {
    let filter = ItemFilter { run: Some(run), top: true, unseen: Some(reading), ..ItemFilter::default() };
    let (mut removed, mut after) = (0, None);
    loop {
        let page = store.items(ItemQuery { filter: filter.clone(), after, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(removed) };
        let last = last.seq;
        let now = env.clock.now();
        let at = || Moment { now, draw: env.dice.draw() };
        let mut stale = false;
        for item in &page {
            let below = live_descendants(store, item).await?;
            let gone = std::iter::once(item).chain(&below);
            let gone = gone
                .filter_map(|item| decide(item, Event::Superseded(Gone::Removed), &recipe.plan, at()).ok());
            let changes: Vec<Change> = gone.map(Change::from).collect();
            let any = !changes.is_empty();
            // As a submission it is refused once somebody reads the source anew: what that reading has seen is not unseen.
            let submission = Submit {
                run,
                stage: StageNo(0),
                reading,
                items: Vec::new(),
                deadline: None,
                new_versions: true,
                changes,
                cursor: None,
                now,
            };
            match store.submit(submission).await {
                Ok(_) => removed += u64::from(any),
                // Somebody worked on it meanwhile: it is looked at once more.
                Err(Error::Busy(_)) => stale = true,
                // A cancelled run takes nothing any more.
                Err(Error::RunCancelled { .. }) => return Ok(removed),
                Err(error) => return Err(error),
            }
        }
        if !stale {
            after = Some(last);
        }
    }
}
