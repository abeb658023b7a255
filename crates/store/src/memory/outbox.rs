//! What the world is to be told.

use std::collections::BTreeMap;

use redrive_core::fact::Fact;
use redrive_core::id::{FactId, StoreId};

use crate::request::KeptFact;
use crate::vitals::OutboxView;

/// Facts that have not been passed on, where any are kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Outbox {
    keeps: bool,
    store: Option<StoreId>,
    facts: BTreeMap<FactId, Fact>,
    last: i64,
}

impl Outbox {
    pub(super) fn open(&mut self, proposed: StoreId) -> StoreId {
        self.keeps = true;
        *self.store.get_or_insert(proposed)
    }

    pub(super) fn close(&mut self) {
        self.keeps = false;
    }

    pub(super) fn tell(&mut self, facts: impl IntoIterator<Item = Fact>) {
        for fact in facts {
            // One by which an item is handed over is kept in any case: it is what the item waits for.
            if self.keeps || fact.route.is_some() {
                self.last += 1;
                self.facts.insert(FactId(self.last), fact);
            }
        }
    }

    pub(super) fn oldest(&self, limit: usize) -> Vec<KeptFact> {
        let kept = self.facts.iter().take(limit);
        kept.map(|(id, fact)| KeptFact { id: *id, fact: fact.clone() }).collect()
    }

    pub(super) fn view(&self, most: usize) -> OutboxView {
        let oldest = self.facts.values().next().map(|fact| fact.at);
        OutboxView { kept: self.keeps, waiting: self.facts.len().min(most) as u64, oldest }
    }

    pub(super) fn passed_on(&mut self, facts: &[FactId]) {
        for fact in facts {
            self.facts.remove(fact);
        }
    }
}
