//! Dead items that somebody has removed later: until then they are listed and told as such.

use redrive_core::id::{ItemSeq, OperationId};
use redrive_core::item::Item;
use redrive_core::time::Timestamp;
use redrive_engine::admin::Request;
use redrive_store::{Result, Store};

/// Operations that are read at a time.
const PAGE: usize = 200;

/// The purges that have not begun, each with when it does.
pub(crate) struct Doomed {
    purges: Vec<(OperationId, Timestamp)>,
}

impl Doomed {
    /// Looks for such purges.
    pub(crate) async fn of(store: &dyn Store) -> Result<Self> {
        let (mut purges, mut after) = (Vec::new(), None);
        loop {
            let page = store.open_operations(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(Self { purges }) };
            after = Some(last.id);
            for operation in &page {
                if let Ok(Request::PurgeSet(set)) = Request::of(operation) {
                    purges.extend(set.at.map(|at| (operation.id, at)));
                }
            }
        }
    }

    /// When an item is removed, as it is now.
    pub(crate) async fn at(&self, store: &dyn Store, item: &Item) -> Result<Option<Timestamp>> {
        let mut soonest: Option<Timestamp> = None;
        for (operation, at) in &self.purges {
            let before = Some(ItemSeq(item.seq.0.saturating_sub(1)));
            let found = store.members(*operation, before, 1).await?;
            if found.iter().any(|member| member.item == item.seq && member.rev == item.rev) {
                soonest = Some(soonest.map_or(*at, |known| known.min(*at)));
            }
        }
        Ok(soonest)
    }
}
