//! Old runs are forgotten, some items at a time.

use std::time::Duration;

use redrive_core::time::{Timestamp, millis};
use redrive_store::{Prune, Pruned, Result, Store};

use crate::crash;
use crate::env::Env;

const PAGE: usize = 2_000;

/// Forgets runs that finished longer ago than `keep`. Returns what went.
///
/// # Errors
/// When the store fails; what went before is gone.
pub async fn prune(store: &dyn Store, keep: Duration, env: &Env) -> Result<Pruned> {
    let finished_before = Timestamp(env.clock.now().0.saturating_sub(millis(keep)));
    let mut total = Pruned::default();
    loop {
        let page = store.prune(Prune { finished_before, limit: PAGE }).await?;
        crash::point("prune.after_page");
        total.items += page.items;
        total.runs += page.runs;
        total.contents += page.contents;
        if !page.more {
            return Ok(total);
        }
    }
}
