//! Messages that could not be read: they are not tried again until they change or somebody sends them back.

use redrive_core::item::StateKind;
use redrive_index::mail::{MESSAGE, MailPayload};
use redrive_store::index::Refused;
use redrive_store::{Content, ItemFilter, ItemQuery, RunFilter};

use super::PIPELINE;
use crate::Floor;
use crate::error::Result;
use crate::index::IndexTarget;

const PAGE: usize = 500;
/// Earlier runs that are looked at; older ones have been before.
const RUNS: usize = 3;

/// Notes which messages the last runs gave up.
pub(super) async fn remember(floor: &Floor, target: &IndexTarget) -> Result<()> {
    let filter = RunFilter { pipeline: Some(PIPELINE.to_owned()), ..RunFilter::default() };
    for row in floor.store.runs(filter, None, RUNS).await? {
        let mut after = None;
        loop {
            let filter =
                ItemFilter { run: Some(row.id), state: Some(StateKind::Dead), ..ItemFilter::default() };
            let page = floor.store.items(ItemQuery { filter, after, limit: PAGE }).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.seq);
            let mut refused = Vec::new();
            for item in page {
                let Some(Content::Whole(payload)) = floor.store.payload(item.seq).await? else { continue };
                let Ok(MailPayload::Message(message)) = MailPayload::read(&payload) else { continue };
                let why = item.last.as_ref().map(|last| last.message.to_string()).unwrap_or_default();
                let path = format!("{MESSAGE}{}", message.key).into();
                refused.push(Refused { path, version: message.version, why });
            }
            floor.index.refuse(target.collection.no, refused).await?;
        }
    }
    Ok(())
}
