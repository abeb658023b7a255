//! A frozen set of items that have ended is done again from a stage that they have passed.

use redrive_store::{ItemFilter, Operation, Result, Store};
use serde::{Deserialize, Serialize};

use super::sent_and_left;
use crate::admin::rerun::Pages;
use crate::admin::{Done, Plans, Rerun, close};
use crate::env::Env;

/// How a frozen set of items is done again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetRerun {
    /// What the dead ones among them were chosen by: it tells which have come too late. Empty where others were chosen.
    pub filters: Vec<ItemFilter>,
    /// What is done in each run of the set; which items, the set says.
    pub reruns: Vec<Rerun>,
}

/// Goes on with it. What was sent before is passed over, whoever did that.
pub(in crate::admin) async fn rerun_on(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &SetRerun,
    mut operation: Operation,
    env: &Env,
) -> Result<Done> {
    for each in &request.reruns {
        let mut pages = Pages::new(store, plans, each, Some(operation.clone()), env).await?.of_set();
        pages.all().await?;
        operation = pages.operation.take().unwrap_or(operation);
    }
    let (changed, skipped) = sent_and_left(store, operation.id).await?;
    close(store, Operation { changed, skipped, ..operation }, env.clock.now()).await
}
